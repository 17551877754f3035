//! An append-only file. The final content defines the order of the appends, and every observed
//! length must fit it.

use std::{collections::HashMap, io::Write, os::unix::fs::FileExt};

use super::{
    linearizability::{NEVER, Specification, TimedCall},
    test_thread::TestThread,
};

/// The specification: the number of records.
pub struct Log;

/// A call on the object.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// An append of the record with this tag; its place is known at the end.
    Append { tag: u64, place: Option<u64> },
    /// This many records, by `fstat` or `stat`.
    Length(u64),
}

impl Specification for Log {
    type State = u64;
    type Call = Call;

    fn next(state: &u64, call: &Call) -> Vec<u64> {
        match call {
            Call::Append { place: Some(place), .. } if place == state => vec![state + 1],
            Call::Length(length) if length == state => vec![*state],
            _ => Vec::new(),
        }
    }
}

/// The name of this file.
pub fn name(file: usize) -> String {
    format!("log-{file}")
}

/// Makes one of the calls.
pub fn play(player: &mut TestThread, file: usize, out: &mut Vec<TimedCall<Call>>) {
    match player.random.below(4) {
        0..2 => append(player, file, out),
        2 => length(player, file, false, out),
        _ => length(player, file, true, out),
    }
}

fn append(player: &mut TestThread, file: usize, out: &mut Vec<TimedCall<Call>>) {
    let tag = player.tag();
    let Some(mut open) = player.file(&name(file), true) else { return };
    let ended = player.call("append", || open.write_all(&tag.to_le_bytes()));
    out.push(ended.timed(player, file, Call::Append { tag, place: None }, ended.result.is_ok()));
    if let Err(error) = &ended.result {
        player.failed("append", error);
    }
}

fn length(player: &mut TestThread, file: usize, by_path: bool, out: &mut Vec<TimedCall<Call>>) {
    let path = player.dir.join(name(file));
    let Some(open) = player.file(&name(file), false) else { return };
    let ended = player.call("length of a log", || {
        if by_path { std::fs::metadata(&path) } else { open.metadata() }
    });
    match &ended.result {
        Ok(found) => {
            let found = player.with_planted_fault(format!("log {file}"), vec![found.len() / 8])[0];
            out.push(ended.timed(player, file, Call::Length(found), true));
        }
        Err(error) => player.failed("length of a log", error),
    }
}

/// The tags in the file, at the end.
pub fn contents(player: &mut TestThread, file: usize) -> Option<Vec<u64>> {
    let open = player.file(&name(file), false)?;
    let read = || {
        let length = open.metadata()?.len();
        let mut bytes = vec![0; length as usize];
        open.read_exact_at(&mut bytes, 0).map(|()| bytes)
    };
    let bytes = player.call("read of a log", read).result.ok()?;
    Some(
        bytes
            .chunks(8)
            .map(|bytes| <[u8; 8]>::try_from(bytes).map_or(u64::MAX, u64::from_le_bytes))
            .collect(),
    )
}

/// Finds the place of every append. A missing record must have an unknown outcome, and its call is
/// left out. A duplicate record and an unknown tag are errors.
pub fn place(
    calls: Vec<TimedCall<Call>>,
    contents: &[u64],
) -> Result<Vec<TimedCall<Call>>, String> {
    let mut places = HashMap::new();
    for (place, tag) in contents.iter().enumerate() {
        if let Some(before) = places.insert(*tag, place as u64) {
            return Err(format!("record {tag:#x} is at place {before} and at place {place}"));
        }
    }
    let mut placed = Vec::new();
    for mut timed in calls {
        if let Call::Append { tag, place } = &mut timed.call {
            *place = places.remove(tag);
            match (*place, timed.returned) {
                (None, NEVER) => continue,
                (None, _) => {
                    return Err(format!(
                        "record {tag:#x} was appended by thread {} and is missing",
                        timed.thread
                    ));
                }
                _ => {}
            }
        }
        placed.push(timed);
    }
    match places.into_iter().next() {
        Some((tag, place)) => {
            Err(format!("at place {place} is {tag:#x}, which no thread appended"))
        }
        None => Ok(placed),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::linearizability::find_order;

    fn append(invoked: u64, returned: u64, tag: u64) -> TimedCall<Call> {
        TimedCall {
            object: 0,
            thread: 0,
            invoked,
            returned,
            call: Call::Append { tag, place: None },
        }
    }

    fn check(calls: Vec<TimedCall<Call>>, contents: &[u64]) -> Result<(), String> {
        let placed = place(calls, contents)?;
        find_order::<Log>(0, &placed.iter().collect::<Vec<_>>())
            .map_err(|refusal| refusal.to_string())
    }

    #[test]
    fn appends_lie_in_an_order_that_their_times_allow() {
        check(vec![append(0, 10, 1), append(5, 15, 2)], &[2, 1]).unwrap();
        assert!(check(vec![append(0, 4, 1), append(5, 15, 2)], &[2, 1]).is_err());
    }

    #[test]
    fn a_lost_and_a_doubled_record_are_said() {
        assert!(check(vec![append(0, 4, 1)], &[]).unwrap_err().contains("is missing"));
        assert!(check(vec![append(0, 4, 1)], &[1, 1]).unwrap_err().contains("and at place"));
        assert!(check(vec![append(0, 4, 1)], &[1, 9]).unwrap_err().contains("no thread"));
        check(vec![append(0, NEVER, 1)], &[]).unwrap();
    }

    #[test]
    fn a_length_from_before_an_append_that_had_returned_has_no_order() {
        let length = |found| TimedCall {
            object: 0,
            thread: 1,
            invoked: 20,
            returned: 30,
            call: Call::Length(found),
        };
        check(vec![append(0, 10, 1), length(1)], &[1]).unwrap();
        assert!(check(vec![append(0, 10, 1), length(0)], &[1]).is_err());
    }
}
