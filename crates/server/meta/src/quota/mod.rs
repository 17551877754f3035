//! Quota: the usage of each owner, its limits, and how far files may grow. ADR 0012.
//!
//! ```text
//!   store:   usage of (shard, owner) ── in the batch of the inode          limits of an owner
//!   memory:  sum over shards ─┐                                                    │
//!            unrecorded ──────┴─▶ counted usage ── may it grow? ───────────────────┘
//!            growth grants beyond the counted bytes, by session
//! ```
//!
//! Invariants:
//! 1. After each batch the recorded usage is that of the recorded inodes: an owner's inodes and the
//!    sizes of its files. `braid fsck` counts both and compares; an assertion would have to do the
//!    same.
//! 2. Memory follows a batch only after the store has it. All of it is under the namespace's writer
//!    lock. `Tx::publish` asserts the order.
//! 3. Every file with unrecorded bytes has the size mark (I5) or a truncate in progress: what
//!    outlives the last writer is its record. `extend_grant` asserts the mark.
//! 4. The growth grants of one session never reach more than [`GROWTH_GRANT_MAX`] beyond the
//!    counted bytes. Usage may exceed a hard limit by that amount for each client, and no more.
//!    `extend_grant` asserts it.

mod limits;
mod recount;
mod usage_table;

use std::sync::Arc;

use crate::record::{FileKind, Inode, QuotaOwner};

pub(crate) use recount::Recount;
pub use usage_table::{GROWTH_GRANT_FIRST, GROWTH_GRANT_MAX};
pub(crate) use usage_table::{GrantChange, UsageTable};

/// The owners that one inode is counted for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct QuotaOwners([Option<QuotaOwner>; 3]);

impl QuotaOwners {
    pub(crate) fn of(inode: &Inode) -> Self {
        let tree =
            (inode.quota_directory.0 != 0).then_some(QuotaOwner::Directory(inode.quota_directory));
        Self([
            Some(QuotaOwner::User(inode.owner.id)),
            Some(QuotaOwner::Group(inode.group.id)),
            tree,
        ])
    }

    pub(crate) fn iter(self) -> impl Iterator<Item = QuotaOwner> {
        self.0.into_iter().flatten()
    }
}

/// The bytes that a recorded inode counts for.
pub(crate) fn counted_bytes(inode: &Inode) -> u64 {
    if inode.kind == FileKind::Regular { inode.size } else { 0 }
}

/// A change of one owner's usage in one shard.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct UsageDelta {
    pub(crate) owner: QuotaOwner,
    pub(crate) bytes: i128,
    pub(crate) inodes: i64,
}

/// Adds to `deltas` how the owners' usage changes when `old` becomes `new`.
pub(crate) fn add_usage_deltas(
    deltas: &mut Vec<UsageDelta>,
    old: Option<&Arc<Inode>>,
    new: Option<&Arc<Inode>>,
) {
    let known = |inode: Option<&Arc<Inode>>| {
        inode.map(|inode| (QuotaOwners::of(inode), counted_bytes(inode)))
    };
    let (old, new) = (known(old), known(new));
    if old == new {
        return;
    }
    for (side, sign) in [(old, -1), (new, 1)] {
        let Some((owners, bytes)) = side else { continue };
        owners
            .iter()
            .for_each(|owner| add(deltas, owner, i128::from(bytes) * i128::from(sign), sign));
    }
    deltas.retain(|delta| (delta.bytes, delta.inodes) != (0, 0));
}

fn add(deltas: &mut Vec<UsageDelta>, owner: QuotaOwner, bytes: i128, inodes: i64) {
    match deltas.iter_mut().find(|delta| delta.owner == owner) {
        Some(delta) => {
            delta.bytes += bytes;
            delta.inodes += inodes;
        }
        None => deltas.push(UsageDelta { owner, bytes, inodes }),
    }
}
