//! CREATE requests that can be repeated: those with a CreateGuid. MS-SMB2 3.3.5.9.10,
//! Open.IsReplayEligible.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use braid_share::Share;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::smb2::create::CreateAction;

use crate::open::Open;

/// The name of a CREATE: the client's GUID, and the one that it chose.
pub type CreateName = ([u8; 16], [u8; 16]);

/// The CREATE requests that can be repeated. Each one that runs has an entry, and each open that no
/// request has used yet: memory is bounded by the limits of opens and requests.
#[derive(Debug)]
pub struct Creates<S: Share>(Mutex<HashMap<CreateName, Entry<S>>>);

#[derive(Debug)]
struct Entry<S: Share> {
    /// The number of the open.
    id: u64,
    made: Option<Made<S>>,
}

/// What a CREATE has made.
#[derive(Debug)]
struct Made<S: Share> {
    open: Weak<Open<S>>,
    session: u64,
}

/// A CREATE that has the same name.
#[derive(Debug)]
pub enum Earlier<S: Share> {
    /// It still runs.
    Runs,
    /// It has made this open, in the session with this number.
    Made(Arc<Open<S>>, u64),
}

/// What an open answers a repetition of its CREATE with.
#[derive(Clone, Copy, Debug)]
pub struct CreateOutcome {
    /// What was done.
    pub action: CreateAction,
    /// The most that the user may do.
    pub maximal: AccessMask,
}

/// The entry of a CREATE, until it is dropped or ended.
#[derive(Debug)]
pub struct CreateRecord<S: Share> {
    creates: Arc<Creates<S>>,
    name: CreateName,
    id: u64,
    has_ended: AtomicBool,
}

impl<S: Share> Default for Creates<S> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<S: Share> Creates<S> {
    fn entries(&self) -> MutexGuard<'_, HashMap<CreateName, Entry<S>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the CREATE of an open with the number `id`.
    ///
    /// # Errors
    /// The earlier one with the same name.
    pub fn begin(
        self: &Arc<Self>,
        name: CreateName,
        id: u64,
    ) -> Result<CreateRecord<S>, Earlier<S>> {
        let mut entries = self.entries();
        if let Some(entry) = entries.get(&name) {
            match &entry.made {
                None => return Err(Earlier::Runs),
                Some(made) => {
                    if let Some(open) = made.open.upgrade() {
                        return Err(Earlier::Made(open, made.session));
                    }
                }
            }
        }
        entries.insert(name, Entry { id, made: None });
        let (creates, has_ended) = (Arc::clone(self), AtomicBool::new(false));
        Ok(CreateRecord { creates, name, id, has_ended })
    }

    /// The number of entries.
    #[cfg(test)]
    pub fn count(&self) -> usize {
        self.entries().len()
    }
}

impl<S: Share> CreateRecord<S> {
    /// The client's own name of the CREATE.
    pub fn guid(&self) -> [u8; 16] {
        self.name.1
    }

    /// The CREATE has made an open of a session.
    pub fn made(&self, open: &Arc<Open<S>>, session: u64) {
        if let Some(entry) = self.creates.entries().get_mut(&self.name)
            && entry.id == self.id
        {
            entry.made = Some(Made { open: Arc::downgrade(open), session });
        }
    }

    /// The CREATE cannot be repeated any more.
    pub fn end(&self) {
        if self.has_ended.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut entries = self.creates.entries();
        if entries.get(&self.name).is_some_and(|entry| entry.id == self.id) {
            entries.remove(&self.name);
        }
    }
}

impl<S: Share> Drop for CreateRecord<S> {
    fn drop(&mut self) {
        self.end();
    }
}
