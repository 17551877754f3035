//! GETATTR: the few attributes that a client asks of a data server. The metadata server has those
//! of files.

use braid_nfs_wire::nfs4::{Attributes, Bitmap, EncodedAttributes, NfsFtype, attribute};
use braid_types::limits::FILE_BYTES_MAX;

/// Lease time in seconds. A data server has no state that a lease protects; clients renew their
/// sessions by it.
const LEASE_SECONDS: u32 = 90;

/// Attributes that have a value here.
const SUPPORTED: Bitmap = Bitmap::of(&[
    attribute::SUPPORTED_ATTRS,
    attribute::TYPE,
    attribute::FH_EXPIRE_TYPE,
    attribute::LEASE_TIME,
    attribute::FILEID,
    attribute::MAXFILESIZE,
    attribute::MAXREAD,
    attribute::MAXWRITE,
]);

/// Of the root, which has no file.
pub(super) fn of_root(requested: &Bitmap) -> EncodedAttributes {
    common(NfsFtype::Directory, 1).to_encoded(requested)
}

/// Of a part of a file.
pub(super) fn of_file(file: u64, requested: &Bitmap) -> EncodedAttributes {
    common(NfsFtype::Regular, file).to_encoded(requested)
}

fn common(file_type: NfsFtype, fileid: u64) -> Attributes {
    Attributes {
        supported_attrs: Some(SUPPORTED),
        file_type: Some(file_type),
        // RFC 8881 5.8.1.3: FH4_PERSISTENT.
        fh_expire_type: Some(0),
        lease_time: Some(LEASE_SECONDS),
        fileid: Some(fileid),
        maxfilesize: Some(FILE_BYTES_MAX),
        maxread: Some(1 << 20),
        maxwrite: Some(1 << 20),
        ..Attributes::default()
    }
}
