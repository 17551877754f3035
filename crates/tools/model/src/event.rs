//! What may happen next.

use braid_client::lease::LeaseOf;
use braid_wire::message::lease::LeaseMode;

use crate::{
    scenario::Variant,
    world::{CLIENTS, FILE, Message, TICK, World},
};

/// One step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The message at this index arrives.
    Arrive(usize),
    /// It is lost.
    Lose(usize),
    /// It arrives, and stays in the network to arrive again.
    Repeat(usize),
    /// A client sends its next call.
    Call(usize),
    /// A client sends a lost call again.
    CallAgain(usize, usize),
    /// A client drops caches after losing its leases.
    Drop(usize),
    /// A client carries out a recall.
    CarryOut(usize, usize),
    /// A client sends lost returns again.
    ReturnAgain(usize),
    /// A client returns a lease.
    GiveBack(usize, LeaseOf),
    /// A client reads the file.
    Read(usize),
    /// A client writes the file.
    Write(usize),
    /// A client dies.
    Die(usize),
    /// A change whose claim holds is carried out.
    Apply(u32),
    /// The pending fences hold.
    Fence,
    /// The server dies and starts again.
    Restart,
    /// Every clock ticks.
    Tick,
    /// Only the server's clock ticks.
    Drift,
}

impl World {
    /// Everything that may happen next.
    pub fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        for at in 0..self.network.len() {
            events.push(Event::Arrive(at));
            if self.budget.losses > 0 {
                events.push(Event::Lose(at));
            }
            if self.budget.repeats > 0 {
                events.push(Event::Repeat(at));
            }
        }
        (0..CLIENTS)
            .filter(|who| !self.clients[*who].dead)
            .for_each(|who| self.events_of(who, &mut events));
        events.extend(
            self.server
                .pending
                .iter()
                .filter(|(_, p)| p.doing)
                .map(|(number, _)| Event::Apply(*number)),
        );
        if self.server.has_fencing() {
            events.push(Event::Fence);
        }
        if self.budget.restarts > 0 {
            events.push(Event::Restart);
        }
        // A client drops what it must drop within a tick: the margin between the two clocks.
        if !self.clients.iter().any(|client| client.is_busy()) {
            if self.budget.ticks > 0 {
                events.push(Event::Tick);
            }
            if self.budget.drifts > 0 {
                events.push(Event::Drift);
            }
        }
        events
    }

    fn events_of(&self, who: usize, events: &mut Vec<Event>) {
        let client = &self.clients[who];
        let in_flight = |number: u32| {
            self.server.pending.contains_key(&number)
                || self.network.iter().any(|message| match message {
                    Message::Call { number: sent, .. } | Message::Answer { number: sent, .. } => {
                        *sent == number
                    }
                    _ => false,
                })
        };
        if !client.wants.is_empty() && client.calling.len() < client.at_once {
            events.push(Event::Call(who));
        }
        let lost =
            client.calling.iter().enumerate().filter(|(_, calling)| !in_flight(calling.number));
        events.extend(lost.map(|(at, _)| Event::CallAgain(who, at)));
        if client.must_drop() {
            events.push(Event::Drop(who));
        }
        events.extend((0..client.recalled.len()).map(|at| Event::CarryOut(who, at)));
        if !client.unreturned.is_empty() {
            events.push(Event::ReturnAgain(who));
        }
        if self.budget.returns > 0 {
            let leases = [self.of, LeaseOf::Data(FILE)];
            events.extend(
                leases
                    .into_iter()
                    .filter(|of| client.ticket(*of).is_some())
                    .map(|of| Event::GiveBack(who, of)),
            );
        }
        if client.uses > 0 {
            let mode = client.data_mode();
            if mode != LeaseMode::None && client.page.is_none() {
                events.push(Event::Read(who));
            }
            if matches!(mode, LeaseMode::Write | LeaseMode::Shared) {
                events.push(Event::Write(who));
            }
        }
        if self.budget.deaths > 0 {
            events.push(Event::Die(who));
        }
    }

    /// A message arrives.
    pub fn deliver(&mut self, message: Message, variant: Variant) {
        match message {
            Message::Call { .. } | Message::Await { .. } | Message::Return { .. } => {
                self.server_receives(message, variant)
            }
            _ => self.client_receives(message, variant),
        }
    }
}

impl Event {
    /// Carries out the event. A client without anything else to do first requests recalls
    /// immediately; how long the request travels is another event.
    pub fn happen(self, world: &mut World, variant: Variant) {
        self.happen_alone(world, variant);
        (0..CLIENTS).for_each(|who| world.await_recalls(who));
    }

    fn happen_alone(self, world: &mut World, variant: Variant) {
        match self {
            Self::Arrive(at) => {
                let message = world.network.remove(at);
                world.deliver(message, variant);
            }
            Self::Lose(at) => {
                world.budget.losses -= 1;
                let message = world.network.remove(at);
                // Its connection is closed: the client sends the request again.
                match message {
                    Message::Await { client, .. } | Message::Recalls { client, .. } => {
                        world.clients[client].awaits = false;
                    }
                    Message::Return { session, lease } => {
                        let owner = world
                            .clients
                            .iter_mut()
                            .find(|client| client.session == session && !client.dead);
                        owner.into_iter().for_each(|client| client.unreturned.push(lease.clone()));
                    }
                    _ => {}
                }
            }
            Self::Repeat(at) => {
                world.budget.repeats -= 1;
                let message = world.network[at].clone();
                world.deliver(message, variant);
            }
            Self::Call(who) => world.call(who),
            Self::CallAgain(who, at) => world.call_again(who, at),
            Self::Drop(who) => world.drop_all(who),
            Self::CarryOut(who, at) => world.carry_out(who, at),
            Self::ReturnAgain(who) => world.return_again(who),
            Self::GiveBack(who, of) => {
                world.budget.returns -= 1;
                world.give_back(who, of);
            }
            Self::Read(who) => world.use_data(who, false),
            Self::Write(who) => world.use_data(who, true),
            Self::Die(who) => {
                world.budget.deaths -= 1;
                world.die(who);
            }
            Self::Apply(number) => world.apply(number, variant),
            Self::Fence => world.fence_holds(variant),
            Self::Restart => {
                world.budget.restarts -= 1;
                world.restart(variant);
                // Connections to the previous epoch are closed, and messages on them are lost.
                world.network.retain(|message| !matches!(message, Message::Await { .. }));
                world.clients.iter_mut().for_each(|client| client.awaits = false);
            }
            Self::Tick => {
                world.budget.ticks -= 1;
                world.clients.iter_mut().for_each(|client| client.clock += TICK);
                world.server_ticks(TICK, variant);
            }
            Self::Drift => {
                world.budget.drifts -= 1;
                world.server_ticks(TICK, variant);
            }
        }
    }
}
