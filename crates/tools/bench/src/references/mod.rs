//! This machine's limits: measured in the same run as the rows that are compared with them.

pub mod iperf;
pub mod local_file;
pub mod round_trip;
pub mod stream;
