//! What may happen next.

use super::{
    client::Page,
    scenario::Variant,
    world::{CLIENTS, Message, World},
};
use crate::explore::Model;

/// One step of the world.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// The message at this index arrives.
    Arrive(usize),
    /// A client's program continues.
    Program(usize, usize),
    /// A client's thread that asked for a page has the answer.
    Asker(usize, usize),
    /// A client's thread that carries out a recall continues.
    Recall(usize, usize),
    /// A client's thread that handles a lease loss continues.
    Loss(usize),
    /// A client's kernel writes back a changed page on its own.
    Flush(usize, usize),
    /// A small write of a client's program is buffered.
    Gather(usize, usize),
    /// A client asks before a small write whether it is alone.
    Wish(usize, usize),
    /// A client's buffered bytes are old enough to be sent.
    Age(usize),
    /// The client without leases continues.
    Plain,
    /// The next write buffer cannot be written.
    Fail,
    /// A client dies.
    Die(usize),
    /// A client loses its leases.
    Lose(usize),
    /// The server no longer counts the leases of a dead client.
    Free(usize),
}

impl World {
    fn events_of(&self, who: usize, events: &mut Vec<Event>) {
        let client = &self.clients[who];
        if client.dead {
            return events.extend((!client.freed).then_some(Event::Free(who)));
        }
        let may_continue = |at: &usize| self.may_go_on(who, *at);
        events.extend(
            (0..client.programs.len()).filter(may_continue).map(|at| Event::Program(who, at)),
        );
        let may_buffer = |at: &usize| self.may_gather(who, *at);
        events
            .extend((0..client.programs.len()).filter(may_buffer).map(|at| Event::Gather(who, at)));
        let may_wish = |at: &usize| self.may_wish(who, *at);
        events.extend((0..client.programs.len()).filter(may_wish).map(|at| Event::Wish(who, at)));
        let asked = client.askers.iter().enumerate().filter(|(_, asking)| asking.answered);
        events.extend(asked.map(|(at, _)| Event::Asker(who, at)));
        // Recalls of one lease, one after the other.
        let at_once = if self.recalls_at_once { usize::MAX } else { 1 };
        let drains = client.drains.iter().enumerate().take(at_once);
        let drains = drains.filter(|(_, (_, drain))| self.may_drain(who, *drain));
        events.extend(drains.map(|(at, _)| Event::Recall(who, at)));
        if client.loss.is_some_and(|(_, _, drain)| self.may_drain(who, drain)) {
            events.push(Event::Loss(who));
        }
        let dirty =
            |page: &usize| matches!(client.kernel[*page], Page::Dirty(_) | Page::Flushing(_));
        events.extend((0..self.pages).filter(dirty).map(|page| Event::Flush(who, page)));
        if client.buffer.is_some() {
            events.push(Event::Age(who));
        }
        if self.deaths > 0 {
            events.push(Event::Die(who));
        }
        if self.losses > 0 && client.ticket().is_some() {
            events.push(Event::Lose(who));
        }
    }

    fn flush(&mut self, who: usize, page: usize) {
        let cached = &mut self.clients[who].kernel[page];
        match *cached {
            Page::Dirty(version) => *cached = Page::Flushing(version),
            Page::Flushing(version) => {
                *cached = Page::Has(version);
                self.page_written(who, page, version);
            }
            _ => {}
        }
    }

    fn free_dead(&mut self, who: usize) {
        self.clients[who].freed = true;
        let session = self.clients[who].session;
        self.broken_session(who, session);
        self.free(session);
    }

    fn happens(&mut self, event: Event, variant: Variant) {
        match event {
            Event::Arrive(at) => match self.network.remove(at) {
                message @ (Message::Call { .. } | Message::Return { .. }) => {
                    self.server_receives(message)
                }
                message => self.client_receives(message),
            },
            Event::Program(who, at) => self.go_on(who, at, variant),
            Event::Asker(who, at) => self.asker_ends(who, at),
            Event::Recall(who, at) => self.recall_on(who, at, variant),
            Event::Loss(who) => self.loss_on(who, variant),
            Event::Flush(who, page) => self.flush(who, page),
            Event::Gather(who, at) => self.buffer_write(who, at),
            Event::Wish(who, at) => self.wishes(who, at),
            Event::Age(who) => _ = self.write_out(who),
            Event::Plain => self.plain_on(),
            Event::Fail => {
                self.failures -= 1;
                self.fails = true;
            }
            Event::Die(who) => {
                self.deaths -= 1;
                self.die(who);
            }
            Event::Lose(who) => {
                self.losses -= 1;
                self.lose(who);
            }
            Event::Free(who) => self.free_dead(who),
        }
        (0..CLIENTS).for_each(|who| self.send_recalls(who));
    }
}

impl Model for World {
    type Event = Event;
    type Variant = Variant;
    const ENDS: bool = true;

    fn events(&self) -> Vec<Event> {
        let mut events: Vec<Event> = (0..self.network.len()).map(Event::Arrive).collect();
        (0..CLIENTS).for_each(|who| self.events_of(who, &mut events));
        if self.plain.may_go_on() {
            events.push(Event::Plain);
        }
        if self.failures > 0 && self.clients.iter().any(|client| client.buffer.is_some()) {
            events.push(Event::Fail);
        }
        events
    }

    fn happen(&mut self, event: Event, variant: Variant) {
        self.happens(event, variant);
        self.canonical();
    }

    fn check(&self) -> Option<String> {
        self.wrong()
    }

    fn at_rest(&self, _: Variant) -> Option<String> {
        self.unfinished()
    }

    fn is_cut(&self) -> bool {
        self.next_number > self.numbers_max
    }

    fn is_failure(event: Event) -> bool {
        matches!(event, Event::Die(_) | Event::Lose(_) | Event::Fail)
    }

    fn describe(&self, event: Event) -> String {
        match event {
            Event::Arrive(at) => format!("{event:?} {:?}", self.network[at]),
            Event::Program(who, at) | Event::Gather(who, at) => {
                format!("{event:?} {:?}", self.clients[who].programs[at])
            }
            Event::Recall(who, at) => format!("{event:?} {:?}", self.clients[who].drains[at]),
            Event::Plain => format!("{event:?} {:?}", self.plain),
            Event::Loss(who) => format!("{event:?} {:?}", self.clients[who].loss),
            _ => format!("{event:?}"),
        }
    }
}
