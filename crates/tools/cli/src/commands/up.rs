//! `braid up`, `braid down`.

use std::{
    fs::{self, File},
    path::{Path, PathBuf},
    process::{Command, ExitCode, Stdio},
    time::{Duration, Instant},
};

use braid_wire::message::types::IodState;
use serde_json::json;

use crate::{
    args::{Global, UpArgs},
    connect,
    embedded::{self, Embedded},
    nfs,
    output::{Exit, Fault, Printer, human_bytes, quoted},
    servers, smb,
};

#[path = "up_union.rs"]
mod union;

/// How long a background cluster may take to start or to stop.
const WAIT: Duration = Duration::from_secs(60);
const POLL: Duration = Duration::from_millis(20);
/// Lines of the log in the message when it does not start.
const LOG_LINES: usize = 5;

/// Starts the cluster, here or in the background.
pub fn up(args: &UpArgs, global: &Global, out: Printer) -> Result<ExitCode, Fault> {
    if let Some(pid) = running(&args.dir) {
        return Err(Fault::failed(
            format!("starting the cluster of {}", args.dir.display()),
            format!("it already runs, as process {pid}"),
        )
        .hint(format!("braid down {}", args.dir.display())));
    }
    check_owner(&args.dir)?;
    if !args.union.is_empty() {
        return union::up(args, out);
    }
    if args.detach {
        detach(args, global, out)?
    } else {
        foreground(args, out)?
    }
    Ok(ExitCode::SUCCESS)
}

fn foreground(args: &UpArgs, out: Printer) -> Result<(), Fault> {
    let stop = servers::stop_signal()?;
    let mut cluster = Embedded::start(args)?;
    #[cfg(target_os = "linux")]
    let mounted = mount(args, out)?;
    let gateway = args.nfs.as_deref().map(|listen| start_nfs(args, listen)).transpose()?;
    let smb_gateway = args.smb.as_deref().map(|listen| start_smb(args, listen)).transpose()?;
    let pid_file = args.dir.join("braid.pid");
    fs::write(&pid_file, std::process::id().to_string())
        .map_err(|e| Fault::failed("writing braid.pid", e))?;
    ready(args, &cluster.address, cluster.iods(), out)?;
    gateway.iter().for_each(|gateway| gateway.print_next(out));
    smb_gateway.iter().for_each(|gateway| gateway.print_next(out));
    let _ = stop.recv();
    out.hint("stopping");
    // First: their clients' files are closed while the daemons still run.
    drop((gateway, smb_gateway));
    // While the daemons still run: unmounting flushes and closes open files.
    #[cfg(target_os = "linux")]
    drop(mounted);
    cluster.stop();
    // Drops the cluster before it removes the file: `down` waits until the file is gone.
    drop(cluster);
    let _ = fs::remove_file(pid_file);
    Ok(())
}

/// Starts the NFS gateway. Without exports in braid.toml, this host gets the whole file system.
fn start_nfs(args: &UpArgs, listen: &str) -> Result<nfs::Gateway, Fault> {
    let settings = embedded::settings(&args.dir)?;
    let mut section = settings.file.nfs.clone();
    section.listen = vec![listen.to_owned()];
    if !args.nfs_export.is_empty() {
        section.exports = nfs::parse_exports(&args.nfs_export)?;
    }
    if section.exports.is_empty() {
        section.exports = vec![nfs::own_host_export()];
    }
    nfs::Gateway::start(&settings, &section, nfs::NextStart::BeginsAgain)
}

/// Starts the SMB gateway. Without shares in braid.toml, its users get the whole file system.
fn start_smb(args: &UpArgs, listen: &str) -> Result<smb::Gateway, Fault> {
    let settings = embedded::settings(&args.dir)?;
    let section = settings.file.smb.clone();
    let mut section = smb::section_for(section, listen, &args.smb_share, "braid")?;
    section.users_file.get_or_insert_with(|| smb::users_path_in(&args.dir));
    smb::Gateway::start(&settings, &section)
}

/// Where the cluster is mounted by default.
fn mount_point(args: &UpArgs) -> PathBuf {
    args.mount.clone().unwrap_or_else(|| args.dir.join("mnt"))
}

/// Mounts the cluster if this user may mount. A failure is an error only with --mount.
#[cfg(target_os = "linux")]
fn mount(args: &UpArgs, out: Printer) -> Result<Option<crate::mount::ActiveMount>, Fault> {
    use braid_fuse::kernel::mount::{MountOptions, Unmount, is_dead, unmount};

    use crate::mount::{ActiveMount, watchdog::WatchdogOptions};
    if args.no_mount {
        return Ok(None);
    }
    let point = mount_point(args);
    if is_dead(&point) {
        // A mount of a killed process: no process can be using it.
        let _ = unmount(&point, Unmount::Lazy);
    }
    let made = fs::create_dir_all(&point)
        .map_err(|e| Fault::failed(format!("making {}", point.display()), e));
    let served = made.and_then(|()| {
        let settings = embedded::settings(&args.dir)?;
        let source = settings.mds.value.join(",");
        let behaviour = braid_vfs::Options::default();
        ActiveMount::start(
            &MountOptions::new(source, &point),
            &settings,
            behaviour,
            &WatchdogOptions::default(),
        )
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

/// Whether `point` is a mount of BraidFS, of any process.
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

/// Prints the address, the mount point and the next commands.
fn ready(args: &UpArgs, address: &str, iods: usize, out: Printer) -> Result<(), Fault> {
    let space =
        connect::client(&embedded::settings(&args.dir)?)?.statfs(braid_types::FileIndex::ROOT)?;
    // Absolute paths: the user may run the next command in another directory.
    let config =
        std::path::absolute(&args.dir).unwrap_or_else(|_| args.dir.clone()).join("braid.toml");
    let mount = Some(mount_point(args)).filter(|point| is_mounted(point));
    if out.json {
        out.value(&json!({ "dir": args.dir, "mds": address, "iods": iods, "config": config,
            "mount": mount, "total": space.total.0, "available": space.available.0 }));
        return Ok(());
    }
    out.line(format!(
        "BraidFS is up: 1 metadata server at {address}, {iods} I/O daemons, {} free",
        human_bytes(space.available.0)
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
    out.hint("       braid layout show /FILE      see where the stripes are");
    out.hint("       braid status                 see the daemons");
    Ok(())
}

/// Starts this program again in a process group of its own, and waits until the cluster is ready.
fn detach(args: &UpArgs, global: &Global, out: Printer) -> Result<(), Fault> {
    let doing = || format!("starting the cluster of {}", args.dir.display());
    let fail = |e: std::io::Error| Fault::failed(doing(), e);
    if !args.dir.join("braid.toml").exists()
        && args.dir.exists()
        && fs::read_dir(&args.dir).map_err(fail)?.next().is_some()
    {
        return Err(Fault::usage(doing(), "the directory is not empty; nothing was changed")
            .hint("an empty or new directory"));
    }
    let log_path = args.dir.with_extension("log");
    let log = new_log(&log_path)?;
    let mut command = Command::new(std::env::current_exe().map_err(fail)?);
    command.arg("up").arg(&args.dir);
    command.args(args.iods.iter().flat_map(|iods| ["--iods".to_owned(), iods.to_string()]));
    command.args(args.port.iter().flat_map(|port| ["--port".to_owned(), port.to_string()]));
    command.args(args.no_mount.then_some("--no-mount"));
    command.args(args.nfs.iter().map(|listen| format!("--nfs={listen}")));
    command.args(args.nfs_export.iter().map(|export| format!("--nfs-export={export}")));
    command.args(args.smb.iter().map(|listen| format!("--smb={listen}")));
    command.args(args.smb_share.iter().map(|share| format!("--smb-share={share}")));
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
                (last_lines(&log_path), format!("the full log: {}", log_path.display()));
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

/// Refuses a directory that another user can change: that user could replace the keys and the log.
#[cfg(unix)]
fn check_owner(dir: &Path) -> Result<(), Fault> {
    use std::os::unix::fs::MetadataExt;
    let Ok(found) = dir.metadata() else { return Ok(()) };
    let me = rustix::process::geteuid().as_raw();
    let shown = quoted(&dir.display().to_string());
    let (why, hint) = match found.mode() & 0o7777 {
        _ if found.uid() != me => (
            format!("it belongs to user {}, but this is user {me}", found.uid()),
            "a directory of your own".to_owned(),
        ),
        mode if mode & 0o002 != 0 => {
            (format!("all users may write to it (mode {mode:04o})"), format!("chmod o-w {shown}"))
        }
        _ => return Ok(()),
    };
    Err(Fault::new(Exit::Refused, format!("starting the cluster of {}", dir.display()), why)
        .hint(hint))
}

/// Other systems have other permissions.
#[cfg(not(unix))]
fn check_owner(_: &Path) -> Result<(), Fault> {
    Ok(())
}

/// An empty log file. It is beside the directory, where other users may have put a file of its
/// name: a symbolic link could lead to any file of this user.
fn new_log(path: &Path) -> Result<File, Fault> {
    let mut options = File::options();
    options.write(true).create(true);
    #[cfg(unix)]
    {
        use std::os::unix::fs::OpenOptionsExt;
        // The open must not wait for the reader of a pipe either.
        let flags = rustix::fs::OFlags::NOFOLLOW | rustix::fs::OFlags::NONBLOCK;
        options.mode(0o600).custom_flags(flags.bits() as i32);
    }
    let fault = |why: String| {
        let hint = format!("rm {}, if you do not need it", quoted(&path.display().to_string()));
        Fault::failed(format!("writing {}", path.display()), why).hint(hint)
    };
    let file = options.open(path).map_err(|error| match path.is_symlink() {
        true => fault("it is a symbolic link".to_owned()),
        false => fault(error.to_string()),
    })?;
    if let Some(why) = why_unusable(&file).map_err(|error| fault(error.to_string()))? {
        return Err(fault(why.to_owned()));
    }
    // Only after the checks.
    file.set_len(0).map_err(|error| fault(error.to_string()))?;
    Ok(file)
}

/// Why an open file must not be written.
#[cfg(unix)]
fn why_unusable(file: &File) -> std::io::Result<Option<&'static str>> {
    use std::os::unix::fs::MetadataExt;
    let found = file.metadata()?;
    Ok(match found {
        _ if !found.is_file() => Some("it is not a regular file"),
        _ if found.uid() != rustix::process::geteuid().as_raw() => {
            Some("it belongs to another user")
        }
        _ if found.nlink() != 1 => Some("it has other hard links"),
        _ => None,
    })
}

#[cfg(not(unix))]
fn why_unusable(_: &File) -> std::io::Result<Option<&'static str>> {
    Ok(None)
}

fn last_lines(log: &Path) -> String {
    let text = fs::read_to_string(log).unwrap_or_default();
    let lines: Vec<&str> = text.lines().collect();
    let last = lines[lines.len().saturating_sub(LOG_LINES)..].join("\n");
    if last.is_empty() {
        "it ended without a message".into()
    } else {
        last.trim_start_matches("braid: ").to_owned()
    }
}

/// The process that runs the cluster of `dir`.
fn running(dir: &Path) -> Option<u32> {
    let pid: u32 = fs::read_to_string(dir.join("braid.pid")).ok()?.trim().parse().ok()?;
    // A pid file may outlive its process, and another process may have the number now.
    let command = fs::read(format!("/proc/{pid}/cmdline")).ok()?;
    String::from_utf8_lossy(&command).contains("\0up\0").then_some(pid)
}

/// Stops a background cluster and waits until it has ended.
#[cfg(unix)]
pub fn down(dir: &Path, out: Printer) -> Result<(), Fault> {
    if union::is_of(dir) {
        return union::down(dir, out);
    }
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
                .hint(format!("kill -9 {pid} (acknowledged data is not lost)")));
        }
        std::thread::sleep(POLL);
    }
    out.hint("stopped");
    out.next(format!(
        "braid up {} --detach    (its data is kept)",
        quoted(&dir.display().to_string())
    ));
    Ok(())
}

/// Only Unix has background clusters.
#[cfg(not(unix))]
pub fn down(dir: &Path, _: Printer) -> Result<(), Fault> {
    Err(Fault::new(
        Exit::Usage,
        format!("stopping the cluster of {}", dir.display()),
        "not on this system",
    )
    .hint("Ctrl-C where braid up runs"))
}
