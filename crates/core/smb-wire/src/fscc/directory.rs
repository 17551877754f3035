//! Entries of a directory. 2.4.10, 2.4.8, 2.4.14, 2.4.17, 2.4.18, 2.4.20, 2.4.33.

use bytes::Bytes;

use super::list::{Entries, ListWriter};
use super::{FileAttributes, InformationClass};
use crate::cursor::{Reader, Result, Writer, to_utf16, utf16};
use crate::filetime::FileTime;

/// Bytes of the field of a short name.
const SHORT_NAME_BYTES: usize = 24;

/// Which of its classes a list of entries has.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DirectoryClass {
    /// FileDirectoryInformation: times, sizes, attributes.
    Directory,
    /// FileFullDirectoryInformation: and extended attributes.
    FullDirectory,
    /// FileBothDirectoryInformation: and a short name.
    BothDirectory,
    /// FileIdBothDirectoryInformation: and a number.
    IdBothDirectory,
    /// FileIdFullDirectoryInformation: no short name, but a number.
    IdFullDirectory,
    /// FileNamesInformation: names alone.
    Names,
    /// FileIdExtdDirectoryInformation: a number of 128 bits.
    IdExtdDirectory,
}

impl DirectoryClass {
    /// All classes.
    pub const ALL: [Self; 7] = [
        Self::Directory,
        Self::FullDirectory,
        Self::BothDirectory,
        Self::IdBothDirectory,
        Self::IdFullDirectory,
        Self::Names,
        Self::IdExtdDirectory,
    ];

    /// The class with this number.
    pub fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|class| class.number() == number)
    }

    /// Its number. 2.4.
    pub const fn number(self) -> u8 {
        self.information_class().0
    }

    const fn information_class(self) -> InformationClass {
        match self {
            Self::Directory => InformationClass::DIRECTORY,
            Self::FullDirectory => InformationClass::FULL_DIRECTORY,
            Self::BothDirectory => InformationClass::BOTH_DIRECTORY,
            Self::IdBothDirectory => InformationClass::ID_BOTH_DIRECTORY,
            Self::IdFullDirectory => InformationClass::ID_FULL_DIRECTORY,
            Self::Names => InformationClass::NAMES,
            Self::IdExtdDirectory => InformationClass::ID_EXTD_DIRECTORY,
        }
    }

    /// Bytes of an entry without its name.
    pub const fn fixed_bytes(self) -> usize {
        match self {
            Self::Directory => 64,
            Self::FullDirectory => 68,
            Self::BothDirectory => 94,
            Self::IdBothDirectory => 104,
            Self::IdFullDirectory => 80,
            Self::Names => 12,
            Self::IdExtdDirectory => 88,
        }
    }

    fn has_ea_bytes(self) -> bool {
        !matches!(self, Self::Directory | Self::Names)
    }

    fn has_short_name(self) -> bool {
        matches!(self, Self::BothDirectory | Self::IdBothDirectory)
    }
}

/// An entry, with all that a class can have.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Entry {
    /// A position in the directory; no server needs it.
    pub file_index: u32,
    /// When it was created.
    pub creation: FileTime,
    /// When it was last read.
    pub last_access: FileTime,
    /// When its bytes last changed.
    pub last_write: FileTime,
    /// When its bytes or attributes last changed.
    pub change: FileTime,
    /// Bytes of the file.
    pub end_of_file: u64,
    /// Bytes on disks.
    pub allocation_bytes: u64,
    /// Attributes.
    pub attributes: FileAttributes,
    /// Bytes of all extended attributes.
    pub ea_bytes: u32,
    /// The kind of its reparse point, with [`FileAttributes::REPARSE_POINT`].
    pub reparse_tag: u32,
    /// A name of at most 12 characters, or none.
    pub short_name: String,
    /// Names the file in its volume.
    pub file_id: u64,
    /// The name.
    pub name: String,
}

impl Entry {
    /// Bytes of extended attributes; of a reparse point its kind (2.4.8, EaSize).
    fn ea_field(&self) -> u32 {
        if self.attributes.has(FileAttributes::REPARSE_POINT) {
            self.reparse_tag
        } else {
            self.ea_bytes
        }
    }

    fn set_ea_field(&mut self, value: u32) {
        if self.attributes.has(FileAttributes::REPARSE_POINT) {
            self.reparse_tag = value;
        } else {
            self.ea_bytes = value;
        }
    }

    /// Appends what follows `NextEntryOffset`.
    fn encode(&self, class: DirectoryClass, writer: &mut Writer) {
        let name = to_utf16(&self.name);
        writer.u32(self.file_index);
        if class == DirectoryClass::Names {
            writer.u32(name.len() as u32);
            writer.bytes(&name);
            return;
        }
        for time in [self.creation, self.last_access, self.last_write, self.change] {
            writer.u64(time.0);
        }
        writer.u64(self.end_of_file);
        writer.u64(self.allocation_bytes);
        writer.u32(self.attributes.0);
        writer.u32(name.len() as u32);
        if class == DirectoryClass::IdExtdDirectory {
            writer.u32(self.ea_bytes);
            writer.u32(self.reparse_tag);
            writer.u64(self.file_id);
            writer.u64(0);
        } else if class.has_ea_bytes() {
            writer.u32(self.ea_field());
        }
        if class.has_short_name() {
            let mut short = to_utf16(&self.short_name);
            short.truncate(SHORT_NAME_BYTES);
            writer.u8(short.len() as u8);
            writer.u8(0);
            writer.bytes(&short);
            writer.zeros(SHORT_NAME_BYTES - short.len());
        }
        match class {
            DirectoryClass::IdBothDirectory => writer.u16(0),
            DirectoryClass::IdFullDirectory => writer.u32(0),
            _ => {}
        }
        if matches!(class, DirectoryClass::IdBothDirectory | DirectoryClass::IdFullDirectory) {
            writer.u64(self.file_id);
        }
        writer.bytes(&name);
    }

    fn decode(class: DirectoryClass, reader: &mut Reader) -> Result<Self> {
        let mut entry = Self { file_index: reader.u32()?, ..Self::default() };
        if class == DirectoryClass::Names {
            let length = reader.u32()? as usize;
            entry.name = utf16(&reader.take(length)?)?;
            return Ok(entry);
        }
        entry.creation = FileTime(reader.u64()?);
        entry.last_access = FileTime(reader.u64()?);
        entry.last_write = FileTime(reader.u64()?);
        entry.change = FileTime(reader.u64()?);
        entry.end_of_file = reader.u64()?;
        entry.allocation_bytes = reader.u64()?;
        entry.attributes = FileAttributes(reader.u32()?);
        let length = reader.u32()? as usize;
        if class == DirectoryClass::IdExtdDirectory {
            entry.ea_bytes = reader.u32()?;
            entry.reparse_tag = reader.u32()?;
            entry.file_id = reader.u64()?;
            reader.skip(8)?;
        } else if class.has_ea_bytes() {
            let value = reader.u32()?;
            entry.set_ea_field(value);
        }
        if class.has_short_name() {
            let length = usize::from(reader.u8()?).min(SHORT_NAME_BYTES);
            reader.skip(1)?;
            entry.short_name = utf16(&reader.take(SHORT_NAME_BYTES)?[..length])?;
        }
        match class {
            DirectoryClass::IdBothDirectory => reader.skip(2)?,
            DirectoryClass::IdFullDirectory => reader.skip(4)?,
            _ => {}
        }
        if matches!(class, DirectoryClass::IdBothDirectory | DirectoryClass::IdFullDirectory) {
            entry.file_id = reader.u64()?;
        }
        entry.name = utf16(&reader.take(length)?)?;
        Ok(entry)
    }
}

/// Writes the entries of one response.
#[derive(Clone, Debug)]
pub struct DirectoryWriter {
    class: DirectoryClass,
    list: ListWriter,
}

impl DirectoryWriter {
    /// An empty list of at most `max_bytes`.
    pub fn new(class: DirectoryClass, max_bytes: usize) -> Self {
        // 2.4: each entry begins at a multiple of 8 bytes.
        Self { class, list: ListWriter::new(8, max_bytes) }
    }

    /// Appends an entry. Returns whether it fitted; if not, the list is what it was.
    pub fn push(&mut self, entry: &Entry) -> bool {
        let class = self.class;
        self.list.push(|writer| entry.encode(class, writer))
    }

    /// Whether it has no entry.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// The bytes of the list.
    pub fn finish(self) -> Vec<u8> {
        self.list.finish()
    }
}

/// The entries of a response.
///
/// # Errors
/// The bytes do not follow the format.
pub fn decode_directory(class: DirectoryClass, bytes: Bytes) -> Result<Vec<Entry>> {
    Entries::new(bytes).map(|entry| Entry::decode(class, &mut entry?)).collect()
}
