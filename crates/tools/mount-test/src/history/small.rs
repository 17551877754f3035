//! A small file whose length changes: written, appended to, truncated, read completely, its length
//! queried; checked as a whole.

use std::os::unix::fs::FileExt;
use std::{fs::File, io::Write};

use super::{
    linearizability::{Specification, TimedCall},
    test_thread::TestThread,
};

/// Maximum number of words in the file.
const WORDS_MAX: usize = 6;
/// The value of a partly read word.
const TORN: u64 = u64::MAX;

/// The specification: a file of whole words.
pub struct Small;

/// A call on the object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// Writes this word at this place.
    Write(usize, u64),
    /// Appends this word.
    Append(u64),
    /// Truncates or extends the file to this many words.
    Truncate(usize),
    /// Reads the whole file.
    Read(Vec<u64>),
    /// This many words long, by `stat`.
    Length(u64),
}

impl Specification for Small {
    type State = Vec<u64>;
    type Call = Call;

    fn next(state: &Vec<u64>, call: &Call) -> Vec<Vec<u64>> {
        let mut after = state.clone();
        let possible = match call {
            Call::Write(at, word) => {
                after.resize(after.len().max(at + 1), 0);
                after[*at] = *word;
                true
            }
            Call::Append(word) => {
                after.push(*word);
                true
            }
            Call::Truncate(length) => {
                after.resize(*length, 0);
                true
            }
            Call::Read(found) => found == state,
            Call::Length(found) => *found == state.len() as u64,
        };
        if possible { vec![after] } else { Vec::new() }
    }
}

/// The name of this file.
pub fn name(file: usize) -> String {
    format!("small-{file}")
}

/// Makes one of the calls.
pub fn play(player: &mut TestThread, file: usize, out: &mut Vec<TimedCall<Call>>) {
    let at = player.random.below(WORDS_MAX as u64) as usize;
    match player.random.below(12) {
        0..3 => {
            let tag = player.tag();
            let write = |open: &File| open.write_all_at(&tag.to_le_bytes(), at as u64 * 8);
            change(player, file, Call::Write(at, tag), false, write, out);
        }
        3..5 => {
            let tag = player.tag();
            change(
                player,
                file,
                Call::Append(tag),
                true,
                |mut open| open.write_all(&tag.to_le_bytes()),
                out,
            );
        }
        5..7 => {
            change(player, file, Call::Truncate(at), false, |open| open.set_len(at as u64 * 8), out)
        }
        7..10 => look(player, file, out),
        _ => length(player, file, out),
    }
}

fn change(
    player: &mut TestThread,
    file: usize,
    call: Call,
    append: bool,
    make: impl Fn(&File) -> std::io::Result<()>,
    out: &mut Vec<TimedCall<Call>>,
) {
    let Some(open) = player.file(&name(file), append) else { return };
    let ended = player.call("change of a small file", || make(&open));
    out.push(ended.timed(player, file, call, ended.result.is_ok()));
    if let Err(error) = &ended.result {
        player.failed("change of a small file", error);
    }
}

/// Reads the whole file.
pub fn look(player: &mut TestThread, file: usize, out: &mut Vec<TimedCall<Call>>) {
    let Some(open) = player.file(&name(file), false) else { return };
    // Appends make it longer than any write does.
    let mut bytes = vec![0; 1 << 12];
    let ended = player.call("read of a small file", || open.read_at(&mut bytes, 0));
    match &ended.result {
        Ok(done) => {
            let word = |bytes: &[u8]| <[u8; 8]>::try_from(bytes).map_or(TORN, u64::from_le_bytes);
            let found = player.with_planted_fault(
                format!("small {file}"),
                bytes[..*done].chunks(8).map(word).collect(),
            );
            out.push(ended.timed(player, file, Call::Read(found), true));
        }
        Err(error) => player.failed("read of a small file", error),
    }
}

fn length(player: &mut TestThread, file: usize, out: &mut Vec<TimedCall<Call>>) {
    let path = player.dir.join(name(file));
    let ended = player.call("stat of a small file", || std::fs::metadata(&path));
    match &ended.result {
        Ok(found) => {
            let bytes = player.with_planted_fault(format!("length {file}"), vec![found.len()])[0];
            let words = if bytes.is_multiple_of(8) { bytes / 8 } else { TORN };
            out.push(ended.timed(player, file, Call::Length(words), true));
        }
        Err(error) => player.failed("stat of a small file", error),
    }
}
