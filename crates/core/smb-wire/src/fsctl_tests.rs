//! Tests of the operations of IOCTL.

use proptest::prelude::*;

use super::*;

fn decodes_only_whole<T: Information + PartialEq + std::fmt::Debug>(value: &T, golden: &[u8]) {
    assert_eq!(value.to_bytes(), golden);
    assert_eq!(T::from_bytes(Bytes::copy_from_slice(golden)).as_ref(), Ok(value));
    for length in 0..golden.len() {
        let cut = Bytes::copy_from_slice(&golden[..length]);
        assert!(T::from_bytes(cut).is_err(), "{value:?} {length}");
    }
}

#[test]
fn validation_of_a_negotiation_has_the_bytes_of_the_standard() {
    let request = ValidateNegotiateRequest {
        capabilities: 0x7f,
        guid: [9; 16],
        security_mode: 1,
        dialects: vec![0x0202, 0x0302],
    };
    let golden = [&[0x7f, 0, 0, 0][..], &[9; 16], &[1, 0, 2, 0, 2, 2, 2, 3]].concat();
    decodes_only_whole(&request, &golden);
    let response = ValidateNegotiateResponse {
        capabilities: 1,
        guid: [8; 16],
        security_mode: 3,
        dialect: 0x0302,
    };
    let golden = [&[1, 0, 0, 0][..], &[8; 16], &[3, 0, 2, 3]].concat();
    decodes_only_whole(&response, &golden);
}

#[test]
fn a_copy_of_chunks_has_the_bytes_of_the_standard() {
    let chunk = CopyChunk { source_offset: 1, target_offset: 2, length: 3 };
    let request = CopyChunkRequest { source: [7; 24], chunks: vec![chunk] };
    let mut golden = vec![7; 24];
    golden.extend([1, 0, 0, 0, 0, 0, 0, 0]);
    golden.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0]);
    decodes_only_whole(&request, &golden);
    let response = CopyChunkResponse { chunks: 1, chunk_bytes: 0, total_bytes: 3 };
    decodes_only_whole(&response, &[1, 0, 0, 0, 0, 0, 0, 0, 3, 0, 0, 0]);
    let key = [&[5; 24][..], &[0; 8]].concat();
    decodes_only_whole(&ResumeKey { key: [5; 24] }, &key);
}

#[test]
fn counts_over_what_is_there_are_refused() {
    let mut copy = [0; 32];
    copy[24..28].copy_from_slice(&[255; 4]);
    assert!(CopyChunkRequest::from_bytes(copy.to_vec().into()).is_err());
    let mut validate = [0; 200];
    validate[22] = 65;
    assert!(ValidateNegotiateRequest::from_bytes(validate.to_vec().into()).is_err());
    assert!(decode_ranges(Bytes::from_static(&[0; 17])).is_err());
}

#[test]
fn ranges_that_do_not_fit_are_left_out() {
    decodes_only_whole(&ZeroData { offset: 1, beyond: 2 }, &{
        let mut golden = [0; 16];
        (golden[0], golden[8]) = (1, 2);
        golden
    });
    let ranges = [FileRange { offset: 1, length: 2 }, FileRange { offset: 8, length: 1 }];
    let (bytes, all) = encode_ranges(&ranges, 32);
    assert_eq!((bytes.len(), all, bytes[0], bytes[8]), (32, true, 1, 2));
    assert_eq!(decode_ranges(bytes.into()).unwrap(), ranges);
    let (bytes, all) = encode_ranges(&ranges, 31);
    assert_eq!((bytes.len(), all), (16, false));
    assert!(sets_sparse(&[]) && sets_sparse(&[1]) && !sets_sparse(&[0]));
}

#[test]
fn trim_compression_and_snapshots_have_the_bytes_of_the_standard() {
    let range = FileRange { offset: 1, length: 2 };
    let request = TrimRequest { key: 5, ranges: vec![range] };
    let mut golden = vec![5, 0, 0, 0, 1, 0, 0, 0];
    golden.extend([1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    decodes_only_whole(&request, &golden);
    golden[4] = 2;
    assert!(TrimRequest::from_bytes(golden.into()).is_err(), "more ranges than there are");
    decodes_only_whole(&TrimResponse { ranges: 3 }, &[3, 0, 0, 0]);
    decodes_only_whole(&Compression { format: Compression::LZNT1 }, &[2, 0]);
    let none = Snapshots { count: 0, returned: 0, array_bytes: 2 };
    decodes_only_whole(&none, &[0, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn addresses_of_interfaces_are_in_the_order_of_the_network() {
    let interfaces = [
        NetworkInterface {
            index: 3,
            capability: NetworkInterface::RSS,
            link_speed: 10,
            address: IpAddr::from([10, 1, 2, 3]),
        },
        NetworkInterface {
            index: 4,
            capability: 0,
            link_speed: 0,
            address: IpAddr::from([0xfe80, 0, 0, 0, 0, 0, 0, 1]),
        },
    ];
    let (bytes, fitting) = encode_interfaces(&interfaces, 304);
    assert_eq!((bytes.len(), fitting), (304, 2));
    assert_eq!(
        bytes[..24],
        [152, 0, 0, 0, 3, 0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 10, 0, 0, 0, 0, 0, 0, 0]
    );
    assert_eq!(bytes[24..34], [2, 0, 0, 0, 10, 1, 2, 3, 0, 0]);
    assert_eq!(bytes[176..186], [23, 0, 0, 0, 0, 0, 0, 0, 0xfe, 0x80]);
    assert_eq!(decode_interfaces(bytes.clone().into()).unwrap(), interfaces);
    for length in 1..bytes.len() {
        assert!(decode_interfaces(Bytes::copy_from_slice(&bytes[..length])).is_err(), "{length}");
    }
    assert_eq!(encode_interfaces(&interfaces, 303).1, 1);
    let mut unknown = bytes;
    unknown[24] = 99;
    assert_eq!(decode_interfaces(unknown.into()).unwrap(), interfaces[1..]);
}

#[test]
fn a_symbolic_link_has_the_bytes_of_the_standard() {
    let link = SymbolicLink { substitute: "ab".to_owned(), print: "c".to_owned(), relative: true };
    let golden = [
        0x0c, 0, 0, 0xa0, 18, 0, 0, 0, 0, 0, 4, 0, 4, 0, 2, 0, 1, 0, 0, 0, b'a', 0, b'b', 0, b'c',
        0,
    ];
    decodes_only_whole(&link, &golden);
    let mut bad = golden;
    bad[0] = 3;
    assert!(SymbolicLink::from_bytes(bad.to_vec().into()).is_err(), "another tag");
    let mut bad = golden;
    bad[12] = 5;
    assert!(SymbolicLink::from_bytes(bad.to_vec().into()).is_err(), "outside");
    let long = SymbolicLink { substitute: "x".repeat(20_000), ..link };
    assert!(SymbolicLink::from_bytes(long.to_bytes().into()).is_ok());
}

#[test]
fn each_code_is_in_the_list_once_and_has_its_name() {
    let mut values: Vec<_> = NAMES.iter().map(|(value, _)| value).collect();
    values.sort_unstable();
    assert!(values.is_sorted_by(|a, b| a < b));
    assert_eq!(format!("{:?}", ControlCode::SRV_COPYCHUNK), "FSCTL_SRV_COPYCHUNK");
    assert_eq!(format!("{:?}", ControlCode(1)), "FSCTL 0x00000001");
}

proptest! {
    #[test]
    fn a_symbolic_link_returns_from_its_bytes(
        substitute in "\\PC{0,60}", print in "\\PC{0,60}", relative: bool,
    ) {
        let link = SymbolicLink { substitute, print, relative };
        prop_assert_eq!(SymbolicLink::from_bytes(link.to_bytes().into()), Ok(link));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let _ = (SymbolicLink::from_bytes(bytes.clone()), decode_ranges(bytes.clone()));
        let _ = (CopyChunkRequest::from_bytes(bytes.clone()), decode_interfaces(bytes.clone()));
        let _ = ValidateNegotiateRequest::from_bytes(bytes);
    }
}
