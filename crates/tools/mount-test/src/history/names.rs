//! A few names in two directories: created, unlinked, renamed, exchanged, linked, looked up. They
//! are checked together, since a rename changes two of them.
//!
//! ```text
//!   d0/  cell-K-a  cell-K-b  cell-K-link  cell-K-dir
//!   d1/  cell-K-c                                       anchor-K: a file that is only linked to
//! ```
//!
//! Links are created only from the anchor, to a name that is never renamed: `link` finds its source
//! and creates the name at two moments, and `rename` between two names of one file does nothing. On
//! Linux neither is atomic, even on a local disk.

use std::{
    fs::OpenOptions,
    io::{Error, ErrorKind, Result},
    os::unix::fs::MetadataExt,
    path::Path,
};

use rustix::fs::{CWD, RenameFlags, renameat_with};

use super::{
    linearizability::{Specification, TimedCall},
    test_thread::TestThread,
};

/// Names of a cell: three that are renamed, the link, the directory.
pub const NAMES: usize = 5;
const RENAMED: u64 = 3;
const LINK: usize = 3;
const DIRECTORY: usize = 4;

/// What a name refers to.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Entry {
    Absent,
    /// The file with this number.
    File(u64),
    /// A file whose number is unknown: its creator did not learn the outcome.
    Unknown(u64),
}

/// The result of a call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Answer {
    Done,
    Exists,
    NoEntry,
}

/// A call on the names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Call {
    /// The number of the new file, or the error. Unknown: a new number.
    Create(usize, std::result::Result<Entry, Answer>),
    Unlink(usize, Answer),
    Rename(usize, usize, Answer),
    RenameNoReplace(usize, usize, Answer),
    Exchange(usize, usize, Answer),
    /// A rename or exchange that was done while another mount moved the file to the same name: see
    /// `found_apart`.
    Same(Box<Call>, usize),
    /// A link to the anchor, under this name.
    Link(usize, u64, Answer),
    Lookup(usize, Entry),
}

/// The specification.
pub struct Names;

impl Specification for Names {
    type State = [Entry; NAMES];
    type Call = Call;

    fn next(state: &Self::State, call: &Call) -> Vec<Self::State> {
        let absent = |name: &usize| state[*name] == Entry::Absent;
        let set = |changes: &[(usize, Entry)]| {
            let mut after = *state;
            changes.iter().for_each(|(name, entry)| after[*name] = *entry);
            vec![after]
        };
        let same_if = |possible: bool| if possible { vec![*state] } else { Vec::new() };
        match call {
            Call::Same(done, to) => [Self::next(state, done), same_if(!absent(to))].concat(),
            Call::Create(name, Ok(entry)) if absent(name) => set(&[(*name, *entry)]),
            Call::Create(name, Err(Answer::Exists)) => same_if(!absent(name)),
            Call::Unlink(name, Answer::Done) if !absent(name) => set(&[(*name, Entry::Absent)]),
            Call::Unlink(name, Answer::NoEntry) => same_if(absent(name)),
            Call::Rename(from, to, Answer::Done) if !absent(from) => {
                set(&[(*to, state[*from]), (*from, Entry::Absent)])
            }
            Call::RenameNoReplace(from, to, Answer::Done) if !absent(from) && absent(to) => {
                set(&[(*to, state[*from]), (*from, Entry::Absent)])
            }
            // The kernel looks up the two names at two moments: only the one that it reports is
            // checked.
            Call::RenameNoReplace(_, to, Answer::Exists) => same_if(!absent(to)),
            Call::Rename(from, _, Answer::NoEntry)
            | Call::RenameNoReplace(from, _, Answer::NoEntry) => same_if(absent(from)),
            Call::Exchange(from, to, Answer::Done) if !absent(from) && !absent(to) => {
                set(&[(*from, state[*to]), (*to, state[*from])])
            }
            Call::Exchange(from, to, Answer::NoEntry) => same_if(absent(from) || absent(to)),
            Call::Link(name, anchor, Answer::Done) if absent(name) => {
                set(&[(*name, Entry::File(*anchor))])
            }
            Call::Link(name, _, Answer::Exists) => same_if(!absent(name)),
            Call::Lookup(name, Entry::File(number)) => lookup(state, *name, *number),
            Call::Lookup(name, found) => same_if(state[*name] == *found),
            _ => Vec::new(),
        }
    }
}

/// A file whose number was unknown has this one, under any of its names.
fn lookup(state: &[Entry; NAMES], name: usize, number: u64) -> Vec<[Entry; NAMES]> {
    match state[name] {
        Entry::File(held) if held == number => vec![*state],
        Entry::Unknown(maker) => {
            vec![state.map(|entry| {
                if entry == Entry::Unknown(maker) { Entry::File(number) } else { entry }
            })]
        }
        _ => Vec::new(),
    }
}

/// The path of a name, below the directory of the round.
pub fn path(cell: usize, name: usize) -> String {
    match name {
        2 => format!("d1/cell-{cell}-c"),
        LINK => format!("d0/cell-{cell}-link"),
        DIRECTORY => format!("d0/cell-{cell}-dir"),
        _ => format!("d0/cell-{cell}-{}", ["a", "b"][name]),
    }
}

/// The path of the link's source.
pub fn anchor(cell: usize) -> String {
    format!("anchor-{cell}")
}

/// The names that a call created or removed, and whether they exist after it; for the check of
/// listings.
pub fn changes(call: &Call) -> Vec<(usize, bool)> {
    match call {
        Call::Create(name, Ok(_)) | Call::Link(name, _, Answer::Done) => vec![(*name, true)],
        Call::Unlink(name, Answer::Done) => vec![(*name, false)],
        Call::Rename(from, to, Answer::Done) | Call::RenameNoReplace(from, to, Answer::Done) => {
            vec![(*from, false), (*to, true)]
        }
        Call::Exchange(from, to, Answer::Done) => vec![(*from, true), (*to, true)],
        Call::Same(done, _) => changes(done),
        _ => Vec::new(),
    }
}

/// Marks renames whose two names the kernel may have found to be one file. It looks them up at two
/// moments, and another mount may have moved the file from one to the other between them. Then
/// `rename` does nothing and reports success without a request; no file system can prevent that.
pub fn found_apart(calls: &mut [TimedCall<Call>], mounts: usize) {
    let targets = |call: &Call| match call {
        Call::Rename(_, to, Answer::Done) | Call::RenameNoReplace(_, to, Answer::Done) => vec![*to],
        Call::Exchange(from, to, Answer::Done) => vec![*from, *to],
        _ => Vec::new(),
    };
    let moves: Vec<(usize, usize, u64, u64, Vec<usize>)> = calls
        .iter()
        .map(|call| {
            (call.object, call.thread % mounts, call.invoked, call.returned, targets(&call.call))
        })
        .filter(|(.., targets)| !targets.is_empty())
        .collect();
    for call in calls {
        let (Call::Rename(_, to, Answer::Done) | Call::Exchange(_, to, Answer::Done)) = call.call
        else {
            continue;
        };
        let meanwhile = moves.iter().any(|(cell, mount, invoked, returned, targets)| {
            (*cell, *mount != call.thread % mounts) == (call.object, true)
                && *invoked <= call.returned
                && *returned >= call.invoked
                && targets.contains(&to)
        });
        if meanwhile {
            call.call = Call::Same(Box::new(call.call.clone()), to);
        }
    }
}

/// Makes one of the calls.
pub fn play(
    player: &mut TestThread,
    cell: usize,
    anchor_number: u64,
    out: &mut Vec<TimedCall<Call>>,
) {
    let name = player.random.below(RENAMED) as usize;
    let other = (name + 1 + player.random.below(RENAMED - 1) as usize) % RENAMED as usize;
    match player.random.below(20) {
        0..4 => create(player, cell, name, out),
        4..7 => change(
            player,
            cell,
            out,
            |path| std::fs::remove_file(path(name)),
            |answer| Call::Unlink(name, answer),
        ),
        7..10 => {
            let make = |path: &dyn Fn(usize) -> std::path::PathBuf| {
                std::fs::rename(path(name), path(other))
            };
            change(player, cell, out, make, |answer| Call::Rename(name, other, answer));
        }
        10 => rename_with(player, cell, out, name, other, RenameFlags::NOREPLACE),
        11 => rename_with(player, cell, out, name, other, RenameFlags::EXCHANGE),
        12 => {
            let anchor = player.dir.join(anchor(cell));
            let make = |path: &dyn Fn(usize) -> std::path::PathBuf| {
                std::fs::hard_link(&anchor, path(LINK))
            };
            change(player, cell, out, make, |answer| Call::Link(LINK, anchor_number, answer));
        }
        13 => change(
            player,
            cell,
            out,
            |path| std::fs::remove_file(path(LINK)),
            |answer| Call::Unlink(LINK, answer),
        ),
        14 => create_directory(player, cell, out),
        15 => {
            change(
                player,
                cell,
                out,
                |path| std::fs::remove_dir(path(DIRECTORY)),
                |a| Call::Unlink(DIRECTORY, a),
            );
        }
        _ => {
            let name = player.random.below(NAMES as u64) as usize;
            look(player, cell, name, out);
        }
    }
}

/// Looks a name up.
pub fn look(player: &mut TestThread, cell: usize, name: usize, out: &mut Vec<TimedCall<Call>>) {
    let path = player.dir.join(path(cell, name));
    let ended = player.call("lstat", || std::fs::symlink_metadata(&path));
    let found = match &ended.result {
        Ok(found) => found.ino(),
        Err(error) if error.kind() == ErrorKind::NotFound => 0,
        Err(error) => return player.failed("lstat", error),
    };
    let found = player.with_planted_fault(format!("name {cell} {name}"), vec![found])[0];
    let entry = if found == 0 { Entry::Absent } else { Entry::File(found) };
    out.push(ended.timed(player, cell, Call::Lookup(name, entry), true));
}

fn create(player: &mut TestThread, cell: usize, name: usize, out: &mut Vec<TimedCall<Call>>) {
    let path = player.dir.join(path(cell, name));
    let make = || {
        OpenOptions::new()
            .write(true)
            .create_new(true)
            .open(&path)?
            .metadata()
            .map(|found| found.ino())
    };
    made(player, cell, name, "create", make, out);
}

fn create_directory(player: &mut TestThread, cell: usize, out: &mut Vec<TimedCall<Call>>) {
    let path = player.dir.join(path(cell, DIRECTORY));
    // Its number would be read afterwards, when another directory may have the name: it stays
    // unknown.
    let make = || std::fs::create_dir(&path).map(|()| 0);
    made(player, cell, DIRECTORY, "mkdir", make, out);
}

fn made(
    player: &mut TestThread,
    cell: usize,
    name: usize,
    what: &str,
    make: impl FnOnce() -> Result<u64>,
    out: &mut Vec<TimedCall<Call>>,
) {
    let maker = player.tag();
    let ended = player.call(what, make);
    match &ended.result {
        Ok(0) => {
            out.push(ended.timed(player, cell, Call::Create(name, Ok(Entry::Unknown(maker))), true))
        }
        Ok(number) => {
            out.push(ended.timed(player, cell, Call::Create(name, Ok(Entry::File(*number))), true))
        }
        Err(error) if error.kind() == ErrorKind::AlreadyExists => {
            out.push(ended.timed(player, cell, Call::Create(name, Err(Answer::Exists)), true));
        }
        Err(error) => {
            player.failed(what, error);
            out.push(ended.timed(
                player,
                cell,
                Call::Create(name, Ok(Entry::Unknown(maker))),
                false,
            ));
        }
    }
}

fn rename_with(
    player: &mut TestThread,
    cell: usize,
    out: &mut Vec<TimedCall<Call>>,
    from: usize,
    to: usize,
    flags: RenameFlags,
) {
    let make = |path: &dyn Fn(usize) -> std::path::PathBuf| {
        renameat_with(CWD, path(from), CWD, path(to), flags).map_err(Error::from)
    };
    let call = |answer| match flags {
        RenameFlags::EXCHANGE => Call::Exchange(from, to, answer),
        _ => Call::RenameNoReplace(from, to, answer),
    };
    change(player, cell, out, make, call);
}

fn change(
    player: &mut TestThread,
    cell: usize,
    out: &mut Vec<TimedCall<Call>>,
    make: impl FnOnce(&dyn Fn(usize) -> std::path::PathBuf) -> Result<()>,
    call: impl Fn(Answer) -> Call,
) {
    let dir = player.dir.clone();
    let path = |name: usize| Path::new(&dir).join(path(cell, name));
    let what = format!("{:?}", call(Answer::Done));
    let ended = player.call(&what, || make(&path));
    let answer = match &ended.result {
        Ok(()) => Some(Answer::Done),
        Err(error) if error.kind() == ErrorKind::NotFound => Some(Answer::NoEntry),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Some(Answer::Exists),
        Err(error) => {
            player.failed(what.split('(').next().unwrap_or("change"), error);
            None
        }
    };
    out.push(ended.timed(player, cell, call(answer.unwrap_or(Answer::Done)), answer.is_some()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::linearizability::{NEVER, find_order};

    fn check(calls: Vec<(u64, u64, Call)>) -> bool {
        let timed =
            |(invoked, returned, call)| TimedCall { object: 0, thread: 0, invoked, returned, call };
        let calls: Vec<TimedCall<Call>> = calls.into_iter().map(timed).collect();
        find_order::<Names>([Entry::Absent; NAMES], &calls.iter().collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn a_rename_is_seen_whole() {
        let made = (0, 1, Call::Create(0, Ok(Entry::File(7))));
        let renamed = (2, 10, Call::Rename(0, 1, Answer::Done));
        let by = |name, entry, at| (at, at + 1, Call::Lookup(name, entry));
        let file = Entry::File(7);
        assert!(check(vec![made.clone(), renamed.clone(), by(0, file, 3), by(1, file, 6)]));
        assert!(
            !check(vec![made.clone(), renamed.clone(), by(1, file, 3), by(0, file, 6)]),
            "back again"
        );
        assert!(
            !check(vec![made, renamed, by(0, Entry::Absent, 3), by(1, Entry::Absent, 6)]),
            "under neither name"
        );
    }

    #[test]
    fn two_mounts_may_both_have_renamed_but_only_at_the_same_time() {
        let rename = |thread, invoked| TimedCall {
            object: 0,
            thread,
            invoked,
            returned: invoked + 5,
            call: Call::Rename(0, 1, Answer::Done),
        };
        let made = TimedCall {
            object: 0,
            thread: 0,
            invoked: 0,
            returned: 1,
            call: Call::Create(0, Ok(Entry::File(7))),
        };
        let judge = |second: TimedCall<Call>| {
            let mut calls = vec![made.clone(), rename(0, 2), second];
            found_apart(&mut calls, 2);
            find_order::<Names>([Entry::Absent; NAMES], &calls.iter().collect::<Vec<_>>()).is_ok()
        };
        assert!(
            judge(rename(1, 4)),
            "the kernel of the other mount may have found one file under both names"
        );
        assert!(!judge(rename(1, 10)), "one after the other");
        assert!(!judge(rename(2, 4)), "on one mount the kernel holds the directory");
    }

    #[test]
    fn two_cannot_both_make_the_same_name() {
        let make = |number, from, to| (from, to, Call::Create(0, Ok(Entry::File(number))));
        assert!(!check(vec![make(1, 0, 10), make(2, 5, 15)]));
        assert!(check(vec![make(1, 0, 10), (5, 15, Call::Create(0, Err(Answer::Exists)))]));
    }

    #[test]
    fn a_file_of_unknown_making_keeps_the_number_that_was_seen() {
        let made = (0, NEVER, Call::Create(0, Ok(Entry::Unknown(1))));
        let look = |name, number, at| (at, at + 1, Call::Lookup(name, Entry::File(number)));
        let renamed = (5, 6, Call::Rename(0, 1, Answer::Done));
        assert!(check(vec![made.clone(), look(0, 9, 2), renamed.clone(), look(1, 9, 8)]));
        assert!(!check(vec![made, look(0, 9, 2), renamed, look(1, 8, 8)]));
    }
}
