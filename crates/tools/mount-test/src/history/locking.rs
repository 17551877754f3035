//! Locks of a few bytes by open files, without waiting.

use std::{fs::File, io::Error};

use super::{
    linearizability::{Specification, TimedCall},
    test_thread::TestThread,
};
use crate::locks::calls::{Mode, Space, lock};

/// Number of bytes that are locked.
const BYTES: u64 = 4;

/// The specification.
pub struct Locks;

/// A lock tried or released, and whether it was granted.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Call {
    pub owner: usize,
    pub first: u64,
    pub count: u64,
    pub mode: Mode,
    pub had: bool,
}

/// The owners of a byte's lock, a bit for each, and whether it is exclusive.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash, Debug)]
pub struct Held {
    owners: u64,
    alone: bool,
}

impl Held {
    fn admits(self, owner: usize, mode: Mode) -> bool {
        let others = self.owners & !(1 << owner);
        match mode {
            Mode::Unlock => true,
            Mode::Shared => others == 0 || !self.alone,
            Mode::Alone => others == 0,
        }
    }

    fn after(self, owner: usize, mode: Mode) -> Self {
        let others = self.owners & !(1 << owner);
        match mode {
            Mode::Unlock => Self { owners: others, alone: self.alone && others != 0 },
            Mode::Shared => Self { owners: others | 1 << owner, alone: false },
            Mode::Alone => Self { owners: 1 << owner, alone: true },
        }
    }
}

impl Specification for Locks {
    type State = [Held; BYTES as usize];
    type Call = Call;

    fn next(state: &Self::State, call: &Call) -> Vec<Self::State> {
        let range = call.first as usize..(call.first + call.count) as usize;
        if state[range.clone()].iter().all(|held| held.admits(call.owner, call.mode)) != call.had {
            return Vec::new();
        }
        let mut after = *state;
        if call.had {
            after[range].iter_mut().for_each(|held| *held = held.after(call.owner, call.mode));
        }
        vec![after]
    }
}

/// The name of this file.
pub fn name(file: usize) -> String {
    format!("locks-{file}")
}

/// Makes one of the calls, on the thread's own open file. The file stays open for the round, since
/// a close would release the locks.
pub fn play(player: &mut TestThread, file: usize, open: &File, out: &mut Vec<TimedCall<Call>>) {
    let first = player.random.below(BYTES);
    let count = 1 + player.random.below(BYTES - first);
    let mode =
        [Mode::Shared, Mode::Alone, Mode::Unlock, Mode::Unlock][player.random.below(4) as usize];
    let ended =
        player.call("lock", || lock(open, Space::Open, mode, false, first as i64, count as i64));
    let refused = |error: &Error| matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::EACCES));
    let known = ended.result.as_ref().map_or_else(refused, |()| true);
    let call =
        Call { owner: player.thread, first, count, mode, had: ended.result.is_ok() || !known };
    out.push(ended.timed(player, file, call, known));
    if let (false, Err(error)) = (known, &ended.result) {
        player.failed("lock", error);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::history::linearizability::find_order;

    fn check(calls: &[(usize, Mode, bool)]) -> bool {
        let call = |owner, mode, had| Call { owner, first: 0, count: 2, mode, had };
        let times = (0..).step_by(2);
        let timed: Vec<TimedCall<Call>> = times
            .zip(calls)
            .map(|(at, (owner, mode, had))| TimedCall {
                object: 0,
                thread: *owner,
                invoked: at,
                returned: at + 1,
                call: call(*owner, *mode, *had),
            })
            .collect();
        find_order::<Locks>(Default::default(), &timed.iter().collect::<Vec<_>>()).is_ok()
    }

    #[test]
    fn a_lock_is_had_by_one_or_shared_by_many_and_refused_only_for_a_reason() {
        assert!(check(&[
            (0, Mode::Alone, true),
            (1, Mode::Alone, false),
            (0, Mode::Unlock, true),
            (1, Mode::Alone, true)
        ]));
        assert!(check(&[
            (0, Mode::Shared, true),
            (1, Mode::Shared, true),
            (0, Mode::Alone, false)
        ]));
        assert!(!check(&[(0, Mode::Alone, true), (1, Mode::Alone, true)]), "had by two");
        assert!(
            !check(&[(0, Mode::Alone, true), (0, Mode::Unlock, true), (1, Mode::Alone, false)]),
            "refused without a conflict"
        );
    }
}
