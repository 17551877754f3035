//! Users and groups with a quota, through two mounts: the owner of the files is limited, others are
//! not affected, and files that change their owner count for the new one.

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
use braid_testbed::wait::until;
use rustix::{
    fs::{Gid, Uid},
    thread::{set_thread_groups, set_thread_res_gid, set_thread_res_uid},
};

use super::{AHEAD, LIMIT, LIMIT_WORD, MIB, fill, refused};
use crate::{cases::Outcome, stage::TestCluster};

/// Bytes that others without a limit write.
const OTHERS: u64 = 4 * MIB;
/// The user's limit of files.
const INODES: u64 = 8;
/// Maximum time until the sizes of closed files are collected and known.
const KNOWN_MAX: Duration = Duration::from_secs(60);

/// A user, its primary group, and another group of it. No other user of the file system has these
/// numbers.
#[derive(Clone, Copy)]
struct Owner {
    uid: u32,
    gid: u32,
    also: u32,
}

/// Has the limit of a user.
const ALICE: Owner = Owner { uid: 61_001, gid: 61_101, also: 61_101 };
/// Has no limit.
const BOB: Owner = Owner { uid: 61_002, gid: 61_102, also: 61_102 };
/// The group with a limit, and one without.
const STAFF: u32 = 61_103;
const FREE: u32 = 61_104;
const CAROL: Owner = Owner { uid: 61_003, gid: STAFF, also: FREE };
const DAVE: Owner = Owner { uid: 61_004, gid: STAFF, also: FREE };

impl Owner {
    /// The same user; its files get its other group.
    fn in_its_other_group(self) -> Self {
        Self { gid: self.also, also: self.gid, ..self }
    }

    /// Runs `work` in a thread as this user, without root's rights.
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

    /// Writes this much of a file, or up to the quota; returns how much.
    fn fills(self, path: &Path, bytes: u64) -> Result<u64> {
        self.does(|| fill(path, bytes))
            .with_context(|| format!("user {} writes {}", self.uid, path.display()))
    }
}

/// The usage that is counted.
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
            format!("{id} has {bytes} bytes, but recorded and in flight are {last:?}")
        })
    }
}

/// The case of a user.
pub fn user(stage: &TestCluster) -> Result<Outcome> {
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
        over.context("overwrite existing bytes")
    })?;
    // A file counts for its owner, not for the writer.
    refused(append(&here.join("mine"))).context("root, to a file of the user's")?;
    let names = || (0..INODES).map(|number| there.join(format!("inode{number}")));
    ALICE
        .does(|| refused(names().try_for_each(|path| File::create(path).map(drop))))
        .context("the inode too many")?;
    for dir in [&here, &there] {
        let path = dir.join(format!("of-another-{}", u8::from(*dir == there)));
        ensure!(BOB.fills(&path, OTHERS)? == OTHERS, "a user without a limit is refused");
    }

    chown(here.join("theirs"), Some(BOB.uid), None)?;
    usage.is(QuotaKind::User, ALICE.uid, mine)?;
    usage.is(QuotaKind::User, BOB.uid, theirs + 2 * OTHERS)?;
    ensure!(ALICE.fills(&there.join("again"), MIB)? == MIB, "a file of another owner still counts");
    chown(there.join("theirs"), Some(ALICE.uid), None)
        .context("root gives more than the limit allows")?;
    usage.is(QuotaKind::User, ALICE.uid, mine + theirs + MIB)?;
    ALICE.does(|| refused(append(&here.join("again")))).context("above the limit")?;
    stage.cluster.administer(["quota", "remove", "--user", &id])?;
    ensure!(ALICE.fills(&here.join("again"), LIMIT)? == LIMIT, "refused without a quota");
    Ok(over(mine, theirs))
}

/// The case of a group.
pub fn group(stage: &TestCluster) -> Result<Outcome> {
    let (here, there) = open_to_all(stage, "quota-group")?;
    let usage = Usage { client: stage.cluster.client()? };
    let id = STAFF.to_string();
    stage.cluster.administer(["quota", "set", "--group", &id, "--bytes", LIMIT_WORD])?;

    let one = CAROL.fills(&here.join("one"), LIMIT / 2)?;
    let other = DAVE.fills(&there.join("other"), LIMIT)?;
    is_near_the_limit(one, other)?;
    usage.is(QuotaKind::Group, STAFF, one + other)?;
    CAROL.does(|| refused(append(&there.join("one"))))?;
    // The same users, in a group without a limit.
    let apart = CAROL.in_its_other_group().fills(&there.join("apart"), OTHERS)?;
    ensure!(apart == OTHERS, "files of another group are refused");
    // A change of owner moves the recorded size of a file.
    usage.is(QuotaKind::Group, FREE, apart)?;
    CAROL
        .does(|| refused(chown(here.join("apart"), None, Some(STAFF))))
        .context("chgrp beyond the limit")?;

    chown(there.join("other"), None, Some(FREE))?;
    usage.is(QuotaKind::Group, STAFF, one)?;
    usage.is(QuotaKind::Group, FREE, apart + other)?;
    CAROL
        .does(|| Ok(chown(here.join("apart"), None, Some(STAFF))?))
        .context("chgrp within the limit")?;
    usage.is(QuotaKind::Group, STAFF, one + apart)?;
    ensure!(DAVE.fills(&here.join("again"), MIB)? == MIB, "a file of another owner still counts");
    stage.cluster.administer(["quota", "remove", "--group", &id])?;
    ensure!(DAVE.fills(&there.join("again"), LIMIT)? == LIMIT, "refused without a quota");
    Ok(over(one, other))
}

/// A directory in which every user may create files, through the first mount and the last.
fn open_to_all(stage: &TestCluster, name: &str) -> Result<(PathBuf, PathBuf)> {
    let mut dirs = stage.dirs(name)?;
    fs::set_permissions(&dirs[0], PermissionsExt::from_mode(0o777))?;
    let there = dirs.pop().context("there is no mount")?;
    Ok((dirs.into_iter().next().unwrap_or_else(|| there.clone()), there))
}

/// Two mounts filled the quota: up to the limit, and beyond it by no more than docs/quota.md
/// allows.
fn is_near_the_limit(one: u64, other: u64) -> Result<()> {
    let all = one + other;
    ensure!(one == LIMIT / 2, "of {LIMIT} bytes {one} were written, then refused");
    ensure!((LIMIT - MIB..=LIMIT + 2 * AHEAD).contains(&all), "{one} and {other} bytes of {LIMIT}");
    Ok(())
}

/// Appends a MiB.
fn append(path: &Path) -> std::io::Result<()> {
    OpenOptions::new().append(true).open(path)?.write_all(&[3; MIB as usize])
}

fn over(one: u64, other: u64) -> Outcome {
    Outcome::Passed(format!("{} KiB over the limit", (one + other).saturating_sub(LIMIT) / 1024))
}
