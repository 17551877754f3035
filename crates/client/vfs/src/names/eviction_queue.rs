//! The cached directories in order of arrival.
//!
//! Removing a directory from the middle of the queue would search the whole queue each time. So a
//! removed directory stays in the queue and is skipped. When there are as many of them as cached
//! directories, the queue is rebuilt.

use std::collections::VecDeque;

use braid_client::FileIndex;

/// Removed directories that are always allowed in the queue.
const REMOVED_MIN: usize = 64;

/// The arrival of a directory in the cache. Each is unique.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Arrival(u64);

#[derive(Debug, Default)]
pub(crate) struct EvictionQueue {
    queue: VecDeque<(FileIndex, Arrival)>,
    count: u64,
}

impl EvictionQueue {
    /// A directory arrives, or arrives again.
    pub(crate) fn add(&mut self, directory: FileIndex) -> Arrival {
        self.count += 1;
        self.queue.push_back((directory, Arrival(self.count)));
        Arrival(self.count)
    }

    /// All arrivals, the oldest first. Some directories were removed.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (FileIndex, Arrival)> + '_ {
        self.queue.iter().copied()
    }

    /// After a removal: `left` directories are still cached.
    pub(crate) fn remove_stale(
        &mut self,
        left: usize,
        mut is_cached: impl FnMut(FileIndex, Arrival) -> bool,
    ) {
        if self.queue.len() > 2 * left + REMOVED_MIN {
            self.queue.retain(|(directory, arrival)| is_cached(*directory, *arrival));
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    /// A queue, what is cached, and how many entries were scanned to tidy the queue.
    #[derive(Default)]
    struct CountedQueue {
        arrivals: EvictionQueue,
        cached: HashMap<FileIndex, Arrival>,
        scanned: usize,
    }

    impl CountedQueue {
        fn add(&mut self, directory: u64) {
            self.cached.insert(FileIndex(directory), self.arrivals.add(FileIndex(directory)));
        }

        fn take(&mut self, directory: u64) {
            self.cached.remove(&FileIndex(directory));
            self.arrivals.remove_stale(self.cached.len(), |directory, arrival| {
                self.scanned += 1;
                self.cached.get(&directory) == Some(&arrival)
            });
            assert!(self.arrivals.queue.len() <= 2 * self.cached.len() + REMOVED_MIN);
        }
    }

    #[test]
    fn removing_all_directories_scans_each_a_few_times_only() {
        const DIRECTORIES: u64 = 200_000;
        let mut queue = CountedQueue::default();
        (0..DIRECTORIES).for_each(|directory| queue.add(directory));
        // In an order that differs from that of arrival.
        (0..DIRECTORIES).for_each(|number| queue.take(number * 7 % DIRECTORIES));
        assert!(queue.cached.is_empty());
        assert!(queue.scanned <= 3 * DIRECTORIES as usize, "{} scanned", queue.scanned);
    }

    #[test]
    fn a_directory_that_arrives_again_is_last_and_appears_once() {
        let mut queue = CountedQueue::default();
        (0..100).for_each(|directory| queue.add(directory));
        for _ in 0..200 {
            queue.take(5);
            queue.add(5);
        }
        let cached = queue
            .arrivals
            .iter()
            .filter(|(directory, arrival)| queue.cached.get(directory) == Some(arrival));
        let order: Vec<u64> = cached.map(|(directory, _)| directory.0).collect();
        assert_eq!(order, (0..100).filter(|one| *one != 5).chain([5]).collect::<Vec<_>>());
    }
}
