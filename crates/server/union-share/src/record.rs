//! Records of the table of files (`nfs-files`): which inode a number stands for.
//!
//! ```text
//!   header: "braid union files 1\n"
//!   record: bytes of the body u16 · CRC-32C of the body u32 · body
//!   body:   kind u8 (1 set, 2 forget) · number u64 · of kind 1: count u8, then each place:
//!           branch u8 · inode u64 · created i64, u32 ·
//!           0, or 1 · type i32 · bytes u8 · handle ·
//!           0, or 1 · number of the directory u64 · bytes u8 · name
//! ```
//!
//! Numbers are little-endian. A record that is not whole ends the file: nothing after it counts.

use braid_share::FileIndex;
use braid_union::{BranchInode, KERNEL_HANDLE_BYTES_MAX, KernelHandle, Time};

pub(crate) const HEADER: &[u8] = b"braid union files 1\n";
const PREFIX_BYTES: usize = 6;
const SET: u8 = 1;
const FORGET: u8 = 2;

/// Where a file is, as far as one process can tell the next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Place {
    pub(crate) inode: BranchInode,
    /// Directory and name, where the file system has no handles.
    pub(crate) name: Option<(FileIndex, Box<[u8]>)>,
}

/// A change of the table.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Record {
    /// The file is at these places from now on.
    Set(FileIndex, Vec<Place>),
    /// The file was removed.
    Forget(FileIndex),
}

impl Record {
    /// Appends the record to bytes. One that is too long is left out: it is stale after a restart.
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        let mut body = Vec::with_capacity(64);
        match self {
            Self::Forget(index) => {
                body.push(FORGET);
                body.extend(index.0.to_le_bytes());
            }
            Self::Set(index, places) => {
                body.push(SET);
                body.extend(index.0.to_le_bytes());
                body.push(u8::try_from(places.len()).unwrap_or(u8::MAX));
                places.iter().take(usize::from(u8::MAX)).for_each(|place| place.encode(&mut body));
            }
        }
        if let Ok(bytes) = u16::try_from(body.len()) {
            out.extend(bytes.to_le_bytes());
            out.extend(crc32c::crc32c(&body).to_le_bytes());
            out.extend(body);
        }
    }

    /// The first record of some bytes, and how many it has. `None`: it is not whole.
    pub(crate) fn decode(bytes: &[u8]) -> Option<(Self, usize)> {
        let mut prefix = Reader(bytes);
        let length = usize::from(u16::from_le_bytes(prefix.array()?));
        let sum = u32::from_le_bytes(prefix.array()?);
        let body = prefix.take(length)?;
        if crc32c::crc32c(body) != sum {
            return None;
        }
        let mut body = Reader(body);
        let kind = body.byte()?;
        let index = FileIndex(u64::from_le_bytes(body.array()?));
        let record = match kind {
            SET => {
                let count = body.byte()?;
                let places = (0..count).map(|_| Place::decode(&mut body)).collect::<Option<_>>();
                Self::Set(index, places?)
            }
            FORGET => Self::Forget(index),
            _ => return None,
        };
        body.0.is_empty().then_some((record, PREFIX_BYTES + length))
    }
}

impl Place {
    fn encode(&self, out: &mut Vec<u8>) {
        let BranchInode { branch, inode, created, handle } = &self.inode;
        out.push(*branch);
        out.extend(inode.to_le_bytes());
        out.extend(created.seconds.to_le_bytes());
        out.extend(created.nanoseconds.to_le_bytes());
        out.push(u8::from(handle.is_some()));
        if let Some(handle) = handle {
            out.extend(handle.kind.to_le_bytes());
            bytes(out, &handle.bytes);
        }
        out.push(u8::from(self.name.is_some()));
        if let Some((directory, name)) = &self.name {
            out.extend(directory.0.to_le_bytes());
            bytes(out, name);
        }
    }

    fn decode(from: &mut Reader<'_>) -> Option<Self> {
        let branch = from.byte()?;
        let inode = u64::from_le_bytes(from.array()?);
        let seconds = i64::from_le_bytes(from.array()?);
        let nanoseconds = u32::from_le_bytes(from.array()?);
        let handle = match from.byte()? {
            0 => None,
            _ => {
                let kind = i32::from_le_bytes(from.array()?);
                let bytes = from.bytes()?;
                (bytes.len() <= KERNEL_HANDLE_BYTES_MAX).then_some(())?;
                Some(KernelHandle { kind, bytes })
            }
        };
        let name = match from.byte()? {
            0 => None,
            _ => Some((FileIndex(u64::from_le_bytes(from.array()?)), from.bytes()?)),
        };
        let created = Time { seconds, nanoseconds };
        Some(Self { inode: BranchInode { branch, inode, created, handle }, name })
    }
}

/// At most 255: a handle or a name.
fn bytes(out: &mut Vec<u8>, of: &[u8]) {
    let length = u8::try_from(of.len()).unwrap_or(u8::MAX);
    out.push(length);
    out.extend(&of[..usize::from(length)]);
}

struct Reader<'b>(&'b [u8]);

impl<'b> Reader<'b> {
    fn take(&mut self, count: usize) -> Option<&'b [u8]> {
        let (taken, rest) = self.0.split_at_checked(count)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn byte(&mut self) -> Option<u8> {
        self.array::<1>().map(|[byte]| byte)
    }

    fn bytes(&mut self) -> Option<Box<[u8]>> {
        let count = self.byte()?;
        self.take(usize::from(count)).map(Box::from)
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    pub(crate) fn place(inode: u64) -> Place {
        let handle = KernelHandle { kind: 1, bytes: inode.to_be_bytes().into() };
        let created = Time { seconds: -1, nanoseconds: 5 };
        let inode = BranchInode { branch: 3, inode, created, handle: Some(handle) };
        Place { inode, name: None }
    }

    #[test]
    fn records_are_read_as_they_were_written() {
        let mut named = place(7);
        named.inode.handle = None;
        named.name = Some((FileIndex(9), b"name"[..].into()));
        let records = [
            Record::Set(FileIndex(u64::MAX), vec![place(1), named]),
            Record::Forget(FileIndex(2)),
            Record::Set(FileIndex(3), Vec::new()),
        ];
        let mut bytes = Vec::new();
        records.iter().for_each(|record| record.encode(&mut bytes));
        let mut rest = &bytes[..];
        for record in records {
            let (read, length) = Record::decode(rest).unwrap();
            assert_eq!(read, record);
            rest = &rest[length..];
        }
        assert!(rest.is_empty());
    }

    #[test]
    fn a_record_with_any_damaged_or_missing_byte_is_refused() {
        let mut bytes = Vec::new();
        Record::Set(FileIndex(5), vec![place(1)]).encode(&mut bytes);
        for at in 0..bytes.len() {
            assert_eq!(Record::decode(&bytes[..at]), None);
            let mut damaged = bytes.clone();
            damaged[at] ^= 0x10;
            assert_eq!(Record::decode(&damaged), None, "byte {at}");
        }
    }
}
