//! What the data of an ERROR say. MS-SMB2 2.2.2.1, 2.2.2.2.
//!
//! In 3.1.1 the data are a list of contexts; in the older dialects they are the data of one.

use super::bits::bits;
use super::{Dialect, ErrorBody};
use crate::cursor::{Malformed, Reader, Result, Writer, to_utf16, utf16};
use bytes::Bytes;

/// `SymLinkErrorTag`: "SYML".
const SYMLINK_TAG: u32 = 0x4c4d_5953;
/// IO_REPARSE_TAG_SYMLINK (MS-FSCC 2.1.2.1).
const REPARSE_TAG: u32 = 0xa000_000c;
/// Bytes of the fields from `SymLinkErrorTag` to `Flags`.
const SYMLINK_FIXED: usize = 24;
/// Bytes of the fields that `ReparseDataLength` counts beside the names.
const REPARSE_FIXED: usize = 12;

bits! {
    /// 2.2.2.2.1, Flags.
    SymlinkFlags(u32) {
        /// The target is relative to the directory of the link.
        RELATIVE = 1,
    }
}

/// The link at which a CREATE stopped, with `STATUS_STOPPED_ON_SYMLINK`. 2.2.2.2.1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SymlinkError {
    /// Bytes in UTF-16 of the path behind the link.
    pub unparsed_bytes: u16,
    /// Flags.
    pub flags: SymlinkFlags,
    /// The target.
    pub substitute_name: String,
    /// The target, as it is shown.
    pub print_name: String,
}

impl SymlinkError {
    /// Reads the data of its context.
    ///
    /// # Errors
    /// They do not follow the format.
    pub fn decode(data: &Bytes) -> Result<Self> {
        let mut reader = Reader::new(data.clone());
        reader.skip(4)?;
        if (reader.u32()?, reader.u32()?) != (SYMLINK_TAG, REPARSE_TAG) {
            return Err(Malformed("symlink error: tag"));
        }
        reader.skip(2)?;
        let unparsed_bytes = reader.u16()?;
        let substitute = (usize::from(reader.u16()?), usize::from(reader.u16()?));
        let print = (usize::from(reader.u16()?), usize::from(reader.u16()?));
        let flags = SymlinkFlags(reader.u32()?);
        let names = Reader::new(reader.rest());
        Ok(Self {
            unparsed_bytes,
            flags,
            substitute_name: utf16(&names.slice(substitute.0, substitute.1)?)?,
            print_name: utf16(&names.slice(print.0, print.1)?)?,
        })
    }

    /// The data of its context.
    pub fn to_bytes(&self) -> Vec<u8> {
        let substitute = to_utf16(&self.substitute_name);
        let print = to_utf16(&self.print_name);
        let names = substitute.len() + print.len();
        let mut writer = Writer::new();
        writer.u32((SYMLINK_FIXED + names) as u32);
        writer.u32(SYMLINK_TAG);
        writer.u32(REPARSE_TAG);
        writer.u16((REPARSE_FIXED + names) as u16);
        writer.u16(self.unparsed_bytes);
        writer.u16(0);
        writer.u16(substitute.len() as u16);
        writer.u16(substitute.len() as u16);
        writer.u16(print.len() as u16);
        writer.u32(self.flags.0);
        writer.bytes(&substitute);
        writer.bytes(&print);
        writer.finish()
    }
}

impl ErrorBody {
    /// An error with data, in the form of a dialect.
    pub fn with_data(dialect: Dialect, data: &[u8]) -> Self {
        if dialect < Dialect::Smb311 {
            return Self { contexts: 0, data: data.to_vec() };
        }
        let mut writer = Writer::new();
        writer.u32(data.len() as u32);
        // SMB2_ERROR_ID_DEFAULT (2.2.2.1).
        writer.u32(0);
        writer.bytes(data);
        Self { contexts: 1, data: writer.finish() }
    }

    /// The data of an error, or of its first context.
    ///
    /// # Errors
    /// The context is not inside.
    pub fn first_data(&self) -> Result<Bytes> {
        if self.contexts == 0 {
            return Ok(Bytes::copy_from_slice(&self.data));
        }
        let mut reader = Reader::new(Bytes::copy_from_slice(&self.data));
        let length = reader.u32()? as usize;
        reader.skip(4)?;
        reader.take(length)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_two_names_and_the_length_of_the_rest() {
        let link = SymlinkError {
            unparsed_bytes: 6,
            flags: SymlinkFlags::RELATIVE,
            substitute_name: "a".into(),
            print_name: "bc".into(),
        };
        let mut wanted = vec![30, 0, 0, 0, b'S', b'Y', b'M', b'L', 12, 0, 0, 0xa0, 18, 0, 6, 0];
        wanted.extend([0, 0, 2, 0, 2, 0, 4, 0, 1, 0, 0, 0]);
        wanted.extend([b'a', 0, b'b', 0, b'c', 0]);
        assert_eq!(link.to_bytes(), wanted);
        let wanted = Bytes::from(wanted);
        assert_eq!(SymlinkError::decode(&wanted), Ok(link));
        for length in 0..wanted.len() {
            assert!(SymlinkError::decode(&wanted.slice(..length)).is_err(), "{length}");
        }
    }

    #[test]
    fn data_of_an_error_are_in_a_context_since_3_1_1() {
        let old = ErrorBody::with_data(Dialect::Smb302, b"abc");
        assert_eq!((old.contexts, &old.data[..]), (0, &b"abc"[..]));
        let new = ErrorBody::with_data(Dialect::Smb311, b"abc");
        assert_eq!((new.contexts, &new.data[..]), (1, &b"\x03\0\0\0\0\0\0\0abc"[..]));
        assert_eq!((old.first_data().unwrap(), new.first_data().unwrap().len()), ("abc".into(), 3));
        assert!(
            ErrorBody { contexts: 1, data: vec![4, 0, 0, 0, 0, 0, 0, 0] }.first_data().is_err()
        );
    }
}
