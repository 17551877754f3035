//! Information about a volume. 2.5.

use super::Information;
use super::facts::Encoded;
use super::fields::{Field, structure, wrapped_fields};
use crate::bits::bits;
use crate::cursor::{self, Reader, Writer, to_utf16, utf16};
use crate::filetime::FileTime;
use crate::status::NtStatus;

bits! {
    /// What a file system can do. 2.5.1.
    pub struct FsAttributes(u32) {
        /// Names in other cases are other names.
        CASE_SENSITIVE_SEARCH = 0x1,
        /// The case of a name is kept.
        CASE_PRESERVED_NAMES = 0x2,
        /// Names have all of Unicode.
        UNICODE_ON_DISK = 0x4,
        /// Access lists are kept and obeyed.
        PERSISTENT_ACLS = 0x8,
        /// Quotas.
        VOLUME_QUOTAS = 0x20,
        /// Files with holes.
        SUPPORTS_SPARSE_FILES = 0x40,
        /// Reparse points.
        SUPPORTS_REPARSE_POINTS = 0x80,
        /// Numbers of objects.
        SUPPORTS_OBJECT_IDS = 0x1_0000,
        /// Named streams.
        NAMED_STREAMS = 0x4_0000,
        /// It cannot be written.
        READ_ONLY_VOLUME = 0x8_0000,
        /// Several names of a file.
        SUPPORTS_HARD_LINKS = 0x40_0000,
        /// Extended attributes.
        SUPPORTS_EXTENDED_ATTRIBUTES = 0x80_0000,
        /// Files are opened by their number.
        SUPPORTS_OPEN_BY_FILE_ID = 0x100_0000,
    }
}

wrapped_fields! { FsAttributes }

structure! {
    /// FileFsLabelInformation. 2.5.5.
    pub struct FsLabel {
        /// The name of the volume.
        label: String;
    }

    /// FileFsSizeInformation. 2.5.8.
    pub struct FsSize {
        /// Units of the volume.
        total_units: u64;
        /// Free units that the user may use.
        available_units: u64;
        /// Sectors of a unit.
        sectors_per_unit: u32;
        /// Bytes of a sector.
        bytes_per_sector: u32;
    }

    /// FileFsFullSizeInformation. 2.5.4.
    pub struct FsFullSize {
        /// Units of the volume.
        total_units: u64;
        /// Free units that the user may use.
        caller_available_units: u64;
        /// Free units.
        available_units: u64;
        /// Sectors of a unit.
        sectors_per_unit: u32;
        /// Bytes of a sector.
        bytes_per_sector: u32;
    }

    /// FileFsDeviceInformation. 2.5.10.
    pub struct FsDevice {
        /// 7: a disk.
        device_type: u32;
        /// 0x20: it is mounted.
        characteristics: u32;
    }

    /// FileFsAttributeInformation. 2.5.1.
    pub struct FsAttribute {
        /// What it can do.
        attributes: FsAttributes;
        /// Characters of a name.
        name_characters_max: u32;
        /// The kind of the file system; programs ask for `NTFS`.
        file_system: String;
    }

    /// FileFsControlInformation: quotas. 2.5.2.
    pub struct FsControl {
        /// Free bytes at which filtering of content begins.
        free_space_start_filtering: u64;
        /// Free bytes at which it may begin.
        free_space_threshold: u64;
        /// Free bytes at which it ends.
        free_space_stop_filtering: u64;
        /// Bytes at which a user is warned; all bits: never.
        default_quota_threshold: u64;
        /// Bytes that a user may have; all bits: no limit.
        default_quota_limit: u64;
        /// 1: quotas are counted; 2: and enforced.
        flags: u32, + 4;
    }

    /// FileFsObjectIdInformation. 2.5.6.
    pub struct FsObjectId {
        /// Names the volume.
        object_id: [u8; 16], + 48;
    }

    /// FileFsSectorSizeInformation. 2.5.7.
    pub struct FsSectorSize {
        /// Bytes of a sector.
        logical_bytes: u32;
        /// Bytes that a disk writes as a whole.
        physical_bytes_for_atomicity: u32;
        /// Bytes that are best for speed.
        physical_bytes_for_performance: u32;
        /// Bytes that the file system takes as written as a whole.
        effective_bytes_for_atomicity: u32;
        /// 1: the device is aligned; 2: the partition is; 4: no seeks; 8: it knows TRIM.
        flags: u32;
        /// Bytes before the first sector in a unit of the disk.
        sector_alignment: u32;
        /// Bytes before the first one of the partition.
        partition_alignment: u32;
    }
}

/// FileFsVolumeInformation. 2.5.9.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FsVolume {
    /// When the volume was made.
    pub creation: FileTime,
    /// Its serial number.
    pub serial: u32,
    /// Whether it has numbers of objects in the object-oriented sense; false.
    pub supports_objects: bool,
    /// Its name.
    pub label: String,
}

/// Bytes of FileFsVolumeInformation without the name, in multiples of 8 (MS-FSA 2.1.5.13).
const VOLUME_FIXED_BYTES: usize = 24;
/// Bytes of FileFsAttributeInformation without the name, in multiples of 8.
const ATTRIBUTE_FIXED_BYTES: usize = 16;

impl Information for FsVolume {
    fn decode(reader: &mut Reader) -> cursor::Result<Self> {
        let creation = FileTime(reader.u64()?);
        let serial = reader.u32()?;
        let length = reader.u32()? as usize;
        let supports_objects = reader.u8()? != 0;
        reader.skip(1)?;
        let label = utf16(&reader.take(length)?)?;
        Ok(Self { creation, serial, supports_objects, label })
    }

    fn encode(&self, writer: &mut Writer) {
        let label = to_utf16(&self.label);
        writer.u64(self.creation.0);
        writer.u32(self.serial);
        writer.u32(label.len() as u32);
        writer.u8(u8::from(self.supports_objects));
        writer.u8(0);
        writer.bytes(&label);
    }
}

/// The number of a class of information about a volume. 2.5.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct VolumeClass(pub u8);

impl VolumeClass {
    /// FileFsVolumeInformation.
    pub const VOLUME: Self = Self(1);
    /// FileFsLabelInformation.
    pub const LABEL: Self = Self(2);
    /// FileFsSizeInformation.
    pub const SIZE: Self = Self(3);
    /// FileFsDeviceInformation.
    pub const DEVICE: Self = Self(4);
    /// FileFsAttributeInformation.
    pub const ATTRIBUTE: Self = Self(5);
    /// FileFsControlInformation.
    pub const CONTROL: Self = Self(6);
    /// FileFsFullSizeInformation.
    pub const FULL_SIZE: Self = Self(7);
    /// FileFsObjectIdInformation.
    pub const OBJECT_ID: Self = Self(8);
    /// FileFsSectorSizeInformation.
    pub const SECTOR_SIZE: Self = Self(11);
}

/// What a server knows of the volume of a share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct VolumeFacts {
    /// When it was made.
    pub creation: FileTime,
    /// Its serial number.
    pub serial: u32,
    /// Its name.
    pub label: String,
    /// Units, in all, free, and free for the user.
    pub total_units: u64,
    /// Free units.
    pub available_units: u64,
    /// Free units that the user may use.
    pub caller_available_units: u64,
    /// Sectors of a unit.
    pub sectors_per_unit: u32,
    /// Bytes of a sector.
    pub bytes_per_sector: u32,
    /// What it can do.
    pub attributes: FsAttributes,
    /// Characters of a name.
    pub name_characters_max: u32,
    /// The kind of the file system.
    pub file_system: String,
    /// Names the volume.
    pub object_id: [u8; 16],
}

impl VolumeFacts {
    /// The information of a class, in a buffer of the client of `max_bytes`.
    ///
    /// # Errors
    /// - `INVALID_INFO_CLASS`: no such class can be read.
    /// - `INFO_LENGTH_MISMATCH`: the buffer is too small for its fixed fields.
    pub fn encode(&self, class: VolumeClass, max_bytes: usize) -> Result<Encoded, NtStatus> {
        let max = max_bytes;
        match class {
            VolumeClass::VOLUME => {
                let volume = FsVolume {
                    creation: self.creation,
                    serial: self.serial,
                    supports_objects: false,
                    label: self.label.clone(),
                };
                Encoded::bounded(volume.to_bytes(), VOLUME_FIXED_BYTES, max)
            }
            VolumeClass::SIZE => Encoded::whole(&self.size(), max),
            VolumeClass::FULL_SIZE => Encoded::whole(&self.full_size(), max),
            VolumeClass::DEVICE => {
                Encoded::whole(&FsDevice { device_type: 7, characteristics: 0x20 }, max)
            }
            VolumeClass::ATTRIBUTE => {
                let attribute = FsAttribute {
                    attributes: self.attributes,
                    name_characters_max: self.name_characters_max,
                    file_system: self.file_system.clone(),
                };
                Encoded::bounded(attribute.to_bytes(), ATTRIBUTE_FIXED_BYTES, max)
            }
            VolumeClass::CONTROL => {
                let control = FsControl {
                    default_quota_threshold: u64::MAX,
                    default_quota_limit: u64::MAX,
                    ..FsControl::default()
                };
                Encoded::whole(&control, max)
            }
            VolumeClass::OBJECT_ID => {
                Encoded::whole(&FsObjectId { object_id: self.object_id }, max)
            }
            VolumeClass::SECTOR_SIZE => Encoded::whole(&self.sector_size(), max),
            _ => Err(NtStatus::INVALID_INFO_CLASS),
        }
    }

    fn size(&self) -> FsSize {
        FsSize {
            total_units: self.total_units,
            available_units: self.caller_available_units,
            sectors_per_unit: self.sectors_per_unit,
            bytes_per_sector: self.bytes_per_sector,
        }
    }

    fn full_size(&self) -> FsFullSize {
        FsFullSize {
            total_units: self.total_units,
            caller_available_units: self.caller_available_units,
            available_units: self.available_units,
            sectors_per_unit: self.sectors_per_unit,
            bytes_per_sector: self.bytes_per_sector,
        }
    }

    fn sector_size(&self) -> FsSectorSize {
        let bytes = self.bytes_per_sector;
        FsSectorSize {
            logical_bytes: bytes,
            physical_bytes_for_atomicity: bytes,
            physical_bytes_for_performance: bytes,
            effective_bytes_for_atomicity: bytes,
            // Aligned twice, and it knows TRIM (MS-FSCC 2.5.7).
            flags: 1 | 2 | 8,
            ..FsSectorSize::default()
        }
    }
}
