//! A directory entry, found by name, by cookie, and by folded name.

use braid_types::FileIndex;

use super::{FileKind, RecordError};
use crate::codec::{Decoder, Encoder};

const VERSION: u8 = 1;

/// What a name in a directory leads to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Entry {
    /// The file.
    pub file: FileIndex,
    /// Its kind.
    pub kind: FileKind,
    /// The readdir cookie, at which a listing resumes: 63 bits, unique in its directory, never
    /// reused.
    pub cookie: u64,
}

/// The record under the name: file, kind, cookie.
pub(crate) fn write_entry(out: &mut Encoder, entry: &Entry) {
    out.u8(VERSION).u64(entry.file.0).u8(entry.kind as u8).u64(entry.cookie);
}

pub(crate) fn decode_entry(bytes: &[u8]) -> Result<Entry, RecordError> {
    let mut from = Decoder::new("entry", VERSION, bytes)?;
    let file = FileIndex(from.u64()?);
    let kind = FileKind::from_code(from.u8()?).ok_or(from.broken())?;
    let cookie = from.u64()?;
    from.finish()?;
    Ok(Entry { file, kind, cookie })
}

/// The record under the cookie: file, kind, name.
pub(crate) fn write_cookie(out: &mut Encoder, entry: &Entry, name: &[u8]) {
    out.u8(VERSION).u64(entry.file.0).u8(entry.kind as u8).raw(name);
}

pub(crate) fn decode_cookie(cookie: u64, bytes: &[u8]) -> Result<(Entry, &[u8]), RecordError> {
    let mut from = Decoder::new("entry", VERSION, bytes)?;
    let file = FileIndex(from.u64()?);
    let kind = FileKind::from_code(from.u8()?).ok_or(from.broken())?;
    Ok((Entry { file, kind, cookie }, from.tail()))
}

/// The record under the folded name and the cookie: the name.
pub(crate) fn write_folded_name(out: &mut Encoder, name: &[u8]) {
    out.u8(VERSION).raw(name);
}

pub(crate) fn decode_folded_name(bytes: &[u8]) -> Result<&[u8], RecordError> {
    Ok(Decoder::new("folded name", VERSION, bytes)?.tail())
}
