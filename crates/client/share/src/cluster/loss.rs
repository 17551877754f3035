//! The write verifier: it changes when acknowledged bytes were lost that no flush had covered (I6).

use std::sync::atomic::{AtomicU64, Ordering};

use braid_net::random_bytes;

use crate::Verifier;

/// The losses of one gateway.
///
/// The verifier is one for all files. After a loss, the clients of other files send again what they
/// have not committed, which costs time and changes nothing.
#[derive(Debug)]
pub(super) struct LossCounter {
    /// A random number, so that no other gateway, also none after a restart, has the same.
    first: u64,
    losses: AtomicU64,
}

impl LossCounter {
    pub(super) fn new() -> Self {
        Self { first: u64::from_be_bytes(random_bytes()), losses: AtomicU64::new(0) }
    }

    /// Bytes were lost: from now on the verifier is another one.
    pub(super) fn add(&self) {
        self.losses.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn verifier(&self) -> Verifier {
        let losses = self.losses.load(Ordering::Acquire);
        Verifier(self.first.wrapping_add(losses).to_be_bytes())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_loss_changes_the_verifier_and_each_gateway_has_its_own() {
        let losses = LossCounter::new();
        let before = losses.verifier();
        assert_eq!(losses.verifier(), before);
        losses.add();
        assert_ne!(losses.verifier(), before);
        assert_ne!(LossCounter::new().verifier(), before);
    }
}
