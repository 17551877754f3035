//! What clients set. 2.4.

use bytes::Bytes;

use super::fields::{FileMode, structure};
use super::{
    ExtendedAttribute, FileAttributes, Information, InformationClass, decode_eas, encode_eas,
};
use crate::bits::bits;
use crate::cursor::{self, Reader, Writer, to_utf16, utf16};
use crate::filetime::TimeChange;
use crate::status::NtStatus;

structure! {
    /// FileBasicInformation, to set. 2.4.7.
    pub struct SetBasic {
        /// When it was created.
        creation: TimeChange;
        /// When it was last read.
        last_access: TimeChange;
        /// When its bytes last changed.
        last_write: TimeChange;
        /// When its bytes or attributes last changed.
        change: TimeChange;
        /// Attributes; 0: they do not change.
        attributes: FileAttributes, + 4;
    }
}

bits! {
    /// What becomes of a file at its last close. 2.4.12.
    pub struct Disposition(u32) {
        /// It is removed.
        DELETE = 0x1,
        /// Its name goes when this open is closed, though others are left.
        POSIX_SEMANTICS = 0x2,
        /// Only if no program runs from it.
        FORCE_IMAGE_SECTION_CHECK = 0x4,
        /// Changes what the open itself does when it is closed.
        ON_CLOSE = 0x8,
        /// A READONLY file is removed too.
        IGNORE_READONLY = 0x10,
    }
}

bits! {
    /// How a file is renamed. 2.4.43.
    pub struct RenameFlags(u32) {
        /// A file that has the new name is replaced.
        REPLACE_IF_EXISTS = 0x1,
        /// Even if that file is open.
        POSIX_SEMANTICS = 0x2,
        /// Even if that file is READONLY.
        IGNORE_READONLY = 0x40,
    }
}

/// A new name. 2.4.42.2 and 2.4.27.2, the form of SMB 2.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct RenameTarget {
    /// How; a link knows only [`RenameFlags::REPLACE_IF_EXISTS`].
    pub flags: RenameFlags,
    /// 0; another number is not valid in SMB.
    pub root_directory: u64,
    /// The path from the root of the share.
    pub name: String,
}

impl RenameTarget {
    /// `extended`: with 32 bits of flags instead of a boolean.
    fn decode(reader: &mut Reader, extended: bool) -> cursor::Result<Self> {
        let flags = if extended {
            let flags = reader.u32()?;
            reader.skip(4)?;
            RenameFlags(flags)
        } else {
            let replace = reader.u8()? != 0;
            reader.skip(7)?;
            RenameFlags(u32::from(replace))
        };
        let root_directory = reader.u64()?;
        let length = reader.u32()? as usize;
        Ok(Self { flags, root_directory, name: utf16(&reader.take(length)?)? })
    }

    fn encode(&self, writer: &mut Writer, extended: bool) {
        if extended {
            writer.u32(self.flags.0);
            writer.zeros(4);
        } else {
            writer.u8(u8::from(self.flags.has(RenameFlags::REPLACE_IF_EXISTS)));
            writer.zeros(7);
        }
        let name = to_utf16(&self.name);
        writer.u64(self.root_directory);
        writer.u32(name.len() as u32);
        writer.bytes(&name);
        // The structure of a Windows client has at least 24 bytes.
        writer.zeros(4usize.saturating_sub(name.len()));
    }
}

/// Information that a client sets.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum SetInformation {
    /// Times and attributes.
    Basic(SetBasic),
    /// [`Disposition::DELETE`] or nothing.
    Disposition(Disposition),
    /// With all flags.
    DispositionEx(Disposition),
    /// Bytes of the file.
    EndOfFile(u64),
    /// Bytes on disks.
    Allocation(u64),
    /// Another name, with [`RenameFlags::REPLACE_IF_EXISTS`] or nothing.
    Rename(RenameTarget),
    /// Another name, with all flags.
    RenameEx(RenameTarget),
    /// One more name.
    Link(RenameTarget),
    /// An offset, which is only kept.
    Position(u64),
    /// How the file is open.
    Mode(FileMode),
    /// Extended attributes.
    FullEa(Vec<ExtendedAttribute>),
}

impl SetInformation {
    /// Reads what a client sets.
    ///
    /// # Errors
    /// - `INVALID_INFO_CLASS`: the class cannot be set, or is not known.
    /// - `INFO_LENGTH_MISMATCH`: too few bytes for the fixed fields of the class.
    /// - `INVALID_PARAMETER`: the bytes do not follow the format.
    pub fn decode(class: InformationClass, bytes: Bytes) -> Result<Self, NtStatus> {
        let fixed_bytes = match class {
            InformationClass::BASIC => 40,
            InformationClass::RENAME | InformationClass::RENAME_EX | InformationClass::LINK => 20,
            InformationClass::DISPOSITION => 1,
            InformationClass::DISPOSITION_EX | InformationClass::MODE => 4,
            InformationClass::END_OF_FILE
            | InformationClass::ALLOCATION
            | InformationClass::POSITION
            | InformationClass::FULL_EA => 8,
            _ => return Err(NtStatus::INVALID_INFO_CLASS),
        };
        if bytes.len() < fixed_bytes {
            return Err(NtStatus::INFO_LENGTH_MISMATCH);
        }
        let decoded = Self::decode_class(class, bytes);
        let decoded = decoded.map_err(|_| NtStatus::INVALID_PARAMETER)?;
        match decoded {
            // Numbers of bytes are signed.
            Self::EndOfFile(bytes) | Self::Allocation(bytes) | Self::Position(bytes)
                if bytes > i64::MAX as u64 =>
            {
                Err(NtStatus::INVALID_PARAMETER)
            }
            decoded => Ok(decoded),
        }
    }

    fn decode_class(class: InformationClass, bytes: Bytes) -> cursor::Result<Self> {
        let reader = &mut Reader::new(bytes.clone());
        Ok(match class {
            InformationClass::BASIC => Self::Basic(Information::decode(reader)?),
            InformationClass::DISPOSITION => {
                let delete = reader.u8()? != 0;
                Self::Disposition(Disposition(u32::from(delete)))
            }
            InformationClass::DISPOSITION_EX => Self::DispositionEx(Disposition(reader.u32()?)),
            InformationClass::END_OF_FILE => Self::EndOfFile(reader.u64()?),
            InformationClass::ALLOCATION => Self::Allocation(reader.u64()?),
            InformationClass::RENAME => Self::Rename(RenameTarget::decode(reader, false)?),
            InformationClass::RENAME_EX => Self::RenameEx(RenameTarget::decode(reader, true)?),
            InformationClass::LINK => Self::Link(RenameTarget::decode(reader, false)?),
            InformationClass::POSITION => Self::Position(reader.u64()?),
            InformationClass::MODE => Self::Mode(FileMode(reader.u32()?)),
            _ => Self::FullEa(decode_eas(bytes)?),
        })
    }

    /// Its class.
    pub fn class(&self) -> InformationClass {
        match self {
            Self::Basic(_) => InformationClass::BASIC,
            Self::Disposition(_) => InformationClass::DISPOSITION,
            Self::DispositionEx(_) => InformationClass::DISPOSITION_EX,
            Self::EndOfFile(_) => InformationClass::END_OF_FILE,
            Self::Allocation(_) => InformationClass::ALLOCATION,
            Self::Rename(_) => InformationClass::RENAME,
            Self::RenameEx(_) => InformationClass::RENAME_EX,
            Self::Link(_) => InformationClass::LINK,
            Self::Position(_) => InformationClass::POSITION,
            Self::Mode(_) => InformationClass::MODE,
            Self::FullEa(_) => InformationClass::FULL_EA,
        }
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        match self {
            Self::Basic(basic) => basic.encode(&mut writer),
            Self::Disposition(flags) => writer.u8(u8::from(flags.has(Disposition::DELETE))),
            Self::DispositionEx(flags) => writer.u32(flags.0),
            Self::EndOfFile(number) | Self::Allocation(number) | Self::Position(number) => {
                writer.u64(*number);
            }
            Self::Rename(target) | Self::Link(target) => target.encode(&mut writer, false),
            Self::RenameEx(target) => target.encode(&mut writer, true),
            Self::Mode(mode) => writer.u32(mode.0),
            Self::FullEa(attributes) => return encode_eas(attributes, usize::MAX).0,
        }
        writer.finish()
    }
}
