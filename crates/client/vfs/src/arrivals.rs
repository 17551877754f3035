//! Which directories are remembered, as they came.
//!
//! To take one out would be a walk over all others each time: it stays in the queue and is passed over, until that is as many as
//! are still there.

use std::collections::VecDeque;

use braid_client::FileIndex;

/// So many that are gone are no matter.
const GONE_MIN: usize = 64;

/// When a directory came; never the same twice.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival(u64);

#[derive(Debug, Default)]
pub(crate) struct Arrivals {
    queue: VecDeque<(FileIndex, Arrival)>,
    count: u64,
}

impl Arrivals {
    /// A directory comes, or comes again.
    pub(crate) fn add(&mut self, directory: FileIndex) -> Arrival {
        self.count += 1;
        self.queue.push_back((directory, Arrival(self.count)));
        Arrival(self.count)
    }

    /// All that came, the first one first; some are gone.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileIndex, Arrival)> + '_ {
        self.queue.iter().copied()
    }

    /// Some are gone: `left` are still there.
    pub(crate) fn tidy(
        &mut self,
        left: usize,
        mut is_there: impl FnMut(FileIndex, Arrival) -> bool,
    ) {
        if self.queue.len() > 2 * left + GONE_MIN {
            self.queue.retain(|(directory, arrival)| is_there(*directory, *arrival));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// What is there, and how many were looked at to keep the queue tidy.
    #[derive(Default)]
    struct Walked {
        arrivals: Arrivals,
        there: HashMap<FileIndex, Arrival>,
        looked_at: usize,
    }

    impl Walked {
        fn add(&mut self, directory: u64) {
            self.there.insert(FileIndex(directory), self.arrivals.add(FileIndex(directory)));
        }

        fn take(&mut self, directory: u64) {
            self.there.remove(&FileIndex(directory));
            self.arrivals.tidy(self.there.len(), |directory, arrival| {
                self.looked_at += 1;
                self.there.get(&directory) == Some(&arrival)
            });
            assert!(self.arrivals.queue.len() <= 2 * self.there.len() + GONE_MIN);
        }
    }

    #[test]
    fn to_take_all_is_no_walk_over_all_for_each() {
        const DIRECTORIES: u64 = 200_000;
        let mut walked = Walked::default();
        (0..DIRECTORIES).for_each(|directory| walked.add(directory));
        // In an order that has nothing to do with theirs.
        (0..DIRECTORIES).for_each(|number| walked.take(number * 7 % DIRECTORIES));
        assert!(walked.there.is_empty());
        assert!(walked.looked_at <= 3 * DIRECTORIES as usize, "{} looked at", walked.looked_at);
    }

    #[test]
    fn who_comes_again_is_the_last_and_is_so_once() {
        let mut walked = Walked::default();
        (0..100).for_each(|directory| walked.add(directory));
        for _ in 0..200 {
            walked.take(5);
            walked.add(5);
        }
        let there = walked
            .arrivals
            .iter()
            .filter(|(directory, arrival)| walked.there.get(directory) == Some(arrival));
        let order: Vec<u64> = there.map(|(directory, _)| directory.0).collect();
        assert_eq!(order, (0..100).filter(|one| *one != 5).chain([5]).collect::<Vec<_>>());
    }
}
