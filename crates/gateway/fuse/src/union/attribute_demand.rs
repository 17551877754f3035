//! Which programs use the attributes that come with a listing.
//!
//! The kernel reads the beginning of each directory with attributes, wanted or not
//! (`FUSE_READDIRPLUS_AUTO`). A program that walks a tree for names alone, as `find` does, then
//! waits for a statx(2) of each file. In the reply to a READDIRPLUS a name without a node is only a
//! name: the kernel looks it up when a program needs it. So a wrong guess costs time, never a wrong
//! answer.
//!
//! 1. A program that has not listed anything lately gets all attributes: for `ls -l` of one
//!    directory they save a request for each file, and cost less than a tenth of that otherwise.
//! 2. Then one file is left out of the listing of a directory without subdirectories: the probe.
//!    The program has finished with such a directory when it opens the next one. If nobody has
//!    looked up the probe by then, the program gets names alone.
//! 3. It gets attributes again when two files of the directory that it listed last are looked up.
//!    After such a mistake twice as many probes are needed, and the longer all probes are looked
//!    up, the fewer there are.
//! 4. Subdirectories always have attributes: a program that walks a tree opens them next.
//!
//! "Program" means a thread, as the kernel names it in each request.

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use braid_union::NodeId;

/// Threads that are remembered at most.
const THREADS_MAX: usize = 64;
/// What a thread did before is of no use after this time.
const REMEMBERED: Duration = Duration::from_secs(5);
/// Unanswered probes that are needed at most, and listings between two probes at most.
const LISTINGS_MAX: u32 = 64;
/// Lookups in one directory that show that its attributes were wanted. One alone may be of a file
/// that the program knows by its name, as `.gitignore`.
const LOOKUPS_MIN: u32 = 2;

/// What a program uses of a listing.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(super) enum Demand {
    #[default]
    Attributes,
    Names,
    /// The kernel has them already.
    Nothing,
}

/// What was seen of each thread.
#[derive(Debug, Default)]
pub(super) struct AttributeDemand {
    threads: Mutex<HashMap<u32, Thread>>,
}

#[derive(Debug)]
struct Thread {
    used: Instant,
    demand: Demand,
    /// The directory that it opened last.
    directory: NodeId,
    /// The name that was left out of its listing.
    probe: Option<Box<[u8]>>,
    /// With `Demand::Names`: lookups in `directory`.
    looked_up: u32,
    /// Probes in succession that were not looked up.
    unanswered: u32,
    /// How many of them are needed to give names alone.
    needed: u32,
    /// Listings without a probe, before the next one.
    pause: u32,
    /// The length of the last pause.
    last_pause: u32,
}

impl Thread {
    fn new(directory: NodeId) -> Self {
        Self {
            used: Instant::now(),
            demand: Demand::Attributes,
            directory,
            probe: None,
            looked_up: 0,
            unanswered: 0,
            needed: 1,
            pause: 0,
            last_pause: 0,
        }
    }

    fn opens(&mut self, directory: NodeId) -> Demand {
        self.used = Instant::now();
        if self.probe.take().is_some() {
            self.unanswered += 1;
            self.last_pause = 0;
            if self.unanswered >= self.needed {
                self.demand = Demand::Names;
            }
        }
        (self.directory, self.looked_up) = (directory, 0);
        self.demand
    }

    fn looked_up(&mut self, name: &[u8]) {
        if self.probe.as_ref().is_some_and(|probe| **probe == *name) {
            self.probe = None;
            self.unanswered = 0;
            self.last_pause = (2 * self.last_pause).clamp(1, LISTINGS_MAX);
            self.pause = self.last_pause;
        }
        if self.demand == Demand::Names {
            self.looked_up += 1;
            if self.looked_up >= LOOKUPS_MIN {
                self.demand = Demand::Attributes;
                self.unanswered = 0;
                self.needed = (2 * self.needed).min(LISTINGS_MAX);
            }
        }
    }
}

impl AttributeDemand {
    fn threads(&self) -> MutexGuard<'_, HashMap<u32, Thread>> {
        // What a panic left here costs time at most.
        self.threads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread opens a directory. 0: the kernel does not know it by a number here.
    pub(super) fn opens(&self, thread: u32, directory: NodeId) -> Demand {
        if thread == 0 {
            return Demand::Attributes;
        }
        let mut threads = self.threads();
        if let Some(known) = threads.get_mut(&thread)
            && known.used.elapsed() < REMEMBERED
        {
            return known.opens(directory);
        }
        if threads.len() >= THREADS_MAX {
            let oldest = threads.iter().min_by_key(|(_, known)| known.used);
            if let Some(oldest) = oldest.map(|(thread, _)| *thread) {
                threads.remove(&oldest);
            }
        }
        threads.insert(thread, Thread::new(directory));
        Demand::Attributes
    }

    /// A thread lists the directory that it opened last, which has no subdirectory. Whether to
    /// leave out the attributes of `name`.
    pub(super) fn leaves_out(&self, thread: u32, directory: NodeId, name: &[u8]) -> bool {
        let mut threads = self.threads();
        let Some(known) = threads.get_mut(&thread).filter(|known| known.directory == directory)
        else {
            return false;
        };
        if known.pause > 0 {
            known.pause -= 1;
            return false;
        }
        known.probe = Some(name.into());
        true
    }

    /// Somebody has looked up a file that is no directory: the thread that listed it, or one that
    /// it gave the name to.
    pub(super) fn looked_up(&self, directory: NodeId, name: &[u8]) {
        let mut threads = self.threads();
        let listed_it = threads.values_mut().filter(|known| known.directory == directory);
        listed_it.for_each(|known| known.looked_up(name));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ME: u32 = 7;

    /// Lists a directory with ten files. `looks_up`: what it does with each. Returns how many
    /// lookups that takes.
    fn list(demand: &AttributeDemand, number: u64, looks_up: bool) -> usize {
        let directory = NodeId(number);
        let names: Vec<String> = (0..10).map(|file| file.to_string()).collect();
        let wanted = demand.opens(ME, directory);
        let probe = wanted == Demand::Attributes && demand.leaves_out(ME, directory, b"0");
        let without = match wanted {
            Demand::Names => &names[..],
            Demand::Attributes | Demand::Nothing => &names[..usize::from(probe)],
        };
        if looks_up {
            without.iter().for_each(|name| demand.looked_up(directory, name.as_bytes()));
        }
        without.len()
    }

    #[test]
    fn a_walk_for_names_gets_attributes_once() {
        let demand = AttributeDemand::default();
        let without: Vec<usize> = (0..5).map(|number| list(&demand, number, false)).collect();
        assert_eq!(without, [1, 10, 10, 10, 10]);
    }

    #[test]
    fn a_walk_for_attributes_gets_them_with_few_lookups() {
        let demand = AttributeDemand::default();
        let lookups: usize = (0..200).map(|number| list(&demand, number, true)).sum();
        assert!((1..15).contains(&lookups), "{lookups}");
    }

    #[test]
    fn a_program_that_changes_what_it_does_is_followed() {
        let demand = AttributeDemand::default();
        (0..20).for_each(|number| _ = list(&demand, number, false));
        assert_eq!(list(&demand, 20, true), 10, "the mistake");
        assert!(list(&demand, 21, true) <= 1);
        (22..40).for_each(|number| _ = list(&demand, number, false));
        assert_eq!(list(&demand, 40, false), 10);
    }

    #[test]
    fn a_program_that_uses_every_other_listing_is_mistaken_rarely() {
        let demand = AttributeDemand::default();
        let mut lookups = 0;
        for number in 0..200 {
            let looks_up = number % 2 == 0;
            let without = list(&demand, number, looks_up);
            lookups += if looks_up { without } else { 0 };
        }
        // Names alone would take 1,000.
        assert!(lookups < 200, "{lookups}");
    }

    #[test]
    fn one_lookup_of_a_known_name_shows_nothing() {
        let demand = AttributeDemand::default();
        (0..5).for_each(|number| _ = list(&demand, number, false));
        assert_eq!(demand.opens(ME, NodeId(5)), Demand::Names);
        demand.looked_up(NodeId(5), b".gitignore");
        assert_eq!(demand.opens(ME, NodeId(6)), Demand::Names);
    }

    #[test]
    fn threads_that_are_remembered_are_bounded() {
        let demand = AttributeDemand::default();
        (1..=1000).for_each(|thread| _ = demand.opens(thread, NodeId(1)));
        assert_eq!(demand.threads().len(), THREADS_MAX);
        assert!(demand.threads().contains_key(&1000));
        assert_eq!(demand.opens(0, NodeId(1)), Demand::Attributes);
        assert!(!demand.threads().contains_key(&0));
    }
}
