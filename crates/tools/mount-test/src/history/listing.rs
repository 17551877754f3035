//! Listings of a directory whose names change. A name that existed all the time is listed once, and
//! a name that was absent all the time is not listed. Otherwise both are allowed.

use std::{collections::HashMap, io::Result};

use super::{linearizability::TimedCall, names, test_thread::TestThread};

/// Names in each directory that no thread changes.
pub const BYSTANDERS: usize = 30;

/// A listing.
#[derive(Clone, Debug)]
pub struct Listing {
    pub dir: usize,
    pub found: Vec<String>,
}

/// The path of an unchanged name.
pub fn bystander(dir: usize, at: usize) -> String {
    format!("d{dir}/keep-{at:03}")
}

/// Lists one of the two directories.
pub fn play(player: &mut TestThread, dir: usize, out: &mut Vec<TimedCall<Listing>>) {
    let path = player.dir.join(format!("d{dir}"));
    let list = || -> Result<Vec<String>> {
        std::fs::read_dir(&path)?
            .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
            .collect()
    };
    let ended = player.call("readdir", list);
    match &ended.result {
        Ok(found) => {
            out.push(ended.timed(player, dir, Listing { dir, found: found.clone() }, true))
        }
        Err(error) => player.failed("readdir", error),
    }
}

/// A change of a name: its times, and whether the name exists afterwards.
struct Change {
    invoked: u64,
    returned: u64,
    present: bool,
}

/// Checks each listing against the changes of names.
pub fn judge(
    listings: &[TimedCall<Listing>],
    calls: &[TimedCall<names::Call>],
    cells: usize,
) -> Vec<String> {
    let mut changes: HashMap<(usize, usize), Vec<Change>> = HashMap::new();
    for call in calls {
        for (name, present) in names::changes(&call.call) {
            let change = Change { invoked: call.invoked, returned: call.returned, present };
            changes.entry((call.object, name)).or_default().push(change);
        }
    }
    listings.iter().flat_map(|listing| judge_one(listing, &changes, cells)).collect()
}

fn judge_one(
    listing: &TimedCall<Listing>,
    changes: &HashMap<(usize, usize), Vec<Change>>,
    cells: usize,
) -> Vec<String> {
    let dir = format!("d{}/", listing.call.dir);
    let cell_names = (0..cells).flat_map(|cell| (0..names::NAMES).map(move |name| (cell, name)));
    let known = cell_names.filter_map(|(cell, name)| {
        let present =
            throughout(changes.get(&(cell, name)).map_or(&[][..], Vec::as_slice), listing)?;
        Some((names::path(cell, name), present))
    });
    let bystanders = (0..BYSTANDERS).map(|at| (bystander(listing.call.dir, at), true));
    let of_dir = known
        .chain(bystanders)
        .filter_map(|(path, present)| Some((path.strip_prefix(&dir)?.to_owned(), present)));
    of_dir.filter_map(|(name, present)| wrong(listing, &name, present)).collect()
}

fn wrong(listing: &TimedCall<Listing>, name: &str, present: bool) -> Option<String> {
    let times = listing.call.found.iter().filter(|found| *found == name).count();
    let wanted = usize::from(present);
    (times != wanted).then(|| {
        let (thread, from, to) = (listing.thread, listing.invoked / 1000, listing.returned / 1000);
        format!(
            "d{}/{name} is listed {times} times by thread {thread} in [{from}, {to}] us, \
                 but was {} all that time",
            listing.call.dir,
            if present { "there" } else { "absent" }
        )
    })
}

/// Whether a name existed (or was absent) during the whole listing; `None` when that is uncertain.
fn throughout(changes: &[Change], listing: &TimedCall<Listing>) -> Option<bool> {
    if changes
        .iter()
        .any(|change| change.invoked <= listing.returned && change.returned >= listing.invoked)
    {
        return None;
    }
    let before = || changes.iter().filter(|change| change.returned < listing.invoked);
    let Some(last) = before().max_by_key(|change| change.returned) else { return Some(false) };
    // Changes that may have come later must have had the same effect.
    before()
        .all(|change| change.returned < last.invoked || change.present == last.present)
        .then_some(last.present)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::{
        linearizability::NEVER,
        names::{Answer, Call, Entry},
    };

    fn call(invoked: u64, returned: u64, call: Call) -> TimedCall<Call> {
        TimedCall { object: 0, thread: 0, invoked, returned, call }
    }

    fn listing(found: &[&str]) -> TimedCall<Listing> {
        let keep = (0..BYSTANDERS).map(|at| format!("keep-{at:03}"));
        let found = keep.chain(found.iter().map(|name| (*name).to_owned())).collect();
        TimedCall {
            object: 0,
            thread: 1,
            invoked: 100,
            returned: 200,
            call: Listing { dir: 0, found },
        }
    }

    fn complaints(found: &[&str], calls: &[TimedCall<Call>]) -> usize {
        judge(&[listing(found)], calls, 1).len()
    }

    #[test]
    fn what_was_there_all_the_time_is_listed_once() {
        let made = [call(1, 2, Call::Create(0, Ok(Entry::File(1))))];
        assert_eq!(complaints(&["cell-0-a"], &made), 0);
        assert_eq!(complaints(&[], &made), 1);
        assert_eq!(complaints(&["cell-0-a", "cell-0-a"], &made), 1);
    }

    #[test]
    fn what_was_absent_all_the_time_is_not_listed() {
        let gone = [
            call(1, 2, Call::Create(0, Ok(Entry::File(1)))),
            call(5, 9, Call::Unlink(0, Answer::Done)),
        ];
        assert_eq!(complaints(&["cell-0-a"], &gone), 1);
        assert_eq!(complaints(&["cell-0-b"], &gone), 1, "never made");
        assert_eq!(complaints(&[], &gone), 0);
    }

    #[test]
    fn what_changes_meanwhile_may_be_listed_or_not() {
        for changing in [
            call(150, 160, Call::Create(0, Ok(Entry::File(1)))),
            call(1, NEVER, Call::Create(0, Ok(Entry::Unknown(1)))),
        ] {
            assert_eq!(complaints(&[], std::slice::from_ref(&changing)), 0);
            assert_eq!(complaints(&["cell-0-a"], &[changing]), 0);
        }
    }

    #[test]
    fn a_bystander_that_is_left_out_is_said() {
        let mut short = listing(&[]);
        short.call.found.remove(3);
        assert_eq!(judge(&[short], &[], 1).len(), 1);
    }
}
