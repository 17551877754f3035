//! What tests and tools for developers share.
//!
//! ```text
//!   no feature   process, shell, programs   other programs, with a time limit and clear errors
//!                cleanup                    a script that runs however its process ends
//!                braid, embedded_cluster    the command `braid`, its daemons, and `braid up`
//!                ports, mounts, wait        free ports, the table of mounts, polling
//!                random, stats, fork        seeded bytes, medians and spreads, child processes
//!   cluster      cluster, registration      servers as processes, killed and restarted one by one
//!                scratch                    a directory in memory
//!   in-process   in_process                 servers in the calling process
//!   nfs          nfs                        a client of NFS gateways and data servers
//! ```
//!
//! Functions return errors with their reason; a test unwraps them.
#![deny(unsafe_code)] // `fork` alone calls the C library

pub mod braid;
pub mod cleanup;
#[cfg(feature = "cluster")]
pub mod cluster;
pub mod embedded_cluster;
#[cfg(unix)]
pub mod fork;
#[cfg(feature = "in-process")]
pub mod in_process;
pub mod mounts;
#[cfg(feature = "nfs")]
pub mod nfs;
pub mod ports;
pub mod process;
pub mod programs;
pub mod random;
#[cfg(feature = "cluster")]
pub mod registration;
#[cfg(all(feature = "cluster", target_os = "linux"))]
pub mod scratch;
pub mod shell;
pub mod stats;
pub mod wait;
