//! File handles of NFS data servers: signed by the metadata server, verified by an I/O daemon (I4).
//!
//! A client of NFSv4.1 gets them in a layout and shows one in each READ, WRITE and COMMIT. The
//! daemon needs nothing else to serve it, since a handle says what a capability says of one part.

use braid_layout::{Distribution, Layout};
use braid_types::{
    FileIndex, IodId, LayoutVersion, MdsEpoch, ObjectGeneration, PartIndex, SessionId,
    SizeGeneration,
};

use crate::{
    capability::Rights,
    codec::{Wire, wire_struct},
    key::{KEY_BYTES, Secret},
};

const PURPOSE: &str = "braid data server handle";
const VERSION: u8 = 1;
/// NFS4_FHSIZE of RFC 8881 3.2.
pub const DATA_SERVER_HANDLE_BYTES_MAX: usize = 128;
/// A stripe of a layout for NFS clients is a multiple of this: the largest READ and WRITE of Linux,
/// which it cuts at the edges of stripes.
pub const NFS_STRIPE_UNIT: u64 = 1 << 20;
/// The label of an I/O daemon with an address of its NFS data server, `nfs-address=HOST:PORT`. A
/// daemon has one for each address.
pub const NFS_ADDRESS_LABEL: &str = "nfs-address";

wire_struct! {
    /// The right of one client session to one part of a file, as an NFS file handle.
    #[derive(Hash)]
    pub struct DataServerHandle {
        /// The file.
        file: FileIndex,
        /// The part.
        part: PartIndex,
        /// Parts of the file.
        parts: u16,
        /// The part that has the first stripe.
        first_part: u16,
        /// Bytes in one stripe, in units of [`NFS_STRIPE_UNIT`]; 0: the whole file is in one part.
        stripe_units: u32,
        /// The incarnation of the part.
        generation: ObjectGeneration,
        /// Objects whose size generation is newer refuse the handle (I5).
        size_generation: SizeGeneration,
        /// The rights.
        rights: Rights,
        /// Whether the part is recorded as existing, so that its absence is a loss (I11).
        recorded: bool,
        /// The session that may use it.
        session: SessionId,
        /// Epoch of the metadata server that signed it.
        epoch: MdsEpoch,
        /// Owner and group of the file, for the object's record.
        owner: (u64, u64),
        /// Bytes of the file from this offset on are not written by the handle: a quota may refuse
        /// them (ADR 0012).
        write_end: u64,
    }
}

impl DataServerHandle {
    /// The bytes of the handle: version, fields, and a tag under a key derived from the server key.
    pub fn sign(&self, server_key: &Secret) -> Vec<u8> {
        let mut out = Vec::with_capacity(DATA_SERVER_HANDLE_BYTES_MAX);
        VERSION.encode(&mut out);
        self.encode(&mut out);
        out.extend_from_slice(&server_key.mac(PURPOSE, &[&out]));
        debug_assert!(out.len() <= DATA_SERVER_HANDLE_BYTES_MAX);
        out
    }

    /// Checks the tag and reads a handle. `None` when the bytes were not signed with this key.
    pub fn verify(signed: &[u8], server_key: &Secret) -> Option<Self> {
        let (body, tag) = signed.split_last_chunk::<KEY_BYTES>()?;
        if !server_key.verify(PURPOSE, &[body], tag) || body.first() != Some(&VERSION) {
            return None;
        }
        Self::from_bytes(&body[1..]).ok()
    }

    /// Bytes in one stripe; the whole file for a file of one part.
    pub fn stripe_bytes(&self) -> Option<u64> {
        (self.stripe_units > 0).then(|| u64::from(self.stripe_units) * NFS_STRIPE_UNIT)
    }

    /// The layout as far as one daemon needs it: only `part` is placed, on `iod`.
    pub fn layout(&self, iod: IodId) -> Layout {
        let distribution = match self.stripe_bytes() {
            Some(stripe_size) => Distribution::SimpleStripe { stripe_size },
            None => Distribution::Single,
        };
        let place = |part| if part == self.part.0 { iod } else { IodId(0) };
        let mut layout = Layout::one(distribution, (0..self.parts).map(place));
        for component in &mut layout.components {
            component.first_part = self.first_part;
            for part in &mut component.parts {
                part.generation = self.generation;
            }
        }
        layout.version = LayoutVersion(1);
        layout
    }
}

/// What an NFSv4.1 file layout can express of a file: the stripe unit in units of
/// [`NFS_STRIPE_UNIT`] (0 for a file in one part), and the part with the first stripe. `None` for
/// any other layout.
pub fn nfs_layout(layout: &Layout) -> Option<(u32, u16)> {
    let [component] = &layout.components[..] else { return None };
    match component.distribution {
        // A distribution of one part is the whole file, whatever its stripe.
        _ if component.parts.len() == 1 => Some((0, 0)),
        Distribution::SimpleStripe { stripe_size }
            if stripe_size > 0 && stripe_size % NFS_STRIPE_UNIT == 0 =>
        {
            // RFC 8881 13.2: the stripe unit is a 32-bit field with 6 bits of flags.
            let units = u32::try_from(stripe_size / NFS_STRIPE_UNIT).ok()?;
            (stripe_size < 1 << 32).then_some((units, component.first_part))
        }
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn handle() -> DataServerHandle {
        DataServerHandle {
            file: FileIndex(u64::MAX),
            part: PartIndex(2),
            parts: 4,
            first_part: 1,
            stripe_units: 3,
            generation: ObjectGeneration(7),
            size_generation: SizeGeneration(u64::MAX),
            rights: Rights::READ_WRITE,
            recorded: true,
            session: SessionId(u64::MAX),
            epoch: MdsEpoch(u64::MAX),
            owner: (u64::MAX, u64::MAX),
            write_end: u64::MAX,
        }
    }

    #[test]
    fn a_signed_handle_fits_an_nfs_handle_and_is_read_back() {
        let key = Secret::from_bytes([7; 32]);
        let signed = handle().sign(&key);
        assert!(signed.len() <= DATA_SERVER_HANDLE_BYTES_MAX, "{}", signed.len());
        assert_eq!(DataServerHandle::verify(&signed, &key), Some(handle()));
    }

    #[test]
    fn a_changed_byte_a_missing_byte_and_another_key_are_refused() {
        let key = Secret::from_bytes([7; 32]);
        let signed = handle().sign(&key);
        for at in 0..signed.len() {
            let mut changed = signed.clone();
            changed[at] ^= 1;
            assert_eq!(DataServerHandle::verify(&changed, &key), None, "byte {at}");
            assert_eq!(DataServerHandle::verify(&signed[..at], &key), None, "cut at {at}");
        }
        assert_eq!(DataServerHandle::verify(&signed, &Secret::from_bytes([8; 32])), None);
    }

    #[test]
    fn its_layout_has_the_part_on_this_daemon_only() {
        let layout = handle().layout(IodId(5));
        let local = layout.parts_on(IodId(5));
        assert!((0..4).all(|part| local.contains(PartIndex(part)) == (part == 2)));
        assert_eq!(nfs_layout(&layout), Some((3, 1)));
    }

    #[test]
    fn only_round_robin_in_whole_megabytes_and_single_parts_are_expressed() {
        let stripes = |stripe_size| {
            Layout::one(Distribution::SimpleStripe { stripe_size }, [IodId(1), IodId(2)])
        };
        assert_eq!(nfs_layout(&stripes(1 << 20)), Some((1, 0)));
        assert_eq!(nfs_layout(&stripes(64 << 10)), None);
        assert_eq!(nfs_layout(&stripes(1 << 32)), None);
        let grouped =
            Distribution::Grouped { stripe_size: 1 << 20, group_width: 1, group_depth: 1 };
        assert_eq!(nfs_layout(&Layout::one(grouped, [IodId(1), IodId(2)])), None);
        let single = Layout::one(Distribution::Single, [IodId(1)]);
        assert_eq!(nfs_layout(&single), Some((0, 0)));
    }
}
