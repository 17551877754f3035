//! Bytes written out by hand of the bodies without contexts, and of NEGOTIATE.

use crate::bodies::{decode, message};
use crate::golden::FILE_ID;
use braid_smb_wire::smb2::change_notify::{
    ChangeNotifyFlags, ChangeNotifyRequest, CompletionFilter,
};
use braid_smb_wire::smb2::ioctl::{IoctlFlags, IoctlRequest, IoctlResponse};
use braid_smb_wire::smb2::lock::{LockElement, LockFlags, LockRequest};
use braid_smb_wire::smb2::negotiate::{
    Capabilities, Cipher, CompressionAlgorithm, CompressionFlags, HashAlgorithm, NegotiateContext,
    NegotiateRequest, NegotiateResponse, POSIX_EXTENSIONS, SecurityMode, SigningAlgorithm,
};
use braid_smb_wire::smb2::query_directory::{QueryDirectoryFlags, QueryDirectoryRequest};
use braid_smb_wire::smb2::query_info::{InfoType, QueryInfoFlags, QueryInfoRequest};
use braid_smb_wire::smb2::session_setup::{
    SessionFlags, SessionSetupFlags, SessionSetupRequest, SessionSetupResponse,
};
use braid_smb_wire::smb2::set_info::{SetInfoRequest, SetInfoResponse};
use braid_smb_wire::smb2::tree_connect::{
    ShareCapabilities, ShareFlags, ShareType, TreeConnectFlags, TreeConnectRequest,
    TreeConnectResponse,
};
use braid_smb_wire::smb2::{Body, Dialect, Empty, ErrorBody, close, flush, output, read, write};
use bytes::Bytes;

/// The bytes of a hexadecimal text; spaces and `FILE`, an open, may be in it.
fn hex(text: &str) -> Vec<u8> {
    let text = text.replace("FILE", "0102030405060708090a0b0c0d0e0f10").replace([' ', '\n'], "");
    (0..text.len())
        .step_by(2)
        .map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap())
        .collect()
}

/// Checks both directions of a body.
fn check<T: Body + PartialEq + std::fmt::Debug>(body: &T, bytes: &str) {
    assert_eq!(body.to_bytes(), hex(bytes), "{body:?}");
    assert_eq!(&decode::<T>(message(body)).unwrap(), body);
}

#[test]
fn a_negotiate_has_dialects_and_the_contexts_of_3_1_1() {
    let contexts = vec![
        NegotiateContext::PreauthIntegrity {
            hashes: vec![HashAlgorithm::SHA512],
            salt: Bytes::from_static(b"salt"),
        },
        NegotiateContext::Encryption(vec![Cipher::AES_128_GCM, Cipher::AES_128_CCM]),
        NegotiateContext::Compression {
            flags: CompressionFlags::CHAINED,
            algorithms: vec![CompressionAlgorithm::LZ77],
        },
        NegotiateContext::NetName("s".into()),
        NegotiateContext::Signing(vec![SigningAlgorithm::AES_GMAC]),
        NegotiateContext::Posix(vec![POSIX_EXTENSIONS]),
        NegotiateContext::Other { kind: 6, data: Bytes::from_static(&[1, 0, 0, 0]) },
    ];
    let mut request = NegotiateRequest {
        dialects: vec![0x0202, Dialect::Smb311.number()],
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::LEASING,
        client_guid: [7; 16],
        contexts,
    };
    let fixed = "2400 0200 0100 0000 02000000 07070707070707070707070707070707";
    // The dialects at 100 have 4 bytes, so the contexts are at 104.
    let contexts = "0100 0a00 00000000 0100 0400 0100 73616c74 000000000000
        0200 0600 00000000 0200 0200 0100 0000
        0300 0a00 00000000 0100 0000 01000000 0200 000000000000
        0500 0200 00000000 7300 000000000000
        0800 0400 00000000 0100 0200 00000000
        0001 1000 00000000 93ad25509cb411e7b42383de968bcd7c
        0600 0400 00000000 01000000";
    check(&request, &format!("{fixed} 68000000 0700 0000 0202 1103 {contexts}"));
    request.dialects = vec![0x0202, 0x0210];
    request.contexts = Vec::new();
    check(&request, &format!("{fixed} 00000000 0000 0000 0202 1002"));
}

#[test]
fn a_negotiate_response_has_its_token_before_its_contexts() {
    let mut response = NegotiateResponse {
        security_mode: SecurityMode::SIGNING_REQUIRED,
        dialect: Dialect::Smb311.number(),
        server_guid: [8; 16],
        capabilities: Capabilities::DFS,
        max_transact_size: 0x10_0000,
        max_read_size: 0x20_0000,
        max_write_size: 0x30_0000,
        system_time: 1,
        security_buffer: Bytes::from_static(b"tok"),
        contexts: vec![NegotiateContext::Signing(vec![SigningAlgorithm::AES_CMAC])],
    };
    let sizes = "08080808080808080808080808080808 01000000 00001000 00002000 00003000
        0100000000000000 0000000000000000 8000 0300";
    let context = "0000000000 0800 0400 00000000 0100 0100";
    check(&response, &format!("4100 0200 1103 0100 {sizes} 88000000 746f6b {context}"));
    response.contexts = Vec::new();
    response.dialect = 0x0302;
    check(&response, &format!("4100 0200 0203 0000 {sizes} 00000000 746f6b"));
}

#[test]
fn logons_and_trees() {
    let request = SessionSetupRequest {
        flags: SessionSetupFlags::BINDING,
        security_mode: 1,
        capabilities: 1,
        previous_session_id: 2,
        security_buffer: Bytes::from_static(b"abc"),
    };
    let bytes = "1900 01 01 01000000 00000000 5800 0300 0200000000000000 616263";
    check(&request, bytes);
    let flags = SessionFlags::GUEST;
    let response = SessionSetupResponse { flags, security_buffer: Bytes::from_static(b"abc") };
    check(&response, "0900 0100 4800 0300 616263");
    let flags = TreeConnectFlags::CLUSTER_RECONNECT;
    let request = TreeConnectRequest { flags, path: "\\\\s\\d".into() };
    check(&request, "0900 0100 4800 0a00 5c00 5c00 7300 5c00 6400");
    let response = TreeConnectResponse {
        share_type: ShareType::DISK,
        flags: ShareFlags::NO_CACHING,
        capabilities: ShareCapabilities::SCALEOUT,
        maximal_access: 0x001f_01ff,
    };
    check(&response, "1000 01 00 30000000 20000000 ff011f00");
}

#[test]
fn requests_for_opens() {
    let flags = close::CloseFlags::POSTQUERY_ATTRIB;
    check(&close::CloseRequest { flags, file_id: FILE_ID }, "1800 0100 00000000 FILE");
    check(&flush::FlushRequest { file_id: FILE_ID }, "1800 0000 00000000 FILE");
    let request = read::ReadRequest {
        flags: read::ReadFlags::UNBUFFERED,
        length: 0x0102,
        offset: 3,
        file_id: FILE_ID,
        minimum_count: 4,
        channel: read::Channel::NONE,
        remaining_bytes: 5,
    };
    let bytes = "3100 50 01 02010000 0300000000000000 FILE 04000000 00000000 05000000 00000000 00";
    check(&request, bytes);
    let range = |offset, flags| LockElement { offset, length: 2, flags };
    let locks = vec![range(1, LockFlags::EXCLUSIVE), range(3, LockFlags::UNLOCK)];
    let request = LockRequest { sequence: 0x21, file_id: FILE_ID, locks };
    let first = "0100000000000000 0200000000000000 02000000 00000000";
    let second = "0300000000000000 0200000000000000 04000000 00000000";
    check(&request, &format!("3000 0200 21000000 FILE {first} {second}"));
    let request = ChangeNotifyRequest {
        flags: ChangeNotifyFlags::WATCH_TREE,
        output_buffer_length: 9,
        file_id: FILE_ID,
        filter: CompletionFilter::SIZE,
    };
    check(&request, "2000 0100 09000000 FILE 08000000 00000000");
}

#[test]
fn requests_with_a_buffer() {
    let request = IoctlRequest {
        code: 0x0011_c017,
        file_id: FILE_ID,
        flags: IoctlFlags::IS_FSCTL,
        input: Bytes::from_static(b"in"),
        max_input: 0,
        max_output: 16,
    };
    let bytes = "3900 0000 17c01100 FILE 78000000 02000000 00000000 00000000 00000000 10000000
        01000000 00000000 696e";
    check(&request, bytes);
    let request = QueryDirectoryRequest {
        information_class: 37,
        flags: QueryDirectoryFlags::REOPEN,
        file_index: 1,
        file_id: FILE_ID,
        pattern: "*".into(),
        output_buffer_length: 0x1000,
    };
    check(&request, "2100 25 10 01000000 FILE 6000 0200 00100000 2a00");
    let request = QueryInfoRequest {
        info_type: InfoType::SECURITY,
        info_class: 0,
        output_buffer_length: 0x1000,
        additional_information: 7,
        flags: QueryInfoFlags::RESTART_SCAN,
        file_id: FILE_ID,
        input: Bytes::from_static(b"in"),
    };
    check(&request, "2900 03 00 00100000 6800 0000 02000000 07000000 01000000 FILE 696e");
    let request = SetInfoRequest {
        info_type: InfoType::FILE,
        info_class: 20,
        additional_information: 0,
        file_id: FILE_ID,
        data: Bytes::from_static(&[5; 8]),
    };
    check(&request, "2100 01 14 08000000 6000 0000 00000000 FILE 0505050505050505");
}

#[test]
fn responses_of_opens() {
    let response = close::CloseResponse {
        flags: close::CloseFlags::POSTQUERY_ATTRIB,
        creation_time: 1,
        last_access_time: 2,
        last_write_time: 3,
        change_time: 4,
        allocation_size: 5,
        end_of_file: 6,
        file_attributes: 7,
    };
    let numbers = "0100000000000000 0200000000000000 0300000000000000 0400000000000000
        0500000000000000 0600000000000000 07000000";
    check(&response, &format!("3c00 0100 00000000 {numbers}"));
    check(&write::WriteResponse { count: 9 }, "1100 0000 09000000 00000000 0000 0000");
    let output = Bytes::from_static(b"out");
    let response = IoctlResponse { code: 0x0011_c017, file_id: FILE_ID, output: output.clone() };
    let bytes = "3100 0000 17c01100 FILE 70000000 00000000 70000000 03000000 00000000 00000000
        6f7574";
    check(&response, bytes);
    check(&output::OutputResponse { output }, "0900 4800 03000000 6f7574");
    check(&SetInfoResponse, "0200");
    check(&Empty, "0400 0000");
    check(&ErrorBody::default(), "0900 00 00 00000000 00");
}
