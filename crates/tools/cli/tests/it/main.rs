//! The integration tests of this crate, one module per subject, in one binary: each further binary
//! costs a compilation and a link. `library` is a binary of its own, since it forks.

mod bench;
mod command;
mod harness;
mod leases;
mod locks;
mod mixed;
mod modes;
mod mount;
mod nfs;
mod nfs_kerberos;
mod nfs_mistakes;
mod operate;
mod output;
mod parallel;
mod smb;
mod sync;
mod systemd;
mod union;
mod union_failed_disks;
mod union_join;
mod union_moves;
mod union_nfs;
mod union_notices;
mod union_placement;
mod union_striped;
mod watchdog;
