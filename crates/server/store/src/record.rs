//! The object record: an object's own description, in the extended attribute [`RECORD_XATTR`].
//!
//! With it fsck can rebuild a layout, and a restored metadata server never assigns a file index
//! again. All numbers are little-endian; see `docs/format-store.md`.
//!
//! ```text
//!  0 magic "BRDO"   4 version u16    6 pending u16 (0 nothing, 1 truncate, 2 punch)
//!  8 file u64      16 part u16      18 zero u16      20 generation u32
//! 24 size generation u64            32 owner uid u32 36 owner gid u32
//! 40 pending offset or length u64   48 pending punch length u64
//! 56 flushed length u64             64 layout length u32
//! 68 layout …                       then CRC-32C of all before it
//! ```
//!
//! Version 1 has no flushed length. It is read as 0, which promises nothing.

use crate::{NewObject, Result, SizeChange, StoreError};
use braid_types::{FileIndex, ObjectGeneration, ObjectId, ObjectOffset, PartIndex, SizeGeneration};
use std::path::Path;
use std::sync::Arc;

/// The extended attribute that holds the record.
pub const RECORD_XATTR: &str = "user.braid.object";
/// The version of the record's format.
pub const RECORD_VERSION: u16 = 2;
/// The version before, without the flushed length. It is read, never written.
const RECORD_VERSION_BEFORE: u16 = 1;
/// The longest layout in a record, in bytes. With it, the record fits the one block (4 KiB) that
/// ext4 has for all extended attributes of a file, and leaves space for those of others.
pub const LAYOUT_BYTES_MAX: usize = 3072;

const MAGIC: &[u8; 4] = b"BRDO";
const FIXED_BYTES: usize = 68;
const FIXED_BYTES_BEFORE: usize = 60;
const CRC_BYTES: usize = 4;

/// An object's description of itself.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ObjectRecord {
    /// The object.
    pub id: ObjectId,
    /// Older ones are refused (I5).
    pub size_generation: SizeGeneration,
    /// The owner's user id.
    pub uid: u32,
    /// The owner's group id.
    pub gid: u32,
    /// The file's layout as the caller encoded it.
    pub layout: Arc<[u8]>,
    /// A change that is recorded and may not be done.
    pub pending: Option<SizeChange>,
    /// A length that was flushed: an object whose file is shorter has lost its end (I11). It never
    /// exceeds the durable length and is often less: it is recorded after a flush, and no flush
    /// waits for it.
    pub flushed_bytes: u64,
}

impl ObjectRecord {
    /// The record of a new object. It refuses a layout that is too long.
    pub(crate) fn new(new: &NewObject) -> Result<Self> {
        let bytes = new.layout.len();
        if bytes > LAYOUT_BYTES_MAX {
            return Err(StoreError::LayoutTooLong { object: new.id, bytes, max: LAYOUT_BYTES_MAX });
        }
        let NewObject { id, size_generation, uid, gid, ref layout } = *new;
        Ok(Self {
            id,
            size_generation,
            uid,
            gid,
            layout: layout.clone(),
            pending: None,
            flushed_bytes: 0,
        })
    }

    /// The record's bytes in the attribute.
    pub fn encode(&self) -> Vec<u8> {
        let (kind, a, b) = match self.pending {
            None => (0u16, 0, 0),
            Some(SizeChange::Truncate { length }) => (1, length, 0),
            Some(SizeChange::Punch { offset, length }) => (2, offset.0, length),
        };
        let mut out = Vec::with_capacity(FIXED_BYTES + self.layout.len() + CRC_BYTES);
        out.extend_from_slice(MAGIC);
        out.extend_from_slice(&RECORD_VERSION.to_le_bytes());
        out.extend_from_slice(&kind.to_le_bytes());
        out.extend_from_slice(&self.id.file.0.to_le_bytes());
        out.extend_from_slice(&self.id.part.0.to_le_bytes());
        out.extend_from_slice(&[0; 2]);
        out.extend_from_slice(&self.id.generation.0.to_le_bytes());
        out.extend_from_slice(&self.size_generation.0.to_le_bytes());
        out.extend_from_slice(&self.uid.to_le_bytes());
        out.extend_from_slice(&self.gid.to_le_bytes());
        out.extend_from_slice(&a.to_le_bytes());
        out.extend_from_slice(&b.to_le_bytes());
        out.extend_from_slice(&self.flushed_bytes.to_le_bytes());
        out.extend_from_slice(&(self.layout.len() as u32).to_le_bytes());
        out.extend_from_slice(&self.layout);
        out.extend_from_slice(&crc32c::crc32c(&out).to_le_bytes());
        out
    }

    /// Reads a record; `path` is for the error.
    pub fn decode(bytes: &[u8], path: &Path) -> Result<Self> {
        let corrupted = |why| StoreError::Corrupted { path: path.display().to_string(), why };
        let mut fields = Fields { bytes };
        if fields.take() != Some(*MAGIC) {
            return Err(corrupted("the object record does not begin with BRDO"));
        }
        let version = fields.take().map(u16::from_le_bytes).unwrap_or(0);
        if ![RECORD_VERSION, RECORD_VERSION_BEFORE].contains(&version) {
            let (found, wanted) = (version.into(), RECORD_VERSION.into());
            return Err(StoreError::UnknownFormat {
                path: path.display().to_string(),
                found,
                wanted,
            });
        }
        let body = bytes
            .len()
            .checked_sub(CRC_BYTES)
            .ok_or(corrupted("the object record is cut short"))?;
        if crc32c::crc32c(&bytes[..body]).to_le_bytes() != bytes[body..] {
            return Err(corrupted("the checksum of the object record is wrong"));
        }
        fields.record(version, body).ok_or(corrupted("the object record makes no sense"))
    }
}

/// A cursor over the fields of a record.
struct Fields<'a> {
    bytes: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        let (head, rest) = self.bytes.split_first_chunk()?;
        self.bytes = rest;
        Some(*head)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_le_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_le_bytes)
    }

    fn u16(&mut self) -> Option<u16> {
        self.take().map(u16::from_le_bytes)
    }

    /// The fields after the version, of a record whose checksum is at `body`.
    fn record(&mut self, version: u16, body: usize) -> Option<ObjectRecord> {
        let kind = self.u16()?;
        let file = FileIndex(self.u64()?);
        let part = PartIndex(self.u16()?);
        if self.u16()? != 0 {
            return None;
        }
        let generation = ObjectGeneration(self.u32()?);
        let size_generation = SizeGeneration(self.u64()?);
        let (uid, gid) = (self.u32()?, self.u32()?);
        let pending = pending(kind, self.u64()?, self.u64()?)?;
        let is_before = version == RECORD_VERSION_BEFORE;
        let flushed_bytes = if is_before { 0 } else { self.u64()? };
        let fixed = if is_before { FIXED_BYTES_BEFORE } else { FIXED_BYTES };
        let length = self.u32()? as usize;
        if length > LAYOUT_BYTES_MAX || fixed + length != body {
            return None;
        }
        let layout = self.bytes[..length].into();
        let id = ObjectId { file, part, generation };
        Some(ObjectRecord { id, size_generation, uid, gid, layout, pending, flushed_bytes })
    }
}

fn pending(kind: u16, a: u64, b: u64) -> Option<Option<SizeChange>> {
    let change = match (kind, a, b) {
        (0, 0, 0) => return Some(None),
        (1, length, 0) => SizeChange::Truncate { length },
        (2, offset, length) => SizeChange::Punch { offset: ObjectOffset(offset), length },
        _ => return None,
    };
    change.fits().then_some(Some(change))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn any_record() -> impl Strategy<Value = ObjectRecord> {
        let pending = prop_oneof![
            Just(None),
            (0..1u64 << 40).prop_map(|length| Some(SizeChange::Truncate { length })),
            (0..1u64 << 40, 0..1u64 << 40).prop_map(|(o, length)| Some(SizeChange::Punch {
                offset: ObjectOffset(o),
                length
            })),
        ];
        let id = any::<(u64, u16, u32)>();
        let layout = proptest::collection::vec(any::<u8>(), 0..=LAYOUT_BYTES_MAX);
        (id, any::<(u64, u32, u32, u64)>(), layout, pending).prop_map(
            |((file, part, generation), (size, uid, gid, flushed_bytes), layout, pending)| {
                ObjectRecord {
                    id: ObjectId {
                        file: FileIndex(file),
                        part: PartIndex(part),
                        generation: ObjectGeneration(generation),
                    },
                    size_generation: SizeGeneration(size),
                    uid,
                    gid,
                    layout: layout.into(),
                    pending,
                    flushed_bytes,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn record_survives_encoding(record in any_record()) {
            let bytes = record.encode();
            prop_assert_eq!(bytes.len(), FIXED_BYTES + record.layout.len() + CRC_BYTES);
            prop_assert_eq!(ObjectRecord::decode(&bytes, Path::new("x")).unwrap(), record);
        }

        #[test]
        fn one_flipped_bit_is_noticed(
            record in any_record(),
            at in any::<proptest::sample::Index>(),
            bit in 0..8u8,
        ) {
            let mut bytes = record.encode();
            let at = at.index(bytes.len());
            bytes[at] ^= 1 << bit;
            prop_assert!(ObjectRecord::decode(&bytes, Path::new("x")).is_err());
        }

        #[test]
        fn no_bytes_make_the_decoder_panic(
            bytes in proptest::collection::vec(any::<u8>(), 0..200),
        ) {
            let _ = ObjectRecord::decode(&bytes, Path::new("x"));
        }
    }

    #[test]
    fn golden_record() {
        let record = ObjectRecord {
            id: ObjectId {
                file: FileIndex(0x0003_0000_0000_002a),
                part: PartIndex(5),
                generation: ObjectGeneration(1),
            },
            size_generation: SizeGeneration(7),
            uid: 1000,
            gid: 100,
            layout: Arc::from(&b"LAY"[..]),
            pending: Some(SizeChange::Truncate { length: 4096 }),
            flushed_bytes: 0x0102,
        };
        let hex: String = record.encode().iter().map(|b| format!("{b:02x}")).collect();
        let want = concat!(
            "4252444f",
            "0200",
            "0100",
            "2a00000000000300",
            "0500",
            "0000",
            "01000000",
            "0700000000000000",
            "e8030000",
            "64000000",
            "0010000000000000",
            "0000000000000000",
            "0201000000000000",
            "03000000",
            "4c4159",
        );
        let crc = crc32c::crc32c(&record.encode()[..71]).swap_bytes();
        assert_eq!(hex, format!("{want}{crc:08x}"));
        // As version 1 wrote it.
        let mut before = record.encode()[..71].to_vec();
        before[4] = 1;
        before.drain(56..64);
        before.extend(crc32c::crc32c(&before).to_le_bytes());
        let read = ObjectRecord::decode(&before, Path::new("x")).unwrap();
        assert_eq!(read, ObjectRecord { flushed_bytes: 0, ..record });
        assert_eq!(crc32c::crc32c(b"123456789"), 0xe306_9283, "CRC-32C, Castagnoli");
    }

    #[test]
    fn a_newer_record_is_refused_by_its_version() {
        let mut bytes = b"BRDO\x03\x00".to_vec();
        bytes.resize(80, 0);
        let error = ObjectRecord::decode(&bytes, Path::new("x")).unwrap_err();
        assert!(matches!(error, StoreError::UnknownFormat { found: 3, wanted: 2, .. }));
    }
}
