//! Extensions at the end of a request: `| size u32 | kind u32 | ... |`, each a multiple of 8 bytes.

use super::ParseError;
use super::cursor::Cursor;
use crate::kernel::abi::flag::EXT_GROUPS;

const HEADER_BYTES: usize = 8;

/// The group numbers, four bytes each. Unknown kinds are skipped: the kernel sends only those that
/// INIT agreed on.
pub(super) fn groups(mut bytes: &[u8]) -> Result<&[u8], ParseError> {
    let mut found: &[u8] = &[];
    while !bytes.is_empty() {
        let mut header = Cursor::new(bytes);
        let (size, kind) = (header.u32().map_err(fit)?, header.u32().map_err(fit)?);
        let size = usize::try_from(size)
            .ok()
            .filter(|size| *size >= HEADER_BYTES && size.is_multiple_of(8));
        let (this, rest) =
            size.and_then(|size| bytes.split_at_checked(size)).ok_or(ParseError::Extension)?;
        if kind == EXT_GROUPS {
            found = listed(&this[HEADER_BYTES..])?;
        }
        bytes = rest;
    }
    Ok(found)
}

/// `| count u32 | gid u32 ... | padding |`
fn listed(body: &[u8]) -> Result<&[u8], ParseError> {
    let mut cursor = Cursor::new(body);
    let count = cursor.u32().map_err(fit)?;
    let bytes = usize::try_from(count).ok().and_then(|count| count.checked_mul(4));
    cursor.bytes(bytes.ok_or(ParseError::Extension)?).map_err(fit)
}

fn fit(_: ParseError) -> ParseError {
    ParseError::Extension
}
