//! A dump of metadata, and a segment of its log. What was written can be read. Changed bytes give
//! an error or the same content. No bytes cause a panic.
#![no_main]

use std::collections::BTreeMap;

use arbitrary::Arbitrary;
use braid_meta::fuzzing::{Records, dump_of, read_dump, read_segment};
use libfuzzer_sys::fuzz_target;

#[derive(Arbitrary, Debug)]
struct Input {
    records: BTreeMap<u16, Vec<u8>>,
    /// Where to overwrite, and with what. The checksum of the record or header is corrected.
    changes: Vec<(u16, u8)>,
    cut: Option<u16>,
    more: Vec<u8>,
}

const HEADER_BYTES: usize = 16;
const RECORD_HEADER_BYTES: usize = 32;

/// Gives every whole record of the stream a correct checksum.
fn seal(stream: &mut [u8], mut at: usize) {
    while let Some(body) = stream.get(at..at + 4) {
        let end = at + RECORD_HEADER_BYTES + u32::from_le_bytes(body.try_into().unwrap()) as usize;
        let Some(checked) = stream.get(at + 8..end) else { return };
        let crc = crc32c::crc32c(checked).to_le_bytes();
        stream[at + 4..at + 8].copy_from_slice(&crc);
        at = end;
    }
}

fuzz_target!(|input: Input| {
    let records: Records = input
        .records
        .iter()
        .map(|(key, value)| (key.to_be_bytes().to_vec(), value.clone()))
        .collect();
    let whole = dump_of(&records).unwrap();
    assert_eq!(read_dump(&mut &whole[..]).ok().as_ref(), Some(&records));

    let mut changed = whole.clone();
    for (at, byte) in &input.changes {
        let at = usize::from(*at) % changed.len();
        changed[at] = *byte;
    }
    changed.truncate(changed.len() - usize::from(input.cut.unwrap_or(0)) % changed.len());
    // Without the seal, every change is detected. Enough bytes could forge a checksum.
    assert!(changed == whole || input.changes.len() > 3 || read_dump(&mut &changed[..]).is_err());
    changed.extend_from_slice(&input.more);
    read_segment(&changed);
    if changed.len() >= HEADER_BYTES {
        let crc = crc32c::crc32c(&changed[..12]).to_le_bytes();
        changed[12..16].copy_from_slice(&crc);
        seal(&mut changed, HEADER_BYTES);
        let _ = read_dump(&mut &changed[..]);
        read_segment(&changed[HEADER_BYTES..]);
    }
});
