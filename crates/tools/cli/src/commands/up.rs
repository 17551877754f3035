//! `braid up`, `braid down`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use braid_wire::message::types::IodState;
use serde_json::json;

use crate::{
    args::{Global, UpArgs},
    connect,
    embedded::{self, Embedded},
    output::{Exit, Fault, Printer, human_bytes, quoted},
    servers,
};

/// How long a background cluster may take to come up, or to go down.
const WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Of the log, when it did not come up.
const LOG_LINES: usize = 5;

/// Starts the cluster, here or in the background.
pub fn up(args: &UpArgs, global: &Global, out: Printer) -> Result<(), Fault> {
    if let Some(pid) = running(&args.dir) {
        return Err(Fault::failed(
            format!("starting the cluster of {}", args.dir.display()),
            format!("it runs already, as process {pid}"),
        )
        .hint(format!("braid down {}", args.dir.display())));
    }
    trusted(&args.dir)?;
    if args.detach { detach(args, global, out) } else { foreground(args, out) }
}

fn foreground(args: &UpArgs, out: Printer) -> Result<(), Fault> {
    let stop = servers::stop_signal()?;
    let mut cluster = Embedded::start(args)?;
    #[cfg(target_os = "linux")]
    let mounted = mount(args, out)?;
    let pid_file = args.dir.join("braid.pid");
    fs::write(&pid_file, std::process::id().to_string())
        .map_err(|e| Fault::failed("writing braid.pid", e))?;
    ready(args, &cluster.address, cluster.iods(), out)?;
    let _ = stop.recv();
    out.hint("stopping");
    // While the daemons still run: what is open there is written and closed.
    #[cfg(target_os = "linux")]
    drop(mounted);
    cluster.stop();
    // Directories are let go first: `down` takes the end of the file for the end of the cluster.
    drop(cluster);
    let _ = fs::remove_file(pid_file);
    Ok(())
}

/// Where the cluster is mounted unless told otherwise.
fn mount_point(args: &UpArgs) -> PathBuf {
    args.mount.clone().unwrap_or_else(|| args.dir.join("mnt"))
}

/// Mounts it, where this user may; only a mount that was asked for by name must work.
#[cfg(target_os = "linux")]
fn mount(args: &UpArgs, out: Printer) -> Result<Option<crate::mount::Served>, Fault> {
    use braid_fuse::kernel::mount::{MountOptions, Unmount, is_dead, unmount};

    use crate::mount::{Served, warden::Watch};
    if args.no_mount {
        return Ok(None);
    }
    let point = mount_point(args);
    if is_dead(&point) {
        // Of a process that was killed: nothing can be using it.
        let _ = unmount(&point, Unmount::Lazy);
    }
    let made = fs::create_dir_all(&point)
        .map_err(|e| Fault::failed(format!("making {}", point.display()), e));
    let served = made.and_then(|()| {
        let settings = embedded::settings(&args.dir)?;
        let source = settings.mds.value.join(",");
        let behaviour = braid_vfs::Options::default();
        Served::start(&MountOptions::new(source, &point), &settings, behaviour, &Watch::default())
    });
    match served {
        Ok(served) => Ok(Some(served)),
        Err(fault) if args.mount.is_some() => Err(fault),
        Err(fault) => {
            out.hint(format!("not mounted: {fault}"));
            Ok(None)
        }
    }
}

/// Whether `point` is a mount of BraidFS, by whichever process.
#[cfg(target_os = "linux")]
fn is_mounted(point: &Path) -> bool {
    use braid_fuse::kernel::mount::entry_at;
    let entry = point.canonicalize().ok().and_then(|point| entry_at(&point).ok().flatten());
    entry.is_some_and(|entry| entry.is_ours())
}

#[cfg(not(target_os = "linux"))]
fn is_mounted(_: &Path) -> bool {
    false
}

/// Says where it is and what to type next.
fn ready(args: &UpArgs, address: &str, iods: usize, out: Printer) -> Result<(), Fault> {
    let room =
        connect::client(&embedded::settings(&args.dir)?)?.statfs(braid_types::FileIndex::ROOT)?;
    // Absolute: the next command may be typed in another directory.
    let config =
        std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone()).join("braid.toml");
    let mount = Some(mount_point(args)).filter(|point| is_mounted(point));
    if out.json {
        out.value(&json!({ "dir": args.dir, "mds": address, "iods": iods, "config": config,
            "mount": mount, "total": room.total.0, "available": room.available.0 }));
        return Ok(());
    }
    out.line(format!(
        "BraidFS is up: 1 metadata server at {address}, {iods} I/O daemons, {} free",
        human_bytes(room.available.0)
    ));
    let config = quoted(&config.display().to_string());
    match &mount {
        Some(point) => {
            out.hint(format!("mounted on {}", point.display()));
            out.hint(format!("next:  cp -r SOMETHING {}/", point.display()));
            out.hint(format!("       export BRAID_CONFIG={config}"));
        }
        None => out.hint(format!("next:  export BRAID_CONFIG={config}")),
    }
    out.hint("       braid put -r SOMETHING /     store files and directories");
    out.hint("       braid ls -l /                see them");
    out.hint("       braid layout show /FILE      see where the stripes lie");
    out.hint("       braid status                 see the daemons");
    Ok(())
}

/// Starts ourselves again in a process group of its own, and waits until that is ready.
fn detach(args: &UpArgs, global: &Global, out: Printer) -> Result<(), Fault> {
    let doing = || format!("starting the cluster of {}", args.dir.display());
    let fail = |e: std::io::Error| Fault::failed(doing(), e);
    if !args.dir.join("braid.toml").exists()
        && args.dir.exists()
        && fs::read_dir(&args.dir).map_err(fail)?.next().is_some()
    {
        return Err(Fault::usage(
            doing(),
            "the directory is not empty, and nothing in it is touched",
        )
        .hint("an empty or new directory"));
    }
    let log_path = args.dir.with_extension("log");
    let log = new_log(&log_path)?;
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    command.arg("up").arg(&args.dir);
    command.args(args.iods.iter().flat_map(|iods| ["--iods".to_owned(), iods.to_string()]));
    command.args(args.port.iter().flat_map(|port| ["--port".to_owned(), port.to_string()]));
    command.args(args.no_mount.then_some("--no-mount"));
    command.args(args.mount.iter().flat_map(|point| ["--mount".as_ref(), point.as_os_str()]));
    command.args(std::iter::repeat_n("-v", usize::from(global.verbose.max(1))));
    command.stdin(Stdio::null()).stdout(log.try_clone().map_err(fail)?).stderr(log);
    #[cfg(unix)]
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = command.spawn().map_err(fail)?;
    let deadline = Instant::now() + WAIT;
    while running(&args.dir) != Some(child.id()) {
        if child.try_wait().map_err(fail)?.is_some() || Instant::now() > deadline {
            let _ = child.kill();
            let (said, log) =
                (last_lines(&log_path), format!("the whole log: {}", log_path.display()));
            let (why, hint) = match said.rsplit_once("; try: ") {
                Some((why, hint)) => (why, format!("{hint} ({log})")),
                None => (said.as_str(), log),
            };
            return Err(Fault::failed(doing(), why).hint(hint));
        }
        std::thread::sleep(POLL);
    }
    let settings = embedded::settings(&args.dir)?;
    let map = connect::client(&settings)?.cluster_map()?;
    let iods = map.iods.iter().filter(|iod| iod.state != IodState::Removed).count();
    ready(args, &settings.mds.value.join(","), iods, out)?;
    out.hint(format!(
        "       braid down {}    stop it (its log: {})",
        args.dir.display(),
        log_path.display()
    ));
    Ok(())
}

/// Refuses a directory that somebody else has a say in: its keys and its programs' log would be theirs.
#[cfg(unix)]
fn trusted(dir: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = dir.metadata() else { return Ok(()) };
    let me = rustix::process::geteuid().as_raw();
    let shown = quoted(&dir.display().to_string());
    let (why, hint) = match found.mode() & 0o7777 {
        _ if found.uid() != me => (
            format!("it belongs to user {}, and this is user {me}", found.uid()),
            "a directory of your own".to_owned(),
        ),
        mode if mode & 0o002 != 0 => {
            (format!("everybody may write into it (mode {mode:04o})"), format!("chmod o-w {shown}"))
        }
        _ => return Ok(()),
    };
    Err(Fault::new(Exit::Refused, format!("starting the cluster of {}", dir.display()), why)
        .hint(hint))
}

/// Elsewhere directories have other rules.
#[cfg(not(unix))]
fn trusted(_: &Path) -> Result<(), Fault> {
    Ok(())
}

/// An empty log. It lies beside the directory, where others may have put something under its name: a link would lead to
/// any file of ours.
fn new_log(path: &Path) -> Result<File, Fault> {
    let mut options = File::options();
    options.write(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // Nor does it wait for somebody who reads a pipe.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let fault = |why: String| {
        let hint = format!("rm {}, if it is not needed", quoted(&path.display().to_string()));
        Fault::failed(format!("writing {}", path.display()), why).hint(hint)
    };
    let file = options.open(path).map_err(|error| match path.is_symlink() {
        true => fault("it is a symbolic link".to_owned()),
        false => fault(error.to_string()),
    })?;
    if let Some(why) = foreign(&file).map_err(|error| fault(error.to_string()))? {
        return Err(fault(why.to_owned()));
    }
    // Not before it is known to be ours.
    file.set_len(0).map_err(|error| fault(error.to_string()))?;
    Ok(file)
}

/// Why an open file is not to be written.
#[cfg(unix)]
fn foreign(file: &File) -> std::io::Result<Option<&'static str>> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata()?;
    Ok(match found {
        _ if !found.is_file() => Some("it is no file"),
        _ if found.uid() != rustix::process::geteuid().as_raw() => {
            Some("it belongs to somebody else")
        }
        _ if found.nlink() != 1 => Some("it has other names"),
        _ => None,
    })
}

#[cfg(not(unix))]
fn foreign(_: &File) -> std::io::Result<Option<&'static str>> {
    Ok(None)
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    if last.is_empty() {
        "it ended and said nothing".into()
    } else {
        last.trim_start_matches("braid: ").to_owned()
    }
}

/// The process that runs the cluster of `dir`.
fn running(dir: &Path) -> Option<u32> {
    let pid: u32 = fs::read_to_string(dir.join("braid.pid")).ok()?.trim().parse().ok()?;
    // A pid file may outlive its process, and the number may be somebody else's by now.
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    String::from_utf8_lossy(&command).contains("\0up\0").then_some(pid)
}

/// Stops a background cluster and waits until it is gone.
#[cfg(unix)]
pub fn down(dir: &Path, out: Printer) -> Result<(), Fault> {
    let doing = || format!("stopping the cluster of {}", dir.display());
    let Some(pid) = running(dir) else {
        return Err(Fault::new(Exit::NotFound, doing(), "no cluster runs there")
            .hint(format!("braid up {} --detach", dir.display())));
    };
    let process = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw);
    let process = process.ok_or_else(|| Fault::failed(doing(), "braid.pid holds no process id"))?;
    rustix::process::kill_process(process, rustix::process::Signal::TERM)
        .map_err(|e| Fault::failed(doing(), e))?;
    let deadline = Instant::now() + WAIT;
    while running(dir) == Some(pid) {
        if Instant::now() > deadline {
            return Err(Fault::failed(doing(), format!("process {pid} did not end in 60 s"))
                .hint(format!("kill -9 {pid} (what was acknowledged is kept)")));
        }
        std::thread::sleep(POLL);
    }
    out.hint("stopped");
    out.next(format!(
        "braid up {} --detach    (everything in it is kept)",
        quoted(&dir.display().to_string())
    ));
    Ok(())
}

/// Background clusters are a thing of Unix.
#[cfg(not(unix))]
pub fn down(dir: &Path, _: Printer) -> Result<(), Fault> {
    Err(Fault::new(
        Exit::Usage,
        format!("stopping the cluster of {}", dir.display()),
        "not on this system",
    )
    .hint("Ctrl-C where braid up runs"))
}
