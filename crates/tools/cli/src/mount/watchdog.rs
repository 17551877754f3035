//! A small watchdog process beside each mount. It ends the mount's connection if the mount's own
//! process is killed.
//!
//! ```text
//!   braid mount ── starts ──> braid-watchdog POINT  (session of its own, no file of the mount)
//!        | pipe: only the mount's process can write      | stdin: the pipe; stdout: the abort file
//!        |── one byte, when the connection is over ─────>| ends
//!        x killed: end of file without that byte ───────>| aborts the connection, logs it, ends
//! ```
//!
//! The kernel ends a connection by itself when the last descriptor of its device is closed. But a
//! thread that waits in an invalidation keeps one open (`braid_fuse::kernel`, invalidators). That
//! thread may wait for a request that the killed process had not read yet. Then programs would wait
//! forever (I8).
//!
//! 1. The watchdog keeps nothing alive: no descriptor of the device, no directory of the mount, no
//!    mount namespace.
//! 2. It ends exactly this connection or none: it opened the abort file while the mount was in
//!    place.
//! 3. It ends with the mount, and no signal that can be ignored ends it earlier.
//! 4. A dead mount point stays in place. Otherwise programs would continue in the directory below
//!    it instead of getting errors. `-o detach_dead` detaches it.
//!
//! None of these can be asserted here: they concern other processes. The tests in
//! `tests/it/watchdog.rs` check them.

use std::{
    ffi::{OsStr, OsString},
    fs::File,
    io::{self, PipeWriter, Read, Write},
    os::{fd::OwnedFd, unix::process::CommandExt},
    path::{Path, PathBuf},
    process::{Child, Command, ExitCode, Stdio},
};

use braid_fuse::kernel::mount::{Abort, MountEntry, Mounted, Unmount, entries, is_dead, unmount};

use crate::log;

/// Name of the watchdog process, in its command line and in process lists.
const NAME: &str = "braid-watchdog";
/// Written to the pipe when the mount ended properly.
const CLEAN_END: &[u8] = b".";

/// Options of the watchdog.
#[derive(Clone, Debug, Default)]
pub struct WatchdogOptions {
    /// Log file of the watchdog; otherwise the system log.
    pub log: Option<PathBuf>,
    /// Detach the mount point of a killed process.
    pub detach_dead: bool,
}

/// The mount's side. Dropping it without `farewell` makes the watchdog abort the connection.
#[derive(Debug)]
pub struct Watchdog {
    pipe: PipeWriter,
    /// Not waited for: it ends right after the message, and this process soon after.
    _process: Child,
}

impl Watchdog {
    /// Starts the watchdog for an existing mount. An ordinary user may need the system's `fusectl`
    /// for it.
    pub fn start(mounted: &Mounted, watch: &WatchdogOptions) -> io::Result<Self> {
        let entry = mounted.entry()?;
        let abort = OwnedFd::from(entry.abort()?);
        let (read, write) = io::pipe()?;
        // This link needs no path lookup, which could lead into the mount.
        let mut command = Command::new("/proc/self/exe");
        command.arg0(NAME).arg(&entry.point).arg(watch.log.as_deref().unwrap_or(Path::new("")));
        command.args(
            watch
                .detach_dead
                .then(|| [entry.id.to_string(), entry.device.clone()])
                .into_iter()
                .flatten(),
        );
        command.current_dir("/").stdin(read).stdout(abort).stderr(Stdio::null());
        Ok(Self { _process: command.spawn()?, pipe: write })
    }

    /// Reports that the connection is over.
    pub fn dismiss(mut self) {
        // A killed watchdog needs no message.
        let _ = self.pipe.write_all(CLEAN_END);
    }
}

/// Runs the watchdog, if the program was started as one.
pub fn run(given: impl IntoIterator<Item = OsString>) -> Option<ExitCode> {
    let mut given = given.into_iter();
    if given.next().as_deref() != Some(OsStr::new(NAME)) {
        return None;
    }
    let (Some(point), Some(log)) = (given.next(), given.next()) else {
        return Some(ExitCode::FAILURE);
    };
    let detach = given.next().zip(given.next());
    Some(match watch(Path::new(&point), Path::new(&log), detach) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let point = point.display();
            tracing::error!(%point, %error, "aborting the mount of a killed process failed");
            ExitCode::FAILURE
        }
    })
}

fn watch(point: &Path, log: &Path, detach: Option<(OsString, OsString)>) -> io::Result<()> {
    // Leaves the terminal that started the mount. When a service is stopped, all its processes get
    // the signal; also then only the mount reports its end.
    let _ = rustix::process::setsid();
    let _ = ctrlc::set_handler(|| ());
    let _ = rustix::thread::set_name(c"braid-watchdog");
    let (mut pipe, abort) =
        (File::from(inherited(io::stdin())?), Abort::from(inherited(io::stdout())?));
    if wait_for_end(&mut pipe)? {
        return Ok(());
    }
    let aborted = abort.abort();
    start_log(log);
    aborted?;
    tracing::warn!(
        point = %point.display(),
        "the mount's process was killed: programs get errors there"
    );
    match detach {
        Some((id, device)) => detach_mount(point, &id, &device),
        None => Ok(()),
    }
}

fn inherited(stream: impl std::os::fd::AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// Waits for the mount's end. Returns whether it was reported.
fn wait_for_end(pipe: &mut File) -> io::Result<bool> {
    let mut said = Vec::new();
    pipe.read_to_end(&mut said)?;
    Ok(said == CLEAN_END)
}

/// Opens the log only now: before, there is nothing to log, and the log could be a file of the
/// mount.
fn start_log(path: &Path) {
    let place =
        if path == Path::new("") { log::LogTarget::System } else { log::LogTarget::File(path) };
    // The watchdog works without a log.
    let _ = log::start(place, "info");
}

/// Detaches the mount point if the same mount is still there. Ids are reused; another mount is
/// recognized since it is not dead.
fn detach_mount(point: &Path, id: &OsStr, device: &OsStr) -> io::Result<()> {
    let is_it = |entry: &MountEntry| {
        *entry.id.to_string() == *id && *entry.device == *device && entry.is_ours()
    };
    let uppermost = entries()?.into_iter().rfind(|entry| entry.point == point);
    if uppermost.is_some_and(|entry| is_it(&entry)) && is_dead(point) {
        unmount(point, Unmount::Lazy).map_err(io::Error::other)?;
    }
    Ok(())
}
