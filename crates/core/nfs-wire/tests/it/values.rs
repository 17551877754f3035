//! Values for samples: each different from zero, so that exchanged fields are noticed.

use braid_nfs_wire::nfs4::{
    Ace, AceFlags, AceMask, AceType, Bitmap, ChangeInfo, ClientId, DeviceId, EncodedAttributes,
    FileHandle, NfsTime, SessionId, StateId, StateOwner, Verifier,
};
use bytes::Bytes;

pub fn state_id(n: u8) -> StateId {
    StateId { seqid: n.into(), other: [n; 12] }
}

pub fn verifier() -> Verifier {
    Verifier(*b"verifier")
}

pub fn session_id() -> SessionId {
    SessionId(*b"0123456789abcdef")
}

pub fn device_id() -> DeviceId {
    DeviceId(*b"a device's name.")
}

pub fn handle() -> FileHandle {
    FileHandle(Bytes::from_static(b"file handle"))
}

pub fn owner() -> StateOwner {
    StateOwner { client_id: ClientId(77), owner: Bytes::from_static(b"owner") }
}

pub fn time() -> NfsTime {
    NfsTime { seconds: 1_700_000_000, nanoseconds: 5 }
}

pub fn bits() -> Bitmap {
    Bitmap::of(&[0, 33, 65])
}

pub fn name() -> Bytes {
    Bytes::from_static(b"a name")
}

pub fn attributes() -> EncodedAttributes {
    EncodedAttributes { mask: Bitmap::of(&[4]), values: Bytes::from_static(b"\0\0\0\0\0\0\0\x09") }
}

pub fn change() -> ChangeInfo {
    ChangeInfo { atomic: true, before: 8, after: 9 }
}

pub fn ace() -> Ace {
    Ace {
        ace_type: AceType::DENY,
        flags: AceFlags::IDENTIFIER_GROUP,
        mask: AceMask::WRITE_DATA,
        who: Bytes::from_static(b"GROUP@"),
    }
}
