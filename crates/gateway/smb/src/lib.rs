//! SMB 2 and 3 server over the traits of `braid-share`.
#![forbid(unsafe_code)]
