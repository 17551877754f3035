//! Any bytes as a frame of SMB, and as the messages of a compound: no panic, bodies that are
//! decoded have the same bytes after decoding them again, and no list is longer than its message.
#![no_main]

use braid_smb_wire::smb2::create::{self, CreateContext, CreateRequest, CreateResponse, context};
use braid_smb_wire::smb2::error_context::SymlinkError;
use braid_smb_wire::smb2::{
    Body, Empty, ErrorBody, HEADER_BYTES, Header, change_notify, close, flush, ioctl, lock,
    negotiate, oplock_break, output, query_directory, query_info, read, session_setup, set_info,
    tree_connect, write,
};
use braid_smb_wire::{Reader, frame, smb1};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// Most bytes that an encoded body is longer than its message: fields that may be missing, and
/// the padding of contexts.
const PADDING: usize = 16 * 64;

fn decode<T: Body>(message: &Bytes) -> Option<T> {
    let mut reader = Reader::new(message.clone());
    reader.skip(HEADER_BYTES).ok()?;
    T::decode(&mut reader).ok()
}

fn check<T: Body>(message: &Bytes) {
    let Some(body) = decode::<T>(message) else { return };
    let bytes = body.to_bytes();
    let whole = Bytes::from([vec![0; HEADER_BYTES], bytes.clone()].concat());
    let again = decode::<T>(&whole).expect("encoded bytes are decoded");
    assert_eq!(again.to_bytes(), bytes);
}

/// As [`check`], and the body takes no more bytes than the message has, but for padding. Bodies
/// with two buffers may have both at one place, so they are not checked for it.
fn check_length<T: Body>(message: &Bytes) {
    check::<T>(message);
    if let Some(body) = decode::<T>(message) {
        assert!(HEADER_BYTES + body.to_bytes().len() <= message.len() + PADDING);
    }
}

fn read_contexts(contexts: &[CreateContext]) {
    assert!(contexts.len() <= context::MAX_CREATE_CONTEXTS);
    for CreateContext { data, .. } in contexts {
        let decoded = [
            create::Lease::decode(data).map(|value| value.to_context()),
            create::DurableRequest::decode(data).map(|value| value.to_context()),
            create::DurableResponse::decode(data).map(|value| value.to_context()),
            create::DurableReconnect::decode(data).map(|value| value.to_context()),
            create::DurableRequestV2::decode(data).map(|value| value.to_context()),
            create::DurableResponseV2::decode(data).map(|value| value.to_context()),
            create::DurableReconnectV2::decode(data).map(|value| value.to_context()),
            create::AppInstanceId::decode(data).map(|value| value.to_context()),
            create::AppInstanceVersion::decode(data).map(|value| value.to_context()),
            create::MaximalAccessRequest::decode(data).map(|value| value.to_context()),
            create::MaximalAccessResponse::decode(data).map(|value| value.to_context()),
            create::OnDiskId::decode(data).map(|value| value.to_context()),
            create::AllocationSize::decode(data).map(|value| value.to_context()),
            create::TimeWarp::decode(data).map(|value| value.to_context()),
            create::PosixRequest::decode(data).map(|value| value.to_context()),
            create::PosixResponse::decode(data).map(|value| value.to_context()),
        ];
        assert!(decoded.into_iter().flatten().all(|context| context.data.len() <= data.len()));
    }
}

fn read_message(message: &Bytes) {
    if let Ok(header) = Header::decode(&mut Reader::new(message.clone())) {
        let again = Header::decode(&mut Reader::new(header.to_bytes().to_vec().into()));
        assert_eq!(again.as_ref(), Ok(&header));
    }
    check::<negotiate::NegotiateRequest>(message);
    check::<negotiate::NegotiateResponse>(message);
    check_length::<session_setup::SessionSetupRequest>(message);
    check_length::<session_setup::SessionSetupResponse>(message);
    check_length::<tree_connect::TreeConnectRequest>(message);
    check_length::<tree_connect::TreeConnectResponse>(message);
    check::<CreateRequest>(message);
    check::<CreateResponse>(message);
    check_length::<close::CloseRequest>(message);
    check_length::<close::CloseResponse>(message);
    check_length::<flush::FlushRequest>(message);
    check_length::<read::ReadRequest>(message);
    check_length::<read::ReadResponse>(message);
    check_length::<read::ReadReply>(message);
    check_length::<write::WriteRequest>(message);
    check_length::<write::WriteResponse>(message);
    check_length::<lock::LockRequest>(message);
    check_length::<ioctl::IoctlRequest>(message);
    check_length::<ioctl::IoctlResponse>(message);
    check_length::<query_directory::QueryDirectoryRequest>(message);
    check_length::<change_notify::ChangeNotifyRequest>(message);
    check_length::<query_info::QueryInfoRequest>(message);
    check_length::<output::OutputResponse>(message);
    check_length::<set_info::SetInfoRequest>(message);
    check_length::<set_info::SetInfoResponse>(message);
    check_length::<oplock_break::OplockBreakBody>(message);
    check_length::<Empty>(message);
    check_length::<ErrorBody>(message);
    let data = decode::<ErrorBody>(message).and_then(|body| body.first_data().ok());
    if let Some(link) = data.and_then(|data| SymlinkError::decode(&data).ok()) {
        assert_eq!(SymlinkError::decode(&link.to_bytes().into()), Ok(link));
    }
    decode::<CreateRequest>(message).inspect(|body| read_contexts(&body.contexts));
    decode::<CreateResponse>(message).inspect(|body| read_contexts(&body.contexts));
}

fuzz_target!(|data: &[u8]| {
    let bytes = Bytes::copy_from_slice(data);
    if let Some(prefix) = data.first_chunk() {
        if let Ok(length) = frame::decode_length(*prefix, frame::MAX_FRAME) {
            assert_eq!(frame::encode_length(length), *prefix);
        }
    }
    let _ = frame::FrameKind::of(data);
    let _ = smb1::smb1_dialects(&bytes);
    if let Ok(header) = frame::Transform::decode(&mut Reader::new(bytes.clone())) {
        let again = header.to_bytes();
        assert_eq!(frame::Transform::decode(&mut Reader::new(again.to_vec().into())), Ok(header));
    }
    let messages = frame::messages(bytes.clone()).unwrap_or_default();
    assert!(messages.iter().map(Bytes::len).sum::<usize>() <= data.len());
    messages.iter().for_each(read_message);
    // Most bytes are no frame: as a body behind an empty header too.
    read_message(&[vec![0; HEADER_BYTES], data.to_vec()].concat().into());
});
