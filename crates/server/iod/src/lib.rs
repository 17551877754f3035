//! The I/O daemon
