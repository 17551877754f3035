//! Benches from end to end, with the least work: their numbers mean nothing.

mod growth;
mod nfs;
mod smb;
