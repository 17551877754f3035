//! Information about a file. 2.4.

use super::fields::{FileMode, structure};
use super::{FileAttributes, Information};
use crate::access::AccessMask;
use crate::cursor::{Reader, Result, Writer};
use crate::filetime::FileTime;

structure! {
    /// FileStandardInformation. 2.4.47.
    pub struct FileStandard {
        /// Bytes on disks.
        allocation_bytes: u64;
        /// Bytes of the file.
        end_of_file: u64;
        /// Names of the file.
        links: u32;
        /// Whether the last close removes it.
        delete_pending: bool;
        /// Whether it is a directory.
        directory: bool, + 2;
    }

    /// FileInternalInformation. 2.4.26.
    pub struct FileInternal {
        /// Names the file in its volume.
        file_id: u64;
    }

    /// FileEaInformation. 2.4.13.
    pub struct FileEa {
        /// Bytes of all extended attributes.
        ea_bytes: u32;
    }

    /// FileAccessInformation. 2.4.1.
    pub struct FileAccess {
        /// What the open may do.
        access: AccessMask;
    }

    /// FilePositionInformation. 2.4.40.
    pub struct FilePosition {
        /// Offset that the open has, which the server does not use.
        offset: u64;
    }

    /// FileModeInformation. 2.4.31.
    pub struct FileModeInformation {
        /// How the file is open.
        mode: FileMode;
    }

    /// FileAlignmentInformation. 2.4.3.
    pub struct FileAlignment {
        /// A multiple, less 1, that addresses of buffers must have.
        alignment: u32;
    }

    /// FileNameInformation (2.4.32), and FileNormalizedNameInformation (2.4.36).
    pub struct FileName {
        /// The path from the root of the volume.
        name: String;
    }

    /// FileAttributeTagInformation. 2.4.6.
    pub struct FileAttributeTag {
        /// Attributes.
        attributes: FileAttributes;
        /// The kind of its reparse point.
        reparse_tag: u32;
    }

    /// FileCompressionInformation. 2.4.9.
    pub struct FileCompression {
        /// Bytes of the compressed file.
        compressed_bytes: u64;
        /// 0: it is not compressed.
        format: u16;
        /// Bytes of a unit, as a power of 2.
        unit_shift: u8;
        /// Bytes of a chunk, as a power of 2.
        chunk_shift: u8;
        /// Bytes of a cluster, as a power of 2.
        cluster_shift: u8, + 3;
    }

    /// FileNetworkOpenInformation. 2.4.34.
    pub struct FileNetworkOpen {
        /// When it was created.
        creation: FileTime;
        /// When it was last read.
        last_access: FileTime;
        /// When its bytes last changed.
        last_write: FileTime;
        /// When its bytes or attributes last changed.
        change: FileTime;
        /// Bytes on disks.
        allocation_bytes: u64;
        /// Bytes of the file.
        end_of_file: u64;
        /// Attributes.
        attributes: FileAttributes, + 4;
    }

    /// FileIdInformation. 2.4.23.
    pub struct FileIdInformation {
        /// The serial number of the volume.
        volume_serial: u64;
        /// Names the file in its volume.
        file_id: [u8; 16];
    }

    /// FileBasicInformation, read. 2.4.7. To set, it is [`SetBasic`](super::SetBasic).
    pub struct FileBasic {
        /// When it was created.
        creation: FileTime;
        /// When it was last read.
        last_access: FileTime;
        /// When its bytes last changed.
        last_write: FileTime;
        /// When its bytes or attributes last changed.
        change: FileTime;
        /// Attributes.
        attributes: FileAttributes, + 4;
    }
}

/// FileAllInformation. 2.4.2.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileAll {
    /// Times and attributes.
    pub basic: FileBasic,
    /// Sizes and links.
    pub standard: FileStandard,
    /// The number of the file.
    pub internal: FileInternal,
    /// Bytes of extended attributes.
    pub ea: FileEa,
    /// What the open may do.
    pub access: FileAccess,
    /// The offset of the open.
    pub position: FilePosition,
    /// How it is open.
    pub mode: FileModeInformation,
    /// Alignment of buffers.
    pub alignment: FileAlignment,
    /// Its path.
    pub name: FileName,
}

impl Information for FileAll {
    fn decode(reader: &mut Reader) -> Result<Self> {
        Ok(Self {
            basic: Information::decode(reader)?,
            standard: Information::decode(reader)?,
            internal: Information::decode(reader)?,
            ea: Information::decode(reader)?,
            access: Information::decode(reader)?,
            position: Information::decode(reader)?,
            mode: Information::decode(reader)?,
            alignment: Information::decode(reader)?,
            name: Information::decode(reader)?,
        })
    }

    fn encode(&self, writer: &mut Writer) {
        self.basic.encode(writer);
        self.standard.encode(writer);
        self.internal.encode(writer);
        self.ea.encode(writer);
        self.access.encode(writer);
        self.position.encode(writer);
        self.mode.encode(writer);
        self.alignment.encode(writer);
        self.name.encode(writer);
    }
}
