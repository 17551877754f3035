//! Dropping pages: `drain` and `drop_all` of `braid_vfs::data`, and how `Holder::recall_data` and
//! `lose_all` use them.

use braid_client::lease::LeaseTicket;
use braid_vfs::data::lease_state::Gate;
use braid_wire::message::lease::LeaseMode;

use super::{
    client::Page,
    scenario::Variant,
    world::{Message, World},
};

/// The progress of a thread that drops all pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Drop {
    /// It waits for others that do.
    Lock,
    Begin,
    /// This page is next.
    Page(usize),
    /// It waits for pages that were in flight.
    UnderWay,
    Done,
}

/// The progress of a drain.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Drain {
    /// It takes the ticket of the lease that it drains.
    Ticket,
    Recall(Option<LeaseTicket>),
    /// Pages are dropped first if the lease is lost already.
    First(Drop),
    /// It waits for writes.
    Still,
    Drop(Drop),
    Returned,
    /// What of it may remain?
    Keep,
    Carry(LeaseMode),
    /// A broken variant writes buffered bytes only now.
    Late,
}

impl World {
    /// Whether the next step of a drop need not wait.
    pub fn may_drop(&self, who: usize, at: Drop) -> bool {
        let client = &self.clients[who];
        match at {
            Drop::Lock => !client.dropping,
            Drop::Page(page) if page < self.pages => {
                !matches!(client.kernel[page], Page::Locked | Page::Flushing(_))
            }
            Drop::UnderWay => !client.gate.has_pages_under_way(),
            Drop::Begin | Drop::Page(_) => true,
            Drop::Done => false,
        }
    }

    /// One step of it; returns the next one.
    pub fn drop_on(&mut self, who: usize, at: Drop, variant: Variant) -> Drop {
        match at {
            Drop::Lock => {
                self.clients[who].dropping = true;
                Drop::Begin
            }
            Drop::Begin => self.begin_drop(who),
            Drop::UnderWay => Drop::Begin,
            Drop::Page(page) if page < self.pages => match self.drop_page(who, page) {
                true => Drop::Page(page + 1),
                false => at,
            },
            Drop::Page(_) => {
                let client = &mut self.clients[who];
                client.drops -= 1;
                let done =
                    client.change(|gate| gate.end_drop(true)) || variant == Variant::OneRound;
                client.dropping &= !done;
                if done { Drop::Done } else { Drop::UnderWay }
            }
            Drop::Done => Drop::Done,
        }
    }

    fn begin_drop(&mut self, who: usize) -> Drop {
        let client = &mut self.clients[who];
        if !client.gate.has_given() {
            client.notify();
            client.dropping = false;
            return Drop::Done;
        }
        client.drops += 1;
        client.change(|gate| gate.begin_drop(true));
        Drop::Page(0)
    }

    /// The kernel drops a page. Returns whether it is gone. A changed page is written first, past
    /// all checks.
    pub fn drop_page(&mut self, who: usize, page: usize) -> bool {
        let cached = &mut self.clients[who].kernel[page];
        match *cached {
            Page::Dirty(version) => {
                *cached = Page::Going(version);
                false
            }
            Page::Going(version) => {
                *cached = Page::Absent;
                self.page_written(who, page, version);
                true
            }
            Page::Locked | Page::Flushing(_) => false,
            Page::Absent | Page::Has(_) => {
                *cached = Page::Absent;
                true
            }
        }
    }

    /// Whether the next step of a drain need not wait.
    pub fn may_drain(&self, who: usize, at: Drain) -> bool {
        match at {
            Drain::Still => self.clients[who].gate.is_still(),
            Drain::First(at) | Drain::Drop(at) => self.may_drop(who, at),
            _ => true,
        }
    }

    /// One step of a drain up to its end, which is [`Drain::Keep`].
    pub fn drain_on(&mut self, who: usize, at: Drain, variant: Variant) -> Drain {
        let client = &mut self.clients[who];
        match at {
            Drain::Ticket => Drain::Recall(client.ticket()),
            Drain::Recall(ticket) => {
                client.dead_lease = ticket;
                client.change(Gate::recall);
                Drain::Still
            }
            Drain::Still => {
                client.end = None;
                if !matches!(variant, Variant::NoDrainSettles | Variant::SettlesAfter) {
                    self.write_out(who);
                }
                Drain::Drop(Drop::Lock)
            }
            Drain::Drop(at) => match self.drop_on(who, at, variant) {
                Drop::Done => Drain::Returned,
                next => Drain::Drop(next),
            },
            Drain::Returned => {
                client.change(Gate::returned);
                Drain::Keep
            }
            Drain::First(_) | Drain::Keep | Drain::Carry(_) | Drain::Late => at,
        }
    }

    /// A step of a thread that carries out a recall.
    pub fn recall_on(&mut self, who: usize, at: usize, variant: Variant) {
        let (recalled, drain) = self.clients[who].drains[at];
        let next = match drain {
            // `Data::may_keep`.
            Drain::Keep => {
                let writes = self.clients[who].gate.has_writers();
                Drain::Carry(match recalled.keep {
                    LeaseMode::Shared if writes => LeaseMode::Shared,
                    LeaseMode::Read if !writes => LeaseMode::Read,
                    _ => LeaseMode::None,
                })
            }
            Drain::Carry(keep) => {
                let client = &mut self.clients[who];
                match variant {
                    Variant::SettlesAfter => client.drains[at].1 = Drain::Late,
                    _ => _ = client.drains.remove(at),
                }
                let before = client.ticket();
                let lease = client.holding.carried_out(&recalled, keep);
                let same = client
                    .ticket()
                    .filter(|now| before.is_some_and(|before| before.mode() == now.mode()));
                if variant == Variant::SameTicket && client.dead_lease == before && same.is_some() {
                    client.dead_lease = same;
                }
                let session = client.session;
                return self.send(Message::Return { session, lease });
            }
            Drain::Late => {
                self.write_out(who);
                self.clients[who].drains.remove(at);
                return;
            }
            drain => self.drain_on(who, drain, variant),
        };
        self.clients[who].drains[at].1 = next;
    }

    /// A step of the thread that drops caches after a lease loss.
    pub fn loss_on(&mut self, who: usize, variant: Variant) {
        let Some((session, lost, drain)) = self.clients[who].loss else { return };
        let next = match drain {
            Drain::Keep => {
                let client = &mut self.clients[who];
                client.loss = None;
                client.holding.all_dropped(lost);
                return self.free(session);
            }
            Drain::First(at) => match self.drop_on(who, at, variant) {
                Drop::Done => Drain::Still,
                next => Drain::First(next),
            },
            Drain::Still => {
                self.clients[who].end = None;
                Drain::Drop(Drop::Lock)
            }
            Drain::Drop(at) => match self.drop_on(who, at, variant) {
                Drop::Done => {
                    self.write_out(who);
                    Drain::Returned
                }
                next => Drain::Drop(next),
            },
            drain => match self.drain_on(who, drain, variant) {
                Drain::Still => Drain::First(Drop::Lock),
                next => next,
            },
        };
        self.clients[who].loss = Some((session, lost, next));
    }
}
