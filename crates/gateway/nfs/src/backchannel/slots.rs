//! The slots of a back channel, where this server is the requester. RFC 8881 2.10.6.1.

/// The slots of a back channel.
#[derive(Clone, Debug)]
pub(super) struct CallbackSlots {
    /// The number of the last callback that the client accepted, for each slot.
    sequences: Vec<u32>,
    /// Slots without a callback in flight. The lowest ones are used first.
    free: Vec<u32>,
    /// Slots whose last callback was given up. The client may have accepted its number, so that the
    /// next callback could get its reply: they are used last.
    given_up: Vec<bool>,
}

impl CallbackSlots {
    pub fn new(slots: u32) -> Self {
        Self {
            sequences: vec![0; slots as usize],
            free: (0..slots).rev().collect(),
            given_up: vec![false; slots as usize],
        }
    }

    /// Takes a free slot.
    pub fn take(&mut self) -> Option<u32> {
        let good = self.free.iter().rposition(|slot| !self.given_up[*slot as usize]);
        match good {
            Some(at) => Some(self.free.remove(at)),
            None => self.free.pop(),
        }
    }

    /// Returns a slot that [`CallbackSlots::take`] gave.
    pub fn release(&mut self, slot: u32) {
        debug_assert!(!self.free.contains(&slot));
        let at = self.free.partition_point(|other| *other > slot);
        self.free.insert(at, slot);
    }

    /// Notes that a callback is sent on the slot, which has no reply before
    /// [`CallbackSlots::advance`].
    pub fn sent(&mut self, slot: u32) {
        self.given_up[slot as usize] = true;
    }

    /// The number of the slot's next callback.
    pub fn next(&self, slot: u32) -> u32 {
        self.sequences[slot as usize].wrapping_add(1)
    }

    /// Notes that the client accepted the slot's next callback.
    pub fn advance(&mut self, slot: u32) {
        self.sequences[slot as usize] = self.next(slot);
        self.given_up[slot as usize] = false;
    }

    /// The highest slot with a callback in flight.
    pub fn highest_used(&self) -> u32 {
        let used = |slot: &u32| !self.free.contains(slot);
        (0..self.sequences.len() as u32).rev().find(used).unwrap_or(0)
    }
}
