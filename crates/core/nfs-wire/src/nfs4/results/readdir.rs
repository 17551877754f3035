//! READDIR: a list of entries with attributes.

use bytes::Bytes;

use crate::nfs4::types::{EncodedAttributes, MESSAGE_LIMITED, Verifier};
use crate::nfs4::{NfsStatus, OpNumber};
use crate::xdr::{Decoder, Encoder, Xdr, XdrError, xdr_struct};

xdr_struct! {
    /// `entry4`, without the link to the next one. RFC 8881 18.23.2.
    pub struct DirEntry {
        /// Where the entry after this one is found.
        pub cookie: u64,
        /// Name.
        pub name: Bytes [MESSAGE_LIMITED],
        /// Attributes.
        pub attributes: EncodedAttributes,
    }
}

/// `READDIR4resok`. RFC 8881 18.23.2. Servers use [`ReadDirEncoder`] for long lists.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ReadDirResult {
    /// Must accompany the cookies.
    pub verifier: Verifier,
    /// Entries in the order of the directory.
    pub entries: Vec<DirEntry>,
    /// Whether there are no further entries.
    pub eof: bool,
}

impl Xdr for ReadDirResult {
    fn encode(&self, to: &mut Encoder) {
        self.verifier.encode(to);
        for entry in &self.entries {
            to.bool(true);
            entry.encode(to);
        }
        to.bool(false);
        to.bool(self.eof);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        let verifier = Verifier::decode(from)?;
        // Each entry has at least 24 bytes in the message, which limits the list.
        let mut entries = Vec::new();
        while from.bool()? {
            entries.push(DirEntry::decode(from)?);
        }
        Ok(Self { verifier, entries, eof: from.bool()? })
    }
}

/// Writes the result of a READDIR entry by entry, without an allocation for each.
///
/// ```
/// use braid_nfs_wire::nfs4::results::ReadDirEncoder;
/// use braid_nfs_wire::nfs4::{Bitmap, Verifier};
/// use braid_nfs_wire::xdr::{Encoder, Xdr};
///
/// let mut to = Encoder::new();
/// let mut list = ReadDirEncoder::begin(Verifier([0; 8]), 1024, &mut to);
/// let no_attributes = |to: &mut Encoder| {
///     Bitmap::new().encode(to);
///     to.opaque(b"");
/// };
/// assert!(list.entry(3, b"a name", &mut to, no_attributes));
/// list.finish(true, &mut to);
/// ```
#[derive(Debug)]
#[must_use = "the list has an end, which `finish` writes"]
pub struct ReadDirEncoder {
    /// Position behind the last byte that entries may have.
    end: usize,
}

/// Bytes that [`ReadDirEncoder::finish`] writes: no further entry, and whether this is the end.
const END_BYTES: usize = 8;

impl ReadDirEncoder {
    /// Writes the operation's number, its status, and `verifier`. The result, from its status on,
    /// will have at most `max_count` bytes.
    pub fn begin(verifier: Verifier, max_count: u32, to: &mut Encoder) -> Self {
        OpNumber::ReadDir.encode(to);
        // RFC 8881 18.23.3: maxcount includes all of the XDR overhead of READDIR4resok.
        let end = to.position().saturating_add(max_count as usize).saturating_sub(END_BYTES);
        NfsStatus::Ok.encode(to);
        verifier.encode(to);
        Self { end }
    }

    /// Writes an entry; `attributes` writes its `fattr4`. Returns false, and writes nothing, when
    /// the result would be longer than its limit.
    pub fn entry(
        &mut self,
        cookie: u64,
        name: &[u8],
        to: &mut Encoder,
        attributes: impl FnOnce(&mut Encoder),
    ) -> bool {
        let start = to.position();
        to.bool(true);
        to.u64(cookie);
        to.opaque(name);
        attributes(to);
        let fits = to.position() <= self.end;
        if !fits {
            to.truncate(start);
        }
        fits
    }

    /// Writes the end of the list; `eof` when the directory has no further entries.
    pub fn finish(self, eof: bool, to: &mut Encoder) {
        to.bool(false);
        to.bool(eof);
    }
}
