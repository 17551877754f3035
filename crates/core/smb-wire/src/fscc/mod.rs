//! Information about files, directories and volumes. MS-FSCC; section numbers are its.
//!
//! A server fills one [`FileFacts`], and [`FileFacts::encode`] makes each class of it that a client
//! can read. What a client sets is a [`SetInformation`]. Entries of directories are written by a
//! [`DirectoryWriter`].

mod attributes;
mod directory;
mod ea;
mod facts;
pub(crate) mod fields;
mod file;
mod list;
mod notify;
mod set;
mod stream;
#[cfg(test)]
mod tests;
mod volume;

pub use attributes::FileAttributes;
pub use directory::{DirectoryClass, DirectoryWriter, Entry, decode_directory};
pub use ea::{
    EA_NAME_BYTES_MAX, ExtendedAttribute, decode_ea_names, decode_eas, ea_list_bytes,
    encode_ea_names, encode_eas,
};
pub use facts::{Encoded, FileFacts};
pub use fields::{FileMode, Information};
pub use file::{
    FileAccess, FileAlignment, FileAll, FileAttributeTag, FileBasic, FileCompression, FileEa,
    FileIdInformation, FileInternal, FileModeInformation, FileName, FileNetworkOpen, FilePosition,
    FileStandard,
};
pub use list::{Entries, ListWriter};
pub use notify::{NotifyAction, NotifyEvent, decode_notify, encode_notify};
pub use set::{Disposition, RenameFlags, RenameTarget, SetBasic, SetInformation};
pub use stream::{Stream, decode_streams, encode_streams};
pub use volume::{
    FsAttribute, FsAttributes, FsControl, FsDevice, FsFullSize, FsLabel, FsObjectId, FsSectorSize,
    FsSize, FsVolume, VolumeClass, VolumeFacts,
};

/// The number of a class of information about a file. 2.4.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct InformationClass(pub u8);

macro_rules! classes {
    ($($name:ident = $number:literal,)*) => {
        impl InformationClass {
            $(#[doc = concat!("Class ", stringify!($number), ".")]
            pub const $name: Self = Self($number);)*
        }
    };
}

classes! {
    DIRECTORY = 1,
    FULL_DIRECTORY = 2,
    BOTH_DIRECTORY = 3,
    BASIC = 4,
    STANDARD = 5,
    INTERNAL = 6,
    EA = 7,
    ACCESS = 8,
    NAME = 9,
    RENAME = 10,
    LINK = 11,
    NAMES = 12,
    DISPOSITION = 13,
    POSITION = 14,
    FULL_EA = 15,
    MODE = 16,
    ALIGNMENT = 17,
    ALL = 18,
    ALLOCATION = 19,
    END_OF_FILE = 20,
    ALTERNATE_NAME = 21,
    STREAM = 22,
    PIPE = 23,
    PIPE_LOCAL = 24,
    COMPRESSION = 28,
    NETWORK_OPEN = 34,
    ATTRIBUTE_TAG = 35,
    ID_BOTH_DIRECTORY = 37,
    ID_FULL_DIRECTORY = 38,
    VALID_DATA_LENGTH = 39,
    SHORT_NAME = 40,
    NORMALIZED_NAME = 48,
    ID = 59,
    ID_EXTD_DIRECTORY = 60,
    DISPOSITION_EX = 64,
    RENAME_EX = 65,
}
