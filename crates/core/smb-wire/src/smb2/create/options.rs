//! Numbers and bits of CREATE. MS-SMB2 2.2.13, 2.2.14.

use crate::smb2::bits::{bits, values};

values! {
    /// 2.2.13, RequestedOplockLevel.
    OplockLevel(u8) {
        /// None.
        NONE = 0,
        /// Reads may be cached.
        LEVEL_II = 1,
        /// Reads, writes and locks may be cached.
        EXCLUSIVE = 8,
        /// So may closes.
        BATCH = 9,
        /// A lease: its state is in a context.
        LEASE = 0xff,
    }

    /// 2.2.13, ImpersonationLevel.
    ImpersonationLevel(u32) {
        /// The server does not know the client.
        ANONYMOUS = 0,
        /// The server knows the client.
        IDENTIFICATION = 1,
        /// The server acts as the client.
        IMPERSONATION = 2,
        /// The server acts as the client at other servers.
        DELEGATE = 3,
    }

    /// 2.2.13, CreateDisposition.
    CreateDisposition(u32) {
        /// Replaces the file, or makes it.
        SUPERSEDE = 0,
        /// Opens the file, or fails.
        OPEN = 1,
        /// Makes the file, or fails.
        CREATE = 2,
        /// Opens the file, or makes it.
        OPEN_IF = 3,
        /// Truncates the file, or fails.
        OVERWRITE = 4,
        /// Truncates the file, or makes it.
        OVERWRITE_IF = 5,
    }

    /// 2.2.14, CreateAction.
    CreateAction(u32) {
        /// The file was replaced.
        SUPERSEDED = 0,
        /// The file was opened.
        OPENED = 1,
        /// The file was made.
        CREATED = 2,
        /// The file was truncated.
        OVERWRITTEN = 3,
    }
}

impl ImpersonationLevel {
    /// Whether the standard knows it; another is refused (3.3.5.9).
    pub fn is_known(self) -> bool {
        self.0 <= Self::DELEGATE.0
    }
}

impl CreateDisposition {
    /// Whether the standard knows it; another is refused (3.3.5.9).
    pub fn is_known(self) -> bool {
        self.0 <= Self::OVERWRITE_IF.0
    }

    /// Whether a file that is missing is made.
    pub fn creates(self) -> bool {
        matches!(self, Self::SUPERSEDE | Self::CREATE | Self::OPEN_IF | Self::OVERWRITE_IF)
    }

    /// Whether the data of a file that is there are removed.
    pub fn overwrites(self) -> bool {
        matches!(self, Self::SUPERSEDE | Self::OVERWRITE | Self::OVERWRITE_IF)
    }
}

bits! {
    /// What other opens of the file may do. 2.2.13, ShareAccess.
    ShareAccess(u32) {
        /// Read.
        READ = 1,
        /// Write.
        WRITE = 2,
        /// Delete or rename.
        DELETE = 4,
    }

    /// 2.2.13, CreateOptions.
    CreateOptions(u32) {
        /// Only a directory is opened or made.
        FILE_DIRECTORY_FILE = 0x1,
        /// Data are written to disks before a write ends.
        FILE_WRITE_THROUGH = 0x2,
        /// Reads and writes are sequential.
        FILE_SEQUENTIAL_ONLY = 0x4,
        /// No buffers in between.
        FILE_NO_INTERMEDIATE_BUFFERING = 0x8,
        /// Ignored.
        FILE_SYNCHRONOUS_IO_ALERT = 0x10,
        /// Ignored.
        FILE_SYNCHRONOUS_IO_NONALERT = 0x20,
        /// A directory is refused.
        FILE_NON_DIRECTORY_FILE = 0x40,
        /// Refused by the server.
        FILE_CREATE_TREE_CONNECTION = 0x80,
        /// Ends immediately if an oplock is broken.
        FILE_COMPLETE_IF_OPLOCKED = 0x100,
        /// The client knows no extended attributes; a file that needs them is refused.
        FILE_NO_EA_KNOWLEDGE = 0x200,
        /// Ignored.
        FILE_OPEN_REMOTE_INSTANCE = 0x400,
        /// Reads and writes are at random offsets.
        FILE_RANDOM_ACCESS = 0x800,
        /// The file is deleted when the last open of it ends.
        FILE_DELETE_ON_CLOSE = 0x1000,
        /// The name is a file id.
        FILE_OPEN_BY_FILE_ID = 0x2000,
        /// For backup.
        FILE_OPEN_FOR_BACKUP_INTENT = 0x4000,
        /// A new file is not compressed.
        FILE_NO_COMPRESSION = 0x8000,
        /// Ignored.
        FILE_OPEN_REQUIRING_OPLOCK = 0x1_0000,
        /// Ignored.
        FILE_DISALLOW_EXCLUSIVE = 0x2_0000,
        /// Refused by the server.
        FILE_RESERVE_OPFILTER = 0x10_0000,
        /// A reparse point is opened itself.
        FILE_OPEN_REPARSE_POINT = 0x20_0000,
        /// Data that are not online are not brought back.
        FILE_OPEN_NO_RECALL = 0x40_0000,
        /// For queries of free space.
        FILE_OPEN_FOR_FREE_SPACE_QUERY = 0x80_0000,
    }
}
