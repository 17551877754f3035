//! This program again, as other processes of a row.

pub mod clients;
pub mod create;
pub mod echo;
pub mod ior_hard;
pub mod opens;
pub mod process;
