//! `braid quota set|get|list|remove`.

use braid_client::Client;
use braid_types::FileIndex;
use braid_wire::message::{
    FileKind,
    quota::{QuotaBound, QuotaKind, QuotaLimits, QuotaOwner, QuotaReport},
};
use serde_json::{Value, json};

use crate::{
    admin,
    args::{QuotaCommand, QuotaLimitArgs, QuotaTargetArgs},
    commands::user_names::{id_of_name, name_of_id},
    config::Settings,
    connect,
    output::{Exit, Fault, Printer, human_bytes, quoted},
};

/// Runs one of the commands.
pub fn run(command: &QuotaCommand, settings: &Settings, out: Printer) -> Result<(), Fault> {
    match command {
        QuotaCommand::Set { who, limits } => set(who, limits, settings, out),
        QuotaCommand::Get { who } => {
            let client = connect::client(settings)?;
            let report = client.quota(owner(&client, who)?)?;
            show(&[report], out);
            out.next("braid quota list    (all owners, as an administrator)");
            Ok(())
        }
        QuotaCommand::List { all } => list(*all, settings, out),
        QuotaCommand::Remove { who } => remove(who, settings, out),
    }
}

fn set(
    who: &QuotaTargetArgs,
    limits: &QuotaLimitArgs,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    let client = admin::client(settings)?;
    let owner = owner(&client, who)?;
    let before = client.quota(owner.clone())?.limits;
    let wanted = merged(limits, before);
    if limits.grace.is_some() && wanted.bytes.soft.is_none() && wanted.inodes.soft.is_none() {
        let why = "a grace time belongs to a soft limit, and there is none";
        return Err(Fault::usage(format!("setting the quota of {}", name(who)), why)
            .hint("--soft-bytes SIZE or --soft-inodes N beside --grace"));
    }
    let report = client.quota_set(owner.clone(), wanted)?;
    let report = if report.complete { report } else { count(&client, owner, out)? };
    show(&[report], out);
    out.next(format!("braid quota get {}", flag(who)));
    Ok(())
}

/// Counts the current contents of a directory for its quota.
fn count(client: &Client, owner: QuotaOwner, out: Printer) -> Result<QuotaReport, Fault> {
    let dir = FileIndex(owner.id);
    out.hint("counting the contents of the directory");
    client.quota_walk(dir)?;
    client.quota_walked(dir)?;
    Ok(client.quota(owner)?)
}

/// Limits that are not named do not change; 0 removes a limit.
fn merged(wanted: &QuotaLimitArgs, before: Option<QuotaLimits>) -> QuotaLimits {
    let none = QuotaBound { hard: None, soft: None };
    let before = before.unwrap_or(QuotaLimits {
        bytes: none.clone(),
        inodes: none,
        grace_seconds: GRACE_SECONDS,
    });
    let pick = |wanted: Option<u64>, before: Option<u64>| {
        wanted.map_or(before, |limit| (limit != 0).then_some(limit))
    };
    QuotaLimits {
        bytes: QuotaBound {
            hard: pick(wanted.bytes, before.bytes.hard),
            soft: pick(wanted.soft_bytes, before.bytes.soft),
        },
        inodes: QuotaBound {
            hard: pick(wanted.inodes, before.inodes.hard),
            soft: pick(wanted.soft_inodes, before.inodes.soft),
        },
        grace_seconds: wanted.grace.unwrap_or(before.grace_seconds),
    }
}

/// The default grace time of XFS and ext4.
const GRACE_SECONDS: u64 = 7 * 24 * 3600;

fn list(all: bool, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = admin::client(settings)?;
    let (mut found, mut after) = (Vec::new(), None);
    loop {
        let page = client.quotas(after)?;
        let Some(last) = page.last() else { break };
        after = Some(last.owner.clone());
        found.extend(page.into_iter().filter(|report| all || report.limits.is_some()));
    }
    show(&found, out);
    match found.is_empty() {
        true => out.next("braid quota set --user NAME --bytes 10G    (no limits are set)"),
        false => out.next("braid quota set, or braid quota remove, with --user, --group or --dir"),
    }
    Ok(())
}

fn remove(who: &QuotaTargetArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = admin::client(settings)?;
    let owner = owner(&client, who)?;
    let had = client.quota_remove(owner.clone())?;
    let moved = match owner.kind {
        // Also where no limits were set: it continues an interrupted walk.
        QuotaKind::Directory => client.quota_walk(FileIndex(owner.id))?,
        _ => 0,
    };
    if !had && moved == 0 {
        let what = format!("removing the quota of {}", name(who));
        return Err(Fault::new(Exit::NotFound, what, "it has none").hint("braid quota list"));
    }
    if out.json {
        out.value(&json!({ "removed": had }));
    } else {
        out.hint(format!("{} has no limits now", name(who)));
        out.next("braid quota list");
    }
    Ok(())
}

fn owner(client: &Client, who: &QuotaTargetArgs) -> Result<QuotaOwner, Fault> {
    if let Some(path) = &who.dir {
        let found = client.stat(path)?;
        if found.kind != FileKind::Directory {
            let what = format!("quota of {path}");
            return Err(
                Fault::usage(what, "not a directory").hint("--user NAME for the files of a user")
            );
        }
        return Ok(QuotaOwner { kind: QuotaKind::Directory, id: found.file.0 });
    }
    match (&who.user, &who.group) {
        (Some(user), _) => {
            Ok(QuotaOwner { kind: QuotaKind::User, id: id_of_name("passwd", "user", user)? })
        }
        (_, Some(group)) => {
            Ok(QuotaOwner { kind: QuotaKind::Group, id: id_of_name("group", "group", group)? })
        }
        _ => Err(Fault::usage("quota", "no owner is given")
            .hint("--user NAME, --group NAME or --dir PATH")),
    }
}

fn name(who: &QuotaTargetArgs) -> String {
    let all = [("user", &who.user), ("group", &who.group), ("directory", &who.dir)];
    let named =
        all.iter().find_map(|(what, name)| name.as_ref().map(|name| format!("{what} {name}")));
    named.unwrap_or_default()
}

fn flag(who: &QuotaTargetArgs) -> String {
    let all = [("--user", &who.user), ("--group", &who.group), ("--dir", &who.dir)];
    let flag = all
        .iter()
        .find_map(|(flag, name)| name.as_ref().map(|name| format!("{flag} {}", quoted(name))));
    flag.unwrap_or_default()
}

fn show(reports: &[QuotaReport], out: Printer) {
    if out.json {
        return out.value(&reports.iter().map(facts).collect::<Vec<_>>());
    }
    let rows: Vec<_> = reports.iter().map(row).collect();
    out.table(&["WHOSE", "USED", "SOFT", "LIMIT", "INODES", "SOFT", "LIMIT", "NOTE"], &rows);
}

fn row(report: &QuotaReport) -> Vec<String> {
    let limit =
        |limit: Option<u64>, text: fn(u64) -> String| limit.map_or_else(|| "-".to_owned(), text);
    let limits = report.limits.clone();
    let (bytes, inodes) =
        limits.map_or((None, None), |limits| (Some(limits.bytes), Some(limits.inodes)));
    let of = |bound: &Option<QuotaBound>, hard: bool| {
        bound.as_ref().and_then(|b| if hard { b.hard } else { b.soft })
    };
    vec![
        owner_name(report),
        human_bytes(report.bytes.saturating_add(report.bytes_in_flight)),
        limit(of(&bytes, false), human_bytes),
        limit(of(&bytes, true), human_bytes),
        report.inodes.to_string(),
        limit(of(&inodes, false), |n| n.to_string()),
        limit(of(&inodes, true), |n| n.to_string()),
        note(report),
    ]
}

fn owner_name(report: &QuotaReport) -> String {
    let QuotaOwner { kind, id } = report.owner;
    match kind {
        QuotaKind::User => format!("user {}", name_of_id("passwd", id)),
        QuotaKind::Group => format!("group {}", name_of_id("group", id)),
        _ if report.path.is_empty() => format!("directory {id} (removed)"),
        _ => format!("directory {}", String::from_utf8_lossy(&report.path)),
    }
}

fn note(report: &QuotaReport) -> String {
    let mut words = Vec::new();
    let over = report.bytes_over_since.is_some() || report.inodes_over_since.is_some();
    if over {
        words.push("above a soft limit");
    }
    if !report.complete {
        words.push("counting: repeat the same set to complete it");
    }
    words.join(", ")
}

fn facts(report: &QuotaReport) -> Value {
    let kind = match report.owner.kind {
        QuotaKind::User => "user",
        QuotaKind::Group => "group",
        _ => "directory",
    };
    let bound = |bound: &QuotaBound| json!({ "hard": bound.hard, "soft": bound.soft });
    json!({
        "kind": kind, "id": report.owner.id, "path": String::from_utf8_lossy(&report.path),
        "bytes": report.bytes, "bytes_in_flight": report.bytes_in_flight, "inodes": report.inodes,
        "limits": report.limits.as_ref().map(|limits| json!({
            "bytes": bound(&limits.bytes), "inodes": bound(&limits.inodes),
            "grace_seconds": limits.grace_seconds })),
        "bytes_over_since": report.bytes_over_since.map(|since| since.seconds),
        "inodes_over_since": report.inodes_over_since.map(|since| since.seconds),
        "complete": report.complete,
    })
}
