//! Entry points for `fuzz/` into the parsers of this crate. Not a public interface.

use braid_types::nfs4_acl::Nfs4Acl;
use braid_types::{FileIndex, IodId, KeyId, SessionId};

use crate::acl_xattr;
use crate::record::{
    ClientKey, ClusterIdentity, Deletion, DirectoryDefault, Inode, Intent, IodRecord, Quota,
    ReplayRecord, SessionRecord, Usage, decode_cookie, decode_entry, decode_folded_name,
    decode_modes, encode_modes,
};
pub use crate::store::engine::fuzzing::*;

/// Decodes the bytes as each kind of record. A record that decodes must be equal after encoding it
/// again.
pub fn read_records(bytes: &[u8]) {
    macro_rules! same_again {
        ($($name:ty, $decode:expr);* $(;)?) => {$(
            let decode: fn(&[u8]) -> Result<$name, _> = $decode;
            if let Ok(value) = decode(bytes) {
                assert_eq!(decode(&value.encode()).as_ref(), Ok(&value), stringify!($name));
            }
        )*};
    }
    same_again!(
        Inode, |bytes| Inode::decode(FileIndex(1), bytes);
        Deletion, |bytes| Deletion::decode(FileIndex(1), bytes);
        Intent, |bytes| Intent::decode(FileIndex(1), bytes);
        DirectoryDefault, DirectoryDefault::decode;
        ClusterIdentity, ClusterIdentity::decode;
        ClientKey, |bytes| ClientKey::decode(KeyId(1), bytes);
        IodRecord, |bytes| IodRecord::decode(IodId(1), bytes);
        SessionRecord, |bytes| SessionRecord::decode(SessionId(1), bytes);
        Quota, Quota::decode;
        Usage, Usage::decode;
    );
    let _ = (ReplayRecord::decode(bytes), decode_entry(bytes), decode_cookie(1, bytes));
    let _ = decode_folded_name(bytes);
    if let Ok(modes) = decode_modes(bytes) {
        assert_eq!(decode_modes(&encode_modes(&modes)), Ok(modes));
    }
    for is_directory in [false, true] {
        if let Ok(list) = Nfs4Acl::from_xdr(bytes, is_directory) {
            assert_eq!(Nfs4Acl::from_xdr(&list.to_xdr(), is_directory), Ok(list));
        }
    }
    if let Ok(Some(list)) = acl_xattr::decode(bytes) {
        assert_eq!(acl_xattr::decode(&acl_xattr::encode(&list)), Ok(Some(list)));
    }
}
