//! The one message of SMB 1 that is answered: a NEGOTIATE that offers SMB 2. MS-SMB2 3.3.5.3,
//! MS-CIFS 2.2.4.52.1.

use crate::cursor::{Malformed, Reader, Result};
use crate::smb2::header::SMB1_PROTOCOL_ID;

/// The dialect string of SMB 2.0.2.
pub const SMB_2_002: &[u8] = b"SMB 2.002";
/// The dialect string of SMB 2.1 and later, which a second NEGOTIATE then chooses.
pub const SMB_2_WILDCARD: &[u8] = b"SMB 2.???";
/// Most dialects of a NEGOTIATE.
pub const MAX_SMB1_DIALECTS: usize = 64;
/// SMB_COM_NEGOTIATE.
const NEGOTIATE: u8 = 0x72;
/// Bytes of an SMB 1 header.
const HEADER_BYTES: usize = 32;
/// What each dialect string begins with.
const BUFFER_FORMAT: u8 = 2;

/// The dialect strings of an SMB 1 NEGOTIATE, without their end.
///
/// # Errors
/// The message is another one, or has over [`MAX_SMB1_DIALECTS`].
pub fn smb1_dialects(frame: &bytes::Bytes) -> Result<Vec<bytes::Bytes>> {
    let mut reader = Reader::new(frame.clone());
    if reader.array()? != SMB1_PROTOCOL_ID || reader.u8()? != NEGOTIATE {
        return Err(Malformed("SMB 1 message: no NEGOTIATE"));
    }
    reader.skip(HEADER_BYTES - 5)?;
    let words = reader.u8()?;
    reader.skip(2 * usize::from(words))?;
    let length = usize::from(reader.u16()?);
    dialect_strings(reader.take(length)?)
}

fn dialect_strings(mut bytes: bytes::Bytes) -> Result<Vec<bytes::Bytes>> {
    let mut dialects = Vec::new();
    while !bytes.is_empty() {
        let end = bytes.iter().position(|byte| *byte == 0);
        let end = end.filter(|end| *end > 0 && bytes[0] == BUFFER_FORMAT);
        let end = end.ok_or(Malformed("SMB 1 NEGOTIATE: Dialects"))?;
        if dialects.len() == MAX_SMB1_DIALECTS {
            return Err(Malformed("SMB 1 NEGOTIATE: too many dialects"));
        }
        dialects.push(bytes.slice(1..end));
        bytes = bytes.slice(end + 1..);
    }
    Ok(dialects)
}
