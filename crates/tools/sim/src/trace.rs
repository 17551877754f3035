//! The events of a run, in order: the last ones for a person, and a hash of all to prove that a
//! seed repeats.

use std::{collections::VecDeque, fmt, time::Duration};

/// Events that the report of a failure shows.
const EVENTS_SHOWN: usize = 60;

/// The events of one run.
#[derive(Debug)]
pub struct Trace {
    last: VecDeque<(Duration, String)>,
    hash: u64,
    events: u64,
    all: bool,
}

impl Trace {
    /// An empty trace. With `all`, it keeps every event.
    pub fn new(all: bool) -> Self {
        Self { last: VecDeque::new(), hash: 0xcbf2_9ce4_8422_2325, events: 0, all }
    }

    /// Adds an event.
    pub fn note(&mut self, now: Duration, event: fmt::Arguments<'_>) {
        let text = event.to_string();
        let time = now.as_nanos() as u64;
        for byte in time.to_le_bytes().iter().chain(text.as_bytes()) {
            self.hash = (self.hash ^ u64::from(*byte)).wrapping_mul(0x0100_0000_01b3);
        }
        self.events += 1;
        if self.last.len() == EVENTS_SHOWN && !self.all {
            self.last.pop_front();
        }
        self.last.push_back((now, text));
    }

    /// Two runs with the same hash had the same events.
    pub fn hash(&self) -> u64 {
        self.hash
    }

    /// Number of events.
    pub fn events(&self) -> u64 {
        self.events
    }
}

impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.last.len() as u64;
        if shown < self.events {
            writeln!(f, "  ... {} events before", self.events - shown)?;
        }
        self.last
            .iter()
            .try_for_each(|(at, text)| writeln!(f, "  {:>12.6} s  {text}", at.as_secs_f64()))
    }
}
