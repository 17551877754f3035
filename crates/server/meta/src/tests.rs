//! Tests of the whole crate, and their shared helpers.

mod acl;
mod basics;
mod crash;
mod engine;
mod folded;
mod import;
mod modes;
mod names;
mod nfs4_acl;
mod opens;
mod permissions;
mod property;
mod quota;
mod readdir;
mod rename;
mod replay;
mod salvage;
mod unnamed;

use std::sync::Arc;

use braid_layout::{ChecksumKind, Component, Distribution, Layout, PartPlacement, Redundancy};
use braid_types::{
    ClusterUuid, Failure, FileIndex, FileOffset, IodId, LayoutVersion, ObjectGeneration, SessionId,
    Status, Timestamp,
};

use crate::record::{DirectoryDefault, FileKind, Inode};
use crate::{
    Call, CreateArgs, Created, Identity, MemoryStore, MetaStore, Namespace, Options, Replay,
};

/// Tests run with at least 8 shards.
pub(crate) const SHARDS: u16 = 8;
pub(crate) const ROOT: FileIndex = FileIndex::ROOT;

/// A regular file owned by root.
pub(crate) fn sample_inode(file: FileIndex) -> Inode {
    let like = crate::namespace::root(Timestamp::default());
    Inode {
        file,
        kind: FileKind::Regular,
        mode: 0o644,
        nlink: 1,
        layout: Some(Arc::new(layout(4))),
        ..like
    }
}

/// A stripe of 1 MiB over `iods` I/O daemons.
pub(crate) fn layout(parts: u32) -> Layout {
    let part = |n| PartPlacement { generation: ObjectGeneration(0), iods: vec![IodId(n + 1)] };
    Layout {
        version: LayoutVersion(1),
        components: vec![Component {
            start: FileOffset(0),
            end: FileOffset::MAX,
            distribution: Distribution::SimpleStripe { stripe_size: 1 << 20 },
            first_part: 0,
            parts: (0..parts).map(part).collect(),
        }],
        redundancy: Redundancy::None,
        checksum: ChecksumKind::None,
    }
}

pub(crate) fn place(_: Option<&DirectoryDefault>, _: FileIndex) -> Result<Layout, Failure> {
    Ok(layout(4))
}

/// A new namespace in memory and its store.
pub(crate) fn memory() -> (Arc<MemoryStore>, Namespace) {
    let store = Arc::new(MemoryStore::new());
    let namespace = fresh(store.clone());
    (store, namespace)
}

pub(crate) fn fresh(store: Arc<dyn MetaStore>) -> Namespace {
    Namespace::format(&*store, ClusterUuid([7; 16]), SHARDS, at(0)).unwrap();
    open(store)
}

pub(crate) fn open(store: Arc<dyn MetaStore>) -> Namespace {
    Namespace::open(store, Options { cached_inodes_max: 256, ..Options::default() }).unwrap()
}

pub(crate) fn at(seconds: i64) -> Timestamp {
    Timestamp { seconds, nanos: 5 }
}

pub(crate) fn user(uid: u64) -> Identity {
    Identity { uid, gid: uid, ..Identity::root() }
}

pub(crate) fn call(who: &Identity) -> Call<'_> {
    Call { who, now: at(100), replay: None }
}

pub(crate) fn replayed(who: &Identity, slot: u32, sequence: u64) -> Call<'_> {
    Call {
        who,
        now: at(100),
        replay: Some(Replay { session: SessionId(9), slot, sequence, request: 1 }),
    }
}

pub(crate) fn create(
    ns: &Namespace,
    call: &Call<'_>,
    directory: FileIndex,
    name: &[u8],
) -> Result<Created, Failure> {
    ns.create(
        call,
        directory,
        name,
        CreateArgs { mode: 0o644.into(), exclusive: true, open: None, place },
    )
}

/// The status of a failure.
pub(crate) fn status<T: std::fmt::Debug>(result: Result<T, Failure>) -> Status {
    result.map_or_else(|failure| failure.status, |value| panic!("{value:?} instead of a failure"))
}

/// Every name of a directory, read in pages of a few entries.
pub(crate) fn names(ns: &Namespace, directory: FileIndex) -> Vec<Vec<u8>> {
    let (mut found, mut cookie) = (Vec::new(), 0);
    loop {
        let page = ns.readdir(&Identity::root(), directory, cookie, 200, false).unwrap();
        cookie = page.entries.last().map_or(cookie, |listed| listed.entry.cookie);
        found.extend(page.entries.into_iter().map(|listed| listed.name));
        if page.end {
            return found;
        }
    }
}
