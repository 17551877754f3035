//! The operations, by the sections of MS-SMB2 3.3.5.

pub mod change_notify;
pub mod close;
pub mod create;
pub mod flush;
#[cfg(test)]
mod information_tests;
pub mod ioctl;
pub mod lock;
mod lock_sequence;
pub mod negotiate;
pub mod oplock_break;
pub mod pipe;
pub mod query_directory;
pub mod query_info;
pub mod read;
pub mod session_setup;
pub mod set_info;
pub mod tree_connect;
pub mod write;

#[cfg(test)]
pub(crate) mod tests;
