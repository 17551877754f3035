use super::*;
use braid_nfs_wire::nfs4::{
    DeviceId,
    layout_files::{LayoutUtil, Multipath},
};

const MIB: u64 = 1 << 20;

fn handle(name: &'static str) -> FileHandle {
    FileHandle(Bytes::from_static(name.as_bytes()))
}

fn layout(handles: &[&'static str]) -> FileLayout {
    FileLayout {
        device_id: DeviceId([0; 16]),
        util: LayoutUtil::sparse(MIB as u32).unwrap(),
        first_stripe_index: 1,
        pattern_offset: 0,
        handles: handles.iter().map(|name| handle(name)).collect(),
    }
}

fn device(servers: usize) -> FileDevice {
    let server = |number: usize| {
        let address: SocketAddr = format!("127.0.0.1:{}", 1000 + number).parse().unwrap();
        Multipath(vec![address.into()])
    };
    FileDevice {
        stripe_indices: (0..servers as u32).collect(),
        data_servers: (0..servers).map(server).collect(),
    }
}

fn opened() -> OpenFile {
    OpenFile { handle: handle("mds"), state: StateId { seqid: 5, other: [1; 12] } }
}

#[test]
fn bytes_lie_on_the_servers_of_their_stripes() {
    let file = StripedFile::new(&layout(&["a", "b", "c"]), &device(3), &opened()).unwrap();
    let servers: Vec<usize> = (0..4).map(|stripe| file.server_of(stripe * MIB)).collect();
    assert_eq!(servers, [1, 2, 0, 1]);
    assert_eq!(file.server_of(MIB - 1), 1);
    assert_eq!((file.handles[2].clone(), file.state.seqid), (handle("c"), 0));
}

#[test]
fn requests_are_cut_at_stripes_and_reach_every_byte_once() {
    let file = StripedFile::new(&layout(&["a", "b"]), &device(2), &opened()).unwrap();
    let split = file.split(sequential(MIB / 2, 5 * MIB, 2 * MIB));
    let mut all: Vec<Piece> = split.concat();
    for (server, pieces) in split.iter().enumerate() {
        assert!(pieces.iter().all(|(offset, _)| file.server_of(*offset) == server));
    }
    all.sort_unstable();
    let mut at = MIB / 2;
    for (offset, length) in all {
        assert_eq!(offset, at);
        assert!(offset / MIB == (offset + length as u64 - 1) / MIB, "within a stripe");
        at += length as u64;
    }
    assert_eq!(at, MIB / 2 + 5 * MIB);
}

#[test]
fn without_a_layout_requests_are_cut_at_the_largest_only() {
    let split = StripedFile::whole(&opened()).split([(3, 2 * IO_BYTES_MAX + 1)]);
    let end = 3 + 2 * MIB;
    assert_eq!(split, [[(3, IO_BYTES_MAX), (3 + MIB, IO_BYTES_MAX), (end, 1)]]);
}

#[test]
fn layouts_that_contradict_their_device_are_refused() {
    let of = |layout: &FileLayout, device: &FileDevice| StripedFile::new(layout, device, &opened());
    assert!(of(&layout(&["a"]), &device(3)).is_ok(), "one handle for all");
    assert!(of(&layout(&[]), &device(3)).is_ok(), "the metadata server's handle");
    assert!(of(&layout(&["a", "b"]), &device(3)).is_err(), "no handle for one server");
    let mut wrong = device(2);
    wrong.stripe_indices.push(2);
    assert!(of(&layout(&["a"]), &wrong).is_err(), "a stripe without a server");
    wrong.stripe_indices.clear();
    assert!(of(&layout(&["a"]), &wrong).is_err(), "no stripes");
    let later = FileLayout { pattern_offset: 1, ..layout(&["a"]) };
    assert!(of(&later, &device(1)).is_err());
}

#[test]
fn sequential_requests_end_with_the_range() {
    let all: Vec<Piece> = sequential(10, 7, 3).collect();
    assert_eq!(all, [(10, 3), (13, 3), (16, 1)]);
}
