//! What a server knows of an open file, and the classes of information that it answers from it.

use super::{
    FileAccess, FileAlignment, FileAll, FileAttributeTag, FileAttributes, FileBasic,
    FileCompression, FileEa, FileIdInformation, FileInternal, FileMode, FileModeInformation,
    FileName, FileNetworkOpen, FilePosition, FileStandard, Information, InformationClass, Stream,
    encode_streams,
};
use crate::access::AccessMask;
use crate::filetime::FileTime;
use crate::status::NtStatus;

/// Bytes of FileAllInformation without the name, in multiples of 8 (MS-FSA 2.1.5.12.2).
const ALL_FIXED_BYTES: usize = 104;
/// Bytes of FileNameInformation without the name, in multiples of 8.
const NAME_FIXED_BYTES: usize = 8;
/// Bytes of an entry of FileStreamInformation without the name.
const STREAM_FIXED_BYTES: usize = 24;

/// A file and its open.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct FileFacts {
    /// When it was created.
    pub creation: FileTime,
    /// When it was last read.
    pub last_access: FileTime,
    /// When its bytes last changed.
    pub last_write: FileTime,
    /// When its bytes or attributes last changed.
    pub change: FileTime,
    /// Attributes.
    pub attributes: FileAttributes,
    /// The kind of its reparse point, with [`FileAttributes::REPARSE_POINT`].
    pub reparse_tag: u32,
    /// Bytes of the file.
    pub end_of_file: u64,
    /// Bytes on disks.
    pub allocation_bytes: u64,
    /// Names of the file.
    pub links: u32,
    /// Whether the last close removes it.
    pub delete_pending: bool,
    /// Whether it is a directory.
    pub directory: bool,
    /// Names the file in its volume.
    pub file_id: u64,
    /// The serial number of the volume.
    pub volume_serial: u64,
    /// Bytes of all extended attributes ([`super::ea_list_bytes`]).
    pub ea_bytes: u32,
    /// What the open may do.
    pub access: AccessMask,
    /// The offset that a client gave to the open.
    pub position: u64,
    /// How it is open.
    pub mode: FileMode,
    /// The path from the root of the share, which begins with `\`.
    pub name: String,
    /// Named streams, without that of the file's own bytes.
    pub streams: Vec<Stream>,
}

/// Information as a client gets it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Encoded {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Whether the client's buffer is too small for all, so that the response has the status
    /// BUFFER_OVERFLOW.
    pub truncated: bool,
}

impl Encoded {
    /// BUFFER_OVERFLOW or SUCCESS.
    pub fn status(&self) -> NtStatus {
        if self.truncated { NtStatus::BUFFER_OVERFLOW } else { NtStatus::SUCCESS }
    }

    /// What fits in a buffer of `max_bytes`.
    ///
    /// # Errors
    /// `INFO_LENGTH_MISMATCH`: not even the first `fixed_bytes` fit.
    pub(super) fn bounded(
        mut bytes: Vec<u8>,
        fixed_bytes: usize,
        max_bytes: usize,
    ) -> Result<Self, NtStatus> {
        if max_bytes < fixed_bytes {
            return Err(NtStatus::INFO_LENGTH_MISMATCH);
        }
        let truncated = bytes.len() > max_bytes;
        bytes.truncate(max_bytes);
        Ok(Self { bytes, truncated })
    }

    /// Information without a part that may be cut.
    pub(super) fn whole(information: &impl Information, max: usize) -> Result<Self, NtStatus> {
        let bytes = information.to_bytes();
        let fixed_bytes = bytes.len();
        Self::bounded(bytes, fixed_bytes, max)
    }
}

impl FileFacts {
    /// FileBasicInformation.
    pub fn basic(&self) -> FileBasic {
        FileBasic {
            creation: self.creation,
            last_access: self.last_access,
            last_write: self.last_write,
            change: self.change,
            attributes: self.attributes,
        }
    }

    /// FileStandardInformation.
    pub fn standard(&self) -> FileStandard {
        FileStandard {
            allocation_bytes: self.allocation_bytes,
            end_of_file: self.end_of_file,
            links: self.links,
            delete_pending: self.delete_pending,
            directory: self.directory,
        }
    }

    /// FileNetworkOpenInformation.
    pub fn network_open(&self) -> FileNetworkOpen {
        FileNetworkOpen {
            creation: self.creation,
            last_access: self.last_access,
            last_write: self.last_write,
            change: self.change,
            allocation_bytes: self.allocation_bytes,
            end_of_file: self.end_of_file,
            attributes: self.attributes,
        }
    }

    /// FileAllInformation.
    pub fn all(&self) -> FileAll {
        FileAll {
            basic: self.basic(),
            standard: self.standard(),
            internal: FileInternal { file_id: self.file_id },
            ea: FileEa { ea_bytes: self.ea_bytes },
            access: FileAccess { access: self.access },
            position: FilePosition { offset: self.position },
            mode: FileModeInformation { mode: self.mode },
            alignment: FileAlignment::default(),
            name: FileName { name: self.name.clone() },
        }
    }

    /// The number of the file in 128 bits: those over the first 64 are 0.
    pub fn file_id_128(&self) -> [u8; 16] {
        u128::from(self.file_id).to_le_bytes()
    }

    /// The information of a class, in a buffer of the client of `max_bytes`.
    ///
    /// # Errors
    /// - `INVALID_INFO_CLASS`: no such class can be read.
    /// - `INFO_LENGTH_MISMATCH`: the buffer is too small for its fixed fields (MS-FSA 2.1.5.12).
    /// - `OBJECT_NAME_NOT_FOUND`: of the class of a short name, since no file has one.
    pub fn encode(&self, class: InformationClass, max_bytes: usize) -> Result<Encoded, NtStatus> {
        let max = max_bytes;
        match class {
            InformationClass::BASIC => Encoded::whole(&self.basic(), max),
            InformationClass::STANDARD => Encoded::whole(&self.standard(), max),
            InformationClass::INTERNAL => {
                Encoded::whole(&FileInternal { file_id: self.file_id }, max)
            }
            InformationClass::EA => Encoded::whole(&FileEa { ea_bytes: self.ea_bytes }, max),
            InformationClass::ACCESS => Encoded::whole(&FileAccess { access: self.access }, max),
            InformationClass::POSITION => {
                Encoded::whole(&FilePosition { offset: self.position }, max)
            }
            InformationClass::MODE => Encoded::whole(&FileModeInformation { mode: self.mode }, max),
            InformationClass::ALIGNMENT => Encoded::whole(&FileAlignment::default(), max),
            InformationClass::NETWORK_OPEN => Encoded::whole(&self.network_open(), max),
            InformationClass::ATTRIBUTE_TAG => Encoded::whole(&self.attribute_tag(), max),
            InformationClass::COMPRESSION => Encoded::whole(&self.compression(), max),
            InformationClass::ID => {
                let (volume_serial, file_id) = (self.volume_serial, self.file_id_128());
                Encoded::whole(&FileIdInformation { volume_serial, file_id }, max)
            }
            InformationClass::ALL => Encoded::bounded(self.all().to_bytes(), ALL_FIXED_BYTES, max),
            InformationClass::NAME => self.path(&self.name, max),
            InformationClass::NORMALIZED_NAME => {
                // 2.4.36: the path from the share, without a separator before it.
                self.path(self.name.trim_start_matches('\\'), max)
            }
            InformationClass::STREAM if max < STREAM_FIXED_BYTES => {
                Err(NtStatus::INFO_LENGTH_MISMATCH)
            }
            InformationClass::STREAM => Ok(self.stream_list(max)),
            // No file has a short name here. Where others have one, MS-FSA 2.1.5.12.3 fails with
            // OBJECT_NAME_NOT_FOUND, which stops smbclient's `allinfo`. With this status it goes
            // on, as with other servers without short names.
            InformationClass::ALTERNATE_NAME => Err(NtStatus::NOT_SUPPORTED),
            _ => Err(NtStatus::INVALID_INFO_CLASS),
        }
    }

    fn attribute_tag(&self) -> FileAttributeTag {
        let is_reparse_point = self.attributes.has(FileAttributes::REPARSE_POINT);
        let reparse_tag = if is_reparse_point { self.reparse_tag } else { 0 };
        FileAttributeTag { attributes: self.attributes, reparse_tag }
    }

    fn compression(&self) -> FileCompression {
        FileCompression { compressed_bytes: self.allocation_bytes, ..FileCompression::default() }
    }

    fn path(&self, path: &str, max_bytes: usize) -> Result<Encoded, NtStatus> {
        let bytes = FileName { name: path.to_owned() }.to_bytes();
        Encoded::bounded(bytes, NAME_FIXED_BYTES, max_bytes)
    }

    fn stream_list(&self, max_bytes: usize) -> Encoded {
        let mut streams = Vec::with_capacity(1 + self.streams.len());
        // A directory has no bytes of its own.
        if !self.directory {
            streams.push(Stream {
                name: "::$DATA".to_owned(),
                bytes: self.end_of_file,
                allocation_bytes: self.allocation_bytes,
            });
        }
        streams.extend_from_slice(&self.streams);
        let (bytes, fitted) = encode_streams(&streams, max_bytes);
        Encoded { bytes, truncated: fitted < streams.len() }
    }
}
