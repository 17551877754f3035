//! Writes XDR items; long data stays where it is.

use bytes::{BufMut, Bytes, BytesMut};

use super::padding;

/// Payloads up to this many bytes are copied: a copy of one page is cheaper than another segment
/// in `writev` and another reference count.
pub const PAYLOAD_COPIED_MAX: usize = 4096;

/// Capacity of the first buffer. It contains most replies without data.
const BYTES_USUAL: usize = 512;

/// Bytes to send, in order.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Segment {
    /// These bytes.
    Bytes(Bytes),
    /// This many bytes, which the transport reads from a file itself, for example with
    /// `sendfile(2)`.
    External(usize),
}

impl Segment {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Bytes(bytes) => bytes.len(),
            Self::External(length) => *length,
        }
    }

    /// Whether the segment has no bytes.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn shorten(&mut self, length: usize) {
        match self {
            Self::Bytes(bytes) => bytes.truncate(length),
            Self::External(external) => *external = length.min(*external),
        }
    }
}

/// A segment that is not copied, and where it belongs.
#[derive(Clone, Debug)]
struct Insert {
    /// Offset in the encoder's own bytes that it precedes.
    own_at: usize,
    segment: Segment,
}

/// Writes items to the end of a message.
///
/// ```
/// use braid_nfs_wire::xdr::Encoder;
///
/// let mut encoder = Encoder::new();
/// let count_at = encoder.position();
/// encoder.u32(0);
/// encoder.opaque(b"name");
/// encoder.patch_u32(count_at, 1);
/// assert_eq!(encoder.to_vec(), b"\0\0\0\x01\0\0\0\x04name");
/// ```
#[derive(Clone, Default, Debug)]
pub struct Encoder {
    own: BytesMut,
    /// Ascending by `own_at`.
    inserts: Vec<Insert>,
    /// Bytes of all inserts.
    inserted: usize,
}

impl Encoder {
    /// An encoder without bytes.
    pub fn new() -> Self {
        Self { own: BytesMut::with_capacity(BYTES_USUAL), ..Self::default() }
    }

    /// Bytes written, payloads and external data included.
    pub fn len(&self) -> usize {
        self.own.len() + self.inserted
    }

    /// Whether nothing was written.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Offset of the next byte from the start of the message; for [`Encoder::patch_u32`] and
    /// [`Encoder::truncate`].
    pub fn position(&self) -> usize {
        self.len()
    }

    /// Appends an unsigned integer or an enumeration.
    pub fn u32(&mut self, value: u32) {
        self.own.put_u32(value);
    }

    /// Appends a signed integer.
    pub fn i32(&mut self, value: i32) {
        self.own.put_i32(value);
    }

    /// Appends an unsigned hyper integer.
    pub fn u64(&mut self, value: u64) {
        self.own.put_u64(value);
    }

    /// Appends a signed hyper integer.
    pub fn i64(&mut self, value: i64) {
        self.own.put_i64(value);
    }

    /// Appends a boolean.
    pub fn bool(&mut self, value: bool) {
        self.u32(u32::from(value));
    }

    /// Appends opaque data of variable length: its length, a copy of it, and its padding.
    pub fn opaque(&mut self, data: &[u8]) {
        self.length(data.len());
        self.opaque_fixed(data);
    }

    /// Appends a copy of opaque data of fixed length, and its padding.
    pub fn opaque_fixed(&mut self, data: &[u8]) {
        self.own.put_slice(data);
        self.padding(data.len());
    }

    /// Appends opaque data of variable length: its length, the data, and its padding. Data longer
    /// than [`PAYLOAD_COPIED_MAX`] is not copied.
    pub fn payload(&mut self, data: Bytes) {
        let length = data.len();
        self.length(length);
        self.raw(data);
        self.padding(length);
    }

    /// Appends items that are already encoded: no length and no padding. Bytes longer than
    /// [`PAYLOAD_COPIED_MAX`] are not copied.
    pub fn raw(&mut self, encoded: Bytes) {
        if encoded.len() > PAYLOAD_COPIED_MAX {
            self.insert(Segment::Bytes(encoded));
        } else {
            self.own.put_slice(&encoded);
        }
    }

    /// Appends items that another encoder wrote. Long data is not copied.
    pub fn append(&mut self, items: Self) {
        let own_at = self.own.len();
        let inserts = items.inserts.into_iter();
        self.inserts.extend(inserts.map(|i| Insert { own_at: own_at + i.own_at, ..i }));
        self.inserted += items.inserted;
        self.own.put_slice(&items.own);
    }

    /// Appends opaque data of `length` bytes that the transport sends itself: the length, a
    /// [`Segment::External`], and the padding.
    pub fn external(&mut self, length: usize) {
        self.length(length);
        if length > 0 {
            self.insert(Segment::External(length));
        }
        self.padding(length);
    }

    /// Appends the number of `items`, and each of them.
    pub fn array<T>(&mut self, items: &[T], mut item: impl FnMut(&mut Self, &T)) {
        self.length(items.len());
        for value in items {
            item(self, value);
        }
    }

    /// Appends a length or count.
    ///
    /// # Panics
    /// When it is over `u32::MAX`, which no message of this protocol reaches.
    pub fn length(&mut self, length: usize) {
        self.u32(u32::try_from(length).expect("XDR lengths have 32 bits"));
    }

    fn padding(&mut self, length: usize) {
        self.own.put_bytes(0, padding(length));
    }

    fn insert(&mut self, segment: Segment) {
        self.inserted += segment.len();
        self.inserts.push(Insert { own_at: self.own.len(), segment });
    }

    /// Replaces the integer at `at`, a former [`Encoder::position`] where [`Encoder::u32`] wrote.
    ///
    /// # Panics
    /// When no integer of the encoder's own bytes is there.
    pub fn patch_u32(&mut self, at: usize, value: u32) {
        let mut inserted = 0;
        for insert in &self.inserts {
            if insert.own_at + inserted >= at {
                break;
            }
            inserted += insert.segment.len();
        }
        let own_at = at - inserted;
        self.own[own_at..own_at + 4].copy_from_slice(&value.to_be_bytes());
    }

    /// Removes everything from `position` on, a former [`Encoder::position`]. A later one changes
    /// nothing.
    pub fn truncate(&mut self, position: usize) {
        while let Some(mut insert) = self.inserts.pop() {
            let length = insert.segment.len();
            let before = self.inserted - length;
            let start = insert.own_at + before;
            if position > start {
                insert.segment.shorten(position - start);
                self.inserted = before + insert.segment.len();
                self.inserts.push(insert);
                break;
            }
            self.inserted = before;
        }
        self.own.truncate(position.saturating_sub(self.inserted));
    }

    /// The message as segments in order; none is empty.
    pub fn into_segments(self) -> Vec<Segment> {
        let mut own = self.own.freeze();
        let mut segments = Vec::with_capacity(2 * self.inserts.len() + 1);
        let mut taken = 0;
        for insert in self.inserts {
            let before = own.split_to(insert.own_at - taken);
            taken = insert.own_at;
            segments.extend([Segment::Bytes(before), insert.segment]);
        }
        segments.push(Segment::Bytes(own));
        segments.retain(|segment| !segment.is_empty());
        segments
    }

    /// The message as one vector; zeros stand for external data.
    pub fn to_vec(&self) -> Vec<u8> {
        let mut all = Vec::with_capacity(self.len());
        let mut taken = 0;
        for insert in &self.inserts {
            all.extend_from_slice(&self.own[taken..insert.own_at]);
            taken = insert.own_at;
            match &insert.segment {
                Segment::Bytes(bytes) => all.extend_from_slice(bytes),
                Segment::External(length) => all.resize(all.len() + length, 0),
            }
        }
        all.extend_from_slice(&self.own[taken..]);
        all
    }
}
