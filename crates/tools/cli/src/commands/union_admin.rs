//! Changes of a pool, and moves of its files: by the process that has it mounted, if one has.

use std::{
    io::{IsTerminal, Write},
    ops::ControlFlow,
    os::unix::ffi::OsStrExt,
    path::{Path, PathBuf},
    process::ExitCode,
    time::Duration,
};

use braid_union::{
    BranchMode, BranchStatus, Label, MoveReport, MoveTo, Pool, Reply, Request, request,
};
use serde_json::json;

use super::linux::{fault, shown};
use crate::commands::union_join;
use crate::output::{Exit, Fault, Printer, human_bytes};

#[path = "union_check.rs"]
pub(super) mod check;
#[path = "union_placement.rs"]
pub(super) mod placement;
#[path = "union_quota.rs"]
pub(super) mod quota;

type Done<T = ()> = Result<T, Fault>;

/// Has the request carried out; a line on a terminal shows how far it is.
fn ask(meta: &Path, wanted: &Request, out: Printer) -> Done<Reply> {
    let shows = out.hints() && std::io::stderr().is_terminal();
    let mut progress = |report: &MoveReport| {
        if shows {
            let bytes = human_bytes(report.bytes);
            match wanted {
                Request::Check { .. } => eprint!("\r{} names compared\x1b[K", report.files),
                Request::Deduplicate { .. } => {
                    eprint!("\r{} hidden files, {bytes} the same\x1b[K", report.files);
                }
                _ => eprint!("\r{} files, {bytes} moved\x1b[K", report.files),
            }
            let _ = std::io::stderr().flush();
        }
        ControlFlow::Continue(())
    };
    let reply = request(meta, wanted, &mut progress);
    if shows {
        eprint!("\r\x1b[K");
    }
    reply.map_err(fault)
}

fn next_status(meta: &Path, out: Printer) {
    out.next(format!("braid union status {}", shown(meta)));
}

pub(super) fn add(
    meta: &Path,
    disks: Vec<(PathBuf, BranchMode)>,
    min_free: Option<u64>,
    out: Printer,
) -> Done {
    let absolute = |(path, mode): (PathBuf, BranchMode)| (absolute(&path), mode);
    let disks: Vec<_> = disks.into_iter().map(absolute).collect();
    let count = disks.len();
    ask(meta, &Request::Add { disks, min_free }, out)?;
    out.hint(format!("{count} more branches"));
    next_status(meta, out);
    Ok(())
}

pub(super) fn set_mode(meta: &Path, branch: &Path, mode: &str, out: Printer) -> Done {
    let mode = match mode {
        "rw" => BranchMode::Rw,
        "ro" => BranchMode::Ro,
        "nc" => BranchMode::Nc,
        other => {
            let what = format!("changing the mode of {}", branch.display());
            return Err(Fault::usage(what, format!("there is no mode {other}")).hint("rw, ro, nc"));
        }
    };
    ask(meta, &Request::SetMode { branch: named(branch), mode }, out)?;
    next_status(meta, out);
    Ok(())
}

pub(super) fn remove(meta: &Path, branch: &Path, with_files: bool, out: Printer) -> Done {
    ask(meta, &Request::Remove { branch: named(branch), with_files }, out)?;
    out.hint(format!("{} is not in the pool any more", branch.display()));
    next_status(meta, out);
    Ok(())
}

pub(super) fn drain(
    meta: &Path,
    branch: &Path,
    to: Option<&PathBuf>,
    out: Printer,
) -> Done<ExitCode> {
    let to = to.map(|to| named(to));
    let reply = ask(meta, &Request::Drain { branch: named(branch), to }, out)?;
    let next = format!("braid union remove {} {}", shown(meta), shown(branch));
    Ok(report(&reply, &next, out))
}

pub(super) fn replace(
    meta: &Path,
    old: &Path,
    new: &Path,
    min_free: Option<u64>,
    out: Printer,
) -> Done<ExitCode> {
    let known = Pool::open(meta).map_err(fault)?;
    // Again after an interruption: the new one is in the pool then.
    if known.branch(&absolute(new)).is_err() {
        let disks = vec![(absolute(new), BranchMode::Rw)];
        ask(meta, &Request::Add { disks, min_free }, out)?;
    }
    let (branch, to) = (named(old), Some(absolute(new)));
    let reply = ask(meta, &Request::Drain { branch: branch.clone(), to }, out)?;
    let next = format!("braid union status {}", shown(meta));
    let code = report(&reply, &next, out);
    if matches!(&reply, Reply::Moved(moved) if moved.stayed == 0) {
        ask(meta, &Request::Remove { branch, with_files: false }, out)?;
        out.hint(format!("{} is not in the pool any more", old.display()));
    }
    Ok(code)
}

pub(super) fn move_to(
    meta: &Path,
    paths: &[PathBuf],
    (to, unused_for): (&Path, Option<Duration>),
    out: Printer,
) -> Done<ExitCode> {
    let to = match to.to_str().and_then(|text| text.strip_prefix("label=")) {
        Some(label) => MoveTo::Label(placement::read_label(label)?),
        None => MoveTo::Branch(named(to)),
    };
    let wanted = |path| Request::Move { path, to: to.clone(), unused_for };
    let next = format!("braid union where {}", shown(&paths[0]));
    move_each(meta, paths, &wanted, &next, out)
}

pub(super) fn enforce(meta: &Path, paths: &[PathBuf], out: Printer) -> Done<ExitCode> {
    let next = format!("braid union status {}", shown(meta));
    let root = [PathBuf::new()];
    let paths = if paths.is_empty() { &root } else { paths };
    move_each(meta, paths, &|path| Request::Enforce { path }, &next, out)
}

fn move_each(
    meta: &Path,
    paths: &[PathBuf],
    wanted: &dyn Fn(Vec<u8>) -> Request,
    next: &str,
    out: Printer,
) -> Done<ExitCode> {
    let mut sum = MoveReport::default();
    for path in paths {
        if let Reply::Moved(moved) = ask(meta, &wanted(path_in_union(path)?), out)? {
            sum.add(&moved);
        }
    }
    Ok(report(&Reply::Moved(sum), next, out))
}

pub(super) fn balance(meta: &Path, percent: u8, out: Printer) -> Done<ExitCode> {
    let reply = ask(meta, &Request::Balance { percent }, out)?;
    let next = format!("braid union status {}", shown(meta));
    Ok(report(&reply, &next, out))
}

/// Says what was moved. Files that stay are a failure.
fn report(reply: &Reply, next: &str, out: Printer) -> ExitCode {
    let Reply::Moved(moved) = reply else { return ExitCode::SUCCESS };
    if out.json {
        out.value(moved);
    } else {
        let files = if moved.files == 1 { "file" } else { "files" };
        out.hint(format!("{} {files} moved, {}", moved.files, human_bytes(moved.bytes)));
        let rows: Vec<Vec<String>> =
            moved.reasons.iter().map(|(path, why)| vec![path.clone(), why.clone()]).collect();
        if !rows.is_empty() {
            out.table(&["stays", "because"], &rows);
        }
        if moved.stayed > moved.reasons.len() as u64 {
            out.hint(format!("{} files stay in all", moved.stayed));
        }
        out.next(if moved.stayed == 0 { next } else { "the same command again, later" });
    }
    if moved.stayed == 0 { ExitCode::SUCCESS } else { ExitCode::from(Exit::Failed as u8) }
}

/// The path relative to the root of the union: of a file in a mount, or as it is given.
fn path_in_union(path: &Path) -> Done<Vec<u8>> {
    let mut value = vec![0_u8; 64 << 10];
    let relative = match rustix::fs::lgetxattr(path, "user.mergerfs.relpath", &mut value[..]) {
        Ok(bytes) => value[..bytes].to_vec(),
        Err(_) if path.is_absolute() && path.exists() => {
            let what = format!("finding {}", path.display());
            return Err(Fault::new(Exit::NotFound, what, "it is not in a mounted union")
                .hint("findmnt -t fuse.braid"));
        }
        Err(_) => path.as_os_str().as_bytes().to_vec(),
    };
    Ok(relative.strip_prefix(b"/").unwrap_or(&relative).to_vec())
}

/// A branch as the user names it: a number stays one.
fn named(branch: &Path) -> PathBuf {
    match branch.to_str().is_some_and(|text| text.parse::<u8>().is_ok()) {
        true => branch.to_owned(),
        false => absolute(branch),
    }
}

/// The process that serves the pool has another working directory.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

pub(super) fn status(meta: &Path, out: Printer) -> Done {
    let pool = Pool::open(meta).map_err(fault)?;
    let joining = pool.join_state().map_err(fault)?;
    if let Some(state) = joining.as_ref().filter(|state| state.finished) {
        return union_join::show_finished(&pool, state, out);
    }
    let Reply::Status { branches, placement, mounted } = ask(meta, &Request::Status, out)? else {
        return Err(Fault::failed("reading the status", "the process gave another answer"));
    };
    if out.json {
        let rows = branches.iter().map(|branch| {
            json!({
                "number": branch.number, "path": branch.path, "mode": branch.mode,
                "bytes": branch.bytes, "free": branch.free, "min_free": branch.min_free,
                "labels": branch.labels, "error": branch.error,
                "not_noticed": branch.not_noticed,
            })
        });
        out.value(&json!({
            "name": pool.config.name, "pool": pool.config.pool.to_string(),
            "placement": placement.to_string(), "mounted": mounted,
            "branches": rows.collect::<Vec<_>>(), "joining": joining.map(|state| state.cluster),
        }));
        return Ok(());
    }
    let rows: Vec<Vec<String>> = branches.iter().map(row).collect();
    out.table(&["branch", "directory", "mode", "size", "free", "min-free", "labels"], &rows);
    for branch in branches.iter().filter_map(|branch| branch.error.as_ref()) {
        out.hint(branch);
    }
    for branch in &branches {
        if let Some(why) = &branch.not_noticed {
            let disk = branch.path.display();
            out.hint(format!("{disk}: direct changes are seen after a second: {why}"));
        }
    }
    out.hint(format!("pool \"{}\"; new files: {placement}", pool.config.name));
    if let Some(state) = joining {
        out.line(format!("the pool is joining the cluster {}, below {}", state.cluster, state.to));
        out.next(format!("braid union join {} --to {}", shown(meta), state.to));
        return Ok(());
    }
    match mounted {
        true => out.next("braid union balance --help; braid union drain --help"),
        false => out.next(format!("braid union up {} MOUNTPOINT", shown(meta))),
    }
    Ok(())
}

fn row(branch: &BranchStatus) -> Vec<String> {
    let mode = match branch.error {
        Some(_) => "missing".to_owned(),
        None => format!("{:?}", branch.mode).to_lowercase(),
    };
    vec![
        branch.number.to_string(),
        branch.path.display().to_string(),
        mode,
        human_bytes(branch.bytes),
        human_bytes(branch.free),
        human_bytes(branch.min_free),
        branch.labels.iter().map(Label::to_string).collect::<Vec<_>>().join(" "),
    ]
}
