//! SMB 2 and 3 server over the traits of `braid-share`.
#![forbid(unsafe_code)]

pub mod file_state;
pub mod path;
pub mod status;
pub mod walk;
