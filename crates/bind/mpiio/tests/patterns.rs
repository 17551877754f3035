//! Patterns of parallel programs over MPI-IO with 2 ranks, on both MPIs: the file is compared byte for byte with one that a plain
//! program wrote.
#![cfg(target_os = "linux")]

mod mpi;
#[path = "../../capi/tests/support/mod.rs"]
mod support;

use std::fs;

use mpi::{MPIS, Mpi};
use support::Cluster;

/// On every MPI that is installed; the file as the client library reads it is the reference.
fn run(pattern: &str) {
    let _alone = mpi::alone();
    let cluster = Cluster::start(4);
    let mut ran = 0;
    for mpi in MPIS.iter().filter_map(Mpi::find) {
        let path = format!("/{pattern}-{}", mpi.name);
        let reference = cluster.path(&format!("{pattern}-{}", mpi.name));
        let file = format!("braid:{path}");
        let said = mpi.run(&cluster, "patterns", 2, &[pattern, &file, reference.to_str().unwrap()]);
        assert_eq!(said, format!("{pattern} ok\n"), "{}", mpi.name);
        let expected = fs::read(reference).unwrap();
        let options = braid_client::OpenOptions::new().read(true);
        let mut found = vec![0; expected.len() + 1];
        let bytes = cluster.client.open(&path, &options).unwrap().read_at(&mut found, 0).unwrap();
        found.truncate(bytes);
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!((wrong, found.len()), (None, expected.len()), "{}: first wrong byte, length", mpi.name);
        ran += 1;
    }
    mpi::need_one(ran);
}

#[test]
fn btio_blocks_of_a_cube_with_ghost_cells_in_memory() {
    run("btio");
}

#[test]
fn tiles_written_once_and_read_with_their_neighbours_cells() {
    run("tiles");
}

#[test]
fn block_cyclic_arrays_of_every_kind() {
    run("cyclic");
}

#[test]
fn four_kib_in_turn() {
    run("strided");
}

#[test]
fn lists_without_a_rule() {
    run("irregular");
}

#[test]
fn vectors_of_vectors() {
    run("nested");
}
