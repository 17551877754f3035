//! Sessions of the metadata server: one for each machine, which its client GUID names (ADR 0052).
//!
//! A machine may have several connections and users. Calls name the user, so one session serves
//! all of them, and opens of one machine are adopted and fenced together (I4).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use braid_share::{ClientRecord, Result, Share, ShareClient};
use tokio::sync::Mutex as AsyncMutex;

/// Breaks in a row without an acknowledgement after which a machine is granted nothing more
/// (ADR 0055, 6).
pub(crate) const MISSES_MAX: u32 = 2;

/// A session of the metadata server. It ends when the last session of SMB that uses it ends.
#[derive(Debug)]
pub struct Machine<S: Share> {
    client: Option<S::Client>,
    name: String,
    /// Whether a task receives its recalls.
    receives_recalls: AtomicBool,
    /// Breaks of leases and oplocks in a row that its clients have not acknowledged in time.
    misses: AtomicU32,
}

impl<S: Share> Machine<S> {
    /// The session.
    ///
    /// # Panics
    /// Never: it is taken by the drop only.
    pub fn client(&self) -> &S::Client {
        self.client.as_ref().expect("the session is taken only by the drop")
    }

    /// Whether the caller is the first that must have its recalls received.
    pub(crate) fn begin_recalls(&self) -> bool {
        !self.receives_recalls.swap(true, Ordering::AcqRel)
    }

    /// Whether its clients may cache nothing, since they acknowledge no break.
    pub(crate) fn is_silent(&self) -> bool {
        self.misses.load(Ordering::Acquire) >= MISSES_MAX
    }

    /// Counts a break that was not acknowledged in time. Returns how many there are in a row.
    pub(crate) fn miss(&self) -> u32 {
        let counted = self
            .misses
            .fetch_update(Ordering::AcqRel, Ordering::Acquire, |misses| misses.checked_add(1));
        counted.map_or(u32::MAX, |before| before + 1)
    }

    /// A break was acknowledged in time: the row ends, if it is not too long.
    pub(crate) fn acknowledge(&self) {
        let is_short = |misses: u32| (misses < MISSES_MAX).then_some(0);
        // An error: it is silent for good.
        let _ = self.misses.fetch_update(Ordering::AcqRel, Ordering::Acquire, is_short);
    }
}

impl<S: Share> Drop for Machine<S> {
    fn drop(&mut self) {
        let Some(client) = self.client.take() else { return };
        let name = std::mem::take(&mut self.name);
        // Without a runtime the process ends, and the metadata server ends the session itself.
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move {
                tracing::debug!(machine = name, "its session ends");
                client.end().await;
            });
        }
    }
}

/// The machines that have a session.
#[derive(Debug)]
pub struct Machines<S: Share> {
    /// One entry for each GUID; its lock is held while the session begins.
    by_guid: Mutex<HashMap<[u8; 16], Slot<S>>>,
}

type Slot<S> = Arc<AsyncMutex<Weak<Machine<S>>>>;

impl<S: Share> Default for Machines<S> {
    fn default() -> Self {
        Self { by_guid: Mutex::default() }
    }
}

impl<S: Share> Machines<S> {
    /// The session of a machine, which begins if it has none. A client without a GUID (SMB 2.0.2)
    /// gets one of its own each time. `name` is for people: the address.
    ///
    /// # Errors
    /// Those of [`Share::begin_client`].
    pub async fn session(&self, share: &S, guid: [u8; 16], name: &str) -> Result<Arc<Machine<S>>> {
        if guid == [0; 16] {
            return begin(share, guid, name).await.map(Arc::new);
        }
        let slot = {
            let mut all = self.by_guid.lock().unwrap_or_else(PoisonError::into_inner);
            // Machines that have gone leave no entry behind.
            all.retain(|_, slot| {
                Arc::strong_count(slot) > 1
                    || slot.try_lock().is_ok_and(|machine| machine.strong_count() > 0)
            });
            Arc::clone(all.entry(guid).or_default())
        };
        let mut machine = slot.lock().await;
        if let Some(machine) = machine.upgrade() {
            return Ok(machine);
        }
        let begun = Arc::new(begin(share, guid, name).await?);
        *machine = Arc::downgrade(&begun);
        Ok(begun)
    }

    /// Lets the next session of a machine begin with a new one: this one has ended at the metadata
    /// server.
    pub fn forget(&self, ended: &Arc<Machine<S>>) {
        let mut all = self.by_guid.lock().unwrap_or_else(PoisonError::into_inner);
        all.retain(|_, slot| match slot.try_lock() {
            Ok(machine) => !std::ptr::eq(machine.as_ptr(), Arc::as_ptr(ended)),
            // One that begins now.
            Err(_) => true,
        });
    }
}

async fn begin<S: Share>(share: &S, guid: [u8; 16], name: &str) -> Result<Machine<S>> {
    let record = ClientRecord { name: format!("smb {name}"), record: guid.to_vec() };
    let client = share.begin_client(record).await?;
    Ok(Machine {
        client: Some(client),
        name: name.to_owned(),
        receives_recalls: AtomicBool::new(false),
        misses: AtomicU32::new(0),
    })
}
