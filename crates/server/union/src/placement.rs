//! Placement: on which branch a new file is created.
//!
//! A placement gives an order of branches, not one branch: if the first has no space after all, the
//! next one is used.

use std::{fmt, str::FromStr, sync::atomic::AtomicUsize, sync::atomic::Ordering};

use serde::{Deserialize, Serialize};

use crate::{branch::Branches, label::Label};

/// How branches are selected for new files. In brackets: the word of mergerfs, which is accepted
/// too. As text: `same-path,on=LABEL,ORDER`.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Placement {
    /// The order.
    pub order: Order,
    /// Only branches that have the directory, as long as one of them has space (`ep…`, `msp…`).
    pub same_path: bool,
    /// Only branches with this label, whether they have space or not.
    pub label: Option<Label>,
}

/// The order of the branches.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Order {
    /// The one with the most free space (`mfs`).
    #[default]
    MostFree,
    /// The one with the least free space that is above `min_free` (`lfs`).
    LeastFree,
    /// One after the other (the paper's first method).
    RoundRobin,
    /// All files of a user on one branch (the paper's second method).
    User,
    /// Any (`rand`).
    Random,
    /// Any, the more likely the more space is free (`pfrd`).
    RandomByFree,
    /// The first one in the order of the pool (`ff`).
    First,
}

const WORDS: &[(&str, &str, Order)] = &[
    ("most-free", "mfs", Order::MostFree),
    ("least-free", "lfs", Order::LeastFree),
    ("round-robin", "round-robin", Order::RoundRobin),
    ("user", "user", Order::User),
    ("random", "rand", Order::Random),
    ("random-by-free", "pfrd", Order::RandomByFree),
    ("first", "ff", Order::First),
];

impl fmt::Display for Placement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.same_path {
            f.write_str("same-path,")?;
        }
        if let Some(label) = &self.label {
            write!(f, "on={label},")?;
        }
        let word = WORDS.iter().find(|(_, _, order)| *order == self.order);
        f.write_str(word.map_or("", |(word, ..)| word))
    }
}

impl FromStr for Placement {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let mut read = Self::default();
        let mut words = text.split(',').peekable();
        while let Some(word) = words.next() {
            let is_last = words.peek().is_none();
            match word.strip_prefix("on=") {
                Some(label) if read.label.is_none() => read.label = Some(label.parse()?),
                None if word == "same-path" && !is_last && !read.same_path => {
                    read.same_path = true;
                }
                None if is_last => {
                    let (order, same_path) = order_of(word).ok_or_else(|| unknown(text))?;
                    read.order = order;
                    read.same_path |= same_path;
                }
                _ => return Err(unknown(text)),
            }
        }
        Ok(read)
    }
}

/// The order that a word stands for, and whether it is a form with the same path.
fn order_of(word: &str) -> Option<(Order, bool)> {
    let order = |word: &str| {
        let known = WORDS.iter().find(|(ours, theirs, _)| [*ours, *theirs].contains(&word));
        known.map(|(_, _, order)| *order)
    };
    let mut rest = ["ep", "msp"].iter().filter_map(|prefix| word.strip_prefix(prefix));
    let whole = order(word).map(|order| (order, false));
    whole.or_else(|| rest.find_map(order).map(|order| (order, true)))
}

fn unknown(text: &str) -> String {
    let words: Vec<&str> = WORDS.iter().map(|(word, ..)| *word).collect();
    format!(
        "there is no placement \"{text}\"; try: {}, with same-path, or on=LABEL, before it",
        words.join(", ")
    )
}

impl TryFrom<String> for Placement {
    type Error = String;
    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Placement> for String {
    fn from(placement: Placement) -> Self {
        placement.to_string()
    }
}

/// The state of placements that remember something.
#[derive(Debug, Default)]
pub(crate) struct Placer {
    next: AtomicUsize,
}

impl Placer {
    /// The branches to try for a new file of the user, best first. `has_directory`: whether the
    /// branch has the directory of the new file.
    ///
    /// Branches below their `min_free` are left out, unless there is no other: a nearly full union
    /// still takes small files, until the disks themselves are full. Branches without the label of
    /// the placement are always left out.
    pub(crate) fn order(
        &self,
        placement: &Placement,
        branches: &Branches,
        uid: u32,
        has_directory: impl Fn(usize) -> bool,
    ) -> Vec<usize> {
        let has_label =
            |at: usize| placement.label.as_ref().is_none_or(|label| branches[at].has_label(label));
        let all = || (0..branches.len()).filter(|at| branches[*at].may_grow() && has_label(*at));
        let mut chosen: Vec<usize> = all().filter(|at| branches[*at].takes_new_files()).collect();
        if chosen.is_empty() {
            chosen = all().collect();
        }
        self.arrange(placement.order, branches, uid, &mut chosen);
        if placement.same_path {
            // Stable: the order within each half stays.
            chosen.sort_by_key(|at| !has_directory(*at));
        }
        chosen
    }

    fn arrange(&self, order: Order, branches: &Branches, uid: u32, chosen: &mut [usize]) {
        let count = chosen.len().max(1);
        let free = |at: &usize| branches[*at].free();
        match order {
            Order::First => {}
            Order::MostFree => chosen.sort_by_key(|at| std::cmp::Reverse(free(at))),
            Order::LeastFree => chosen.sort_by_key(free),
            Order::RoundRobin => {
                chosen.rotate_left(self.next.fetch_add(1, Ordering::Relaxed) % count);
            }
            Order::User => chosen.rotate_left(uid as usize % count),
            Order::Random => chosen.rotate_left(random() as usize % count),
            Order::RandomByFree => {
                let sum: u128 = chosen.iter().map(|at| u128::from(free(at))).sum();
                let mut at = u128::from(random()) % sum.max(1);
                let found = chosen.iter().position(|branch| {
                    let free = u128::from(free(branch));
                    let hit = at < free;
                    at = at.saturating_sub(free);
                    hit
                });
                chosen.rotate_left(found.unwrap_or(0));
            }
        }
    }
}

/// A random number; without one of the system, the time.
fn random() -> u64 {
    getrandom::u64().unwrap_or_else(|_| {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        now.map_or(0, |now| u64::from(now.subsec_nanos()))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::branch::Branch;

    #[test]
    fn words_of_both_programs_are_read_and_ours_are_printed() {
        for (text, shown) in [
            ("mfs", "most-free"),
            ("most-free", "most-free"),
            ("epmfs", "same-path,most-free"),
            ("msplfs", "same-path,least-free"),
            ("same-path,round-robin", "same-path,round-robin"),
            ("pfrd", "random-by-free"),
            ("on=ssd,ff", "on=ssd,first"),
            ("on=ssd", "on=ssd,most-free"),
            ("same-path,on=raid-1,most-free", "same-path,on=raid-1,most-free"),
            ("on=a,same-path,rand", "same-path,on=a,random"),
            ("on=a,epmfs", "same-path,on=a,most-free"),
        ] {
            assert_eq!(text.parse::<Placement>().unwrap().to_string(), shown);
            assert_eq!(shown.parse::<Placement>().unwrap().to_string(), shown);
        }
        let why = "fastest".parse::<Placement>().unwrap_err();
        assert!(why.contains("\"fastest\"") && why.contains("most-free"), "{why}");
        for text in ["", "on=", "on=a b", "on=a,on=b", "same-path", "first,on=a", "first,", "on="] {
            assert!(text.parse::<Placement>().is_err(), "{text}");
        }
    }

    fn none() -> Placement {
        Placement::default()
    }

    fn list<'p>(branches: impl Iterator<Item = (&'p std::path::Path, u64)>) -> Branches {
        let list = Branches::default();
        for (number, (path, min_free)) in (0..).zip(branches) {
            let mode = Default::default();
            let labels = Vec::new();
            let config = crate::BranchConfig { number, path: path.into(), mode, min_free, labels };
            list.push(Branch::open(path, &config).unwrap()).unwrap();
        }
        list
    }

    #[test]
    fn round_robin_takes_each_branch_and_a_user_stays_on_one() {
        let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let branches = list(dirs.iter().map(|dir| (dir.path(), 0)));
        let placer = Placer::default();
        let first =
            |order, uid| placer.order(&Placement { order, ..none() }, &branches, uid, |_| true)[0];
        let taken: Vec<usize> = (0..6).map(|_| first(Order::RoundRobin, 0)).collect();
        assert_eq!(taken, [0, 1, 2, 0, 1, 2]);
        assert_eq!((0..9).map(|_| first(Order::User, 1001)).collect::<Vec<_>>(), [2; 9]);
        assert_eq!(first(Order::First, 7), 0);
        let same = Placement { order: Order::First, same_path: true, label: None };
        assert_eq!(placer.order(&same, &branches, 0, |at| at == 1), [1, 0, 2]);
    }

    #[test]
    fn only_branches_with_the_label_are_taken_also_when_they_are_full() {
        let dirs: Vec<_> = (0..3).map(|_| tempfile::tempdir().unwrap()).collect();
        let branches = list(dirs.iter().map(|dir| dir.path()).zip([0, u64::MAX, 0]));
        let label: Label = "safe".parse().unwrap();
        branches[1].set_labels(vec!["new".parse().unwrap(), label.clone()]);
        let order = |label| {
            let placement = Placement { order: Order::First, same_path: false, label };
            Placer::default().order(&placement, &branches, 0, |_| true)
        };
        assert_eq!(order(None), [0, 2]);
        assert_eq!(order(Some(label)), [1]);
        assert!(order(Some("other".parse().unwrap())).is_empty());
    }

    #[test]
    fn full_branches_are_left_out_unless_all_are_full() {
        let dirs: Vec<_> = (0..2).map(|_| tempfile::tempdir().unwrap()).collect();
        let placement = Placement { order: Order::First, ..none() };
        let order = |min_free: [u64; 2]| {
            let branches = list(dirs.iter().map(|dir| dir.path()).zip(min_free));
            Placer::default().order(&placement, &branches, 0, |_| true)
        };
        assert_eq!(order([u64::MAX, 0]), [1]);
        assert_eq!(order([u64::MAX, u64::MAX]), [0, 1]);
    }
}
