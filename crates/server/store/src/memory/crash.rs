//! The state of an object after a loss of power.

use super::content::Content;
use crate::{ObjectRecord, SizeChange};
use braid_types::Random;

/// Disks write whole sectors; a write of several may be torn between any two.
const SECTOR_BYTES: usize = 512;

/// A change that a loss of power can undo.
#[derive(Clone, Debug)]
pub(super) enum UnsyncedChange {
    Write { offset: u64, data: Vec<u8> },
    Allocate { offset: u64, length: u64 },
    Change(SizeChange),
    Record(ObjectRecord),
}

/// The contents and record of an object.
#[derive(Clone, Debug)]
pub(super) struct ObjectImage {
    pub(super) content: Content,
    pub(super) record: ObjectRecord,
}

impl ObjectImage {
    pub(super) fn apply(&mut self, change: UnsyncedChange) {
        match change {
            UnsyncedChange::Write { offset, data } => self.content.write(&data, offset),
            UnsyncedChange::Allocate { offset, length } => self.content.allocate(offset, length),
            UnsyncedChange::Change(change) => self.content.change(change),
            UnsyncedChange::Record(record) => self.record = record,
        }
    }

    /// Applies any subset of the changes in any order, each write whole or in some of its sectors.
    pub(super) fn lose_power(&mut self, unsynced: Vec<UnsyncedChange>, random: &mut Random) {
        let mut left: Vec<UnsyncedChange> =
            unsynced.into_iter().filter(|_| random.below(2) == 0).collect();
        for last in (1..left.len()).rev() {
            left.swap(last, random.below(last as u64 + 1) as usize);
        }
        for change in left {
            match change {
                UnsyncedChange::Write { offset, data } if random.below(4) == 0 => {
                    self.tear(offset, &data, random)
                }
                change => self.apply(change),
            }
        }
    }

    fn tear(&mut self, offset: u64, data: &[u8], random: &mut Random) {
        let lead = (SECTOR_BYTES as u64 - offset % SECTOR_BYTES as u64) as usize;
        let (head, rest) = data.split_at(lead.min(data.len()));
        let sectors = std::iter::once(head).chain(rest.chunks(SECTOR_BYTES));
        let mut at = offset;
        for sector in sectors {
            if random.below(2) == 0 {
                self.content.write(sector, at);
            }
            at += sector.len() as u64;
        }
    }
}
