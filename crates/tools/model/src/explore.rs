//! Breadth-first search over hashed states: the first error found is reached in the fewest steps.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash},
};

use crate::{
    event::Event,
    scenario::{Scenario, Variant},
    world::World,
};

/// How often the search tries to reach an end from a state that it does not expand, and in how many
/// steps.
const TRIES: usize = 4;
const STEPS: usize = 600;

/// A complete state, as the search sees it.
pub(crate) trait Model: Clone + Hash {
    /// One step.
    type Event: Copy;
    /// How it is broken.
    type Variant: Copy;
    /// Whether an end must stay reachable from every state without further failures.
    const ENDS: bool;

    fn events(&self) -> Vec<Self::Event>;
    fn happen(&mut self, event: Self::Event, variant: Self::Variant);
    /// What is wrong with this state.
    fn check(&self) -> Option<String>;
    /// What is wrong with a state in which nothing more happens by itself.
    fn at_rest(&self, variant: Self::Variant) -> Option<String>;
    /// Whether the search does not expand this state.
    fn is_cut(&self) -> bool {
        false
    }
    /// Whether the event is a failure: no progress may depend on it.
    fn is_failure(event: Self::Event) -> bool;
    fn describe(&self, event: Self::Event) -> String;
}

impl Model for World {
    type Event = Event;
    type Variant = Variant;
    const ENDS: bool = false;

    fn events(&self) -> Vec<Event> {
        Self::events(self)
    }

    fn happen(&mut self, event: Event, variant: Variant) {
        event.happen(self, variant);
        self.canonical();
    }

    fn check(&self) -> Option<String> {
        Self::check(self)
    }

    fn at_rest(&self, variant: Variant) -> Option<String> {
        self.clone().check_termination(variant)
    }

    fn is_failure(_: Event) -> bool {
        false
    }

    fn describe(&self, event: Event) -> String {
        match event {
            Event::Arrive(at) | Event::Lose(at) | Event::Repeat(at) => {
                format!("{event:?} {:?}", self.network[at])
            }
            _ => format!("{event:?}"),
        }
    }
}

/// The result of a search.
#[derive(Debug)]
pub struct Outcome {
    /// Distinct states that were visited.
    pub states: usize,
    /// Steps to the furthest of them.
    pub depth: usize,
    /// States in which nothing more can happen.
    pub ends: usize,
    /// Whether every state was visited.
    pub complete: bool,
    /// What was found wrong, and the steps to it.
    pub wrong: Option<(String, Vec<String>)>,
}

/// Visits every state of a world, or at most this many.
pub fn explore(scenario: &Scenario, variant: Variant, states_max: usize) -> Outcome {
    search(&World::new(scenario), variant, states_max)
}

/// What is known of the visited states.
struct Search<'m, M: Model> {
    start: &'m M,
    variant: M::Variant,
    numbers: HashMap<u64, u32>,
    /// How a state was reached: the previous state and the event. The first has none.
    steps: Vec<Option<(u32, M::Event)>>,
    /// Transitions that are not failures.
    edges: Vec<(u32, u32)>,
    /// States that are an end, or that were not expanded.
    open: Vec<u32>,
    outcome: Outcome,
}

pub(crate) fn search<M: Model>(start: &M, variant: M::Variant, states_max: usize) -> Outcome {
    let outcome = Outcome { states: 1, depth: 0, ends: 0, complete: true, wrong: None };
    let numbers = HashMap::from([(fingerprint(start), 0)]);
    let mut search = Search {
        start,
        variant,
        numbers,
        steps: vec![None],
        edges: Vec::new(),
        open: Vec::new(),
        outcome,
    };
    let mut front = vec![(0, start.clone())];
    while !front.is_empty() && search.outcome.complete && search.outcome.wrong.is_none() {
        search.outcome.depth += 1;
        front = search.further(front, states_max);
    }
    if M::ENDS && search.outcome.wrong.is_none() {
        search.check_ends_reachable();
    }
    search.outcome
}

impl<M: Model> Search<'_, M> {
    /// All states one step further.
    fn further(&mut self, front: Vec<(u32, M)>, states_max: usize) -> Vec<(u32, M)> {
        let mut next = Vec::new();
        for (at, world) in front {
            if world.is_cut() {
                self.open.push(at);
                if self.is_right(find_livelock(&world, self.variant), at).is_none() {
                    return Vec::new();
                }
                continue;
            }
            if self.outcome.states >= states_max {
                self.outcome.complete = false;
                self.open.push(at);
                continue;
            }
            if self.follow(at, &world, &mut next).is_none() {
                return Vec::new();
            }
        }
        if !self.outcome.complete {
            self.open.extend(next.iter().map(|(at, _)| *at));
        }
        next
    }

    /// Expands one state; `None` if something is wrong.
    fn follow(&mut self, at: u32, world: &M, next: &mut Vec<(u32, M)>) -> Option<()> {
        let events = world.events();
        if events.iter().all(|event| M::is_failure(*event)) {
            self.outcome.ends += 1;
            self.open.push(at);
            self.is_right(world.at_rest(self.variant), at)?;
        }
        for event in events {
            let mut after = world.clone();
            after.happen(event, self.variant);
            let new = self.steps.len() as u32;
            let here = *self.numbers.entry(fingerprint(&after)).or_insert(new);
            if M::ENDS && !M::is_failure(event) && here != at {
                self.edges.push((at, here));
            }
            if here != new {
                continue;
            }
            self.outcome.states += 1;
            self.steps.push(Some((at, event)));
            self.is_right(after.check(), here)?;
            next.push((here, after));
        }
        Some(())
    }

    fn is_right(&mut self, wrong: Option<String>, at: u32) -> Option<()> {
        let Some(why) = wrong else { return Some(()) };
        self.outcome.wrong = Some((why, self.steps_to(at)));
        None
    }

    /// An end can be reached from every state, whatever failed before.
    fn check_ends_reachable(&mut self) {
        let mut reaches = vec![false; self.steps.len()];
        let mut before: Vec<(u32, u32)> =
            self.edges.iter().map(|(from, to)| (*to, *from)).collect();
        before.sort_unstable();
        let mut todo = std::mem::take(&mut self.open);
        while let Some(at) = todo.pop() {
            if !std::mem::replace(&mut reaches[at as usize], true) {
                let first = before.partition_point(|(to, _)| *to < at);
                todo.extend(
                    before[first..].iter().take_while(|(to, _)| *to == at).map(|(_, from)| *from),
                );
            }
        }
        if let Some(stuck) = reaches.iter().position(|reaches| !reaches) {
            self.is_right(Some("no end can be reached from here".into()), stuck as u32);
        }
    }

    /// The steps to a state, in words.
    fn steps_to(&self, to: u32) -> Vec<String> {
        let mut events = Vec::new();
        let mut at = to;
        while let Some((before, event)) = self.steps[at as usize] {
            events.push(event);
            at = before;
        }
        events.reverse();
        let mut world = self.start.clone();
        let mut words = Vec::new();
        for event in events {
            words.push(world.describe(event));
            world.happen(event, self.variant);
        }
        words
    }
}

/// An error if several random walks of this many steps from a state reach no end.
fn find_livelock<M: Model>(world: &M, variant: M::Variant) -> Option<String> {
    let tries = (1..=TRIES).map(|seed| random_walk(world.clone(), variant, seed));
    let mut found = None;
    for tried in tries {
        match tried {
            Ok(()) => return None,
            Err(why) => found = Some(why),
        }
    }
    found
}

/// A random walk.
fn random_walk<M: Model>(mut world: M, variant: M::Variant, seed: usize) -> Result<(), String> {
    for step in 0..STEPS {
        let events: Vec<_> =
            world.events().into_iter().filter(|event| !M::is_failure(*event)).collect();
        if events.is_empty() {
            return world.at_rest(variant).map_or(Ok(()), Err);
        }
        let picked = (step * 7919 + seed * 104_729) / 3 % events.len();
        world.happen(events[picked], variant);
        if let Some(wrong) = world.check() {
            return Err(wrong);
        }
    }
    Err("calls never end".into())
}

/// 64 bits of a state: among some millions, a collision is not to be expected.
fn fingerprint(world: &impl Hash) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(world)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scenario::SCENARIOS;

    /// Enough to reach what the broken variants do wrong.
    const STATES: usize = 400_000;

    fn scenario(name: &str) -> &'static Scenario {
        SCENARIOS.iter().find(|scenario| scenario.name == name).expect("a scenario")
    }

    #[track_caller]
    fn catches(variant: Variant, name: &str, expected: &str) {
        let (why, steps) =
            explore(scenario(name), variant, STATES).wrong.expect("the broken protocol is caught");
        assert!(why.contains(expected), "{why}: {steps:#?}");
    }

    #[test]
    fn without_numbers_a_late_grant_is_trusted() {
        catches(Variant::NoNumbers, "names: grants and recalls cross", "the server has");
    }

    #[test]
    fn a_lease_that_is_granted_while_a_change_is_being_done_is_stale() {
        catches(Variant::GrantWhileDone, "names: grants and recalls cross", "the server has");
    }

    #[test]
    fn with_one_clock_a_partitioned_client_serves_stale_data() {
        catches(
            Variant::OneClock,
            "names: a holder is partitioned, the clocks go on",
            "the server has",
        );
    }

    #[test]
    fn without_grace_a_change_after_a_restart_is_not_seen() {
        catches(Variant::NoGrace, "names: the server restarts", "the server has");
    }

    #[test]
    fn an_answer_cached_without_a_continuous_lease_is_stale() {
        catches(Variant::NoContinuity, "names: grants and recalls cross", "the server has");
    }

    #[test]
    fn the_protocol_holds_where_messages_cross() {
        let outcome = explore(scenario("names: grants and recalls cross"), Variant::Sound, 50_000);
        assert!(outcome.wrong.is_none(), "{outcome:#?}");
    }
}
