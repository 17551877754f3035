//! Crashes of the real daemons: `braid-crash` kills processes, `braid-powerloss` simulates losses
//! of power.
#![cfg(target_os = "linux")]
#![forbid(unsafe_code)]

pub mod arguments;
pub mod disk;
pub mod kill;
pub mod load;
pub mod power;
pub mod trace;
pub mod union;
