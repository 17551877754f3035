//! Extended attributes: FileFullEaInformation (2.4.16), and the list of names of a query
//! (2.4.16.1).

use bytes::Bytes;

use super::list::{Entries, ListWriter};
use crate::cursor::{Malformed, Reader, Result};

/// Bytes of a name; its length has 8 bits.
pub const EA_NAME_BYTES_MAX: usize = 255;
/// Bytes of a value; its length has 16 bits.
const VALUE_BYTES_MAX: usize = 65_535;
/// Extended attributes in a list from a client.
const ENTRIES_MAX: usize = 4096;

/// An extended attribute.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ExtendedAttribute {
    /// 0x80: a program that does not know it must not use the file.
    pub flags: u8,
    /// Its name, in ASCII, without the NUL behind it; upper and lower case are the same.
    pub name: Bytes,
    /// Its value; an empty one removes it.
    pub value: Bytes,
}

/// Bytes that a list of extended attributes has in the format of OS/2, which is the number that
/// FileEaInformation gives: 4, and 5 for each besides its name and value; 0 without any.
pub fn ea_list_bytes(lengths: impl Iterator<Item = (usize, usize)>) -> u32 {
    let bytes: usize = lengths.map(|(name, value)| 5 + name + value).sum();
    if bytes == 0 { 0 } else { u32::try_from(4 + bytes).unwrap_or(u32::MAX) }
}

/// A list of at most `max_bytes`, and how many of the attributes fitted. Names and values that are
/// too long for their fields are cut.
pub fn encode_eas(attributes: &[ExtendedAttribute], max_bytes: usize) -> (Vec<u8>, usize) {
    let mut list = ListWriter::new(4, max_bytes);
    let fitted = attributes.iter().take_while(|attribute| {
        let name = cut(&attribute.name, EA_NAME_BYTES_MAX);
        let value = cut(&attribute.value, VALUE_BYTES_MAX);
        list.push(|writer| {
            writer.u8(attribute.flags);
            writer.u8(name.len() as u8);
            writer.u16(value.len() as u16);
            writer.bytes(name);
            writer.u8(0);
            writer.bytes(value);
        })
    });
    let fitted = fitted.count();
    (list.finish(), fitted)
}

/// The attributes of a list.
///
/// # Errors
/// The bytes do not follow the format, or there are too many.
pub fn decode_eas(bytes: Bytes) -> Result<Vec<ExtendedAttribute>> {
    limited(Entries::new(bytes))
        .map(|entry| {
            let mut reader = entry?;
            let flags = reader.u8()?;
            let name_length = usize::from(reader.u8()?);
            let value_length = usize::from(reader.u16()?);
            let name = reader.take(name_length)?;
            nul(&mut reader)?;
            Ok(ExtendedAttribute { flags, name, value: reader.take(value_length)? })
        })
        .collect()
}

/// A list of names whose attributes a client wants.
pub fn encode_ea_names(names: &[Bytes]) -> Vec<u8> {
    let mut list = ListWriter::new(4, usize::MAX);
    for name in names {
        let name = cut(name, EA_NAME_BYTES_MAX);
        list.push(|writer| {
            writer.u8(name.len() as u8);
            writer.bytes(name);
            writer.u8(0);
        });
    }
    list.finish()
}

/// The names of a list.
///
/// # Errors
/// The bytes do not follow the format, or there are too many.
pub fn decode_ea_names(bytes: Bytes) -> Result<Vec<Bytes>> {
    limited(Entries::new(bytes))
        .map(|entry| {
            let mut reader = entry?;
            let length = usize::from(reader.u8()?);
            let name = reader.take(length)?;
            nul(&mut reader)?;
            Ok(name)
        })
        .collect()
}

fn cut(bytes: &[u8], max: usize) -> &[u8] {
    &bytes[..bytes.len().min(max)]
}

fn nul(reader: &mut Reader) -> Result<()> {
    match reader.u8()? {
        0 => Ok(()),
        _ => Err(Malformed("extended attribute: a name without NUL")),
    }
}

fn limited(entries: Entries) -> impl Iterator<Item = Result<Reader>> {
    entries.enumerate().map(|(i, entry)| match i < ENTRIES_MAX {
        true => entry,
        false => Err(Malformed("extended attributes: too many")),
    })
}
