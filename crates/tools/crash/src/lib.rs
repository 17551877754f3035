//! Crashes of the real daemons: `braid-crash` kills processes, `braid-powerloss` takes the power.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod disk;
pub mod random;
pub mod trace;
