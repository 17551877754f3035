//! Sessions of the metadata server: one for each machine, which its client GUID names (ADR 0052).
//!
//! A machine may have several connections and users. Calls name the user, so one session serves
//! all of them, and opens of one machine are adopted and fenced together (I4).

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use braid_share::{ClientRecord, Result, Share, ShareClient};
use tokio::sync::Mutex as AsyncMutex;

/// A session of the metadata server. It ends when the last session of SMB that uses it ends.
#[derive(Debug)]
pub struct Machine<S: Share> {
    client: Option<S::Client>,
    name: String,
    /// Whether a task receives its recalls.
    receives_recalls: AtomicBool,
    /// Whether one of its clients has left a break of a lease or oplock without an acknowledgement.
    is_silent: AtomicBool,
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

    /// Whether its clients may cache nothing, since one of them has not acknowledged a break.
    pub(crate) fn is_silent(&self) -> bool {
        self.is_silent.load(Ordering::Acquire)
    }

    /// Lets its clients cache nothing more. Returns whether that was so before.
    pub(crate) fn silence(&self) -> bool {
        self.is_silent.swap(true, Ordering::AcqRel)
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
        is_silent: AtomicBool::new(false),
    })
}
