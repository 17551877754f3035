//! Patterns of parallel programs over MPI-IO with 2 ranks, on both MPIs. The file is compared byte
//! for byte with one that a plain program wrote.
#![cfg(target_os = "linux")]

use std::fs;

use crate::mpi::{self, MPIS, Mpi};
use crate::support::Cluster;

/// On every installed MPI, with each collective mode. The reference is compared with the file as
/// the client library reads it.
fn run(pattern: &str) {
    run_of("patterns", pattern);
}

/// The same with sizes of real programs: `cargo xtask test --full`.
fn run_large(pattern: &str) {
    if std::env::var_os("BRAID_TEST_FULL").is_none() {
        println!(
            "skipped: tens of megabytes in every mode of every MPI; try: BRAID_TEST_FULL=1, or \
             cargo xtask test --full"
        );
        return;
    }
    run_of("patterns-large", pattern);
}

fn run_of(program: &str, pattern: &str) {
    let _alone = mpi::alone();
    let cluster = Cluster::start(4);
    let mut ran = 0;
    let ways = ["server", "list", "auto"];
    for (mpi, way) in MPIS.iter().filter_map(Mpi::find).flat_map(|mpi| ways.map(|way| (mpi, way))) {
        let path = format!("/{pattern}-{}-{way}", mpi.name);
        let reference = cluster.path(&path[1..]);
        let file = format!("braid:{path}");
        let before = cluster.collectives();
        let said =
            mpi.run(&cluster, program, 2, &[pattern, &file, reference.to_str().unwrap(), way]);
        assert_eq!(said, format!("{pattern} ok\n"), "{} {way}", mpi.name);
        // All others write pieces that are short enough for the engine to choose the daemons.
        let by_daemons = way == "server" || way == "auto" && pattern != "blocks";
        assert_eq!(
            cluster.collectives() != before,
            by_daemons,
            "{} {way}: the daemons' collective requests",
            mpi.name
        );
        let expected = fs::read(reference).unwrap();
        let options = braid_client::OpenOptions::new().read(true);
        let mut found = vec![0; expected.len() + 1];
        let bytes = cluster.client.open(&path, &options).unwrap().read_at(&mut found, 0).unwrap();
        found.truncate(bytes);
        let wrong = found.iter().zip(&expected).position(|(found, expected)| found != expected);
        assert_eq!(
            (wrong, found.len()),
            (None, expected.len()),
            "{} {way}: first wrong byte, length",
            mpi.name
        );
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
fn btio_of_class_a() {
    run_large("btio");
}

#[test]
fn large_tiles_whose_rows_are_longer_than_a_page() {
    run_large("tiles");
}

#[test]
fn four_kib_in_turn() {
    run("strided");
}

#[test]
fn sixteen_kib_in_turn_which_are_each_ranks_own() {
    run("blocks");
}

#[test]
fn lists_without_a_rule() {
    run("irregular");
}

#[test]
fn vectors_of_vectors() {
    run("nested");
}
