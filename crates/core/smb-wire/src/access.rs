//! What an open may do. MS-DTYP 2.4.3, MS-SMB2 2.2.13.1.

use crate::bits::bits;

bits! {
    /// An access mask. The bits of files and of directories have the same numbers.
    pub struct AccessMask(u32) {
        /// Read the bytes of a file.
        READ_DATA = 0x1,
        /// List a directory.
        LIST_DIRECTORY = 0x1,
        /// Write the bytes of a file.
        WRITE_DATA = 0x2,
        /// Create a file in a directory.
        ADD_FILE = 0x2,
        /// Write behind the end of a file.
        APPEND_DATA = 0x4,
        /// Create a directory in a directory.
        ADD_SUBDIRECTORY = 0x4,
        /// Read extended attributes.
        READ_EA = 0x8,
        /// Write extended attributes.
        WRITE_EA = 0x10,
        /// Execute a file.
        EXECUTE = 0x20,
        /// Pass through a directory.
        TRAVERSE = 0x20,
        /// Remove what is in a directory.
        DELETE_CHILD = 0x40,
        /// Read attributes.
        READ_ATTRIBUTES = 0x80,
        /// Change attributes.
        WRITE_ATTRIBUTES = 0x100,
        /// Remove or rename.
        DELETE = 0x1_0000,
        /// Read the security descriptor, without its audit list.
        READ_CONTROL = 0x2_0000,
        /// Change the access list.
        WRITE_DAC = 0x4_0000,
        /// Change the owner.
        WRITE_OWNER = 0x8_0000,
        /// Wait for the file; file servers ignore it.
        SYNCHRONIZE = 0x10_0000,
        /// Read or change the audit list.
        ACCESS_SYSTEM_SECURITY = 0x100_0000,
        /// As much as is allowed.
        MAXIMUM_ALLOWED = 0x200_0000,
        /// Everything: [`AccessMask::ALL`].
        GENERIC_ALL = 0x1000_0000,
        /// [`AccessMask::ALL_OF_EXECUTE`].
        GENERIC_EXECUTE = 0x2000_0000,
        /// [`AccessMask::ALL_OF_WRITE`].
        GENERIC_WRITE = 0x4000_0000,
        /// [`AccessMask::ALL_OF_READ`].
        GENERIC_READ = 0x8000_0000,
        /// What `GENERIC_READ` means for a file or directory.
        ALL_OF_READ = 0x12_0089,
        /// What `GENERIC_WRITE` means for a file or directory.
        ALL_OF_WRITE = 0x12_0116,
        /// What `GENERIC_EXECUTE` means for a file or directory.
        ALL_OF_EXECUTE = 0x12_00a0,
        /// What `GENERIC_ALL` means for a file or directory.
        ALL = 0x1f_01ff,
        /// The bits with a meaning in a request.
        VALID = 0xf31f_01ff,
    }
}

impl AccessMask {
    /// The mask with the bits that each generic bit stands for, and without generic bits. The
    /// mapping is the same for files and for directories (MS-SMB2 2.2.13.1.1, 2.2.13.1.2).
    #[must_use]
    pub const fn without_generic(self) -> Self {
        const MAPPING: [(AccessMask, AccessMask); 4] = [
            (AccessMask::GENERIC_READ, AccessMask::ALL_OF_READ),
            (AccessMask::GENERIC_WRITE, AccessMask::ALL_OF_WRITE),
            (AccessMask::GENERIC_EXECUTE, AccessMask::ALL_OF_EXECUTE),
            (AccessMask::GENERIC_ALL, AccessMask::ALL),
        ];
        let mut mask = self;
        let mut i = 0;
        while i < MAPPING.len() {
            let (generic, specific) = MAPPING[i];
            if self.has(generic) {
                mask = mask.with(specific).without(generic);
            }
            i += 1;
        }
        mask
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn generic_bits_stand_for_what_windows_maps_them_to() {
        let cases = [
            (0x8000_0000, 0x12_0089),
            (0x4000_0000, 0x12_0116),
            (0x2000_0000, 0x12_00a0),
            (0x1000_0000, 0x1f_01ff),
            (0x8001_0000, 0x13_0089),
            (0xc000_0000, 0x12_019f),
            (0x0200_0080, 0x0200_0080),
            (0, 0),
        ];
        for (wire, specific) in cases {
            assert_eq!(AccessMask(wire).without_generic(), AccessMask(specific), "{wire:#x}");
        }
    }
}
