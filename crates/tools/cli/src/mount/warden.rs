//! A small process beside each mount, which ends the mount's connection when the mount's own process was killed.
//!
//! ```text
//!   braid mount ── starts ──> braid-warden POINT   (session of its own, no file of the mount, no terminal)
//!        | pipe: only the mount's process has its end      | stdin: the pipe; stdout: the connection's abort
//!        |── a farewell, when the connection is over ─────>| ends
//!        x killed: the pipe ends without ─────────────────>| aborts the connection, says so in the log, ends
//! ```
//!
//! The kernel ends a connection by itself when the last descriptor of its device is closed. A thread that it holds in an
//! invalidation keeps one (`braid_fuse::kernel`, invalidators), and what it waits for may be a request that the killed process had
//! not read yet: then programs would wait for ever (I8).
//!
//! 1. It keeps nothing alive: no descriptor of the device, no directory of the mount, none of the mounts of a namespace.
//! 2. It ends this very connection or none: what it holds was opened while the mount was in its place.
//! 3. It ends with the mount, and no signal that can be ignored ends it earlier.
//! 4. A dead mount point stays in its place: programs that get errors there would otherwise go on in the directory underneath.
//!    `-o detach_dead` takes it away.

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

/// What the program is called as a warden, and what processes show.
const NAME: &str = "braid-warden";
/// That the mount ended as it should.
const FAREWELL: &[u8] = b".";

/// How a mount is watched.
#[derive(Clone, Debug, Default)]
pub struct Watch {
    /// Where the warden's words go; the system's log otherwise.
    pub log: Option<PathBuf>,
    /// A mount whose process was killed is taken out of the tree.
    pub detach_dead: bool,
}

/// The mount's side. Dropped without a farewell it has the connection aborted.
#[derive(Debug)]
pub struct Warden {
    pipe: PipeWriter,
    /// Not waited for: it ends as soon as it is told, and this process soon after.
    _process: Child,
}

impl Warden {
    /// Starts it for a mount that is in its place. An ordinary user may need the system's `fusectl` for it.
    pub fn start(mounted: &Mounted, watch: &Watch) -> io::Result<Self> {
        let entry = mounted.entry()?;
        let abort = OwnedFd::from(entry.abort()?);
        let (read, write) = io::pipe()?;
        // By this link no path is looked up, which might lead into the mount.
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

    /// The connection is over.
    pub fn farewell(mut self) {
        // One that was killed needs none.
        let _ = self.pipe.write_all(FAREWELL);
    }
}

/// The warden itself, if the program was started as one.
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
            tracing::error!(point = %point.display(), %error, "ending a mount whose process was killed failed");
            ExitCode::FAILURE
        }
    })
}

fn watch(point: &Path, log: &Path, detach: Option<(OsString, OsString)>) -> io::Result<()> {
    // Away from the terminal that the mount was started on. A service is told to end as a whole: then, too, it is the mount
    // that says when it is over.
    let _ = rustix::process::setsid();
    let _ = ctrlc::set_handler(|| ());
    let _ = rustix::thread::set_name(c"braid-warden");
    let (mut pipe, abort) =
        (File::from(inherited(io::stdin())?), Abort::from(inherited(io::stdout())?));
    if said_farewell(&mut pipe)? {
        return Ok(());
    }
    let aborted = abort.abort();
    start_log(log);
    aborted?;
    tracing::warn!(point = %point.display(), "the mount's process was killed: programs there get errors");
    match detach {
        Some((id, device)) => take_away(point, &id, &device),
        None => Ok(()),
    }
}

fn inherited(stream: impl std::os::fd::AsFd) -> io::Result<OwnedFd> {
    stream.as_fd().try_clone_to_owned()
}

/// Waits for the mount's end.
fn said_farewell(pipe: &mut File) -> io::Result<bool> {
    let mut said = Vec::new();
    pipe.read_to_end(&mut said)?;
    Ok(said == FAREWELL)
}

/// Only now: until then there is nothing to say, and a log could be a file of the mount.
fn start_log(path: &Path) {
    let place = if path == Path::new("") { log::Place::System } else { log::Place::File(path) };
    // It works as well without.
    let _ = log::start(place, "info");
}

/// If it is still the mount there. Numbers are given anew, so another one is told by its being alive.
fn take_away(point: &Path, id: &OsStr, device: &OsStr) -> io::Result<()> {
    let is_it = |entry: &MountEntry| {
        *entry.id.to_string() == *id && *entry.device == *device && entry.is_ours()
    };
    let uppermost = entries()?.into_iter().rfind(|entry| entry.point == point);
    if uppermost.is_some_and(|entry| is_it(&entry)) && is_dead(point) {
        unmount(point, Unmount::Lazy).map_err(io::Error::other)?;
    }
    Ok(())
}
