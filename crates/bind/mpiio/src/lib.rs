//! MPI-IO over libbraid. The library is C code in `shim/`. `build.sh` compiles it with the compiler
//! of each MPI, since their handles and constants differ. This crate contains its tests.
//! `docs/mpi-io.md` describes its use.
#![forbid(unsafe_code)]
