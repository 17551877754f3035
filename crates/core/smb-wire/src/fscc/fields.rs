//! Structures of fixed fields.

use bytes::Bytes;

use super::FileAttributes;
use crate::access::AccessMask;
use crate::cursor::{Reader, Result, Writer};
use crate::filetime::{FileTime, TimeChange};
use crate::{Malformed, bits::bits};

/// Information that has a format of its own, in a buffer of its own.
pub trait Information: Sized {
    /// Reads it from the front of a buffer; bytes behind it are ignored.
    ///
    /// # Errors
    /// The bytes do not follow the format.
    fn decode(reader: &mut Reader) -> Result<Self>;

    /// Appends it.
    fn encode(&self, writer: &mut Writer);

    /// Reads it from a buffer.
    ///
    /// # Errors
    /// The bytes do not follow the format.
    fn from_bytes(bytes: Bytes) -> Result<Self> {
        Self::decode(&mut Reader::new(bytes))
    }

    /// Its bytes.
    fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.encode(&mut writer);
        writer.finish()
    }
}

/// A field of a structure.
pub(crate) trait Field: Sized {
    fn read(reader: &mut Reader) -> Result<Self>;
    fn write(&self, writer: &mut Writer);
}

macro_rules! number_fields {
    ($($number:ident)*) => {
        $(impl Field for $number {
            fn read(reader: &mut Reader) -> crate::cursor::Result<Self> {
                reader.$number()
            }

            fn write(&self, writer: &mut Writer) {
                writer.$number(*self);
            }
        })*
    };
}

number_fields! { u8 u16 u32 u64 }

macro_rules! wrapped_fields {
    ($($name:ident)*) => {
        $(impl Field for $name {
            fn read(reader: &mut Reader) -> crate::cursor::Result<Self> {
                Field::read(reader).map(Self)
            }

            fn write(&self, writer: &mut Writer) {
                self.0.write(writer);
            }
        })*
    };
}

wrapped_fields! { FileTime FileAttributes AccessMask }
pub(crate) use wrapped_fields;

impl Field for bool {
    fn read(reader: &mut Reader) -> crate::cursor::Result<Self> {
        // 2.1.8: 0 is false, and every other value true.
        reader.u8().map(|byte| byte != 0)
    }

    fn write(&self, writer: &mut Writer) {
        writer.u8(u8::from(*self));
    }
}

impl<const N: usize> Field for [u8; N] {
    fn read(reader: &mut Reader) -> crate::cursor::Result<Self> {
        reader.array()
    }

    fn write(&self, writer: &mut Writer) {
        writer.bytes(self);
    }
}

impl Field for TimeChange {
    fn read(reader: &mut Reader) -> crate::cursor::Result<Self> {
        Self::from_wire(reader.u64()?).ok_or(Malformed("FileBasicInformation: a time below -2"))
    }

    fn write(&self, writer: &mut Writer) {
        writer.u64(self.to_wire());
    }
}

/// Text behind its length in bytes (32 bits).
impl Field for String {
    fn read(reader: &mut Reader) -> crate::cursor::Result<Self> {
        let length = reader.u32()? as usize;
        crate::cursor::utf16(&reader.take(length)?)
    }

    fn write(&self, writer: &mut Writer) {
        let text = crate::cursor::to_utf16(self);
        writer.u32(text.len() as u32);
        writer.bytes(&text);
    }
}

/// Defines a structure whose fields follow each other; `+ N` after a field is N reserved bytes,
/// which are ignored and written as 0.
macro_rules! structure {
    ($(
        $(#[$doc:meta])*
        pub struct $name:ident {
            $($(#[$field_doc:meta])* $field:ident: $type:ty $(, + $reserved:literal)?;)*
        }
    )*) => {
        $(
            $(#[$doc])*
            #[derive(Clone, PartialEq, Eq, Debug, Default)]
            pub struct $name {
                $($(#[$field_doc])* pub $field: $type,)*
            }

            impl $crate::fscc::Information for $name {
                fn decode(reader: &mut $crate::Reader) -> $crate::cursor::Result<Self> {
                    $(
                        let $field = $crate::fscc::fields::Field::read(reader)?;
                        $(reader.skip($reserved)?;)?
                    )*
                    Ok(Self { $($field,)* })
                }

                fn encode(&self, writer: &mut $crate::Writer) {
                    $(
                        $crate::fscc::fields::Field::write(&self.$field, writer);
                        $(writer.zeros($reserved);)?
                    )*
                }
            }
        )*
    };
}

pub(crate) use structure;

bits! {
    /// How a file is open. 2.4.31.
    pub struct FileMode(u32) {
        /// Writes reach the disk before they are answered.
        WRITE_THROUGH = 0x2,
        /// It is read from the front to the end.
        SEQUENTIAL_ONLY = 0x4,
        /// Nothing between the program and the disk has a copy.
        NO_INTERMEDIATE_BUFFERING = 0x8,
        /// Calls wait, and end when their thread is alerted.
        SYNCHRONOUS_IO_ALERT = 0x10,
        /// Calls wait.
        SYNCHRONOUS_IO_NONALERT = 0x20,
        /// The last close removes it.
        DELETE_ON_CLOSE = 0x1000,
        /// Those that a client can set.
        SETTABLE = 0x3e,
    }
}

wrapped_fields! { FileMode }
