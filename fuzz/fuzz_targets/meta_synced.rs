//! Any bytes as the file `synced` of the metadata store, also with correct checksums: no panic. A
//! slot that was damaged gives the other slot or nothing, never another sequence.
#![no_main]

use arbitrary::Arbitrary;
use braid_meta::fuzzing::{read_synced, synced_slot};
use libfuzzer_sys::fuzz_target;

/// Where the second slot begins.
const SLOT_SPACING: usize = 512;

#[derive(Arbitrary, Debug)]
struct Input {
    sequences: [u64; 2],
    turn: u64,
    /// Where to overwrite, and with what.
    changes: Vec<(u16, u8)>,
    cut: Option<u16>,
    bytes: Vec<u8>,
}

/// Gives both slots a correct checksum.
fn seal(file: &mut [u8]) {
    for at in [0, SLOT_SPACING] {
        let Some(slot) = file.get_mut(at..at + 40) else { return };
        let crc = crc32c::crc32c_append(crc32c::crc32c(&slot[..12]), &slot[16..]);
        slot[12..16].copy_from_slice(&crc.to_le_bytes());
    }
}

fuzz_target!(|input: Input| {
    read_synced(&input.bytes);

    let (turn, [newest, older]) = (input.turn.max(1), input.sequences);
    let mut file = synced_slot(newest, turn);
    file.resize(SLOT_SPACING, 0);
    file.extend(synced_slot(older, turn - 1));
    assert_eq!(read_synced(&file), Some(newest));
    for (at, byte) in &input.changes {
        let at = usize::from(*at) % file.len();
        file[at] = *byte;
    }
    file.truncate(file.len() - usize::from(input.cut.unwrap_or(0)) % file.len());
    // Enough bytes could forge a checksum.
    if input.changes.len() <= 2 {
        let read = read_synced(&file);
        assert!(read.is_none_or(|sequence| input.sequences.contains(&sequence)), "{read:?}");
    }
    seal(&mut file);
    read_synced(&file);
});
