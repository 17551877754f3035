//! Union: plain files on the local file systems of one machine, as one file system
//! (docs/adr/0044). The paper is United-FS (2007).
//!
//! ```text
//!   Pool (pool.toml, .braid-branch)  which directories are branches, and how files are placed
//!     └── Union                      names, attributes, data: one method for each system call
//!           ├── Branch               a directory of a local file system, opened once
//!           ├── NodeTable            the files that the kernel knows: names, copies, open files
//!           ├── DirectoryFds         open directories, a bounded number
//!           ├── IntentLog            renames that take several steps
//!           └── striped              files that are cut into units over several branches
//! ```
//!
//! 1. The path of a file on its branch is the authority: nothing that is needed to read a file is
//!    kept anywhere else. Striped files are the exception, see docs/adr/0045.
//! 2. A file that is not a directory is on one branch. A directory is on every branch that has a
//!    file below it, and possibly on more.
//! 3. If several branches have a name, the first one in the order of the pool shows it. The others
//!    are hidden. They are renamed and removed together with the one that is shown.
//! 4. Nothing is written to a branch that is adopted, except `.braid-branch`.
#![cfg(target_os = "linux")]
#![deny(unsafe_code)] // `kernel_handle` alone calls the C library

mod admin;
mod attributes;
mod branch;
mod by_inode;
mod check;
mod control;
mod create;
mod credentials;
mod data;
mod directory_fds;
mod directory_names;
mod directory_placement;
mod error;
mod failed_disks;
mod identity;
mod intents;
mod join_state;
mod kept_listings;
mod kernel_handle;
mod label;
mod listing;
mod lookup;
mod moves;
mod name_changes;
mod name_index;
mod node;
mod notices;
mod numbers;
mod open_files;
mod place;
mod placement;
mod pool;
mod private_files;
mod quota;
mod remove;
mod rename;
mod rights;
mod saved_names;
mod striped;
mod union;
mod unnamed;
mod xattrs;

/// Names and attributes on a branch itself, for what works on one without a union.
pub mod on_branch {
    pub use crate::{
        attributes::{path_of, stat_at, stat_fd},
        lookup::is_directory,
        moves::{join, split},
        place::{open_directory, unlink_path},
        xattrs::{all_names as xattr_names, value as xattr_value},
    };
}

pub use attributes::{Attributes, NewAttributes, NewTime, Time};
pub use branch::{BranchMode, BranchStatus};
pub use by_inode::{BranchInode, FoundByInode};
pub use check::{CheckReport, DuplicateReport, Finding};
pub use control::{ControlServer, MoveTo, Reply, Request, request};
pub use credentials::User;
pub use directory_names::NAMES_VALID;
pub use directory_placement::PLACEMENT_XATTR;
pub use error::{ErrorKind, PoolError, Result};
pub use failed_disks::DiskKeeper;
pub use identity::{BRANCH_FILE, BranchIdentity, PoolUuid};
pub use join_state::JoinState;
pub use kept_listings::ListingId;
pub use kernel_handle::{KERNEL_HANDLE_BYTES_MAX, KernelHandle};
pub use label::Label;
pub use listing::{DirectoryEntry, DirectoryListing};
pub use lookup::Found;
pub use moves::{MoveReport, MoveTarget, NotMoved, Progress};
pub use name_changes::NameChangeCount;
pub use node::NodeId;
pub use notices::{NoticeKeeper, NoticedChanges};
pub use open_files::OpenFile;
pub use placement::Placement;
pub use pool::{BranchConfig, Pool, PoolConfig};
pub use quota::{QuotaLimits, QuotaOwner, QuotaRow, QuotaUsage};
pub use remove::RESERVED_PREFIX;
pub use rename::RenameMode;
pub use rights::{Access, Caller};
pub use striped::{STRIPE_XATTR, StripeChoice, Sweep};
pub use union::{Space, Union};
pub use xattrs::SetXattr;
