//! MPI-IO from Fortran 77, 90 and 2008 on both MPIs. Their bindings call `MPI_File_*` or
//! `PMPI_File_*`, and have handles of their own.
#![cfg(target_os = "linux")]

use std::fs;

use crate::mpi::{self, MPIS, Mpi};
use crate::support::{Cluster, ok};

fn run(binding: &str) {
    let _alone = mpi::alone();
    let cluster = Cluster::start(2);
    let mut ran = 0;
    for mpi in MPIS.iter().filter_map(Mpi::find).filter(|mpi| mpi.has_fortran()) {
        let program = mpi.compile_fortran(binding);
        let path = format!("/fortran-{}", mpi.name);
        let said = ok(mpi.command(&cluster, 2).arg(program).arg(format!("braid:{path}")));
        assert_eq!(said.trim(), "8000 bytes", "{}", mpi.name);
        // The file is in the cluster, not beside the program.
        assert!(fs::metadata(cluster.path(&path[1..])).is_err());
        assert_eq!(cluster.client.stat(&path).unwrap().bytes.0, 8000);
        ran += 1;
    }
    mpi::need_one(ran);
}

#[test]
fn mpif_h() {
    run("77");
}

#[test]
fn use_mpi() {
    run("90");
}

#[test]
fn use_mpi_f08() {
    run("8");
}
