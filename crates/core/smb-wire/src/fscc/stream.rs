//! FileStreamInformation: the streams of a file. 2.4.49.

use bytes::Bytes;

use super::list::{Entries, ListWriter};
use crate::cursor::{Result, to_utf16, utf16};

/// A stream.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Stream {
    /// `:name:$DATA`; that of the file's own bytes is `::$DATA`.
    pub name: String,
    /// Bytes of the stream.
    pub bytes: u64,
    /// Bytes on disks.
    pub allocation_bytes: u64,
}

/// A list of at most `max_bytes`, and how many of the streams fitted.
pub fn encode_streams(streams: &[Stream], max_bytes: usize) -> (Vec<u8>, usize) {
    let mut list = ListWriter::new(8, max_bytes);
    let fitted = streams.iter().take_while(|stream| {
        let name = to_utf16(&stream.name);
        list.push(|writer| {
            writer.u32(name.len() as u32);
            writer.u64(stream.bytes);
            writer.u64(stream.allocation_bytes);
            writer.bytes(&name);
        })
    });
    let fitted = fitted.count();
    (list.finish(), fitted)
}

/// The streams of a list.
///
/// # Errors
/// The bytes do not follow the format.
pub fn decode_streams(bytes: Bytes) -> Result<Vec<Stream>> {
    Entries::new(bytes)
        .map(|entry| {
            let mut reader = entry?;
            let length = reader.u32()? as usize;
            let bytes = reader.u64()?;
            let allocation_bytes = reader.u64()?;
            Ok(Stream { name: utf16(&reader.take(length)?)?, bytes, allocation_bytes })
        })
        .collect()
}
