//! An I/O daemon and the metadata server are killed and started again while a client writes.

use braid_nfs_wire::nfs4::{NfsStatus, StableHow};
use braid_testbed::nfs::NfsMount;
use bytes::Bytes;

use super::{
    NfsProcesses,
    writer::{BLOCK, Writer},
};

/// Blocks in each of the first stripes, so that all daemons have some.
const BLOCKS: u64 = 64;

fn offset(block: u64) -> u64 {
    block * (1 << 20) / 4
}

/// Reads every block and compares.
fn check(mount: &mut NfsMount, name: &str, expected: impl Fn(u64) -> Bytes) {
    let root = mount.root.clone();
    let file = mount.open(&root, name, false).unwrap();
    let layout = mount.layout(&file, false).unwrap();
    for block in 0..BLOCKS {
        let through = mount.read(&file, offset(block), BLOCK as u32).unwrap();
        assert!(through == expected(block), "block {block} through the gateway");
        let direct = mount.direct_read((&file, &layout), offset(block), BLOCK as u32).unwrap();
        assert!(direct == expected(block), "block {block} at the data server");
    }
    mount.close(&file).unwrap();
}

/// Writes all blocks, with `fault` in the middle, where some are committed and some are not.
fn write_with(
    processes: &mut NfsProcesses,
    writer: &mut Writer,
    turn: u8,
    fault: impl FnOnce(&mut NfsProcesses),
) {
    for block in 0..BLOCKS / 4 {
        writer.write(offset(block), Writer::content(block, turn));
    }
    writer.commit();
    for block in BLOCKS / 4..BLOCKS / 2 {
        writer.write(offset(block), Writer::content(block, turn));
    }
    fault(processes);
    for block in BLOCKS / 2..BLOCKS {
        writer.write(offset(block), Writer::content(block, turn));
    }
    writer.commit();
}

#[test]
fn no_committed_byte_is_lost_when_an_iod_is_killed_under_pnfs() {
    let mut processes = NfsProcesses::start(2, 2);
    let mut writer = Writer::new(processes.mount(0, "writer"), "f");
    for turn in 0..3 {
        let victim = usize::from(turn) % 2;
        write_with(&mut processes, &mut writer, turn, |processes| {
            processes.kill_iod(victim);
            processes.restart_iod(victim);
        });
        check(&mut processes.mount(1, "reader"), "f", |block| Writer::content(block, turn));
    }
    // What a killed daemon had not flushed is in the page cache of its host.
    assert_eq!(writer.rewritten, 0, "the verifier says that something was lost");
}

#[test]
fn opens_locks_and_writes_go_on_when_the_mds_is_killed() {
    let mut processes = NfsProcesses::start(2, 2);
    let mut writer = Writer::new(processes.mount(0, "writer"), "f");
    assert!(writer.mount.lock(&mut writer.file, 0, 100).unwrap());
    write_with(&mut processes, &mut writer, 1, |processes| {
        processes.kill_mds();
        processes.restart_mds();
    });
    check(&mut processes.mount(1, "reader"), "f", |block| Writer::content(block, 1));
    // The lock is still held, against clients of both gateways.
    for gateway in [0, 1] {
        let mut other = processes.mount(gateway, "other");
        let root = other.root.clone();
        let mut file = other.open(&root, "f", false).unwrap();
        assert!(!other.lock(&mut file, 50, 1).unwrap(), "gateway {gateway}");
        assert!(other.lock(&mut file, 100, 1).unwrap(), "gateway {gateway}");
        other.unlock(&mut file, 100, 1).unwrap();
    }
    writer.mount.unlock(&mut writer.file, 0, 100).unwrap();
    // The open is the one of before.
    let bytes = Writer::content(0, 9);
    let written = writer.mount.write(&writer.file, 0, bytes, StableHow::Unstable);
    assert_eq!(u64::from(written.unwrap().0), BLOCK);
    writer.mount.close(&writer.file).unwrap();
}

#[test]
fn session_of_a_killed_data_server_is_unknown_to_the_next_one() {
    let mut processes = NfsProcesses::start(1, 1);
    let mut writer = Writer::new(processes.mount(0, "writer"), "f");
    writer.write(0, Writer::content(0, 1));
    writer.commit();
    processes.kill_iod(0);
    processes.restart_iod(0);
    let session = writer.mount.data_servers.values_mut().next().unwrap();
    session.reconnect().unwrap();
    let refused = session.try_run(&[]).unwrap().0;
    assert_eq!(refused, NfsStatus::BadSession);
    writer.write(0, Writer::content(0, 2));
    writer.commit();
}
