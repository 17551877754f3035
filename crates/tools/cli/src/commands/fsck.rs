//! `braid fsck`: checks the file system while it runs. It reports only, unless `--mend` is given,
//! and never deletes.
//!
//! ```text
//!   namespace: the metadata server checks each shard: names, link counts, reachability
//!   usage:     the metadata server counts each shard again and compares with the quota records
//!   objects:   every I/O daemon's list is compared with every file's layout and recorded parts
//!   confirm:   each problem is checked again, since a running system changes during the check
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    process::ExitCode,
};

use braid_client::Client;
use braid_types::{ByteCount, FileIndex, IodId, ObjectId, PartIndex, Status};
use braid_wire::message::{
    iod::{ListObjects, MoveToLost},
    mds::{FsckFile, FsckMend, FsckProblem, FsckProblemKind},
    quota::{QuotaDifference, QuotaKind},
    types::{IodState, ObjectRecord},
};
use serde::Serialize;

use crate::{
    admin::{self, IodConnection},
    config::Settings,
    output::{Exit, Fault, Printer, quoted},
};

/// Problems for which the text output has advice; `--json` has it for all.
const ADVICE_MAX: usize = 5;
/// Objects or files in one call.
const PAGE: u32 = 1000;

/// Advice for a foreign file in a daemon's directory.
const FOREIGN_FILE: &str =
    "check what it is and move it out of the daemon's directory; BraidFS does not use it";
/// Advice for what only another copy of the metadata can repair.
const RECORD_LOST: &str = "the metadata directory is damaged: stop the metadata server and \
                           restore a backup of the directory";

/// The result of a check.
#[derive(Default, Serialize)]
struct Report {
    files: u64,
    inodes: u64,
    objects: u64,
    daemons_not_reached: Vec<String>,
    problems: Vec<Problem>,
}

/// One problem.
#[derive(Clone, Serialize)]
struct Problem {
    kind: &'static str,
    what: String,
    mended: bool,
    /// What a person can do when `--mend` cannot repair it.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    #[serde(skip)]
    mend: Mend,
}

/// What repairs a problem.
#[derive(Clone, PartialEq)]
enum Mend {
    /// The metadata server repairs it during its check, if asked.
    Names,
    /// `--mend` cannot repair it.
    Impossible,
    MoveToLost(IodId, ObjectId),
    /// A new record, valid only if the file's record is still this one.
    Record(Box<FsckFile>, FsckMend),
}

/// Lists the files that have a part on an I/O daemon, or may have one. They lose it with the
/// daemon.
pub fn affected_by(iod: u32, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = admin::client(settings)?;
    if !client.cluster_map()?.iods.iter().any(|known| known.id == IodId(iod)) {
        let (what, why) = (
            format!("listing the files with parts on I/O daemon {iod}"),
            "the cluster has no such I/O daemon",
        );
        return Err(Fault::new(Exit::NotFound, what, why).hint("braid status"));
    }
    let (mut facts, mut count) = (Vec::new(), 0_u64);
    for shard in client.fsck_shards()? {
        let mut after = Some(FileIndex(0));
        while let Some(from) = after {
            let reply = client.fsck_affected(IodId(iod), shard, from)?;
            after = reply.next;
            for file in &reply.files {
                count += 1;
                match out.json {
                    true => facts.push(
                        serde_json::json!({ "path": name(file), "file": file.file.to_string(),
                        "size_in_objects": file.size_in_objects }),
                    ),
                    false => out.line(name(file)),
                }
            }
        }
    }
    if out.json {
        out.value(&facts);
    } else {
        out.hint(format!("{count} files have a part on I/O daemon {iod}"));
    }
    Ok(())
}

/// Checks and prints the result. The exit code reports whether problems are left.
pub fn fsck(mend: bool, settings: &Settings, out: Printer) -> Result<ExitCode, Fault> {
    let secret = admin::server_key(settings)?.ok_or_else(|| {
        Fault::new(
            Exit::Refused,
            "checking objects",
            "I/O daemons list objects only for the server key",
        )
        .hint("braid fsck --key DIR/keys/server.key")
    })?;
    let client = admin::client(settings)?;
    let mut report = Report::default();
    check_names(&client, mend, &mut report)?;
    check_usage(&client, mend, &mut report)?;
    let (mut links, removed) = connect_all(&client, &secret, settings, &mut report)?;
    let mut problems = check_objects(&client, &mut links, &removed, &mut report)?;
    if !problems.is_empty() {
        let again = check_objects(&client, &mut links, &removed, &mut Report::default())?;
        problems.retain(|key, _| again.contains_key(key));
    }
    for mut problem in problems.into_values() {
        problem.mended = mend && apply(&problem.mend, &client, &mut links)?;
        report.problems.push(problem);
    }
    print(&report, mend, out);
    let unmended =
        report.problems.iter().any(|p| !p.mended) || !report.daemons_not_reached.is_empty();
    if !unmended && client.fsck_mark(true)?.is_some() {
        out.hint("the file system is clean: the needs-fsck flag of the salvage or load is cleared");
    }
    Ok(if unmended { ExitCode::from(Exit::Problems as u8) } else { ExitCode::SUCCESS })
}

/// Checks names, link counts and reachability.
fn check_names(client: &Client, mend: bool, report: &mut Report) -> Result<(), Fault> {
    for shard in client.fsck_shards()? {
        let reply = client.fsck_namespace(shard, mend)?;
        report.inodes += reply.inodes;
        report.problems.extend(reply.problems.into_iter().map(name_problem));
    }
    Ok(())
}

/// Compares the recorded usage, for quotas, with the inodes.
fn check_usage(client: &Client, mend: bool, report: &mut Report) -> Result<(), Fault> {
    for shard in client.fsck_shards()? {
        let found = client.fsck_usage(shard, mend)?;
        report.problems.extend(found.into_iter().map(|difference| usage_problem(&difference)));
    }
    Ok(())
}

fn usage_problem(found: &QuotaDifference) -> Problem {
    let whose = match found.owner.kind {
        QuotaKind::User => "user",
        QuotaKind::Group => "group",
        _ => "directory",
    };
    let what = format!(
        "{whose} {}: {} bytes and {} inodes recorded, {} and {} counted",
        found.owner.id,
        found.bytes_recorded,
        found.inodes_recorded,
        found.bytes_counted,
        found.inodes_counted
    );
    Problem { kind: "usage", what, mended: found.mended, advice: None, mend: Mend::Names }
}

fn name_problem(problem: FsckProblem) -> Problem {
    let FsckProblem { kind, detail: what, mended, .. } = problem;
    let (kind, mend, advice) = match kind {
        FsckProblemKind::LinkCount => ("link count", Mend::Names, None),
        FsckProblemKind::Unreachable => ("unreachable", Mend::Names, None),
        FsckProblemKind::DanglingEntry => {
            ("name without a file", Mend::Impossible, Some(RECORD_LOST))
        }
        FsckProblemKind::EntryIndex => {
            ("name and cookie disagree", Mend::Impossible, Some(RECORD_LOST))
        }
        FsckProblemKind::Unreadable => ("unreadable record", Mend::Impossible, Some(RECORD_LOST)),
        _ => ("unknown problem of a newer version", Mend::Impossible, None),
    };
    Problem { kind, what, mended, advice: advice.map(str::to_owned), mend }
}

fn connect_all(
    client: &Client,
    secret: &braid_wire::Secret,
    settings: &Settings,
    report: &mut Report,
) -> Result<(BTreeMap<IodId, IodConnection>, BTreeSet<IodId>), Fault> {
    let (mut links, mut removed) = (BTreeMap::new(), BTreeSet::new());
    for iod in client.cluster_map()?.iods {
        if iod.state == IodState::Removed {
            removed.insert(iod.id);
            continue;
        }
        let link = if iod.state == IodState::Down {
            None
        } else {
            IodConnection::connect(&iod, secret, settings).ok()
        };
        match link {
            Some(link) => drop(links.insert(iod.id, link)),
            None => report.daemons_not_reached.push(format!(
                "I/O daemon {} at {}",
                iod.id,
                iod.addresses.join(" ")
            )),
        }
    }
    Ok((links, removed))
}

/// All objects of all I/O daemons.
type Objects = HashMap<(IodId, ObjectId), Found>;

/// The fields of an object that matter to its file.
#[derive(Clone, Copy)]
struct Found {
    bytes: u64,
    lost_from: Option<u64>,
}

/// Problems, under a key that is the same when the problem is found again.
type Problems = BTreeMap<String, Problem>;

fn check_objects(
    client: &Client,
    links: &mut BTreeMap<IodId, IodConnection>,
    removed: &BTreeSet<IodId>,
    report: &mut Report,
) -> Result<Problems, Fault> {
    let mut problems = Problems::new();
    // Objects first: a file is in the namespace before its objects exist, so that no new object
    // looks like an orphan.
    let objects = list_objects(client, links, report, &mut problems)?;
    for shard in client.fsck_shards()? {
        let mut after = FileIndex(0);
        loop {
            let files = client.fsck_files(shard, after, PAGE)?;
            let Some(last) = files.last() else { break };
            after = last.file;
            for file in &files {
                report.files += 1;
                check_file(file, &objects, (links, removed), &mut problems);
            }
        }
    }
    Ok(problems)
}

fn list_objects(
    client: &Client,
    links: &mut BTreeMap<IodId, IodConnection>,
    report: &mut Report,
    problems: &mut Problems,
) -> Result<Objects, Fault> {
    let mut objects = Objects::new();
    for (iod, link) in links {
        let mut cursor = Vec::new();
        loop {
            let page = link.call(&ListObjects { cursor, count_max: PAGE })?;
            report.objects += page.objects.len() as u64;
            let orphans = client.fsck_orphans(page.objects.iter().map(|o| o.object).collect())?;
            for orphan in orphans {
                let what = format!("object {orphan} on I/O daemon {iod} belongs to no file");
                note(problems, "object without a file", what, Mend::MoveToLost(*iod, orphan), None);
            }
            for stranger in &page.foreign_files {
                let what = format!(
                    "{} on I/O daemon {iod} is not an object",
                    String::from_utf8_lossy(stranger)
                );
                let advice = Some(FOREIGN_FILE.to_owned());
                note(problems, "foreign file", what, Mend::Impossible, advice);
            }
            let found = |o: &ObjectRecord| Found {
                bytes: o.bytes.0,
                lost_from: o.lost_from.map(|from| from.0),
            };
            objects.extend(page.objects.iter().map(|o| ((*iod, o.object), found(o))));
            match page.cursor {
                Some(next) => cursor = next,
                None => break,
            }
        }
    }
    Ok(objects)
}

/// Checks one file against the objects of its layout.
fn check_file(
    file: &FsckFile,
    objects: &Objects,
    (links, removed): (&BTreeMap<IodId, IodConnection>, &BTreeSet<IodId>),
    problems: &mut Problems,
) {
    let mut ends = Vec::new();
    let mut present = BTreeSet::new();
    let mut whole = true;
    for (part, placement) in file.layout.placements() {
        let Some(iod) = placement.iods.first() else { continue };
        if removed.contains(iod) {
            // A part that never existed is not lost.
            if recorded(file, part) {
                part_lost(file, part, *iod, problems);
                whole = false;
            }
            continue;
        }
        if !links.contains_key(iod) {
            return; // its daemon is not reachable, and the report names it
        }
        let object = ObjectId { file: file.file, part, generation: placement.generation };
        match objects.get(&(*iod, object)) {
            Some(found) => {
                if let Some(from) = found.lost_from {
                    truncated(file, (part, object, *iod), (from, found.bytes), problems);
                    whole = false;
                }
                ends.push((part, found.bytes));
                present.insert(part);
            }
            None if recorded(file, part) => {
                object_missing(file, part, object, *iod, problems);
                whole = false;
            }
            None => {}
        }
    }
    if file.size_in_objects {
        return;
    }
    // The remaining parts of a damaged file do not give its size: a repair would silently truncate
    // the file (I11).
    if whole {
        check_size(file, &ends, problems);
    }
    check_parts(file, &present, problems);
}

/// Reports a part that was given up with its daemon.
fn part_lost(file: &FsckFile, part: PartIndex, iod: IodId, problems: &mut Problems) {
    let (name, path) = (name(file), quoted(&name(file)));
    let what = format!("{name}: part {part} was lost with I/O daemon {iod}, which was removed");
    let advice = format!(
        "save the rest with braid get {path} FILE; then braid rm {path}, and braid put COPY {path}"
    );
    note(problems, "part lost", what, Mend::Impossible, Some(advice));
}

/// Reports a missing object. There is only one copy of its bytes, so no repair is possible.
fn object_missing(
    file: &FsckFile,
    part: PartIndex,
    object: ObjectId,
    iod: IodId,
    problems: &mut Problems,
) {
    let what =
        format!("{}: part {part} (object {object}) is missing on I/O daemon {iod}", name(file));
    note(problems, "object missing", what, Mend::Impossible, Some(restore_or_replace(file, iod)));
}

/// Reports a damaged object. The rest of it can be read.
fn truncated(
    file: &FsckFile,
    (part, object, iod): (PartIndex, ObjectId, IodId),
    (from, bytes): (u64, u64),
    problems: &mut Problems,
) {
    let where_it_is = format!("{}: part {part} (object {object}) on I/O daemon {iod}", name(file));
    let (kind, what) = match bytes {
        0 => ("object unreadable", format!("{where_it_is} has a damaged record")),
        _ => {
            ("object truncated", format!("{where_it_is} has {from} bytes of {bytes} flushed bytes"))
        }
    };
    note(problems, kind, what, Mend::Impossible, Some(restore_or_replace(file, iod)));
}

fn restore_or_replace(file: &FsckFile, iod: IodId) -> String {
    let path = quoted(&name(file));
    format!(
        "restore the disk of I/O daemon {iod}, or replace the file: braid rm {path}, \
         then braid put COPY {path}"
    )
}

fn check_size(file: &FsckFile, ends: &[(PartIndex, u64)], problems: &mut Problems) {
    let Ok(bytes) = file.layout.file_size_from_objects(ends) else { return };
    if bytes != file.bytes.0 {
        let what =
            format!("{}: recorded size {}, size of its objects {bytes}", name(file), file.bytes);
        let mend = FsckMend { bytes: Some(ByteCount(bytes)), existing_parts: None };
        note(problems, "wrong size", what, Mend::Record(Box::new(file.clone()), mend), None);
    }
}

fn check_parts(file: &FsckFile, present: &BTreeSet<PartIndex>, problems: &mut Problems) {
    if let Some(part) = present.iter().find(|part| !recorded(file, **part)) {
        let what = format!("{}: part {part} exists but is not recorded", name(file));
        let mend = FsckMend { bytes: None, existing_parts: Some(bitmap(present)) };
        note(problems, "part not recorded", what, Mend::Record(Box::new(file.clone()), mend), None);
    }
}

fn note(
    problems: &mut Problems,
    kind: &'static str,
    what: String,
    mend: Mend,
    advice: Option<String>,
) {
    problems.insert(format!("{kind}: {what}"), Problem { kind, what, mended: false, advice, mend });
}

fn recorded(file: &FsckFile, part: PartIndex) -> bool {
    let part = usize::from(part.0);
    file.existing_parts.get(part / 8).is_some_and(|byte| byte >> (part % 8) & 1 == 1)
}

fn bitmap(parts: &BTreeSet<PartIndex>) -> Vec<u8> {
    let mut bits = vec![0; parts.last().map_or(0, |last| usize::from(last.0) / 8 + 1)];
    parts.iter().for_each(|part| bits[usize::from(part.0) / 8] |= 1 << (part.0 % 8));
    bits
}

fn name(file: &FsckFile) -> String {
    if file.path.is_empty() {
        format!("file {}", file.file)
    } else {
        String::from_utf8_lossy(&file.path).into_owned()
    }
}

/// Repairs one problem. Returns whether that was possible.
fn apply(
    mend: &Mend,
    client: &Client,
    links: &mut BTreeMap<IodId, IodConnection>,
) -> Result<bool, Fault> {
    match mend {
        Mend::Names | Mend::Impossible => Ok(false),
        Mend::Record(file, _) if !is_unchanged(file, client)? => Ok(false),
        Mend::Record(file, mend) => match client.fsck_mend(file.file, mend.clone()) {
            Err(e) if e.status() == Status::NotFound => Ok(true),
            Err(e) if e.status() == Status::Busy => Ok(false),
            outcome => Ok(outcome.map(|()| true)?),
        },
        Mend::MoveToLost(iod, object) => match links.get_mut(iod) {
            Some(link) => link.call(&MoveToLost { object: *object }).map(|()| true),
            None => Ok(false),
        },
    }
}

/// Whether the file did not change since it was compared with its objects.
fn is_unchanged(file: &FsckFile, client: &Client) -> Result<bool, Fault> {
    let before = FileIndex(file.file.0.saturating_sub(1));
    let now = client.fsck_files(file.file.shard(), before, 1)?;
    // The file may have another name now.
    Ok(now.into_iter().any(|now| FsckFile { path: file.path.clone(), ..now } == *file))
}

fn print(report: &Report, mend: bool, out: Printer) {
    if out.json {
        return out.value(report);
    }
    for problem in &report.problems {
        out.line(format!(
            "{}: {}{}",
            problem.kind,
            problem.what,
            if problem.mended { " (mended)" } else { "" }
        ));
    }
    for daemon in &report.daemons_not_reached {
        out.line(format!("not checked: {daemon} is not reachable"));
    }
    let (files, inodes, objects) = (report.files, report.inodes, report.objects);
    let open = report.problems.iter().filter(|p| !p.mended).count();
    out.line(format!(
        "{inodes} inodes, {files} files, {objects} objects checked; {open} problems left"
    ));
    next(report, mend, out);
}

/// Suggests the next command: first a repair, then what only a person can do.
fn next(report: &Report, mend: bool, out: Printer) {
    let left = || report.problems.iter().filter(|problem| !problem.mended);
    if !mend && left().any(|problem| problem.mend != Mend::Impossible) {
        out.next("braid fsck --mend    (deletes nothing: objects without a file go to lost+found)");
    } else if mend && left().any(|problem| problem.mend != Mend::Impossible) {
        out.next("braid fsck --mend    (again: files that changed during the check were skipped)");
    } else if report.problems.iter().any(|problem| problem.kind == "unreachable") {
        out.next("braid ls -l /lost+found    (as root)");
    }
    let mut shown = BTreeSet::new();
    for problem in left().filter(|problem| problem.advice.is_some()).take(ADVICE_MAX) {
        let advice = problem.advice.as_deref().unwrap_or_default();
        if shown.insert(advice) {
            out.hint(format!("{} cannot be mended; try: {advice}", problem.kind));
        }
    }
    if !report.daemons_not_reached.is_empty() {
        out.next("braid status    (start the daemons that are down, then braid fsck again)");
    }
}
