//! Any bytes as a device or a layout of type `files`: no panic, and the same bytes after encoding.
//! Universal addresses that are accepted are the same after printing them.
#![no_main]

use std::net::SocketAddr;

use braid_nfs_wire::nfs4::NetAddress;
use braid_nfs_wire::nfs4::layout_files::{FileDevice, FileLayout};
use braid_nfs_wire::xdr::{Decoder, Xdr};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fn read_address(address: &NetAddress) {
    if let Ok(socket) = SocketAddr::try_from(address) {
        assert_eq!(SocketAddr::try_from(&NetAddress::from(socket)), Ok(socket));
    }
}

fuzz_target!(|data: &[u8]| {
    let from = Decoder::new(Bytes::copy_from_slice(data));
    if let Ok(layout) = FileLayout::decode(&mut from.clone()) {
        assert_eq!(layout.util.stripe_unit() % 64, 0);
        assert_eq!(FileLayout::from_bytes(layout.to_bytes().into()), Ok(layout));
    }
    if let Ok(device) = FileDevice::decode(&mut from.clone()) {
        let _ = device.is_consistent();
        device.data_servers.iter().flat_map(|server| &server.0).for_each(read_address);
        assert_eq!(FileDevice::from_bytes(device.to_bytes().into()), Ok(device));
    }
    for network_id in ["tcp", "tcp6"].map(Bytes::from) {
        read_address(&NetAddress { network_id, address: Bytes::copy_from_slice(data) });
    }
});
