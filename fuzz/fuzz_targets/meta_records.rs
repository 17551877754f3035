//! Any bytes as any record of the metadata store, and as an ACL in an extended attribute: no panic.
//! Decoded values are the same after encoding and decoding again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| braid_meta::fuzzing::read_records(bytes));
