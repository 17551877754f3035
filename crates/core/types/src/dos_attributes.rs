//! Flags of a file that clients of SMB set and show: the DOS attributes of Windows.
//!
//! The numbers are those of MS-FSCC 2.6. A file that no such client has changed has no flags at
//! all; a gateway then shows what follows from its kind, its mode and its name. [`STORED`]
//! distinguishes such a file from one whose attributes were all cleared.

/// The flags are set, and nothing follows from kind, mode or name any more.
pub const STORED: u32 = 1 << 31;
/// READONLY, of a directory only. That of a file is in its mode: no right to write.
pub const READONLY: u32 = 0x1;
/// HIDDEN.
pub const HIDDEN: u32 = 0x2;
/// SYSTEM.
pub const SYSTEM: u32 = 0x4;
/// ARCHIVE: changed since the last backup. A change of the bytes sets it.
pub const ARCHIVE: u32 = 0x20;
/// TEMPORARY, of a file only.
pub const TEMPORARY: u32 = 0x100;
/// SPARSE, of a file only: a client has asked for holes to be shown (MS-FSCC 2.3.69). Every file
/// may have holes without it.
pub const SPARSE: u32 = 0x200;
/// OFFLINE.
pub const OFFLINE: u32 = 0x1000;
/// NOT_CONTENT_INDEXED.
pub const NOT_CONTENT_INDEXED: u32 = 0x2000;

/// All flags that can be set.
pub const ALL: u32 = STORED
    | READONLY
    | HIDDEN
    | SYSTEM
    | ARCHIVE
    | TEMPORARY
    | SPARSE
    | OFFLINE
    | NOT_CONTENT_INDEXED;

/// Whether these can be the flags of a file.
pub fn are_valid(flags: u32) -> bool {
    flags == 0 || (flags & STORED != 0 && flags & !ALL == 0)
}

/// The flags after a change of the bytes.
pub fn after_write(flags: u32) -> u32 {
    if flags & STORED == 0 { flags } else { flags | ARCHIVE }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flags_are_valid_with_the_mark_that_they_are_stored() {
        for (flags, valid) in [
            (0, true),
            (STORED, true),
            (STORED | HIDDEN | SYSTEM, true),
            (STORED | SPARSE, true),
            (HIDDEN, false),
            (STORED | 0x10, false),
            (STORED | 1 << 30, false),
        ] {
            assert_eq!(are_valid(flags), valid, "{flags:#x}");
        }
    }

    #[test]
    fn a_write_sets_archive_where_flags_are_stored() {
        assert_eq!(after_write(0), 0);
        assert_eq!(after_write(STORED), STORED | ARCHIVE);
        assert_eq!(after_write(STORED | ARCHIVE | HIDDEN), STORED | ARCHIVE | HIDDEN);
    }
}
