//! `braid union join`: the files of a union become files of a cluster, without a copy (ADR 0050).

use std::{
    io::{IsTerminal, Write},
    ops::ControlFlow,
    process::ExitCode,
    time::{Duration, Instant},
};

use braid_client::{Client, FileIndex, Status};
use braid_types::ClusterUuid;
use braid_union::{JoinState, Pool};
use braid_union_join::{
    Cluster, Disk, JoinError, JoinOptions, JoinReport, Left, OBJECTS_DIRECTORY, join,
};
use braid_wire::message::{
    import::{ImportEntry, ImportedEntry},
    mds::{AttributeChanges, SetTime, XattrMode},
    types::IodState,
};
use serde_json::json;

use crate::{
    admin,
    args::UnionJoinArgs,
    commands::union::linux::{fault, raise_the_limit_of_open_files, shown},
    config::Settings,
    output::{Exit, Fault, Printer, human_bytes},
    servers,
};

/// Names that stay, shown at most.
const LEFT_SHOWN_MAX: usize = 50;
/// Between two lines of progress.
const PROGRESS: Duration = Duration::from_millis(200);

/// Joins, or goes on with it.
///
/// # Errors
/// The pool is in use, a disk or its I/O daemon is missing, the cluster is not reached, or the
/// directory in it has files already.
pub(super) fn run(
    args: &UnionJoinArgs,
    settings: &Settings,
    out: Printer,
) -> Result<ExitCode, Fault> {
    raise_the_limit_of_open_files();
    let pool = Pool::open(&args.meta).map_err(fault)?;
    let cluster = servers::cluster(settings)?;
    let begun = pool.join_state().map_err(fault)?;
    if let Some(state) = begun.as_ref().filter(|state| state.finished) {
        // A kill may have left a mark of the union.
        pool.end_join().map_err(fault)?;
        show_finished(&pool, state, out)?;
        return Ok(ExitCode::SUCCESS);
    }
    let disks = open_disks(&pool, cluster, settings, out)?;
    let client = admin::client(settings)?;
    expect_up(&client, &disks)?;
    let directory = target(&client, &args.to, begun.is_some(), args.dry_run)?;
    let options = JoinOptions {
        cluster: cluster.to_string(),
        to: args.to.clone(),
        directory,
        dry_run: args.dry_run,
        leave: args.leave,
    };
    let mut progress = progress(out);
    let report = join(&pool, &disks, &MetadataServer(client), options, &mut progress);
    if out.hints() && std::io::stderr().is_terminal() {
        eprint!("\r\x1b[K");
    }
    Ok(print(&report.map_err(join_fault)?, args, &config_option(settings), out))
}

/// The disks with their object directories. Commands that start missing I/O daemons are printed.
fn open_disks(
    pool: &Pool,
    cluster: ClusterUuid,
    settings: &Settings,
    out: Printer,
) -> Result<Vec<Disk>, Fault> {
    // A disk that is not mounted is an empty directory: no daemon must begin there.
    if let Some(why) = pool.status().into_iter().find_map(|branch| branch.error) {
        return Err(fault_of(Exit::NotFound, &why));
    }
    let mut disks = Vec::new();
    let mut missing = Vec::new();
    for branch in &pool.config.branches {
        match Disk::open(branch, cluster) {
            Ok(disk) => disks.push(disk),
            Err(JoinError::NoObjects { path, .. }) if !path.exists() && branch.path.is_dir() => {
                missing.push(path);
            }
            Err(error) => return Err(join_fault(error)),
        }
    }
    let Some(first) = missing.first() else { return Ok(disks) };
    let config = config_option(settings);
    let command = |(at, path): (usize, &std::path::PathBuf)| {
        let port = 7701 + at;
        format!("braid iod{config} --dir {} --init --listen 127.0.0.1:{port}", shown(path))
    };
    missing.iter().enumerate().skip(1).map(command).for_each(|line| out.hint(line));
    let why = format!("{} disks have no I/O daemon yet ({OBJECTS_DIRECTORY})", missing.len());
    Err(Fault::usage("joining", why).hint(command((0, first))))
}

/// The option that names the cluster in a printed command.
fn config_option(settings: &Settings) -> String {
    let path = settings.path.as_deref();
    path.map_or_else(String::new, |path| format!(" --config {}", shown(path)))
}

/// All I/O daemons of the disks must serve: what joins would not be readable otherwise.
fn expect_up(client: &Client, disks: &[Disk]) -> Result<(), Fault> {
    let map = client.cluster_map()?;
    let serves = |state: &IodState| matches!(state, IodState::Up | IodState::Draining);
    for disk in disks {
        if !map.iods.iter().any(|iod| iod.id == disk.iod && serves(&iod.state)) {
            let why = format!("I/O daemon {} of {} is not up", disk.iod, disk.path.display());
            return Err(Fault::new(Exit::Unreachable, "joining", why).hint("braid status"));
        }
    }
    Ok(())
}

/// The directory that gets the files. It must be empty when the join begins.
fn target(client: &Client, to: &str, is_begun: bool, dry_run: bool) -> Result<FileIndex, Fault> {
    let found = client.stat(to);
    let missing = found.as_ref().is_err_and(|error| error.status() == Status::NotFound);
    if missing && dry_run {
        return Ok(FileIndex(0));
    }
    let directory = if missing { client.mkdir(to, 0o755)? } else { found? };
    if !is_begun && client.read_dir(to, false)?.next().is_some() {
        let why = format!("{to} of the cluster is not an empty directory");
        return Err(Fault::usage("joining", why).hint("--to DIR, a new directory"));
    }
    Ok(directory.file)
}

/// A line on a terminal.
fn progress(out: Printer) -> impl FnMut(&JoinReport) -> ControlFlow<()> {
    let shows = out.hints() && std::io::stderr().is_terminal();
    let (begun, mut last) = (Instant::now(), Instant::now());
    move |report| {
        if shows && last.elapsed() >= PROGRESS {
            last = Instant::now();
            let rate = report.names as f64 / begun.elapsed().as_secs_f64();
            let bytes = human_bytes(report.bytes);
            eprint!("\r{} files, {bytes}, {rate:.0} files/s\x1b[K", report.names);
            let _ = std::io::stderr().flush();
        }
        ControlFlow::Continue(())
    }
}

fn print(report: &JoinReport, args: &UnionJoinArgs, config: &str, out: Printer) -> ExitCode {
    let left = &report.left;
    if out.json {
        let rows = left.iter().map(|left| json!({ "path": left.path, "why": left.why }));
        out.value(&json!({
            "files": report.files, "names": report.names, "bytes": report.bytes,
            "directories": report.directories, "others": report.others,
            "finished": report.finished, "left": rows.collect::<Vec<_>>(),
        }));
    } else {
        let verb = if args.dry_run { "would join" } else { "joined" };
        out.line(format!(
            "{} files ({}), {} directories and {} others {verb}, {} stay on their disks",
            report.names,
            human_bytes(report.bytes),
            report.directories,
            report.others,
            left.len()
        ));
        left.iter().take(LEFT_SHOWN_MAX).for_each(|Left { path, why, .. }| {
            out.line(format!("{}: {why}", path.display()));
        });
        if left.len() > LEFT_SHOWN_MAX {
            let more = left.len() - LEFT_SHOWN_MAX;
            out.line(format!("and {more} more; all of them: braid --json union join"));
        }
    }
    let meta = shown(&args.meta);
    match (args.dry_run, report.finished) {
        (true, _) => out.next(format!("braid union join {meta}{config}")),
        (false, true) => out.next(format!("braid mount MOUNTPOINT{config}")),
        (false, false) => out.next(format!(
            "move away what stays, and braid union join {meta}{config} again; or, to leave it on \
             the disks: braid union join {meta}{config} --leave"
        )),
    }
    match left.is_empty() || report.finished {
        true => ExitCode::SUCCESS,
        false => ExitCode::from(Exit::Failed as u8),
    }
}

fn join_fault(error: JoinError) -> Fault {
    let exit = match error {
        JoinError::Pool(error) => return fault(error),
        JoinError::Io { .. } | JoinError::Stopped => Exit::Failed,
        JoinError::Cluster(_) => Exit::Unreachable,
        _ => Exit::Usage,
    };
    fault_of(exit, &error.to_string())
}

/// The texts of the union have the form of all messages.
fn fault_of(exit: Exit, text: &str) -> Fault {
    let (why, hint) = text.split_once("; try: ").unwrap_or((text, "the same command again"));
    let (what, why) = why.split_once(" failed: ").unwrap_or(("joining", why));
    Fault::new(exit, what, why).hint(hint)
}

/// The calls of a join, as an administrator.
struct MetadataServer(Client);

/// The text of an error.
fn text(error: braid_client::Error) -> String {
    error.to_string()
}

impl Cluster for MetadataServer {
    fn reserve_files(&self, count: u32) -> Result<FileIndex, String> {
        self.0.reserve_files(count).map_err(text)
    }

    fn import(&self, entries: Vec<ImportEntry>) -> Result<Vec<ImportedEntry>, String> {
        self.0.import(entries).map_err(text)
    }

    fn exists(&self, file: FileIndex) -> Result<bool, String> {
        match self.0.stat(file) {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.status(), Status::StaleHandle | Status::NotFound) => {
                Ok(false)
            }
            Err(error) => Err(text(error)),
        }
    }

    fn set_attributes(&self, directory: FileIndex, like: &ImportEntry) -> Result<(), String> {
        let changes = AttributeChanges {
            mode: Some(like.mode),
            uid: Some(like.uid),
            gid: Some(like.gid),
            bytes: None,
            atime: Some(SetTime { time: Some(like.atime) }),
            mtime: Some(SetTime { time: Some(like.mtime) }),
            flags: None,
            drop_set_ids: false,
            drop_capabilities: false,
        };
        self.0.set_attributes(directory, false, changes).map_err(text)?;
        like.xattrs.iter().try_for_each(|xattr| {
            self.0.set_xattr(directory, &xattr.name, &xattr.value, XattrMode::Either).map_err(text)
        })
    }
}

/// `braid union status` of a pool that has joined a cluster.
///
/// # Errors
/// None; the type is that of a command.
pub(super) fn show_finished(pool: &Pool, state: &JoinState, out: Printer) -> Result<(), Fault> {
    let JoinState { cluster, to, .. } = state;
    if out.json {
        out.value(&json!({ "name": pool.config.name, "joined": cluster, "to": to }));
        return Ok(());
    }
    out.line(format!("its files have joined the cluster {cluster}, below {to}"));
    out.next(format!("braid ls {to}"));
    Ok(())
}
