//! Layouts and devices as bytes, and addresses as text.

use std::net::SocketAddr;

use bytes::Bytes;

use super::{AddressError, FileDevice, FileLayout, LayoutUtil, Multipath};
use crate::nfs4::types::{DeviceId, FileHandle, NetAddress};
use crate::xdr::{Xdr, XdrError};

#[test]
fn a_layout_has_the_bytes_of_rfc_8881_13_3() {
    let layout = FileLayout {
        device_id: DeviceId([7; 16]),
        util: LayoutUtil::sparse(1 << 20).unwrap(),
        first_stripe_index: 2,
        pattern_offset: 0,
        handles: vec![FileHandle(Bytes::from_static(b"handle"))],
    };
    let expected = b"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\
        \x00\x10\x00\x00\
        \x00\x00\x00\x02\
        \x00\x00\x00\x00\x00\x00\x00\x00\
        \x00\x00\x00\x01\x00\x00\x00\x06handle\x00\x00";
    assert_eq!(layout.to_bytes(), expected);
    assert_eq!(FileLayout::from_bytes(Bytes::from_static(expected)), Ok(layout));
}

#[test]
fn a_device_has_the_bytes_of_rfc_8881_13_3() {
    let address = NetAddress::from("192.0.2.1:2049".parse::<SocketAddr>().unwrap());
    let device =
        FileDevice { stripe_indices: vec![0, 0], data_servers: vec![Multipath(vec![address])] };
    let expected = b"\0\0\0\x02\0\0\0\0\0\0\0\0\
        \0\0\0\x01\
        \0\0\0\x01\
        \0\0\0\x03tcp\0\
        \0\0\0\x0d192.0.2.1.8.1\0\0\0";
    assert_eq!(device.to_bytes(), expected);
    assert!(device.is_consistent());
    assert_eq!(FileDevice::from_bytes(Bytes::from_static(expected)), Ok(device));
}

#[test]
fn a_stripe_without_a_data_server_is_inconsistent() {
    let device = FileDevice { stripe_indices: vec![1], data_servers: vec![Multipath(vec![])] };
    assert!(!device.is_consistent());
}

#[test]
fn more_stripes_than_linux_accepts_are_refused() {
    let device = FileDevice { stripe_indices: vec![0; 4097], data_servers: vec![] };
    let refused = FileDevice::from_bytes(device.to_bytes().into());
    assert_eq!(refused, Err(XdrError::TooLong { length: 4097, limit: 4096 }));
}

#[test]
fn stripe_units_leave_the_flags_free() {
    assert_eq!(LayoutUtil::sparse(0), None);
    assert_eq!(LayoutUtil::sparse(64 + 1), None);
    let util = LayoutUtil::from_bytes(Bytes::from_static(b"\0\0\0\x43")).unwrap();
    assert_eq!(util.stripe_unit(), 64);
    assert!(util.is_dense() && util.commits_through_mds());
    let sparse = LayoutUtil::sparse(64).unwrap();
    assert!(!sparse.is_dense() && !sparse.commits_through_mds());
}

#[test]
fn addresses_are_the_same_as_text_and_back() {
    for (socket, network, text) in [
        ("192.0.2.1:2049", "tcp", "192.0.2.1.8.1"),
        ("0.0.0.0:0", "tcp", "0.0.0.0.0.0"),
        ("[2001:db8::1]:65535", "tcp6", "2001:db8::1.255.255"),
        ("[::ffff:192.0.2.1]:111", "tcp6", "::ffff:192.0.2.1.0.111"),
    ] {
        let socket: SocketAddr = socket.parse().unwrap();
        let address = NetAddress::from(socket);
        assert_eq!(address.network_id, network.as_bytes());
        assert_eq!(address.address, text.as_bytes());
        assert_eq!(SocketAddr::try_from(&address), Ok(socket));
    }
}

#[test]
fn text_that_is_no_address_is_refused() {
    let refused = |network: &'static str, text: &'static str| {
        let (network_id, address) = (Bytes::from(network), Bytes::from(text));
        SocketAddr::try_from(&NetAddress { network_id, address }).unwrap_err()
    };
    assert_eq!(refused("udp", "192.0.2.1.8.1"), AddressError::Network);
    for text in [
        "",
        ".",
        "..",
        "1.2",
        "192.0.2.1",
        "192.0.2.1.8",
        "192.0.2.1.8.256",
        "192.0.2.1.+8.1",
        "192.0.2.1.8.",
        "2001:db8::1.8.1",
        "192.0.2.1.8.1 ",
        "192.0.2.1.8.1.1",
    ] {
        assert_eq!(refused("tcp", text), AddressError::Address, "{text}");
    }
    assert_eq!(refused("tcp6", "192.0.2.1.8.1"), AddressError::Address);
    assert_eq!(refused("tcp6", "::1%eth0.8.1"), AddressError::Address);
}
