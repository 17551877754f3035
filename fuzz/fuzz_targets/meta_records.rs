//! Any bytes as any record of the metadata store, and as an ACL of an extended attribute: no panic,
//! and what is decoded is the same after it was encoded again.
#![no_main]

use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| braid_meta::fuzzing::read_records(bytes));
