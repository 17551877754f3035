//! `braid fsck`: online; reports only, unless told to mend; never deletes.
//!
//! ```text
//!   namespace: each shard, by the metadata server itself: names, link counts, reachability
//!   usage:     each shard, counted anew by the metadata server, against what quotas are held to
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
    mds::{FsckFile, FsckMend, FsckProblem, FsckProblemKind},
    quota::{QuotaDifference, QuotaKind},
    types::{IodState, ObjectRecord},
};
use serde::Serialize;

use crate::{
    admin::{self, IodLink},
    config::Settings,
    output::{Exit, Fault, Printer, quoted},
};

/// Problems that advice is printed for; `--json` has it for all.
const ADVICE_MAX: usize = 5;
/// Objects asked for at once.
const PAGE: u32 = 1000;

/// Of what somebody else put into a daemon's directory.
const STRANGER: &str =
    "look what it is and move it out of the daemon's directory; nothing here uses it";
/// Of what only another copy of the metadata could mend.
const RECORD_LOST: &str =
    "the metadata directory is damaged: stop the metadata server and put a backup of it in place";

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
    /// What a person can do where nothing here can.
    #[serde(rename = "try", skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
    #[serde(skip)]
    mend: Mend,
}

/// What would mend it.
#[derive(Clone, PartialEq)]
enum Mend {
    /// The metadata server does, when it is told to while it checks.
    Names,
    /// Nothing that is here can.
    Impossible,
    MoveToLost(IodId, ObjectId),
    /// If the file's record is still this one.
    Record(Box<FsckFile>, FsckMend),
}

/// Lists the files of which an I/O daemon has a part, or may have one: what is lost with it.
pub fn affected_by(iod: u32, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = admin::client(settings)?;
    if !client.cluster_map()?.iods.iter().any(|known| known.id == IodId(iod)) {
        let (what, why) = (
            format!("looking for parts on I/O daemon {iod}"),
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

/// Checks, prints, and says by the exit code whether all is well.
pub fn fsck(mend: bool, settings: &Settings, out: Printer) -> Result<ExitCode, Fault> {
    let secret = admin::server_key(settings)?.ok_or_else(|| {
        Fault::new(
            Exit::Refused,
            "checking objects",
            "I/O daemons list them to a holder of the server key only",
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
        out.hint("the file system is clean: the mark of the salvage or the load is taken off");
    }
    Ok(if unmended { ExitCode::from(Exit::Problems as u8) } else { ExitCode::SUCCESS })
}

/// Names, link counts, reachability.
fn check_names(client: &Client, mend: bool, report: &mut Report) -> Result<(), Fault> {
    for shard in client.fsck_shards()? {
        let reply = client.fsck_namespace(shard, mend)?;
        report.inodes += reply.inodes;
        report.problems.extend(reply.problems.into_iter().map(name_problem));
    }
    Ok(())
}

/// Usage on record against the inodes, for quotas.
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
        "{whose} {}: {} bytes and {} inodes on record, counted {} and {}",
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
        _ => ("unknown to this version", Mend::Impossible, None),
    };
    Problem { kind, what, mended, advice: advice.map(str::to_owned), mend }
}

fn connect_all(
    client: &Client,
    secret: &braid_wire::Secret,
    settings: &Settings,
    report: &mut Report,
) -> Result<(BTreeMap<IodId, IodLink>, BTreeSet<IodId>), Fault> {
    let (mut links, mut removed) = (BTreeMap::new(), BTreeSet::new());
    for iod in client.cluster_map()?.iods {
        if iod.state == IodState::Removed {
            removed.insert(iod.id);
            continue;
        }
        let link = if iod.state == IodState::Down {
            None
        } else {
            IodLink::connect(&iod, secret, settings).ok()
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

/// Every object that exists, where.
type Objects = HashMap<(IodId, ObjectId), Found>;

/// What of an object matters to its file.
#[derive(Clone, Copy)]
struct Found {
    bytes: u64,
    lost_from: Option<u64>,
}

/// Problems by a key that stays the same when they are found again.
type Problems = BTreeMap<String, Problem>;

fn check_objects(
    client: &Client,
    links: &mut BTreeMap<IodId, IodLink>,
    removed: &BTreeSet<IodId>,
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
                check_file(file, &objects, (links, removed), &mut problems);
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
                note(problems, "object without a file", what, Mend::MoveToLost(*iod, orphan), None);
            }
            for stranger in &page.strangers {
                let what = format!(
                    "{} on I/O daemon {iod} is not an object",
                    String::from_utf8_lossy(stranger)
                );
                note(problems, "stranger", what, Mend::Impossible, Some(STRANGER.to_owned()));
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

/// One file against the objects of its layout.
fn check_file(
    file: &FsckFile,
    objects: &Objects,
    (links, removed): (&BTreeMap<IodId, IodLink>, &BTreeSet<IodId>),
    problems: &mut Problems,
) {
    let mut ends = Vec::new();
    let mut present = BTreeSet::new();
    let mut whole = true;
    for (part, placement) in file.layout.placements() {
        let Some(iod) = placement.iods.first() else { continue };
        if removed.contains(iod) {
            // A part that never was there is no loss.
            if recorded(file, part) {
                gone(file, part, *iod, problems);
                whole = false;
            }
            continue;
        }
        if !links.contains_key(iod) {
            return; // its daemon was not reached, and that is reported
        }
        let object = ObjectId { file: file.file, part, generation: placement.generation };
        match objects.get(&(*iod, object)) {
            Some(found) => {
                if let Some(from) = found.lost_from {
                    cut_short(file, (part, object, *iod), (from, found.bytes), problems);
                    whole = false;
                }
                ends.push((part, found.bytes));
                present.insert(part);
            }
            None if recorded(file, part) => {
                missing(file, part, object, *iod, problems);
                whole = false;
            }
            None => {}
        }
    }
    if file.size_in_objects {
        return;
    }
    // What is left of a file says nothing of its size: it would lose its end without a word (I11).
    if whole {
        check_size(file, &ends, problems);
    }
    check_parts(file, &present, problems);
}

/// Given up with its daemon.
fn gone(file: &FsckFile, part: PartIndex, iod: IodId, problems: &mut Problems) {
    let (name, path) = (name(file), quoted(&name(file)));
    let what = format!("{name}: part {part} went with I/O daemon {iod}, which was removed");
    let advice = format!(
        "what is left: braid get {path} FILE; then braid rm {path}, and braid put COPY {path}"
    );
    note(problems, "part lost", what, Mend::Impossible, Some(advice));
}

/// There is one copy of the bytes: nobody can bring them back from here.
fn missing(
    file: &FsckFile,
    part: PartIndex,
    object: ObjectId,
    iod: IodId,
    problems: &mut Problems,
) {
    let what =
        format!("{}: part {part} (object {object}) is missing on I/O daemon {iod}", name(file));
    note(problems, "object missing", what, Mend::Impossible, Some(put_again(file, iod)));
}

/// What is left of it can be read.
fn cut_short(
    file: &FsckFile,
    (part, object, iod): (PartIndex, ObjectId, IodId),
    (from, bytes): (u64, u64),
    problems: &mut Problems,
) {
    let where_it_is = format!("{}: part {part} (object {object}) on I/O daemon {iod}", name(file));
    let (kind, what) = match bytes {
        0 => ("object unreadable", format!("{where_it_is} has a damaged record")),
        _ => {
            ("object cut short", format!("{where_it_is} ends at byte {from}, {bytes} were flushed"))
        }
    };
    note(problems, kind, what, Mend::Impossible, Some(put_again(file, iod)));
}

fn put_again(file: &FsckFile, iod: IodId) -> String {
    let path = quoted(&name(file));
    format!(
        "bring the disk of I/O daemon {iod} back as it was, or put the file again: braid rm {path}, then braid put COPY {path}"
    )
}

fn check_size(file: &FsckFile, ends: &[(PartIndex, u64)], problems: &mut Problems) {
    let Ok(bytes) = file.layout.file_size_from_objects(ends) else { return };
    if bytes != file.bytes.0 {
        let what = format!("{}: recorded size {}, its objects say {bytes}", name(file), file.bytes);
        let mend = FsckMend { bytes: Some(ByteCount(bytes)), existing_parts: None };
        note(problems, "size disagrees", what, Mend::Record(Box::new(file.clone()), mend), None);
    }
}

fn check_parts(file: &FsckFile, present: &BTreeSet<PartIndex>, problems: &mut Problems) {
    if let Some(part) = present.iter().find(|part| !recorded(file, **part)) {
        let what = format!("{}: part {part} is there and not recorded", name(file));
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

/// Mends one problem; whether that was possible.
fn apply(
    mend: &Mend,
    client: &Client,
    links: &mut BTreeMap<IodId, IodLink>,
) -> Result<bool, Fault> {
    match mend {
        Mend::Names | Mend::Impossible => Ok(false),
        Mend::Record(file, _) if !is_as_it_was(file, client)? => Ok(false),
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

/// Whether nobody wrote or cut a file since it was held against its objects.
fn is_as_it_was(file: &FsckFile, client: &Client) -> Result<bool, Fault> {
    let before = FileIndex(file.file.0.saturating_sub(1));
    let now = client.fsck_files(file.file.shard(), before, 1)?;
    // It may have another name.
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
        out.line(format!("not checked: {daemon} was not reached"));
    }
    let (files, inodes, objects) = (report.files, report.inodes, report.objects);
    let open = report.problems.iter().filter(|p| !p.mended).count();
    out.line(format!(
        "{inodes} inodes, {files} files, {objects} objects checked; {open} problems left"
    ));
    next(report, mend, out);
}

/// What to type for what is left: mending first, then what only a person can do.
fn next(report: &Report, mend: bool, out: Printer) {
    let left = || report.problems.iter().filter(|problem| !problem.mended);
    if !mend && left().any(|problem| problem.mend != Mend::Impossible) {
        out.next("braid fsck --mend    (nothing is deleted: what nobody knows goes to lost+found)");
    } else if mend && left().any(|problem| problem.mend != Mend::Impossible) {
        out.next("braid fsck --mend    (once more: what changed meanwhile was left alone)");
    } else if report.problems.iter().any(|problem| problem.kind == "unreachable") {
        out.next("braid ls -l /lost+found    (as root)");
    }
    let mut told = BTreeSet::new();
    for problem in left().filter(|problem| problem.advice.is_some()).take(ADVICE_MAX) {
        let advice = problem.advice.as_deref().unwrap_or_default();
        if told.insert(advice) {
            out.hint(format!("{} cannot be mended from here; try: {advice}", problem.kind));
        }
    }
    if !report.daemons_not_reached.is_empty() {
        out.next("braid status    (start the daemons that are down, then braid fsck again)");
    }
}
