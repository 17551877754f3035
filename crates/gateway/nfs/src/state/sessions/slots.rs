//! The slots of a session's fore channel and their replay cache. RFC 8881 2.10.6.1.

use braid_nfs_wire::nfs4::NfsStatus;
use braid_nfs_wire::xdr::Segment;

/// What a slot remembers of its last request.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum CachedReply {
    /// The whole result of the compound.
    Whole(Vec<Segment>),
    /// The client did not ask for it. A retry gets `RETRY_UNCACHED_REP` at its second operation.
    NotCached,
}

impl CachedReply {
    /// Bytes that the reply takes.
    pub fn bytes(&self) -> usize {
        match self {
            Self::Whole(segments) => segments.iter().map(Segment::len).sum(),
            Self::NotCached => 0,
        }
    }
}

/// What a request on a slot is.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Begun {
    /// A new request, which runs. [`SlotTable::finish`] follows.
    New,
    /// A retry of the last request.
    Retry(CachedReply),
}

#[derive(Clone, Debug)]
enum SlotUse {
    /// No request was received.
    Unused,
    /// A request runs.
    Running { fingerprint: u64 },
    /// The last request is done.
    Done { fingerprint: u64, reply: CachedReply },
}

#[derive(Clone, Debug)]
struct Slot {
    /// Sequence number of the last request.
    sequence: u32,
    uses: SlotUse,
}

/// All slots of a session.
#[derive(Clone, Debug)]
pub struct SlotTable {
    slots: Vec<Slot>,
    cached_bytes: usize,
}

impl SlotTable {
    /// A table of `slots` unused slots.
    pub fn new(slots: u32) -> Self {
        // RFC 8881 2.10.6.1: the first sequence number of a slot is 1.
        let unused = Slot { sequence: 0, uses: SlotUse::Unused };
        Self { slots: vec![unused; slots as usize], cached_bytes: 0 }
    }

    /// The highest slot number.
    pub fn highest(&self) -> u32 {
        self.slots.len() as u32 - 1
    }

    /// Bytes of all cached replies.
    pub fn cached_bytes(&self) -> usize {
        self.cached_bytes
    }

    /// The number of the last request on a slot.
    pub fn newest(&self, slot: u32) -> Option<u32> {
        self.slots.get(slot as usize).map(|slot| slot.sequence)
    }

    /// Whether a request runs, other than the one on `except`.
    pub fn is_busy(&self, except: Option<u32>) -> bool {
        let running = |slot: &Slot| matches!(slot.uses, SlotUse::Running { .. });
        (0..).zip(&self.slots).any(|(number, slot)| Some(number) != except && running(slot))
    }

    /// Sets the last number of a slot.
    #[cfg(test)]
    pub(super) fn set_sequence(&mut self, slot: usize, sequence: u32) {
        self.slots[slot].sequence = sequence;
    }

    /// SEQUENCE. `fingerprint` is a hash of the request and its principal: a retry has the same.
    ///
    /// # Errors
    /// `BADSLOT`, `BAD_HIGH_SLOT`, `SEQ_MISORDERED`, `SEQ_FALSE_RETRY`; `DELAY` for a retry of a
    /// request that still runs. The slot does not change.
    pub fn begin(
        &mut self,
        slot: u32,
        sequence: u32,
        highest_used: u32,
        fingerprint: u64,
    ) -> Result<Begun, NfsStatus> {
        let highest = self.highest();
        let slot = self.slots.get_mut(slot as usize).ok_or(NfsStatus::BadSlot)?;
        if highest_used > highest {
            return Err(NfsStatus::BadHighSlot);
        }
        match &slot.uses {
            // RFC 8881 2.10.6.1: sequence numbers wrap from 2^32 - 1 to 0.
            SlotUse::Unused | SlotUse::Done { .. } if sequence == slot.sequence.wrapping_add(1) => {
                self.cached_bytes -= slot.cached_bytes();
                *slot = Slot { sequence, uses: SlotUse::Running { fingerprint } };
                Ok(Begun::New)
            }
            SlotUse::Running { fingerprint: original } if sequence == slot.sequence => {
                // RFC 8881 2.10.6.2: the request is in progress.
                same(*original, fingerprint)?;
                Err(NfsStatus::Delay)
            }
            SlotUse::Done { fingerprint: original, reply } if sequence == slot.sequence => {
                same(*original, fingerprint)?;
                Ok(Begun::Retry(reply.clone()))
            }
            _ => Err(NfsStatus::SeqMisordered),
        }
    }

    /// Ends the request that runs on `slot`.
    pub fn finish(&mut self, slot: u32, reply: CachedReply) {
        let slot = &mut self.slots[slot as usize];
        let SlotUse::Running { fingerprint } = slot.uses else {
            panic!("a request ends on a slot where none runs (invariant 1)")
        };
        self.cached_bytes += reply.bytes();
        slot.uses = SlotUse::Done { fingerprint, reply };
    }
}

impl Slot {
    fn cached_bytes(&self) -> usize {
        match &self.uses {
            SlotUse::Done { reply, .. } => reply.bytes(),
            _ => 0,
        }
    }
}

/// RFC 8881 2.10.6.1.3.1: another request with the sequence number of the last one.
fn same(original: u64, fingerprint: u64) -> Result<(), NfsStatus> {
    if original == fingerprint { Ok(()) } else { Err(NfsStatus::SeqFalseRetry) }
}
