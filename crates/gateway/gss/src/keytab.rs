//! The principals of a keytab, to say before the first client what is wrong with it. Keys are not
//! read: the library reads them itself.
//!
//! ```text
//!   05 02                        version 2, big-endian
//!   size  entry                  a negative size is a hole of that many bytes
//!   size  entry                  0 is the end
//!
//!   entry: number of components, realm, components, kind, time, version, key, 32-bit version
//! ```
//!
//! The format is that of MIT Kerberos' `doc/formats/keytab_file_format`.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

use thiserror::Error;

/// Longest keytab that is read. An entry has some 100 bytes; a host has some tens of them.
const KEYTAB_BYTES_MAX: u64 = 1 << 20;

/// One key of a keytab.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct KeytabEntry {
    /// The parts of the principal before the realm, such as `nfs` and `server.example.org`.
    pub components: Vec<String>,
    /// The realm, such as `EXAMPLE.ORG`.
    pub realm: String,
    /// When the key was written, in seconds since 1970, by the clock of the host that wrote it.
    pub written: u32,
}

impl KeytabEntry {
    /// The principal as text, such as `nfs/server.example.org@EXAMPLE.ORG`.
    pub fn principal(&self) -> String {
        format!("{}@{}", self.components.join("/"), self.realm)
    }

    /// The service, such as `nfs`; `None` for the principal of a user.
    pub fn service(&self) -> Option<&str> {
        match &self.components[..] {
            [service, _] => Some(service),
            _ => None,
        }
    }
}

/// Why a keytab cannot be read.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum KeytabError {
    /// The file.
    #[error(transparent)]
    Io(#[from] io::Error),
    /// Another kind of file, or a keytab of before 1997.
    #[error("it is no keytab of version 2")]
    NotAKeytab,
    /// It ends within an entry, or is longer than any keytab.
    #[error("it is damaged")]
    Damaged,
}

/// The entries of the keytab at `path`, in its order.
///
/// # Errors
/// [`KeytabError`].
pub fn read_keytab(path: &Path) -> Result<Vec<KeytabEntry>, KeytabError> {
    let mut bytes = Vec::new();
    File::open(path)?.take(KEYTAB_BYTES_MAX + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > KEYTAB_BYTES_MAX {
        return Err(KeytabError::Damaged);
    }
    parse(&bytes)
}

fn parse(bytes: &[u8]) -> Result<Vec<KeytabEntry>, KeytabError> {
    let mut from = Fields(bytes.strip_prefix(&[5, 2]).ok_or(KeytabError::NotAKeytab)?);
    let mut entries = Vec::new();
    while !from.0.is_empty() {
        let size = from.u32()? as i32;
        if size == 0 {
            break;
        }
        let body = from.bytes(size.unsigned_abs() as usize)?;
        if size > 0 {
            entries.push(entry(Fields(body))?);
        }
    }
    Ok(entries)
}

fn entry(mut from: Fields<'_>) -> Result<KeytabEntry, KeytabError> {
    let count = from.u16()?;
    let realm = from.text()?;
    // Each component has two bytes at least, so a false count ends with the entry.
    let components = (0..count).map(|_| from.text()).collect::<Result<_, _>>()?;
    let _kind = from.u32()?;
    let written = from.u32()?;
    Ok(KeytabEntry { components, realm, written })
}

/// Bytes that are left.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn bytes(&mut self, count: usize) -> Result<&'a [u8], KeytabError> {
        let (bytes, rest) = self.0.split_at_checked(count).ok_or(KeytabError::Damaged)?;
        self.0 = rest;
        Ok(bytes)
    }

    fn u16(&mut self) -> Result<u16, KeytabError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(KeytabError::Damaged)?;
        self.0 = rest;
        Ok(u16::from_be_bytes(*bytes))
    }

    fn u32(&mut self) -> Result<u32, KeytabError> {
        let (bytes, rest) = self.0.split_first_chunk().ok_or(KeytabError::Damaged)?;
        self.0 = rest;
        Ok(u32::from_be_bytes(*bytes))
    }

    fn text(&mut self) -> Result<String, KeytabError> {
        let length = self.u16()?;
        Ok(String::from_utf8_lossy(self.bytes(length.into())?).into_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(to: &mut Vec<u8>, text: &str) {
        to.extend((text.len() as u16).to_be_bytes());
        to.extend(text.as_bytes());
    }

    /// A keytab with a hole and one entry.
    fn keytab() -> Vec<u8> {
        let mut entry = vec![0, 2];
        for part in ["R.ORG", "nfs", "host"] {
            text(&mut entry, part);
        }
        entry.extend([0, 0, 0, 1, 0, 0, 0, 9, 2, 0, 17, 0, 1, 0xaa]);
        let mut file = vec![5, 2];
        file.extend((-3i32).to_be_bytes());
        file.extend([1, 2, 3]);
        file.extend((entry.len() as u32).to_be_bytes());
        file.extend(entry);
        file
    }

    #[test]
    fn entries_are_read_and_holes_passed_over() {
        let entries = parse(&keytab()).unwrap();
        let [entry] = &entries[..] else { panic!("{entries:?}") };
        assert_eq!(entry.principal(), "nfs/host@R.ORG");
        assert_eq!((entry.service(), entry.written), (Some("nfs"), 9));
    }

    #[test]
    fn keytab_that_ends_early_is_damaged_and_other_files_are_none() {
        let file = keytab();
        assert!(parse(&file[..2]).unwrap().is_empty());
        for length in (3..file.len()).filter(|length| *length != 9) {
            let error = parse(&file[..length]).unwrap_err();
            assert!(matches!(error, KeytabError::Damaged), "{length}: {error}");
        }
        for other in [&b""[..], b"\x05", b"\x05\x01", b"key = 1"] {
            assert!(matches!(parse(other).unwrap_err(), KeytabError::NotAKeytab));
        }
        let huge = [&[5, 2][..], &i32::MIN.to_be_bytes()].concat();
        assert!(matches!(parse(&huge).unwrap_err(), KeytabError::Damaged));
    }
}
