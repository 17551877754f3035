//! Users and groups with a quota, by two mounts: whoever makes files that count is held to it, others are not hindered, and what is
//! given to somebody else counts there.

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::{FileExt, PermissionsExt, chown},
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context, Result, anyhow, ensure};
use braid_client::{
    Client,
    message::quota::{QuotaKind, QuotaOwner},
};
use rustix::{
    fs::{Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::{AHEAD, LIMIT, LIMIT_WORD, MIB, fill, refused};
use crate::{
    cases::Outcome,
    stage::{Stage, until},
};

/// What others write, who have no limit.
const OTHERS: u64 = 4 * MIB;
/// Files of the user that has a limit of them.
const INODES: u64 = 8;
/// The longest until the sizes of what was closed are asked for and known.
const KNOWN_MAX: Duration = Duration::from_secs(60);

/// Somebody: a user, the group that its files get, and another one that it is in. Nobody else of the file system has these numbers.
#[derive(Clone, Copy)]
struct Person {
    uid: u32,
    gid: u32,
    also: u32,
}

/// Has the limit of a user.
const ALICE: Person = Person { uid: 61_001, gid: 61_101, also: 61_101 };
/// Has none.
const BOB: Person = Person { uid: 61_002, gid: 61_102, also: 61_102 };
/// The group that has a limit, and one that has none.
const STAFF: u32 = 61_103;
const FREE: u32 = 61_104;
const CAROL: Person = Person { uid: 61_003, gid: STAFF, also: FREE };
const DAVE: Person = Person { uid: 61_004, gid: STAFF, also: FREE };

impl Person {
    /// The same, and its files get its other group.
    fn in_its_other_group(self) -> Self {
        Self { gid: self.also, also: self.gid, ..self }
    }

    /// Does it in a thread that is this person, with no right of root's left.
    fn does<T: Send>(self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let (uid, gid) = (Uid::from_raw(self.uid), Gid::from_raw(self.gid));
                set_thread_groups(&[gid, Gid::from_raw(self.also)])?;
                set_thread_res_gid(gid, gid, gid)?;
                set_thread_res_uid(uid, uid, uid)?;
                work()
            });
            thread.join().map_err(|_| anyhow!("the thread of user {} panicked", self.uid))?
        })
    }

    /// Writes so much of a file, or up to what the quota allows: how much.
    fn fills(self, path: &Path, bytes: u64) -> Result<u64> {
        self.does(|| fill(path, bytes))
            .with_context(|| format!("user {} writes {}", self.uid, path.display()))
    }
}

/// What is counted for whom.
struct Usage {
    client: Client,
}

impl Usage {
    fn is(&self, kind: QuotaKind, id: u32, bytes: u64) -> Result<()> {
        let mut last = None;
        let so = until("usage is what the files have", KNOWN_MAX, || {
            let report = self.client.quota(QuotaOwner { kind, id: id.into() })?;
            last = Some((report.bytes, report.bytes_in_flight));
            Ok(report.bytes + report.bytes_in_flight == bytes)
        });
        so.map(drop).with_context(|| {
            format!("{id} has {bytes} bytes, and on record and in flight are {last:?}")
        })
    }
}

/// The case of a user.
pub fn user(stage: &Stage) -> Result<Outcome> {
    let (here, there) = open_to_all(stage, "quota-user")?;
    let usage = Usage { client: stage.cluster.client()? };
    let id = ALICE.uid.to_string();
    let inodes = INODES.to_string();
    stage
        .cluster
        .administer(["quota", "set", "--user", &id, "--bytes", LIMIT_WORD, "--inodes", &inodes])?;

    let mine = ALICE.fills(&here.join("mine"), LIMIT / 2)?;
    let theirs = ALICE.fills(&there.join("theirs"), LIMIT)?;
    is_near_the_limit(mine, theirs)?;
    usage.is(QuotaKind::User, ALICE.uid, mine + theirs)?;
    ALICE.does(|| {
        refused(
            File::create(here.join("more")).and_then(|mut file| file.write_all(&[1; MIB as usize])),
        )?;
        refused(OpenOptions::new().write(true).open(here.join("mine"))?.set_len(2 * LIMIT))?;
        let over =
            OpenOptions::new().write(true).open(there.join("mine"))?.write_all_at(&[2; 4096], 0);
        over.context("writing over what is there")
    })?;
    // A file counts for who owns it, whoever writes.
    refused(append(&here.join("mine"))).context("root, to a file of the user's")?;
    let names = || (0..INODES).map(|number| there.join(format!("inode{number}")));
    ALICE
        .does(|| refused(names().try_for_each(|path| File::create(path).map(drop))))
        .context("the inode too many")?;
    for dir in [&here, &there] {
        let path = dir.join(format!("of-another-{}", u8::from(*dir == there)));
        ensure!(BOB.fills(&path, OTHERS)? == OTHERS, "who has no limit is refused");
    }

    chown(here.join("theirs"), Some(BOB.uid), None)?;
    usage.is(QuotaKind::User, ALICE.uid, mine)?;
    usage.is(QuotaKind::User, BOB.uid, theirs + 2 * OTHERS)?;
    ensure!(ALICE.fills(&there.join("again"), MIB)? == MIB, "what was given away counts on");
    chown(there.join("theirs"), Some(ALICE.uid), None)
        .context("root gives more than there is room for")?;
    usage.is(QuotaKind::User, ALICE.uid, mine + theirs + MIB)?;
    ALICE.does(|| refused(append(&here.join("again")))).context("above the limit")?;
    stage.cluster.administer(["quota", "remove", "--user", &id])?;
    ensure!(ALICE.fills(&here.join("again"), LIMIT)? == LIMIT, "refused without a quota");
    Ok(over(mine, theirs))
}

/// The case of a group.
pub fn group(stage: &Stage) -> Result<Outcome> {
    let (here, there) = open_to_all(stage, "quota-group")?;
    let usage = Usage { client: stage.cluster.client()? };
    let id = STAFF.to_string();
    stage.cluster.administer(["quota", "set", "--group", &id, "--bytes", LIMIT_WORD])?;

    let one = CAROL.fills(&here.join("one"), LIMIT / 2)?;
    let other = DAVE.fills(&there.join("other"), LIMIT)?;
    is_near_the_limit(one, other)?;
    usage.is(QuotaKind::Group, STAFF, one + other)?;
    CAROL.does(|| refused(append(&there.join("one"))))?;
    // The same people, in a group without a limit.
    let apart = CAROL.in_its_other_group().fills(&there.join("apart"), OTHERS)?;
    ensure!(apart == OTHERS, "files of another group are refused");
    // What a file is given away with is its size on record.
    usage.is(QuotaKind::Group, FREE, apart)?;
    CAROL
        .does(|| refused(chown(here.join("apart"), None, Some(STAFF))))
        .context("chgrp without room")?;

    chown(there.join("other"), None, Some(FREE))?;
    usage.is(QuotaKind::Group, STAFF, one)?;
    usage.is(QuotaKind::Group, FREE, apart + other)?;
    CAROL
        .does(|| Ok(chown(here.join("apart"), None, Some(STAFF))?))
        .context("chgrp where there is room")?;
    usage.is(QuotaKind::Group, STAFF, one + apart)?;
    ensure!(DAVE.fills(&here.join("again"), MIB)? == MIB, "what was given away counts on");
    stage.cluster.administer(["quota", "remove", "--group", &id])?;
    ensure!(DAVE.fills(&there.join("again"), LIMIT)? == LIMIT, "refused without a quota");
    Ok(over(one, other))
}

/// A directory in which everybody may make files, by the first mount and the last.
fn open_to_all(stage: &Stage, name: &str) -> Result<(PathBuf, PathBuf)> {
    let mut dirs = stage.dirs(name)?;
    fs::set_permissions(&dirs[0], PermissionsExt::from_mode(0o777))?;
    let there = dirs.pop().context("there is no mount")?;
    Ok((dirs.into_iter().next().unwrap_or_else(|| there.clone()), there))
}

/// Two mounts filled it up: not less than there was room for, and over it by no more than docs/quota.md says.
fn is_near_the_limit(one: u64, other: u64) -> Result<()> {
    let all = one + other;
    ensure!(one == LIMIT / 2, "of {LIMIT} bytes {one} were written, then refused");
    ensure!((LIMIT - MIB..=LIMIT + 2 * AHEAD).contains(&all), "{one} and {other} bytes of {LIMIT}");
    Ok(())
}

/// A MiB behind the end.
fn append(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(&[3; MIB as usize])
}

fn over(one: u64, other: u64) -> Outcome {
    Outcome::Passed(format!("{} KiB over the limit", (one + other).saturating_sub(LIMIT) / 1024))
}
