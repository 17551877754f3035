//! What this machine can do at best: measured in the same run as the rows that are held against it.

pub mod iperf;
pub mod local_file;
pub mod round_trip;
pub mod stream;
