//! Structures of the calls that name an entry of a directory by the directory and one name. Network
//! gateways use them (ADR 0041): one call opens, makes, removes or moves an entry, follows no
//! symbolic link, and returns the change counters of the directories.

use super::{mds::OpenReply, types::Attributes};
use crate::codec::{wire_enum, wire_struct};

wire_struct! {
    /// The change counter of a directory before and after a call. Nothing else changed the
    /// directory between the two (RFC 8881 3.3.10: `atomic`). They are equal if the call did not
    /// change it.
    #[derive(Copy)]
    pub struct DirectoryChange {
        /// The counter before the change.
        before: u64,
        /// The counter after the change.
        after: u64,
    }

    /// A file that [`super::mds::OpenEntry`] opened.
    pub struct OpenEntryReply {
        /// Handle, attributes and capability.
        opened: OpenReply,
        /// Whether this call created the file.
        created: bool,
        /// The change of the directory; `None` for a call that creates nothing.
        change: Option<DirectoryChange>,
    }

    /// An entry that was found by its name without regard to case.
    pub struct LookUpFoldedReply {
        /// Its name.
        name: Vec<u8>,
        /// The attributes of the file.
        attributes: Attributes,
    }

    /// An entry that was made.
    pub struct MakeEntryReply {
        /// The attributes of the file.
        attributes: Attributes,
        /// The change of the directory.
        change: DirectoryChange,
    }

    /// An entry that was moved.
    pub struct RenameEntryReply {
        /// The change of the old directory.
        from: DirectoryChange,
        /// The change of the new directory; the same as `from` if there is one directory.
        to: DirectoryChange,
    }
}

wire_enum! {
    /// Whether an open may create its file.
    pub enum CreateMode {
        /// The name must exist.
        Never = 1,
        /// A name that does not exist is created.
        IfMissing = 2,
        /// The name must not exist.
        Exclusive = 3,
    }

    /// What an entry that is made leads to.
    pub enum EntryKind {
        /// A new directory.
        Directory = 1,
        /// A new symbolic link.
        Symlink = 2,
        /// A new named pipe.
        Fifo = 3,
        /// A new socket.
        Socket = 4,
        /// A new character device.
        CharDevice = 5,
        /// A new block device.
        BlockDevice = 6,
        /// An existing file, which gets one more name.
        Link = 7,
    }
}
