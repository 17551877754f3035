//! The layout type `files`: devices, layouts and addresses. RFC 8881 13.

mod address;
#[cfg(test)]
mod tests;

pub use address::{AddressError, UADDR_BYTES_MAX};

use super::types::{DeviceId, FileHandle, NetAddress};
use crate::xdr::{Decoder, Encoder, Xdr, XdrBounded, XdrError, xdr_struct};

/// Maximum stripe indices of a device. Linux accepts no more (`NFS4_PNFS_MAX_STRIPE_CNT`).
pub const STRIPE_INDICES_MAX: usize = 4096;
/// Maximum data servers of a device. Linux accepts no more (`NFS4_PNFS_MAX_MULTI_CNT`).
pub const DATA_SERVERS_MAX: usize = 256;
/// Maximum addresses of a data server.
pub const MULTIPATH_MAX: usize = 64;

/// Bits of `nfl_util4` that are flags; the others are the stripe unit. RFC 8881 13.3.
const FLAGS_MASK: u32 = 0x3f;
/// `NFL4_UFLG_DENSE`.
const DENSE: u32 = 1;
/// `NFL4_UFLG_COMMIT_THRU_MDS`.
const COMMIT_THROUGH_MDS: u32 = 2;

xdr_struct! {
    /// `nfsv4_1_file_layout_ds_addr4`: the body of a device's address. RFC 8881 13.3.
    pub struct FileDevice {
        /// For each stripe, an index of `data_servers`.
        pub stripe_indices: Vec<u32> [STRIPE_INDICES_MAX],
        /// Data servers.
        pub data_servers: Vec<Multipath> [DATA_SERVERS_MAX],
    }

    /// `nfsv4_1_file_layout4`: the content of a layout. RFC 8881 13.3.
    pub struct FileLayout {
        /// The device.
        pub device_id: DeviceId,
        /// Stripe unit and flags.
        pub util: LayoutUtil,
        /// Index of the first stripe.
        pub first_stripe_index: u32,
        /// Offset in the file where the pattern starts.
        pub pattern_offset: u64,
        /// File handles: for sparse layouts none (that of the metadata server is used), one, or
        /// one for each data server.
        pub handles: Vec<FileHandle> [STRIPE_INDICES_MAX],
    }
}

/// `multipath_list4`: addresses of one data server.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Multipath(pub Vec<NetAddress>);

impl Xdr for Multipath {
    fn encode(&self, to: &mut Encoder) {
        self.0.encode_bounded(to);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        XdrBounded::decode_bounded(from, MULTIPATH_MAX).map(Self)
    }
}

impl FileDevice {
    /// Whether each stripe has a data server.
    pub fn is_consistent(&self) -> bool {
        self.stripe_indices.iter().all(|index| (*index as usize) < self.data_servers.len())
    }
}

/// `nfl_util4`: the stripe unit in bytes, a multiple of 64, and flags.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LayoutUtil(u32);

impl LayoutUtil {
    /// A sparse layout whose data is committed through the data servers; none when `stripe_unit`,
    /// in bytes, is 0 or not a multiple of 64.
    pub fn sparse(stripe_unit: u32) -> Option<Self> {
        (stripe_unit != 0 && stripe_unit & FLAGS_MASK == 0).then_some(Self(stripe_unit))
    }

    /// Bytes of a stripe on one data server.
    pub fn stripe_unit(self) -> u32 {
        self.0 & !FLAGS_MASK
    }

    /// Whether objects have no holes for the stripes of other data servers.
    pub fn is_dense(self) -> bool {
        self.0 & DENSE != 0
    }

    /// Whether COMMIT goes to the metadata server.
    pub fn commits_through_mds(self) -> bool {
        self.0 & COMMIT_THROUGH_MDS != 0
    }
}

impl Xdr for LayoutUtil {
    fn encode(&self, to: &mut Encoder) {
        to.u32(self.0);
    }
    fn decode(from: &mut Decoder) -> Result<Self, XdrError> {
        from.u32().map(Self)
    }
}
