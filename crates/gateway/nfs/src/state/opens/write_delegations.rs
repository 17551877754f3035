//! Which client of this gateway holds the write delegation of a file, for GETATTR of others.
//!
//! Invariants:
//! 1. An entry exists from the grant until the delegation is returned, revoked or dropped with its
//!    client: so the delegations of the clients bound the entries (I9).
//! 2. The mutex is taken last, and nothing is called under it.

use std::collections::HashMap;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use braid_nfs_wire::nfs4::ClientId;
use braid_share::{Attributes, FileIndex};

use super::DelegationState;

/// The write delegations of all clients.
pub struct WriteDelegations<F>(Mutex<HashMap<FileIndex, Holder<F>>>);

struct Holder<F> {
    client: ClientId,
    /// The part of the state id that never changes.
    other: [u8; 12],
    delegation: Weak<DelegationState<F>>,
}

impl<F> Default for WriteDelegations<F> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<F> fmt::Debug for WriteDelegations<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("WriteDelegations").field("count", &self.len()).finish()
    }
}

impl<F> WriteDelegations<F> {
    fn lock(&self) -> MutexGuard<'_, HashMap<FileIndex, Holder<F>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many there are.
    pub fn len(&self) -> usize {
        self.lock().len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The write delegation of a file and its client, if a client of this gateway has one.
    pub fn of_file(&self, file: FileIndex) -> Option<(ClientId, Arc<DelegationState<F>>)> {
        let holders = self.lock();
        let holder = holders.get(&file)?;
        Some((holder.client, holder.delegation.upgrade()?))
    }

    /// Adds a delegation that was granted. The entry ends with the result.
    pub(super) fn add(
        self: &Arc<Self>,
        client: ClientId,
        delegation: &Arc<DelegationState<F>>,
    ) -> WriteDelegationEntry<F> {
        let (file, other) = (delegation.file.file, delegation.other);
        let holder = Holder { client, other, delegation: Arc::downgrade(delegation) };
        self.lock().insert(file, holder);
        WriteDelegationEntry { of: Arc::clone(self), file, other }
    }
}

/// An entry of [`WriteDelegations`], which is removed when this is dropped.
#[derive(Debug)]
pub(super) struct WriteDelegationEntry<F> {
    of: Arc<WriteDelegations<F>>,
    file: FileIndex,
    other: [u8; 12],
}

impl<F> Drop for WriteDelegationEntry<F> {
    fn drop(&mut self) {
        let mut holders = self.of.lock();
        // The next holder's grant may have been faster.
        if holders.get(&self.file).is_some_and(|holder| holder.other == self.other) {
            holders.remove(&self.file);
        }
    }
}

/// The answers of a delegation's holder to CB_GETATTR. Requests of several clients share one: a
/// request may use an answer whose question was sent after the request arrived.
#[derive(Debug, Default)]
pub struct HolderAnswers {
    /// Questions that were sent.
    questions: AtomicU64,
    /// Whether the holder failed to answer. It is not asked again: others recall the delegation.
    failed: AtomicBool,
    newest: tokio::sync::Mutex<(u64, Option<Attributes>)>,
}

impl HolderAnswers {
    /// Whether the holder failed to answer.
    pub fn have_failed(&self) -> bool {
        self.failed.load(Ordering::Acquire)
    }

    /// Notes that the holder failed to answer.
    pub fn set_failed(&self) {
        self.failed.store(true, Ordering::Release);
    }

    /// The attributes by an answer to a question that is sent after the call begins: by `ask`, or
    /// by that of another request. `None` if the holder failed. Cancelling is safe.
    pub async fn after_now(
        &self,
        ask: impl Future<Output = Option<Attributes>>,
    ) -> Option<Attributes> {
        let before = self.questions.load(Ordering::Acquire);
        let mut newest = self.newest.lock().await;
        if self.have_failed() {
            return None;
        }
        if newest.0 > before {
            return newest.1.clone();
        }
        let number = self.questions.fetch_add(1, Ordering::AcqRel) + 1;
        *newest = (number, ask.await);
        newest.1.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn requests_that_wait_share_the_next_answer() {
        let answers = HolderAnswers::default();
        let asked = AtomicU64::new(0);
        let (first_asks, go_on) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
        let first = answers.after_now(async {
            first_asks.notify_one();
            go_on.notified().await;
            None
        });
        let later = || {
            answers.after_now(async {
                asked.fetch_add(1, Ordering::Relaxed);
                None
            })
        };
        let others = async {
            first_asks.notified().await;
            let (second, third) = (later(), later());
            let release = async { go_on.notify_one() };
            tokio::join!(second, third, release);
        };
        tokio::join!(first, others);
        assert_eq!(asked.load(Ordering::Relaxed), 1, "they arrived after the first question");
        later().await;
        assert_eq!(asked.load(Ordering::Relaxed), 2);
        answers.set_failed();
        later().await;
        assert_eq!(asked.load(Ordering::Relaxed), 2, "it is not asked again");
    }
}
