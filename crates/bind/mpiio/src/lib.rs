//! MPI-IO over libbraid. The library itself is C, in `shim/`: it is compiled with each MPI's own compiler, whose handles and
//! constants differ; `build.sh` does it. This crate is its tests. `docs/mpi-io.md` says how it is used and what is done.
#![forbid(unsafe_code)]
