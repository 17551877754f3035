//! Attributes of files. 2.6.

use crate::bits::bits;

bits! {
    /// File attributes.
    pub struct FileAttributes(u32) {
        /// It cannot be written.
        READONLY = 0x1,
        /// Not shown by default.
        HIDDEN = 0x2,
        /// Belongs to the operating system.
        SYSTEM = 0x4,
        /// A directory.
        DIRECTORY = 0x10,
        /// To be saved by the next backup.
        ARCHIVE = 0x20,
        /// No other attribute; it stands alone.
        NORMAL = 0x80,
        /// Removed soon.
        TEMPORARY = 0x100,
        /// Has holes.
        SPARSE_FILE = 0x200,
        /// Has a reparse point, for example a symbolic link.
        REPARSE_POINT = 0x400,
        /// Compressed.
        COMPRESSED = 0x800,
        /// Its bytes are not soon available.
        OFFLINE = 0x1000,
        /// Not in the index of a search.
        NOT_CONTENT_INDEXED = 0x2000,
        /// Encrypted.
        ENCRYPTED = 0x4000,
        /// Has integrity streams.
        INTEGRITY_STREAM = 0x8000,
        /// Not read by a scrubber.
        NO_SCRUB_DATA = 0x2_0000,
        /// Those that a client can set.
        SETTABLE = 0x2_31a7,
    }
}
