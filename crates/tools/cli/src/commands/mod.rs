//! The commands: one source file per command or small group of commands.

pub mod bench;
pub mod cat;
pub mod config;
pub mod docs;
pub mod format;
pub mod fsck;
pub mod init;
pub mod iod;
pub mod key;
pub mod layout;
pub mod ls;
pub mod mds;
pub mod mount;
pub mod names;
pub mod quota;
pub mod space;
pub mod stat;
pub mod status;
pub mod sync;
pub mod union;
#[cfg(target_os = "linux")]
pub mod union_join;
#[cfg(target_os = "linux")]
pub mod union_striped;
pub mod up;
pub mod user_names;
