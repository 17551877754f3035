//! `braid union quota`.

use std::path::Path;

use braid_union::{QuotaLimits, QuotaOwner, QuotaRow, Reply, Request};
use serde_json::json;

use super::{Done, ask};
use crate::{
    args::{UnionOwnerArgs, UnionQuotaCommand},
    commands::{
        union::linux::shown,
        user_names::{id_of_name, name_of_id},
    },
    output::{Fault, Printer, human_bytes},
};

/// Runs one of the commands.
///
/// # Errors
/// There is no such owner; the limits cannot be written.
pub fn run(command: &UnionQuotaCommand, out: Printer) -> Done {
    match command {
        UnionQuotaCommand::Set { meta, who, bytes, inodes } => {
            set(meta, who, (*bytes, *inodes), out)
        }
        UnionQuotaCommand::List { meta } => list(meta, out),
        UnionQuotaCommand::Remove { meta, who } => remove(meta, who, out),
    }
}

fn set(
    meta: &Path,
    who: &UnionOwnerArgs,
    (bytes, inodes): (Option<u64>, Option<u64>),
    out: Printer,
) -> Done {
    let owner = owner(who)?;
    let what = || format!("setting the quota of {}", name(owner));
    if bytes.is_none() && inodes.is_none() {
        return Err(Fault::usage(what(), "no limit is named").hint("--bytes 10G or --inodes 1M"));
    }
    if matches!(owner, QuotaOwner::User(0) | QuotaOwner::Group(0)) {
        return Err(Fault::usage(what(), "root has no limits").hint("another owner"));
    }
    let before = rows(meta, out)?.into_iter().find(|row| row.owner == owner);
    let before = before.map_or_else(QuotaLimits::default, |row| row.limits);
    let pick =
        |wanted: Option<u64>, before| wanted.map_or(before, |limit| (limit != 0).then_some(limit));
    let limits =
        QuotaLimits { bytes: pick(bytes, before.bytes), inodes: pick(inodes, before.inodes) };
    ask(meta, &Request::SetQuota { owner, limits }, out)?;
    list(meta, out)
}

fn remove(meta: &Path, who: &UnionOwnerArgs, out: Printer) -> Done {
    let limits = QuotaLimits::default();
    ask(meta, &Request::SetQuota { owner: owner(who)?, limits }, out)?;
    out.next(format!("braid union quota list {}", shown(meta)));
    Ok(())
}

fn rows(meta: &Path, out: Printer) -> Done<Vec<QuotaRow>> {
    match ask(meta, &Request::Quotas, out)? {
        Reply::Quotas { rows } => Ok(rows),
        _ => Err(Fault::failed("reading the quotas", "the process gave another answer")
            .hint("the same version of braid")),
    }
}

fn list(meta: &Path, out: Printer) -> Done {
    let rows = rows(meta, out)?;
    if out.json {
        let facts = rows.iter().map(|row| {
            json!({
                "owner": name(row.owner), "bytes_limit": row.limits.bytes,
                "inodes_limit": row.limits.inodes,
                "bytes": row.usage.map(|usage| usage.bytes),
                "inodes": row.usage.map(|usage| usage.inodes),
            })
        });
        out.value(&facts.collect::<Vec<_>>());
        return Ok(());
    }
    let number =
        |number: Option<u64>, text: fn(u64) -> String| number.map_or_else(|| "-".to_owned(), text);
    let texts: Vec<Vec<String>> = rows
        .iter()
        .map(|row| {
            vec![
                name(row.owner),
                number(row.usage.map(|usage| usage.bytes), human_bytes),
                number(row.limits.bytes, human_bytes),
                number(row.usage.map(|usage| usage.inodes), |n| n.to_string()),
                number(row.limits.inodes, |n| n.to_string()),
            ]
        })
        .collect();
    out.table(&["whose", "used", "limit", "files", "limit"], &texts);
    out.next(match rows.is_empty() {
        true => format!("braid union quota set {} --user NAME --bytes 10G", shown(meta)),
        false => format!("braid union status {}", shown(meta)),
    });
    Ok(())
}

fn owner(who: &UnionOwnerArgs) -> Done<QuotaOwner> {
    let number = |database, what, name: &str| -> Done<u32> {
        let id = id_of_name(database, what, name)?;
        let id = u32::try_from(id).ok().filter(|id| *id != u32::MAX);
        id.ok_or_else(|| {
            Fault::usage(format!("reading {name}"), "it is too large").hint("a number of 32 bits")
        })
    };
    match (&who.user, &who.group) {
        (Some(user), _) => number("passwd", "user", user).map(QuotaOwner::User),
        (None, Some(group)) => number("group", "group", group).map(QuotaOwner::Group),
        (None, None) => Err(Fault::usage("choosing an owner", "none is named").hint("--user NAME")),
    }
}

fn name(owner: QuotaOwner) -> String {
    match owner {
        QuotaOwner::User(user) => format!("user {}", name_of_id("passwd", user.into())),
        QuotaOwner::Group(group) => format!("group {}", name_of_id("group", group.into())),
    }
}
