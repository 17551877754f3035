//! Any bytes as the record of an object, also with a correct checksum; any text as an identity file
//! or as an object name. No panic, and a decoded record is the same after encoding again.
#![no_main]

use std::path::Path;

use braid_store::ObjectRecord;
use libfuzzer_sys::fuzz_target;

fn read(bytes: &[u8]) {
    if let Ok(record) = ObjectRecord::decode(bytes, Path::new("x")) {
        assert_eq!(ObjectRecord::decode(&record.encode(), Path::new("x")).ok(), Some(record));
    }
}

fuzz_target!(|bytes: &[u8]| {
    read(bytes);
    for version in [1, 2] {
        let begun = [&b"BRDO"[..], &[version, 0], bytes].concat();
        read(&[&begun[..], &crc32c::crc32c(&begun).to_le_bytes()].concat());
    }
    if let Ok(text) = std::str::from_utf8(bytes) {
        braid_store::fuzzing::read_text(text);
    }
});
