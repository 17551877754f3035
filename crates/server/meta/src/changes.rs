//! The change counter of files (RFC 8881 5.8.1.4): one counter of the server, of which each change draws the next number.
//!
//! ```text
//!   1 << 62  |  epoch << 42  |  changes and looks at objects in this epoch
//! ```
//!
//! Invariants:
//! 1. The counter of a file rises with every change of it, and is never again what it was for other bytes or attributes.
//!    Numbers of one epoch only rise, those of a later epoch are higher: also than numbers that a server told and did
//!    not live to write.
//! 2. Bytes change without the server. So while somebody may write a file, each look at its objects draws a number, unless they
//!    are as they were at a look by which their last write was long ago (`looks.rs` of the server). The last number,
//!    after the last writer, is what is recorded.
//! 3. A loss of power takes changes back that were told. After one, no counter is told that is below the *floor*, which is
//!    the first number of the epoch that began with it: else a file that was overwritten in place while its mark was only
//!    in memory would show the counter of its old bytes. It is seen by the boot of the host, which the store remembers.
//!
//! Numbers that earlier versions made of times are below 2^62, as long as the times are of before the year 2116.

use std::sync::atomic::{AtomicU64, Ordering};

use braid_types::{Failure, MdsEpoch};

use crate::codec::{Decoder, Encoder};
use crate::key;
use crate::store::{Batch, MetaStore};

/// Bits of the counter within an epoch: 500 days of 100,000 changes a second, and room for a million starts.
const COUNTER_BITS: u32 = 42;
const VERSION: u8 = 1;

/// The server's counter.
#[derive(Debug)]
pub(crate) struct Changes {
    newest: AtomicU64,
    floor: u64,
}

impl Changes {
    /// That of an epoch that begins. `boot` names the time since which the host has not lost power; `None` where that is not known.
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
        self.newest.fetch_add(1, Ordering::Relaxed) + 1
    }

    /// No counter of a file is below it.
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
