//! Dropping pages: `drain` and `drop_all` of `braid_vfs::data`, and how `recall_data` and
//! `lost_all` of `MountCaches` use them.

use braid_client::lease::LeaseTicket;
use braid_vfs::data::lease_state::DataLeaseState;
use braid_wire::message::lease::LeaseMode;

use super::{
    client::Page,
    scenario::Variant,
    world::{Message, World},
};

/// The progress of a thread that drops all pages.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum DropStep {
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
pub enum DrainStep {
    /// It takes the ticket of the lease that it drains.
    Ticket,
    Recall(Option<LeaseTicket>),
    /// Pages are dropped first if the lease is lost already.
    First(DropStep),
    /// It waits for writes.
    Still,
    Drop(DropStep),
    Returned,
    /// What of it may remain?
    Keep,
    Carry(LeaseMode),
    /// A broken variant writes buffered bytes only now.
    Late,
}

impl World {
    /// Whether the next step of a drop need not wait.
    pub fn may_drop(&self, who: usize, at: DropStep) -> bool {
        let client = &self.clients[who];
        match at {
            DropStep::Lock => !client.dropping,
            DropStep::Page(page) if page < self.pages => {
                !matches!(client.kernel[page], Page::Locked | Page::Flushing(_))
            }
            DropStep::UnderWay => !client.lease_state.is_reading_pages(),
            DropStep::Begin | DropStep::Page(_) => true,
            DropStep::Done => false,
        }
    }

    /// One step of it; returns the next one.
    pub fn drop_on(&mut self, who: usize, at: DropStep, variant: Variant) -> DropStep {
        match at {
            DropStep::Lock => {
                self.clients[who].dropping = true;
                DropStep::Begin
            }
            DropStep::Begin => self.begin_drop(who),
            DropStep::UnderWay => DropStep::Begin,
            DropStep::Page(page) if page < self.pages => match self.drop_page(who, page) {
                true => DropStep::Page(page + 1),
                false => at,
            },
            DropStep::Page(_) => {
                let client = &mut self.clients[who];
                client.drops -= 1;
                let done = client.change(|lease_state| lease_state.end_drop(true))
                    || variant == Variant::OneRound;
                client.dropping &= !done;
                if done { DropStep::Done } else { DropStep::UnderWay }
            }
            DropStep::Done => DropStep::Done,
        }
    }

    fn begin_drop(&mut self, who: usize) -> DropStep {
        let client = &mut self.clients[who];
        if !client.lease_state.may_have_pages() {
            client.notify();
            client.dropping = false;
            return DropStep::Done;
        }
        client.drops += 1;
        client.change(|lease_state| lease_state.begin_drop(true));
        DropStep::Page(0)
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
    pub fn may_drain(&self, who: usize, at: DrainStep) -> bool {
        match at {
            DrainStep::Still => self.clients[who].lease_state.has_no_writes(),
            DrainStep::First(at) | DrainStep::Drop(at) => self.may_drop(who, at),
            _ => true,
        }
    }

    /// One step of a drain up to its end, which is [`DrainStep::Keep`].
    pub fn drain_on(&mut self, who: usize, at: DrainStep, variant: Variant) -> DrainStep {
        let client = &mut self.clients[who];
        match at {
            DrainStep::Ticket => DrainStep::Recall(client.ticket()),
            DrainStep::Recall(ticket) => {
                client.dead_lease = ticket;
                client.change(DataLeaseState::begin_recall);
                DrainStep::Still
            }
            DrainStep::Still => {
                client.end = None;
                if !matches!(variant, Variant::NoFlushOnDrain | Variant::FlushesAfterReturn) {
                    self.write_out(who);
                }
                DrainStep::Drop(DropStep::Lock)
            }
            DrainStep::Drop(at) => match self.drop_on(who, at, variant) {
                DropStep::Done => DrainStep::Returned,
                next => DrainStep::Drop(next),
            },
            DrainStep::Returned => {
                client.change(DataLeaseState::end_recall);
                DrainStep::Keep
            }
            DrainStep::First(_) | DrainStep::Keep | DrainStep::Carry(_) | DrainStep::Late => at,
        }
    }

    /// A step of a thread that carries out a recall.
    pub fn recall_on(&mut self, who: usize, at: usize, variant: Variant) {
        let (recalled, drain) = self.clients[who].drains[at];
        let next = match drain {
            // `Data::mode_after_recall`.
            DrainStep::Keep => {
                let writes = self.clients[who].lease_state.has_writers();
                DrainStep::Carry(match recalled.keep {
                    LeaseMode::Shared if writes => LeaseMode::Shared,
                    LeaseMode::Read if !writes => LeaseMode::Read,
                    _ => LeaseMode::None,
                })
            }
            DrainStep::Carry(keep) => {
                let client = &mut self.clients[who];
                match variant {
                    Variant::FlushesAfterReturn => client.drains[at].1 = DrainStep::Late,
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
            DrainStep::Late => {
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
            DrainStep::Keep => {
                let client = &mut self.clients[who];
                client.loss = None;
                client.holding.all_invalidated(lost);
                return self.free(session);
            }
            DrainStep::First(at) => match self.drop_on(who, at, variant) {
                DropStep::Done => DrainStep::Still,
                next => DrainStep::First(next),
            },
            DrainStep::Still => {
                self.clients[who].end = None;
                DrainStep::Drop(DropStep::Lock)
            }
            DrainStep::Drop(at) => match self.drop_on(who, at, variant) {
                DropStep::Done => {
                    self.write_out(who);
                    DrainStep::Returned
                }
                next => DrainStep::Drop(next),
            },
            drain => match self.drain_on(who, drain, variant) {
                DrainStep::Still => DrainStep::First(DropStep::Lock),
                next => next,
            },
        };
        self.clients[who].loss = Some((session, lost, next));
    }
}
