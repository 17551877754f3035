//! Breadth-first search over hashed states: the first thing found wrong is reached in the fewest steps.

use std::{
    collections::HashSet,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher},
};

use crate::{
    event::Event,
    scenario::{Scenario, Variant},
    world::World,
};

/// What came of it.
#[derive(Debug)]
pub struct Outcome {
    /// Different states that were looked at.
    pub states: usize,
    /// Steps to the furthest of them.
    pub depth: usize,
    /// States in which nothing more can happen.
    pub ends: usize,
    /// Whether every state was looked at.
    pub complete: bool,
    /// What was found wrong, and the steps to it.
    pub wrong: Option<(String, Vec<String>)>,
}

/// The way to a state: the one before it, and the event.
#[derive(Clone, Copy)]
struct Step {
    before: u32,
    event: Event,
}

/// Looks at every state of a world, or at this many.
pub fn explore(scenario: &Scenario, variant: Variant, states_max: usize) -> Outcome {
    let start = World::new(scenario);
    let mut seen = HashSet::from([fingerprint(&start)]);
    let mut steps: Vec<Step> = Vec::new();
    let mut front = vec![(u32::MAX, start)];
    let mut outcome = Outcome { states: 1, depth: 0, ends: 0, complete: true, wrong: None };
    while !front.is_empty() && outcome.complete {
        outcome.depth += 1;
        let mut next = Vec::new();
        for (at, world) in front {
            let events = world.events();
            if events.is_empty() {
                outcome.ends += 1;
                if let Some(why) = world.clone().comes_to_an_end(variant) {
                    return Outcome { wrong: Some((why, told(scenario, variant, &steps, at))), ..outcome };
                }
            }
            for event in events {
                let mut after = world.clone();
                event.happen(&mut after, variant);
                after.canonical();
                if !seen.insert(fingerprint(&after)) {
                    continue;
                }
                outcome.states += 1;
                steps.push(Step { before: at, event });
                let here = (steps.len() - 1) as u32;
                if let Some(why) = after.check() {
                    return Outcome { wrong: Some((why, told(scenario, variant, &steps, here))), ..outcome };
                }
                next.push((here, after));
            }
            if outcome.states >= states_max {
                outcome.complete = false;
                break;
            }
        }
        front = next;
    }
    outcome
}

/// 64 bits of a state: of some millions, two different ones that are taken for one are not to be expected.
fn fingerprint(world: &World) -> u64 {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(world)
}

/// The steps to a state, in words.
fn told(scenario: &Scenario, variant: Variant, steps: &[Step], to: u32) -> Vec<String> {
    let mut events = Vec::new();
    let mut at = to;
    while at != u32::MAX {
        let step = steps[at as usize];
        events.push(step.event);
        at = step.before;
    }
    events.reverse();
    let mut world = World::new(scenario);
    let mut words = Vec::new();
    for event in events {
        words.push(match event {
            Event::Arrive(at) | Event::Lose(at) | Event::Repeat(at) => format!("{event:?} {:?}", world.network[at]),
            _ => format!("{event:?}"),
        });
        event.happen(&mut world, variant);
        world.canonical();
    }
    words
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
    fn catches(variant: Variant, name: &str, says: &str) {
        let (why, steps) = explore(scenario(name), variant, STATES).wrong.expect("the broken protocol is caught");
        assert!(why.contains(says), "{why}: {steps:#?}");
    }

    #[test]
    fn without_numbers_a_late_grant_is_believed() {
        catches(Variant::NoNumbers, "names: grants and recalls cross", "the directory has");
    }

    #[test]
    fn a_lease_that_is_granted_while_a_change_is_being_done_is_stale() {
        catches(Variant::GrantWhileDone, "names: grants and recalls cross", "the directory has");
    }

    #[test]
    fn with_one_clock_a_client_that_is_cut_off_answers_from_what_it_keeps() {
        catches(Variant::OneClock, "names: a holder is cut off, the clocks go on", "the directory has");
    }

    #[test]
    fn without_grace_a_change_after_a_restart_is_not_seen() {
        catches(Variant::NoGrace, "names: the server restarts", "the directory has");
    }

    #[test]
    fn an_answer_that_is_kept_without_the_lease_having_been_held_all_the_time_is_stale() {
        catches(Variant::NoContinuity, "names: grants and recalls cross", "the directory has");
    }

    #[test]
    fn the_protocol_holds_where_messages_cross() {
        let outcome = explore(scenario("names: grants and recalls cross"), Variant::Sound, 50_000);
        assert!(outcome.wrong.is_none(), "{outcome:#?}");
    }
}
