//! The calls of MPI-IO with 2 ranks, on both MPIs: each test is a function of `c/calls.c`.
#![cfg(target_os = "linux")]

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use crate::mpi::{self, MPIS, Mpi};
use crate::support::{Cluster, ok};

fn run(test: &str) {
    run_with(test, None);
}

/// The same, with `BRAID_MPIIO_COLLECTIVE` in the environment.
fn run_with(test: &str, collective: Option<&str>) {
    run_of("calls", test, collective);
}

/// The same with another program.
fn run_of(program: &str, test: &str, collective: Option<&str>) {
    let _alone = mpi::alone();
    let cluster = Cluster::start(4);
    let local = cluster.path("local");
    let mut ran = 0;
    for mpi in MPIS.iter().filter_map(Mpi::find) {
        let _ = fs::remove_file(&local);
        let program = mpi.compile(program);
        let file = format!("braid:/{test}-{}", mpi.name);
        let mut command = mpi.command(&cluster, 2);
        if let Some(way) = collective {
            command.env("BRAID_MPIIO_COLLECTIVE", way);
        }
        let said = ok(command.env("BRAID_TEST_LOCAL", &local).arg(program).args([test, &file]));
        assert_eq!(said, format!("{test} ok\n"), "{}", mpi.name);
        ran += 1;
    }
    // The file of the shared pointer is removed with the file.
    let listing = cluster.client.read_dir("/", false).unwrap().map(|entry| entry.unwrap().name);
    let hidden: Vec<Vec<u8>> = listing.filter(|name| name.starts_with(b".")).collect();
    assert!(hidden.is_empty(), "{hidden:?}");
    mpi::need_one(ran);
}

macro_rules! tests {
    ($($(#[$doc:meta])* $name:ident = $test:literal;)*) => {$(
        $(#[$doc])*
        #[test]
        fn $name() {
            run($test);
        }
    )*};
}
tests! {
    files_are_opened_closed_and_deleted_and_modes_checked = "opening";
    sizes_are_set_reserved_and_told = "sizes";
    views_and_pointers_are_in_elementary_types_and_what_makes_no_sense_is_refused = "positions";
    what_is_only_read_may_be_seen_through_a_type_that_shows_a_byte_twice = "twice";
    a_type_whose_copies_lie_among_each_other_shows_the_first = "header_and_array";
    memory_of_any_type_in_any_order = "memory";
    types_by_precision_and_range_are_predefined_and_not_freed = "precise";
    nonblocking_calls_of_every_kind = "nonblocking";
    nonblocking_calls_go_on_while_the_program_computes = "background";
    split_collective_calls = "split";
    the_shared_pointer_gives_each_record_a_place_of_its_own = "shared";
    ordered_calls_are_in_the_order_of_ranks = "ordered";
    in_atomic_mode_nobody_sees_half_a_write = "atomic";
    a_rank_that_has_nothing_or_cannot_take_part_meets_the_others_in_a_collective_call = "together";
    hints_are_taken_and_told = "info";
    hints_that_the_cluster_cannot_follow_are_ignored = "unfulfilled";
    one_two_and_three_slashes_after_the_scheme_are_one_path = "urls";
    error_handlers_are_called_with_the_files_handle = "errors";
    external32_is_big_endian_on_disk = "external32";
    a_file_opened_as_a_sequence_has_only_its_shared_pointer = "sequence";
    large_counts_where_the_mpi_has_them = "large";
    types_of_large_count_constructors_are_views_and_memory_as_others = "large_types";
}

#[test]
fn the_environment_selects_the_collective_method_without_a_hint() {
    run_with("info", Some("server"));
    run_with("info", Some("nonsense"));
}

/// Runs the function's 60 writes and 60 reads with 2 ranks on each MPI. Returns how often a rank
/// joined a collective request at the daemon with their bytes.
fn joins_of(test: &str) -> Vec<u64> {
    let _alone = mpi::alone();
    let cluster = Cluster::start(1);
    let of_mpi = |mpi: &Mpi| {
        let before = cluster.collectives().1;
        let said = mpi.run(&cluster, "calls", 2, &[test, &format!("braid:/{test}-{}", mpi.name)]);
        assert_eq!(said, format!("{test} ok\n"), "{}", mpi.name);
        cluster.collectives().1 - before
    };
    let joins: Vec<u64> = MPIS.iter().filter_map(Mpi::find).map(of_mpi).collect();
    mpi::need_one(joins.len());
    joins
}

#[test]
fn short_pieces_that_no_two_ranks_share_go_both_ways() {
    for joins in joins_of("short_apart") {
        assert!((2..2 * 120 - 8).contains(&joins), "{joins} joins");
    }
}

#[test]
fn overlapping_short_writes_keep_the_bytes_of_the_highest_rank() {
    for joins in joins_of("short_overlapping") {
        assert!(
            (2 * 61..2 * 120 - 4).contains(&joins),
            "{joins} joins: 60 writes, and not all reads"
        );
    }
}

#[test]
fn a_view_set_before_each_call_keeps_what_was_measured() {
    for joins in joins_of("moved_apart") {
        assert!((2..2 * 120 - 8).contains(&joins), "{joins} joins");
    }
    for joins in joins_of("moved_overlapping") {
        assert!(
            (2 * 61..2 * 120 - 4).contains(&joins),
            "{joins} joins: 60 writes, and not all reads"
        );
    }
}

#[test]
fn threads_of_a_rank_get_records_of_their_own_by_one_shared_pointer() {
    run_of("threads", "shared", None);
}

#[test]
fn in_atomic_mode_threads_of_a_rank_exclude_each_other_on_one_handle() {
    run_of("threads", "atomic", None);
}

#[test]
fn a_new_file_has_the_permissions_of_the_hint_where_it_is_a_mode() {
    let _alone = mpi::alone();
    let cluster = Cluster::start(1);
    let mut ran = 0;
    for mpi in MPIS.iter().filter_map(Mpi::find) {
        let path = format!("/permissions-{}", mpi.name);
        let said = mpi.run(&cluster, "calls", 2, &["permissions", &format!("braid:{path}")]);
        assert_eq!(said, "permissions ok\n", "{}", mpi.name);
        // Its umask is 027.
        let expected = [
            ("none", 0o640),
            ("604", 0o600),
            ("0770", 0o750),
            ("9", 0o640),
            ("rw", 0o640),
            ("01777", 0o640),
        ];
        for (hint, mode) in expected {
            let found = cluster.client.stat(format!("{path}-{hint}")).unwrap().mode;
            assert_eq!(found & 0o7777, mode, "{} {hint}: {found:o} and not {mode:o}", mpi.name);
        }
        ran += 1;
    }
    mpi::need_one(ran);
}

/// Two ranks set 1000 views. If each made a call to a server, there would be as many calls.
#[test]
fn setting_a_view_calls_no_server_and_resets_a_used_pointer() {
    let _alone = mpi::alone();
    let cluster = Cluster::start(4);
    let mut ran = 0;
    for mpi in MPIS.iter().filter_map(Mpi::find) {
        let before = (cluster.calls_of_mds(), cluster.calls());
        let said = mpi.run(&cluster, "calls", 2, &["views", &format!("braid:/views-{}", mpi.name)]);
        assert_eq!(said, "views ok\n", "{}", mpi.name);
        let of_mds = cluster.calls_of_mds() - before.0;
        let of_iods: u64 =
            cluster.calls().iter().zip(before.1).map(|(now, before)| now - before).sum();
        assert!(
            of_mds < 500 && of_iods < 500,
            "{}: {of_mds} of the metadata server, {of_iods} of daemons",
            mpi.name
        );
        ran += 1;
    }
    mpi::need_one(ran);
}

#[test]
fn files_of_others_go_to_the_mpis_own() {
    run("others");
}

#[test]
fn a_program_that_knows_nothing_of_it_has_it_by_preload() {
    let _alone = mpi::alone();
    let cluster = Cluster::start(2);
    let mut ran = 0;
    for mpi in MPIS.iter().filter_map(Mpi::find) {
        let program = mpi.compile_plain("calls");
        let file = format!("braid:/preloaded-{}", mpi.name);
        let preload = format!("LD_PRELOAD={}", mpi.shim().display());
        let said = ok(mpi
            .command(&cluster, 2)
            .args(["env", &preload])
            .arg(program)
            .args(["nonblocking", &file]));
        assert_eq!(said, "nonblocking ok\n", "{}", mpi.name);
        ran += 1;
    }
    mpi::need_one(ran);
}

/// Functions that work on the handle, which is a real one, without the shim.
const NATURAL: [&str; 8] = [
    "File_c2f",
    "File_call_errhandler",
    "File_create_errhandler",
    "File_f2c",
    "File_get_errhandler",
    "File_get_type_extent",
    "File_get_type_extent_c",
    "File_set_errhandler",
];

/// Names of dynamic functions that start with `MPI_File_` or `PMPI_File_`.
fn functions(library: &Path) -> BTreeSet<String> {
    let listed = ok(Command::new("nm").args(["-D", "--defined-only"]).arg(library));
    let names = listed.lines().filter_map(|line| line.split_whitespace().nth(2));
    let names = names.map(|name| name.split('@').next().unwrap_or_default().to_owned());
    names.filter(|name| name.starts_with("MPI_File_") || name.starts_with("PMPI_File_")).collect()
}

#[test]
fn every_function_on_files_that_the_mpi_has_is_defined_under_both_names() {
    let mut ran = 0;
    for mpi in MPIS.iter().filter_map(Mpi::find) {
        let theirs = ok(Command::new("cc").arg(format!("-print-file-name={}", mpi.library)));
        let natural = |name: &&String| NATURAL.contains(&name.split_once("MPI_").unwrap().1);
        let theirs = functions(Path::new(theirs.trim()));
        assert!(theirs.len() > 100, "{}: {theirs:?}", mpi.name);
        let ours = functions(&mpi.shim());
        let missing: Vec<&String> =
            theirs.difference(&ours).filter(|name| !natural(name)).collect();
        assert!(missing.is_empty(), "{}: {missing:?} would read and write /dev/null", mpi.name);
        ran += 1;
    }
    mpi::need_one(ran);
}
