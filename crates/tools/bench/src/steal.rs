//! Samples on a virtual machine: while its host gives the processors to others, a sample measures
//! the host.
//!
//! Linux counts that time as *steal* (`/proc/stat`). A sample with more of it than allowed is
//! repeated, whatever its value is. The try with the least counts, and the head of the report has
//! the number of tries.

use std::{cell::RefCell, fs, thread, time::Duration};

use anyhow::Result;

/// The part of all processors' time that may be stolen during a sample.
const STOLEN_MAX: f64 = 0.05;
/// Maximum number of tries of a sample.
const TRIES: u32 = 5;
/// Other guests are busy for seconds, not milliseconds.
const PAUSE: Duration = Duration::from_secs(3);

/// The time stolen from the samples of a run.
#[derive(Debug)]
pub struct Steal {
    tries: u32,
    seen: RefCell<StealSeen>,
}

#[derive(Clone, Copy, Default, Debug, PartialEq)]
struct StealSeen {
    samples: u32,
    again: u32,
    /// The most that was stolen from one of the counted samples.
    most: f64,
}

impl Steal {
    /// For a run; a quick run takes each sample once.
    pub fn new(quick: bool) -> Self {
        Self { tries: if quick { 1 } else { TRIES }, seen: RefCell::default() }
    }

    /// The result of `work` in the try with the least stolen time.
    pub fn undisturbed<T>(&self, work: &mut dyn FnMut() -> Result<T>) -> Result<T> {
        self.least(Times::now, || thread::sleep(PAUSE), work)
    }

    /// Runs the variants in turn, A B C A B C: the neighbours of each sample saw the same machine.
    pub fn in_turn<T>(
        &self,
        times: u32,
        variants: &mut [&mut dyn FnMut() -> Result<T>],
    ) -> Result<Vec<Vec<T>>> {
        let mut samples: Vec<Vec<T>> = variants.iter().map(|_| Vec::new()).collect();
        for _ in 0..times {
            for (variant, taken) in variants.iter_mut().zip(&mut samples) {
                taken.push(self.undisturbed(variant)?);
            }
        }
        Ok(samples)
    }

    /// The same with any clock.
    fn least<T>(
        &self,
        now: impl Fn() -> Times,
        pause: impl Fn(),
        work: &mut dyn FnMut() -> Result<T>,
    ) -> Result<T> {
        let mut once = || {
            let start = now();
            let made = work()?;
            Ok::<_, anyhow::Error>((now().stolen_since(start), made))
        };
        let (mut stolen, mut made) = once()?;
        let mut again = 0;
        while stolen > STOLEN_MAX && again + 1 < self.tries {
            pause();
            again += 1;
            let (now, other) = once()?;
            if now < stolen {
                (stolen, made) = (now, other);
            }
        }
        let mut seen = self.seen.borrow_mut();
        *seen = StealSeen {
            samples: seen.samples + 1,
            again: seen.again + again,
            most: seen.most.max(stolen),
        };
        Ok(made)
    }

    /// A text on the time stolen since the last call; `None` without a sample.
    pub fn report(&self) -> Option<String> {
        let StealSeen { samples, again, most } = self.seen.take();
        let most = most * 100.0;
        let repeated =
            if again == 0 { String::new() } else { format!(", {again} disturbed tries left out") };
        (samples > 0).then(|| {
            format!(
                "other guests took at most {most:.0} % of the processors from a sample{repeated}"
            )
        })
    }
}

/// Times of all processors since the start, in ticks.
#[derive(Clone, Copy, Default, Debug)]
struct Times {
    all: u64,
    stolen: u64,
}

impl Times {
    /// Zero where the system has no such times.
    fn now() -> Self {
        of(&fs::read_to_string("/proc/stat").unwrap_or_default()).unwrap_or_default()
    }

    fn stolen_since(self, start: Self) -> f64 {
        (self.stolen - start.stolen) as f64 / (self.all - start.all).max(1) as f64
    }
}

/// `cpu user nice system idle iowait irq softirq steal ...`
fn of(stat: &str) -> Option<Times> {
    let fields: Vec<u64> = stat
        .lines()
        .next()?
        .split_whitespace()
        .skip(1)
        .map_while(|field| field.parse().ok())
        .collect();
    Some(Times { all: fields.iter().take(8).sum(), stolen: *fields.get(7)? })
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Samples 1, 2, 3, …, from which these hundredths are stolen: the one that counts, and the
    /// text.
    fn counted(quick: bool, stolen: &[u64]) -> (usize, String) {
        let steal = Steal::new(quick);
        let (taken, clock) = (Cell::new(0), Cell::new(Times::default()));
        let mut work = || {
            let Times { all, stolen: before } = clock.get();
            clock.set(Times { all: all + 100, stolen: before + stolen[taken.get()] });
            taken.set(taken.get() + 1);
            Ok(taken.get())
        };
        let made = steal.least(|| clock.get(), || (), &mut work).unwrap();
        (made, steal.report().unwrap())
    }

    #[test]
    fn a_sample_that_little_was_stolen_from_counts_at_once() {
        let said = "other guests took at most 5 % of the processors from a sample";
        assert_eq!(counted(false, &[5]), (1, said.to_owned()));
    }

    #[test]
    fn a_disturbed_sample_is_taken_again_and_that_is_said() {
        let said = "other guests took at most 1 % of the processors from a sample, 2 disturbed \
            tries left out";
        assert_eq!(counted(false, &[60, 6, 1]), (3, said.to_owned()));
    }

    #[test]
    fn where_all_are_disturbed_the_least_disturbed_counts() {
        let said = "other guests took at most 20 % of the processors from a sample, 4 disturbed \
            tries left out";
        assert_eq!(counted(false, &[60, 20, 30, 40, 50]), (2, said.to_owned()));
    }

    #[test]
    fn what_is_only_tried_is_taken_once() {
        assert_eq!(counted(true, &[60]).0, 1);
    }

    #[test]
    fn nothing_is_said_of_no_sample_and_each_once() {
        let steal = Steal::new(false);
        assert_eq!(steal.report(), None);
        steal.undisturbed(&mut || Ok(())).unwrap();
        assert!(steal.report().is_some());
        assert_eq!(steal.report(), None);
    }

    #[test]
    fn the_eighth_time_is_the_stolen_one() {
        let times = of("cpu  1 2 3 4 5 6 7 8 9 10\n").unwrap();
        assert_eq!((times.all, times.stolen), (36, 8));
        assert!(of("").is_none());
    }
}
