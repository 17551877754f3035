//! `braid fsck`: online; reports only, unless told to mend; never deletes.
//!
//! ```text
//!   namespace: each shard, by the metadata server itself: names, link counts, reachability
//!   objects:   every I/O daemon's list held against every file's layout and recorded parts
//!   confirm:   what looked wrong is looked at once more: a running system changes under us
//! ```

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    process::ExitCode,
};

use braid_client::Client;
use braid_types::{ByteCount, FileIndex, IodId, ObjectId, PartIndex, Status};
use braid_wire::message::{
    iod::{ListObjects, MoveToLost},
    mds::{FsckFile, FsckMend},
    types::IodState,
};
use serde::Serialize;

use crate::{
    admin::{self, IodLink},
    config::Settings,
    output::{Exit, Fault, Printer},
};

/// Objects asked for at once.
const PAGE: u32 = 1000;

/// What was found.
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
    #[serde(skip)]
    mend: Mend,
}

/// What would mend it.
#[derive(Clone, PartialEq)]
enum Mend {
    None,
    MoveToLost(IodId, ObjectId),
    Record(FileIndex, FsckMend),
}

/// Checks, prints, and says by the exit code whether all is well.
pub fn fsck(mend: bool, settings: &Settings, out: Printer) -> Result<ExitCode, Fault> {
    let secret = admin::server_key(settings)?.ok_or_else(|| {
        Fault::new(Exit::Refused, "checking objects", "I/O daemons list them to a holder of the server key only")
            .hint("braid fsck --key DIR/keys/server.key")
    })?;
    let client = admin::client(settings)?;
    let mut report = Report::default();
    check_names(&client, mend, &mut report)?;
    let mut links = connect_all(&client, &secret, settings, &mut report)?;
    let mut problems = check_objects(&client, &mut links, &mut report)?;
    if !problems.is_empty() {
        let again = check_objects(&client, &mut links, &mut Report::default())?;
        problems.retain(|key, _| again.contains_key(key));
    }
    for mut problem in problems.into_values() {
        problem.mended = mend && apply(&problem.mend, &client, &mut links)?;
        report.problems.push(problem);
    }
    print(&report, mend, out);
    let unmended = report.problems.iter().any(|p| !p.mended) || !report.daemons_not_reached.is_empty();
    Ok(if unmended { ExitCode::from(Exit::Problems as u8) } else { ExitCode::SUCCESS })
}

/// Names, link counts, reachability.
fn check_names(client: &Client, mend: bool, report: &mut Report) -> Result<(), Fault> {
    for shard in client.fsck_shards()? {
        let reply = client.fsck_namespace(shard, mend)?;
        report.inodes += reply.inodes;
        report.problems.extend(reply.problems.into_iter().map(|p| Problem {
            kind: "namespace",
            what: format!("{:?} of file {}: {}", p.kind, p.file, p.detail),
            mended: p.mended,
            mend: Mend::None,
        }));
    }
    Ok(())
}

fn connect_all(
    client: &Client,
    secret: &braid_wire::Secret,
    settings: &Settings,
    report: &mut Report,
) -> Result<BTreeMap<IodId, IodLink>, Fault> {
    let mut links = BTreeMap::new();
    for iod in client.cluster_map()?.iods {
        let link = if iod.state == IodState::Down { None } else { IodLink::connect(&iod, secret, settings).ok() };
        match link {
            Some(link) => drop(links.insert(iod.id, link)),
            None => report.daemons_not_reached.push(format!("I/O daemon {} at {}", iod.id, iod.addresses.join(" "))),
        }
    }
    Ok(links)
}

/// Every object that exists, where.
type Objects = HashMap<(IodId, ObjectId), u64>;

/// Problems by a key that stays the same when they are found again.
type Problems = BTreeMap<String, Problem>;

fn check_objects(
    client: &Client,
    links: &mut BTreeMap<IodId, IodLink>,
    report: &mut Report,
) -> Result<Problems, Fault> {
    let mut problems = Problems::new();
    // Objects first: a file is in the namespace before its objects are, so that none looks like a stranger.
    let objects = list_objects(client, links, report, &mut problems)?;
    for shard in client.fsck_shards()? {
        let mut after = FileIndex(0);
        loop {
            let files = client.fsck_files(shard, after, PAGE)?;
            let Some(last) = files.last() else { break };
            after = last.file;
            for file in &files {
                report.files += 1;
                check_file(file, &objects, links, &mut problems);
            }
        }
    }
    Ok(problems)
}

fn list_objects(
    client: &Client,
    links: &mut BTreeMap<IodId, IodLink>,
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
                note(problems, "object without a file", what, Mend::MoveToLost(*iod, orphan));
            }
            for stranger in &page.strangers {
                let what = format!("{} on I/O daemon {iod} is not an object", String::from_utf8_lossy(stranger));
                note(problems, "stranger", what, Mend::None);
            }
            objects.extend(page.objects.iter().map(|o| ((*iod, o.object), o.bytes.0)));
            match page.cursor {
                Some(next) => cursor = next,
                None => break,
            }
        }
    }
    Ok(objects)
}

/// One file against the objects of its layout.
fn check_file(file: &FsckFile, objects: &Objects, links: &BTreeMap<IodId, IodLink>, problems: &mut Problems) {
    let mut ends = Vec::new();
    let mut present = BTreeSet::new();
    for (part, placement) in file.layout.placements() {
        let Some(iod) = placement.iods.first() else { continue };
        if !links.contains_key(iod) {
            return; // its daemon was not reached, and that is reported
        }
        let object = ObjectId { file: file.file, part, generation: placement.generation };
        match objects.get(&(*iod, object)) {
            Some(bytes) => {
                ends.push((part, *bytes));
                present.insert(part);
            }
            None if recorded(file, part) => {
                let what = format!("{}: part {part} (object {object}) is missing on I/O daemon {iod}", name(file));
                note(problems, "object missing", what, Mend::None);
            }
            None => {}
        }
    }
    if !file.size_in_objects {
        check_size(file, &ends, &present, problems);
    }
}

fn check_size(file: &FsckFile, ends: &[(PartIndex, u64)], present: &BTreeSet<PartIndex>, problems: &mut Problems) {
    let Ok(bytes) = file.layout.file_size_from_objects(ends) else { return };
    if bytes != file.bytes.0 {
        let what = format!("{}: recorded size {}, its objects say {bytes}", name(file), file.bytes);
        let mend = FsckMend { bytes: Some(ByteCount(bytes)), existing_parts: None };
        note(problems, "size disagrees", what, Mend::Record(file.file, mend));
    }
    if let Some(part) = present.iter().find(|part| !recorded(file, **part)) {
        let what = format!("{}: part {part} is there and not recorded", name(file));
        let mend = FsckMend { bytes: None, existing_parts: Some(bitmap(present)) };
        note(problems, "part not recorded", what, Mend::Record(file.file, mend));
    }
}

fn note(problems: &mut Problems, kind: &'static str, what: String, mend: Mend) {
    problems.insert(format!("{kind}: {what}"), Problem { kind, what, mended: false, mend });
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
    if file.path.is_empty() { format!("file {}", file.file) } else { String::from_utf8_lossy(&file.path).into_owned() }
}

/// Mends one problem; whether that was possible.
fn apply(mend: &Mend, client: &Client, links: &mut BTreeMap<IodId, IodLink>) -> Result<bool, Fault> {
    match mend {
        Mend::None => Ok(false),
        Mend::Record(file, mend) => match client.fsck_mend(*file, mend.clone()) {
            Err(e) if e.status() == Status::NotFound => Ok(true),
            outcome => Ok(outcome.map(|()| true)?),
        },
        Mend::MoveToLost(iod, object) => match links.get_mut(iod) {
            Some(link) => link.call(&MoveToLost { object: *object }).map(|()| true),
            None => Ok(false),
        },
    }
}

fn print(report: &Report, mend: bool, out: Printer) {
    if out.json {
        return out.value(report);
    }
    for problem in &report.problems {
        out.line(format!("{}: {}{}", problem.kind, problem.what, if problem.mended { " (mended)" } else { "" }));
    }
    for daemon in &report.daemons_not_reached {
        out.line(format!("not checked: {daemon} was not reached"));
    }
    let (files, inodes, objects) = (report.files, report.inodes, report.objects);
    let open = report.problems.iter().filter(|p| !p.mended).count();
    out.line(format!("{inodes} inodes, {files} files, {objects} objects checked; {open} problems left"));
    if open > 0 && !mend {
        out.hint("to mend what can be mended: braid fsck --mend (nothing is deleted; objects go to lost+found)");
    }
}
