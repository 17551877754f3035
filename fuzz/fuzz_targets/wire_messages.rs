//! Any bytes as any message: no panic, and decoded messages encode to the same bytes again.
#![no_main]

use braid_wire::{
    Auth, AuthReply, Capability, Credential, FRAME_HEADER_BYTES, FrameHeader, Hello, HelloReply,
    Secret, Ticket, Wire, decode_outcome,
    message::{
        CommonRequest, DaemonStatusReply, collective::StridedRequests, iod::*, mds::*, types::*,
    },
};
use libfuzzer_sys::fuzz_target;

/// Decodes as the `n`-th of the given types, and encodes again.
macro_rules! canonical {
    ($n:expr, $bytes:expr; $($name:ty),* $(,)?) => {{
        let tries: &[fn(&[u8])] = &[$( |bytes| {
            if let Ok(value) = <$name>::from_bytes(bytes) {
                assert_eq!(value.to_bytes(), bytes, stringify!($name));
            }
            let _ = decode_outcome::<$name>(bytes);
        } ),*];
        tries[usize::from($n) % tries.len()]($bytes);
    }};
}

fuzz_target!(|data: &[u8]| {
    let [which, op_low, op_high, bytes @ ..] = data else { return };
    let op = u16::from_le_bytes([*op_low, op_high % 3]);
    let _ = CommonRequest::decode(op, bytes);
    let _ = MdsRequest::decode(op, bytes);
    let _ = IodRequest::decode(op, bytes);
    if let Some(header) = bytes.first_chunk::<FRAME_HEADER_BYTES>() {
        if let Ok(header) = FrameHeader::from_bytes(header) {
            assert_eq!(&header.to_bytes()[..], &bytes[..FRAME_HEADER_BYTES]);
        }
    }
    assert_eq!(Capability::verify(bytes, &Secret::from_bytes([7; 32])), None, "nobody signed this");
    if let Some(requests) = Vec::<StridedRequests>::from_bytes(bytes)
        .ok()
        .and_then(|all| StridedRequests::expand(&all, 64))
    {
        assert_eq!(
            StridedRequests::expand(&StridedRequests::from_requests(&requests), 64),
            Some(requests)
        );
    }
    canonical!(*which, bytes;
        Hello, HelloReply, Auth, AuthReply, Ticket, Credential, Capability, Envelope,
        Identity, PathRef, Attributes, DirectoryEntry, LayoutHint, ClusterMap, ObjectRecord,
        Read, Write, Truncate, Punch, CollectSizes, ListObjects, OpenSession,
        OpenSessionReply, Reclaim, Create, CreateReply, OpenReply, SetAttributes,
        LayoutShowReply, MdsStatusReply, RegisterIod, HeartbeatReply, FsckFile,
        FsckNamespaceReply, ReadReply, CollectReply, ListObjectsReply, ReadDirectoryReply,
        DaemonStatusReply, BeginCollective, JoinRead, JoinWrite, Vec<StridedRequests>,
        Vec<Vec<u8>>, Vec<KeyInfo>, Option<u64>, String,
    );
});
