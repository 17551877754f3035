//! Leases and oplocks: what clients may cache. MS-SMB2 3.3.1.11, 3.3.1.12, 3.3.4.6, 3.3.4.7;
//! ADR 0055.
//!
//! ```text
//!   CREATE ─> begin: does it break others? ─> open ─> grant: delegation ─> what may be cached
//!                 │ notification ─> acknowledgement, close, or the end of the time
//!                 └ waits ─> again
//!   recall of the delegation ─> notification ─> acknowledgement ─> the delegation is returned
//! ```
//!
//! Invariants:
//! 1. What a client caches is bounded by a delegation of its session at the metadata server: R and
//!    RH by one to read, RW and RWH by one to write. The delegation is held from before the grant
//!    until the client has acknowledged, or its time is over.
//! 2. A break ends: after [`BREAK_MAX`], or [`RECALL_MAX`] if the metadata server recalls, the
//!    client may cache nothing, whatever it does.
//! 3. The table has an entry for each open that is more than a look at attributes, or that has a
//!    lease: its memory is bounded by the limits of opens. Its mutex is held without an await, and
//!    with no other one.
//! 4. Two holders of a file never cache if one of them caches writes, except while that one's break
//!    runs.
//! 5. When a machine has left a break without an acknowledgement, all that it holds is taken back
//!    together; after two in a row it is granted nothing any more. So it delays others three times
//!    at most, whatever it holds.

mod delegations;
mod disconnected;
mod entry;
mod names;
mod notice;
pub mod rules;
mod silence;
mod table;

use std::sync::{Arc, Weak};
use std::time::Duration;

use braid_share::Share;
use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::create::{LeaseState, LeaseV2};
use tokio::sync::watch;

use crate::client::Machine;
use crate::connection::Connection;
use crate::session::Session;
pub use names::LeasedName;
pub use table::Leases;

/// How long a client may take to acknowledge a break: that of Windows (MS-SMB2 3.3.2.1, 3.3.2.5).
pub const BREAK_MAX: Duration = Duration::from_secs(35);
/// The same if the metadata server recalls: others wait for it, for 30 s at most (I8).
pub const RECALL_MAX: Duration = Duration::from_secs(20);

/// How often a request breaks what others cache before it goes on, or is excluded for good. Each
/// break ends in a limited time; others may be granted something in between.
pub const BREAKS_MAX: usize = 16;

/// The name of a lease: the client's GUID, and the key that it chose.
pub type LeaseName = ([u8; 16], [u8; 16]);

/// What has a state: opens with the same owner never break each other.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Owner {
    /// The opens with a lease.
    Lease(LeaseName),
    /// An open with an oplock, or with nothing.
    Open(u64),
}

/// The form of what a client asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Form {
    /// An oplock, or nothing.
    Oplock,
    /// A lease; with the fields of version 2.
    Lease(Option<LeaseV2>),
}

/// Where notifications of an open go, and how they are protected.
#[derive(Debug)]
pub struct Peer<S: Share> {
    /// The connection.
    pub connection: Weak<Connection>,
    /// The session whose key encrypts them.
    pub sealed_by: Option<Weak<Session<S>>>,
}

impl<S: Share> Clone for Peer<S> {
    fn clone(&self) -> Self {
        Self { connection: Weak::clone(&self.connection), sealed_by: self.sealed_by.clone() }
    }
}

/// An open that begins.
#[derive(Debug)]
pub struct NewOpen<S: Share> {
    /// Its number.
    pub id: FileId,
    /// What it shares its state with.
    pub owner: Owner,
    /// The form of its state.
    pub form: Form,
    /// Where notifications go.
    pub peer: Peer<S>,
    /// The name that it was opened by, if it asks for a lease.
    pub name: Option<Arc<LeasedName>>,
    /// The session of the metadata server.
    pub machine: Arc<Machine<S>>,
    /// What it does to others: a [`rules::Conflict::Open`].
    pub conflict: rules::Conflict,
}

/// Why an open does not begin.
#[derive(Debug)]
pub enum Refusal {
    /// Others must acknowledge first.
    Blocked(Blocked),
    /// Another reason.
    Status(NtStatus),
}

/// Ends when the state of a file has changed.
#[derive(Debug)]
pub struct Blocked(watch::Receiver<()>);

impl Blocked {
    /// Waits for that.
    pub async fn changed(mut self) {
        // An error: the file has no entry any more.
        let _ = self.0.changed().await;
    }
}

/// What an owner may cache.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Granted {
    /// What may be cached.
    pub state: LeaseState,
    /// Whether it is being broken.
    pub is_breaking: bool,
    /// The form in which it was asked for first (MS-SMB2 3.3.5.9.11), with the epoch now.
    pub form: Form,
}

/// An open in the table, until it is dropped or ended.
#[derive(Debug)]
pub struct LeasedOpen<S: Share> {
    leases: Arc<Leases<S>>,
    /// The file.
    pub file: braid_share::FileIndex,
    /// What it shares its state with.
    pub owner: Owner,
    id: u64,
}

/// Begins a task. Without a runtime the process ends, and the metadata server ends the session.
fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    if let Ok(runtime) = tokio::runtime::Handle::try_current() {
        runtime.spawn(task);
    }
}

impl<S: Share> LeasedOpen<S> {
    /// The open is closed. Does nothing the second time.
    pub fn end(&self) {
        self.leases.end_open(self.file, self.owner, self.id);
    }
}

impl<S: Share> Drop for LeasedOpen<S> {
    fn drop(&mut self) {
        self.end();
    }
}
