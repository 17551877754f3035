//! Records of the metadata store: their contents and bytes (`docs/format-meta.md`). Each begins
//! with a version byte. An unknown version, tag or flag is an error, never a guess (I10).

mod acl;
mod cluster;
mod default;
mod entry;
mod inode;
mod layout;
mod modes;
mod queue;
mod quota;
mod replay;
mod session;

use braid_types::{Failure, Status};

pub use cluster::{ClientKey, ClusterIdentity, IodRecord, IodState, KeyRights};
pub use default::{DirectoryDefault, DistributionKind, Placement};
pub use entry::Entry;
pub(crate) use entry::{
    decode_cookie, decode_entry, decode_folded_name, write_cookie, write_entry, write_folded_name,
};
pub use inode::{FileKind, Inode, Parts, Principal, PrincipalKind};
pub(crate) use inode::{NAMES_BEING_INDEXED, NAMES_INDEXED};
pub(crate) use layout::fits as layout_fits;
pub(crate) use modes::{decode_modes, encode_modes};
pub use queue::{Deletion, Intent, IntentKind};
pub use quota::{Quota, QuotaLimit, QuotaOwner, Usage};
pub use replay::{DirectoryChange, Outcome, ReplayRecord};
pub use session::SessionRecord;

/// A record that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// Written by a newer program.
    #[error("{what} record: version {found} is unknown; try: a newer braid")]
    Version {
        /// Which record.
        what: &'static str,
        /// Its version byte.
        found: u8,
    },
    /// Its bytes are invalid.
    #[error("{what} record: its bytes are invalid")]
    Broken {
        /// Which record.
        what: &'static str,
    },
}

impl From<RecordError> for Failure {
    fn from(error: RecordError) -> Self {
        Self::new(Status::Corrupted, error.to_string())
    }
}
