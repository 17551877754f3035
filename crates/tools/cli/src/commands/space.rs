//! `braid df`, `braid du`.

use std::collections::HashSet;

use braid_client::{Client, FileIndex};
use braid_wire::message::FileKind;
use serde_json::json;

use crate::{
    config::Settings,
    connect,
    output::{Fault, Printer, human_bytes},
    transfer::path::join,
};

/// Room in the file system and on each disk.
pub fn df(settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let whole = client.statfs(FileIndex::ROOT)?;
    let map = client.cluster_map()?;
    if out.json {
        let iods: Vec<_> = map
            .iods
            .iter()
            .map(|iod| {
                json!({ "iod": iod.id.0, "state": format!("{:?}", iod.state), "device": iod.space.device,
                    "total": iod.space.total.0, "available": iod.space.available.0 })
            })
            .collect();
        out.value(&json!({ "total": whole.total.0, "available": whole.available.0, "files": whole.files,
            "iods_up": whole.iods_up, "iods": whole.iods, "disks": iods }));
        return Ok(());
    }
    let row = |name: String, total: u64, available: u64, note: String| {
        let used = total.saturating_sub(available);
        let percent = (used * 100).checked_div(total).unwrap_or(0);
        vec![name, human_bytes(total), human_bytes(used), human_bytes(available), format!("{percent}%"), note]
    };
    let mut rows = vec![row("all".into(), whole.total.0, whole.available.0, format!("{} files", whole.files))];
    let mut devices = HashSet::new();
    for iod in &map.iods {
        let shared = if devices.insert(iod.space.device) { "" } else { ", on a disk counted above" };
        let note = format!("{:?}{shared}", iod.state).to_lowercase();
        rows.push(row(format!("I/O daemon {}", iod.id), iod.space.total.0, iod.space.available.0, note));
    }
    out.table(&["WHERE", "SIZE", "USED", "FREE", "USE", "NOTE"], &rows);
    out.next("braid status    (the daemons behind)");
    Ok(())
}

/// What is below one path.
#[derive(Default)]
struct Usage {
    bytes: u64,
    bytes_used: u64,
    files: u64,
    directories: u64,
    seen: HashSet<u64>,
}

/// Bytes and files below paths; a file with several names counts once.
pub fn du(paths: &[String], settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let mut facts = Vec::new();
    let mut rows = Vec::new();
    for path in paths {
        let usage = measure(&client, path.as_bytes())?;
        facts.push(json!({ "path": path, "bytes": usage.bytes, "bytes_used": usage.bytes_used,
            "files": usage.files, "directories": usage.directories }));
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
        out.next("braid df    (what room is left)");
    }
    Ok(())
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
            } else if let Some(found) = entry.attributes.filter(|found| usage.seen.insert(found.file.0)) {
                usage.files += 1;
                usage.bytes += found.bytes.0;
                usage.bytes_used += found.bytes_used.0;
            }
        }
    }
    Ok(usage)
}
