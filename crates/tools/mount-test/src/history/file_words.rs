//! Words of a file, written and read in ranges that cross a page and a stripe; each word is checked
//! separately.

use std::os::unix::fs::FileExt;

use super::{linearizability::TimedCall, register::Call, test_thread::TestThread};
use crate::mapping::Mapping;

/// Words of one file.
pub const WORDS: usize = 8;
/// The word that begins at the boundary of the first stripe.
const MIDDLE: u64 = WORDS as u64 / 2;
/// The value of a word that a short read did not return.
const MISSING: u64 = u64::MAX;

/// The position of the words in their files.
#[derive(Clone, Copy, Debug)]
pub struct WordSet {
    /// The stripe size: the words are around its end. 0: at the beginning of the file.
    pub stripe: u64,
}

impl WordSet {
    fn offset(self, word: usize) -> u64 {
        if self.stripe == 0 { word as u64 * 8 } else { self.stripe + word as u64 * 8 - MIDDLE * 8 }
    }

    /// The length of the file.
    pub fn length(self) -> u64 {
        self.offset(WORDS)
    }
}

/// The name of this file.
pub fn name(file: usize) -> String {
    format!("words-{file}")
}

/// Writes or reads some of the words.
pub fn play(player: &mut TestThread, file: usize, place: WordSet, out: &mut Vec<TimedCall<Call>>) {
    let first = player.random.below(WORDS as u64) as usize;
    let count = 1 + player.random.below((WORDS - first) as u64) as usize;
    match player.random.below(10) {
        0..5 => write(player, file, place, first, count, out),
        5..9 => read(player, file, place, first, count, out),
        _ => read_mapped(player, file, place, first, out),
    }
}

/// Reads all words, at the end.
pub fn look(player: &mut TestThread, file: usize, place: WordSet, out: &mut Vec<TimedCall<Call>>) {
    read(player, file, place, 0, WORDS, out);
}

fn write(
    player: &mut TestThread,
    file: usize,
    place: WordSet,
    first: usize,
    count: usize,
    out: &mut Vec<TimedCall<Call>>,
) {
    let tag = player.tag();
    let Some(open) = player.file(&name(file), false) else { return };
    let bytes = tag.to_le_bytes().repeat(count);
    let ended = player.call("write", || open.write_all_at(&bytes, place.offset(first)));
    out.extend((first..first + count).map(|word| {
        ended.timed(player, file * WORDS + word, Call::Write(tag), ended.result.is_ok())
    }));
    if let Err(error) = &ended.result {
        player.failed("write", error);
    }
}

fn read(
    player: &mut TestThread,
    file: usize,
    place: WordSet,
    first: usize,
    count: usize,
    out: &mut Vec<TimedCall<Call>>,
) {
    let Some(open) = player.file(&name(file), false) else { return };
    let mut bytes = vec![0; count * 8];
    let ended = player.call("read", || open.read_at(&mut bytes, place.offset(first)));
    match &ended.result {
        Ok(done) => {
            let seen = words(&bytes, *done);
            let seen = player.with_planted_fault(format!("words {file} {first} {count}"), seen);
            let reads = seen.into_iter().enumerate();
            out.extend(reads.map(|(at, value)| {
                ended.timed(player, file * WORDS + first + at, Call::Read(value), true)
            }));
        }
        Err(error) => player.failed("read", error),
    }
}

/// Reads through a new mapping, or one that another thread's read of the same pages made.
fn read_mapped(
    player: &mut TestThread,
    file: usize,
    place: WordSet,
    word: usize,
    out: &mut Vec<TimedCall<Call>>,
) {
    let Some(open) = player.file(&name(file), false) else { return };
    let mut bytes = [0; 8];
    let ended = player.call("read mapped", || {
        Mapping::shared(&open, place.length(), false)?.read(place.offset(word), &mut bytes)
    });
    match &ended.result {
        Ok(()) => out.push(ended.timed(
            player,
            file * WORDS + word,
            Call::Read(u64::from_le_bytes(bytes)),
            true,
        )),
        Err(error) => player.failed("read mapped", error),
    }
}

/// The words whose bytes were all read; the others are missing.
fn words(bytes: &[u8], done: usize) -> Vec<u64> {
    let word = |(at, bytes): (usize, &[u8])| match <[u8; 8]>::try_from(bytes) {
        Ok(bytes) if (at + 1) * 8 <= done => u64::from_le_bytes(bytes),
        _ => MISSING,
    };
    bytes.chunks(8).enumerate().map(word).collect()
}
