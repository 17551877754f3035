//! The change counter of files (RFC 8881 5.8.1.4): one counter for the whole server. Each change
//! takes its next number.
//!
//! ```text
//!   1 << 62  |  epoch << 42  |  changes and change queries in this epoch
//! ```
//!
//! Invariants:
//! 1. A file's counter rises with every change of it. It never returns to a number that stood for
//!    other bytes or attributes. Numbers rise within an epoch, and those of a later epoch are
//!    higher. This also covers numbers that a server reported and did not live to write. `next`
//!    asserts that an epoch's numbers are not used up.
//! 2. Bytes change without the metadata server. While a file may be written, each change query
//!    therefore takes a number, unless the objects are unchanged since a query that found their
//!    last write long ago (`change_queries.rs` of the server). The last number, after the last
//!    writer, is recorded. This module cannot check it: it does not see the objects.
//! 3. A loss of power undoes changes that were reported. After one, the server reports no counter
//!    below the *floor*, which is the first number of the epoch that began after it. Otherwise a
//!    file that was overwritten in place, while its size mark was only in memory, would show the
//!    counter of its old bytes. The server recognizes a loss of power by the boot of the host,
//!    which the store remembers. `Namespace::decode` raises the counter of each inode that it reads
//!    to the floor.
//!
//! Earlier versions derived numbers from times. Those are below 2^62 as long as the times are
//! before the year 2116.

use std::sync::atomic::{AtomicU64, Ordering};

use braid_types::{Failure, MdsEpoch};

use crate::codec::{Decoder, Encoder};
use crate::key;
use crate::store::{Batch, MetaStore};

/// Bits of the counter within an epoch: 500 days at 100,000 changes a second, and a million starts.
const COUNTER_BITS: u32 = 42;
const VERSION: u8 = 1;

/// The server's change counter.
#[derive(Debug)]
pub(crate) struct ChangeCounter {
    newest: AtomicU64,
    floor: u64,
}

impl ChangeCounter {
    /// The counter of an epoch that begins. `boot` identifies the period since the host last lost
    /// power; `None` if that is unknown.
    pub(crate) fn begin(
        store: &dyn MetaStore,
        batch: &mut Batch,
        epoch: MdsEpoch,
        boot: Option<u128>,
    ) -> Result<Self, Failure> {
        let first = first(epoch);
        let known = store.get(&key::boot())?.map(|bytes| decode(&bytes)).transpose()?;
        let floor = match known {
            Some((last, floor)) if boot == Some(last) => floor,
            _ => first,
        };
        batch.put(key::boot(), encode(boot.unwrap_or_default(), floor));
        Ok(Self { newest: AtomicU64::new(first), floor })
    }

    pub(crate) fn next(&self) -> u64 {
        let next = self.newest.fetch_add(1, Ordering::Relaxed) + 1;
        debug_assert!(
            !next.is_multiple_of(1 << COUNTER_BITS),
            "1: the numbers of an epoch are used up"
        );
        next
    }

    /// No file's counter is reported below it.
    pub(crate) fn floor(&self) -> u64 {
        self.floor
    }
}

fn first(epoch: MdsEpoch) -> u64 {
    1 << 62 | (epoch.0 << COUNTER_BITS) & ((1 << 62) - 1)
}

fn encode(boot: u128, floor: u64) -> Vec<u8> {
    let mut out = Encoder::new(VERSION);
    out.u64((boot >> 64) as u64).u64(boot as u64).u64(floor);
    out.finish()
}

fn decode(bytes: &[u8]) -> Result<(u128, u64), Failure> {
    let mut from = Decoder::new("boot", VERSION, bytes)?;
    let boot = u128::from(from.u64()?) << 64 | u128::from(from.u64()?);
    let floor = from.u64()?;
    from.finish()?;
    Ok((boot, floor))
}
