//! `braid df`, `braid du`.

use std::collections::HashSet;

use braid_client::{Client, Error, FileIndex, Status};
use braid_wire::message::{FileKind, types::IodState};
use serde_json::json;

use crate::{
    commands::format::{fullest, state_word},
    config::Settings,
    connect,
    output::{Fault, Printer, human_bytes},
    transfer::path::join,
};

/// Prints the free space of the file system and of each disk.
pub fn df(settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let whole = client.statfs(FileIndex::ROOT)?;
    let map = client.cluster_map()?;
    if out.json {
        let iods: Vec<_> = map
            .iods
            .iter()
            .map(|iod| {
                json!({ "iod": iod.id.0, "state": state_word(iod.state),
                    "device": iod.space.device, "total": iod.space.total.0,
                    "free": iod.space.free.0, "available": iod.space.available.0,
                    "nearly_full": iod.space.is_nearly_full() })
            })
            .collect();
        out.value(&json!({
            "total": whole.total.0, "free": whole.free.0, "available": whole.available.0,
            "files": whole.files, "iods_up": whole.iods_up, "iods": whole.iods, "disks": iods,
        }));
        return Ok(());
    }
    // As in df(1): space that the disks reserve for root is neither used nor free.
    let row = |name: String, total: u64, free: u64, available: u64, note: String| {
        let used = total.saturating_sub(free);
        let whole = u128::from(used) + u128::from(available);
        let percent = (u128::from(used) * 100).checked_div(whole).unwrap_or(0);
        vec![
            name,
            human_bytes(total),
            human_bytes(used),
            human_bytes(available),
            format!("{percent}%"),
            note,
        ]
    };
    let files = format!("{} files", whole.files);
    let mut rows = vec![row("all".into(), whole.total.0, whole.free.0, whole.available.0, files)];
    let mut devices = HashSet::new();
    for iod in map.iods.iter().filter(|iod| iod.state != IodState::Removed) {
        let shared =
            if devices.insert(iod.space.device) { "" } else { ", on a disk counted above" };
        let full = if iod.space.is_nearly_full() { ", nearly full" } else { "" };
        let (note, space) = (format!("{}{full}{shared}", state_word(iod.state)), &iod.space);
        rows.push(row(
            format!("I/O daemon {}", iod.id),
            space.total.0,
            space.free.0,
            space.available.0,
            note,
        ));
    }
    out.table(&["WHERE", "SIZE", "USED", "FREE", "USE", "NOTE"], &rows);
    fullest(&map.iods).into_iter().for_each(|line| out.line(line));
    out.next("braid status    (the daemons of the disks)");
    Ok(())
}

/// The contents of one path.
#[derive(Default)]
struct Usage {
    bytes: u64,
    bytes_used: u64,
    files: u64,
    directories: u64,
    seen: HashSet<u64>,
    /// Number of files whose size could not be read, and why the first failed.
    unknown: u64,
    why: Option<Error>,
}

/// Prints the number of bytes and files below paths; a file with several names counts once.
pub fn du(paths: &[String], settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let mut facts = Vec::new();
    let mut rows = Vec::new();
    let (mut unknown, mut why) = (0, None);
    for path in paths {
        let usage = measure(&client, path.as_bytes())?;
        facts.push(json!({ "path": path, "bytes": usage.bytes, "bytes_used": usage.bytes_used,
            "files": usage.files, "directories": usage.directories, "unknown": usage.unknown }));
        unknown += usage.unknown;
        why = why.or(usage.why);
        rows.push(vec![
            human_bytes(usage.bytes),
            human_bytes(usage.bytes_used),
            usage.files.to_string(),
            usage.directories.to_string(),
            path.clone(),
        ]);
    }
    if out.json {
        out.value(&facts);
    } else {
        out.table(&["SIZE", "ON DISK", "FILES", "DIRS", "PATH"], &rows);
        out.next("braid df    (free space)");
    }
    match why.map(Fault::from) {
        Some(first) => {
            let why = format!("they are not counted; {}: {}", first.what, first.why);
            Err(Fault { what: format!("reading the sizes of {unknown} files"), why, ..first })
        }
        None => Ok(()),
    }
}

fn measure(client: &Client, root: &[u8]) -> Result<Usage, Fault> {
    let mut usage = Usage::default();
    let top = client.lstat(root)?;
    if top.kind != FileKind::Directory {
        (usage.bytes, usage.bytes_used, usage.files) = (top.bytes.0, top.bytes_used.0, 1);
        return Ok(usage);
    }
    let mut stack = vec![root.to_vec()];
    while let Some(path) = stack.pop() {
        usage.directories += 1;
        for entry in client.read_dir(&path[..], true)? {
            let entry = entry?;
            if entry.kind == FileKind::Directory {
                stack.push(join(&path, &entry.name));
                continue;
            }
            let found = match entry.attributes {
                Some(found) => found,
                // Another client writes the file now.
                None => match client.lstat(&join(&path, &entry.name)[..]) {
                    Ok(found) => found,
                    Err(error) if error.status() == Status::NotFound => continue,
                    Err(error) => {
                        usage.unknown += 1;
                        usage.why.get_or_insert(error);
                        continue;
                    }
                },
            };
            if usage.seen.insert(found.file.0) {
                usage.files += 1;
                usage.bytes += found.bytes.0;
                usage.bytes_used += found.bytes_used.0;
            }
        }
    }
    Ok(usage)
}
