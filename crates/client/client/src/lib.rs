//! The client library: plans jobs, and sends requests to the metadata server and the I/O daemons.
// The only exception is the page that the kernel zeroes in child processes: `fork.rs`.
#![deny(unsafe_code)]

pub mod agent;
pub mod asynchronous;
mod blocking;
mod calls;
mod config;
pub mod engine;
mod error;
mod fork;
pub mod group;
mod keyfile;
pub mod lease;
mod path_ref;
pub mod plan;
pub mod settings;

pub use blocking::{Client, File, Leases, Listing, PendingOperation, refuse_all};
pub use braid_layout::{
    BlockCyclicDimension, Distribution, Extent, Extents, Layout, Pattern, View,
};
pub use braid_net::{CallDeadline, CallDeadlineHandle, Pipe, TlsPolicy};
pub use braid_types::{FileIndex, IodId, KeyId, Status, Timestamp};
pub use braid_wire::{
    Deny, Rights, Secret, Ticket,
    message::{
        self, FileKind,
        lock::{LockHolder, LockRange, LockRequest, LockSpace},
        mds::{AttributeChanges, RenameMode, SetTime, XattrMode},
        types::{
            Attributes, DirectoryEntry, DistributionHint, Identity, LayoutHint, PathRef, Placement,
        },
    },
};
pub use config::{
    AdoptedSession, Config, Credential, CredentialSource, GatewaySession, Proof,
    SharedCredentialSource,
};
pub use engine::{
    CollectiveMode, CollectiveOptions, FileView, LockCancelHandle, NewEntry, OpenOptions, Overlap,
    ReadPiece, Reservation, WritePiece,
};
pub use error::{Error, Result};
pub use group::{Group, TcpGroup, ThreadGroup};
pub use keyfile::KeyFile;
pub use lease::{LeaseHolder, LeaseMode, LeaseOf, LeaseTicket};
pub use path_ref::ToPathRef;
