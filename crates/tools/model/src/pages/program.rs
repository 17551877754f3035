//! What programs do, and the threads that serve them.

use braid_client::lease::{LeaseOf, LeaseRequest, LeaseTicket};
use braid_vfs::data::lease_state::{DataLeaseState, DataUse, Decision};
use braid_wire::message::lease::LeaseMode;

use super::{
    client::{Client, Page},
    drops::{DrainStep, DropStep},
    scenario::{Act, Variant},
    world::{Call, FILE, Message, NOW, World},
    write_buffer::SizeQuery,
};

/// A pending call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct PendingCall {
    pub number: u32,
    /// Set until it is answered.
    pub ask: Option<LeaseRequest>,
    pub answered: bool,
    /// The lease in its answer.
    pub ticket: Option<LeaseTicket>,
    pub size: u8,
    /// Set if the lease state knows of the request: mode, whether alone, and what continues after
    /// it.
    pub asks: Option<((LeaseMode, bool), DataUse, usize)>,
    /// Set if it is a size query.
    pub looks: Option<SizeQuery>,
}

impl PendingCall {
    /// A call that was just sent.
    pub fn new(number: u32, ask: Option<LeaseRequest>) -> Self {
        Self { number, ask, answered: false, ticket: None, size: 0, asks: None, looks: None }
    }
}

/// A program with one thread, and the thread that serves its call.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Program {
    /// What it does next, and after that.
    pub acts: &'static [Act],
    pub at: ProgramState,
    /// It writes little at a time.
    pub small: bool,
    /// Buffered bytes of its handle are lost, and it has not got the error yet.
    pub lost: bool,
}

/// Its progress.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum ProgramState {
    /// Before the next act.
    Idle,
    /// `MountCaches::begin`: it checks the lease state.
    Wants(DataUse, usize),
    /// It waits until something changes.
    Waits(DataUse, usize),
    /// It waits for an answer.
    Calls(PendingCall),
    /// The page may be read; buffered bytes are at the daemons.
    Reads(usize),
    ReadsNow(usize),
    Gives(usize, u8),
    PageEnds,
    /// The page may be read past the kernel's cache; it must be no older than this.
    ReadsPast(usize, u8),
    ReadsPastNow(usize, u8),
    /// It saw that others write the file, too.
    Wishes(DataUse, usize),
    /// The bytes may be written; the flag says whether they may be buffered.
    Writes(usize, bool),
    /// Bytes may be appended.
    Appends(bool),
    /// The file ends there.
    EndIs(u8, bool),
    /// They could not be written.
    WriteFails(DataUse),
    /// It is about to query the size; buffered bytes are at the daemons; the time of the query is
    /// stamped.
    Looks(SizeQuery),
    Settled(SizeQuery),
    LooksNow(SizeQuery),
    /// They are written: cached pages of them are dropped.
    Written(DataUse, usize, u8),
    Drops(DataUse, usize, u8),
    DropsEnd(DataUse, usize, u8),
    WriteEnds(DataUse, usize, u8),
    /// It has announced that it will write.
    OpensWriting(DropStep),
    /// The open is about to be sent.
    Opens(bool),
    /// It drops everything that is cached of the file.
    GivesUp(DrainStep),
    GivenUp,
}

impl ProgramState {
    /// Whether it is writing bytes in this way.
    pub fn is_writing(&self, what: DataUse) -> bool {
        match self {
            ProgramState::Writes(..) => what == DataUse::Write,
            ProgramState::Appends(_) | ProgramState::EndIs(..) => what == DataUse::Append,
            ProgramState::Written(of, ..)
            | ProgramState::Drops(of, ..)
            | ProgramState::DropsEnd(of, ..)
            | ProgramState::WriteEnds(of, ..)
            | ProgramState::WriteFails(of) => *of == what,
            _ => false,
        }
    }
}

impl Client {
    /// The decision of the lease state, or that of a broken one.
    fn verdict(&self, what: DataUse, variant: Variant) -> Decision {
        if variant != Variant::PagesWaitForDrops {
            return self.lease_state.decide(what, self.held());
        }
        let mut lease_state = self.lease_state.clone();
        for _ in 0..self.drops {
            lease_state.end_drop(false);
        }
        lease_state.decide(what, self.held())
    }

    /// `MountCaches::mode_to_ask`.
    fn to_wish(&self, wanted: LeaseMode) -> LeaseMode {
        match (self.held(), wanted) {
            (LeaseMode::Write, _) | (LeaseMode::Shared, LeaseMode::Read) => LeaseMode::None,
            (held, wanted) if held == wanted => LeaseMode::None,
            (_, wanted) => wanted,
        }
    }
}

impl World {
    /// Whether a program's next step need not wait.
    pub fn may_go_on(&self, who: usize, at: usize) -> bool {
        let client = &self.clients[who];
        let program = &client.programs[at];
        let locked = |page: usize| {
            matches!(client.kernel[page], Page::Locked | Page::Flushing(_) | Page::Going(_))
        };
        match &program.at {
            ProgramState::Idle => match program.acts.first() {
                Some(Act::Read(page) | Act::Store(page)) => !locked(*page),
                Some(Act::Append) => !client.appending,
                next => next.is_some(),
            },
            ProgramState::Waits(..) => false,
            ProgramState::Calls(asking) => asking.answered,
            ProgramState::Drops(_, page, _) => {
                !matches!(client.kernel[*page], Page::Locked | Page::Flushing(_))
            }
            ProgramState::OpensWriting(drop) => self.may_drop(who, *drop),
            ProgramState::GivesUp(drain) => self.may_drain(who, *drain),
            _ => true,
        }
    }

    /// A program's next step.
    pub fn go_on(&mut self, who: usize, at: usize, variant: Variant) {
        let program = &mut self.clients[who].programs[at];
        let now = std::mem::replace(&mut program.at, ProgramState::Idle);
        let next = match now {
            ProgramState::Idle => {
                let Some((act, rest)) = program.acts.split_first() else { return };
                self.clients[who].programs[at].small =
                    matches!(act, Act::WriteSmall(_) | Act::Append);
                let next = self.act(who, at, *act, variant);
                // A store is repeated once its page is cached.
                if next == ProgramState::Idle || !matches!(act, Act::Store(_)) {
                    self.clients[who].programs[at].acts = rest;
                }
                next
            }
            ProgramState::Wants(what, page) => self.wants(who, what, page, variant),
            ProgramState::Wishes(what, page) => self.wishes_now(who, what, page),
            ProgramState::Calls(asking) => self.has_called(who, asking),
            ProgramState::OpensWriting(drop) => match self.drop_on(who, drop, variant) {
                DropStep::Done => ProgramState::Opens(true),
                next => ProgramState::OpensWriting(next),
            },
            ProgramState::Opens(writes) => self.opens(who, writes),
            ProgramState::GivesUp(DrainStep::Returned) if variant != Variant::GivesUpAfter => {
                self.gives_back(who);
                ProgramState::GivenUp
            }
            ProgramState::GivenUp => {
                self.clients[who].change(DataLeaseState::end_recall);
                ProgramState::Idle
            }
            ProgramState::GivesUp(DrainStep::Keep) => {
                self.gives_back(who);
                ProgramState::Idle
            }
            ProgramState::GivesUp(drain) => {
                ProgramState::GivesUp(self.drain_on(who, drain, variant))
            }
            other => self.uses(who, at, other, variant),
        };
        self.clients[who].programs[at].at = next;
    }

    fn act(&mut self, who: usize, at: usize, act: Act, variant: Variant) -> ProgramState {
        let client = &mut self.clients[who];
        match act {
            Act::Read(page) | Act::Store(page) if client.kernel[page] == Page::Absent => {
                client.kernel[page] = Page::Locked;
                ProgramState::Wants(DataUse::Page, page)
            }
            Act::Read(_) => ProgramState::Idle,
            Act::Store(page) => {
                let version = self.newer(page);
                self.clients[who].kernel[page] = Page::Dirty(version);
                self.has_returned(page, version);
                ProgramState::Idle
            }
            Act::Write(page) | Act::WriteSmall(page) => ProgramState::Wants(DataUse::Write, page),
            Act::ReadPast(page) => ProgramState::Wants(DataUse::Read, page),
            Act::Append => {
                client.appending = true;
                ProgramState::Wants(DataUse::Append, 0)
            }
            Act::OpenWriting => {
                let held = client.held();
                match client.lease_state.open_writer(held) && variant != Variant::KeepForWriters {
                    true => ProgramState::OpensWriting(DropStep::Lock),
                    false => ProgramState::Opens(true),
                }
            }
            Act::OpenReading => ProgramState::Opens(false),
            Act::GiveUp => ProgramState::GivesUp(DrainStep::Ticket),
            Act::Close => {
                self.flush_and_report(who, at, variant);
                self.closes(who);
                ProgramState::Idle
            }
            Act::CloseBehind => {
                if !self.leaves_to_mount(who, at) {
                    self.flush_and_report(who, at, variant);
                    self.closes(who);
                }
                ProgramState::Idle
            }
            Act::Sync => {
                self.sync_and_report(who, at);
                ProgramState::Idle
            }
            Act::Look => self.begin_size_query(who),
        }
    }

    /// `Writer::drop`.
    pub fn closes(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let held = if client.lease_state.close_writer() {
            client.end = None;
            client.held()
        } else {
            LeaseMode::None
        };
        let gives_back = held == LeaseMode::Shared
            || held == LeaseMode::Write && !client.lease_state.may_have_pages();
        client.notify();
        if gives_back {
            self.gives_back(who);
        }
    }

    fn gives_back(&mut self, who: usize) {
        let client = &mut self.clients[who];
        let (lease, session) = (client.holding.return_lease(LeaseOf::Data(FILE)), client.session);
        lease.into_iter().for_each(|lease| self.send(Message::Return { session, lease }));
    }

    fn opens(&mut self, who: usize, writes: bool) -> ProgramState {
        if writes {
            self.forget_sizes(who);
        }
        let wish =
            self.clients[who].to_wish(if writes { LeaseMode::Write } else { LeaseMode::Read });
        if wish == LeaseMode::None {
            return ProgramState::Idle;
        }
        let ask = Some(self.clients[who].holding.begin_request(NOW));
        let number = self.call(who, Call::Open(wish));
        ProgramState::Calls(PendingCall::new(number, ask))
    }

    /// `MountCaches::begin`, one iteration.
    fn wants(&mut self, who: usize, what: DataUse, page: usize, variant: Variant) -> ProgramState {
        let client = &mut self.clients[who];
        match client.verdict(what, variant) {
            Decision::Go => {
                let gathers = client.may_buffer(variant);
                client.lease_state.begin(what);
                if variant == Variant::EndsBefore
                    && matches!(what, DataUse::Write | DataUse::Append)
                {
                    client.change(|lease_state| lease_state.end(what));
                }
                match what {
                    DataUse::Page => ProgramState::Reads(page),
                    DataUse::Read => ProgramState::ReadsPast(page, self.returned[page]),
                    DataUse::Write => ProgramState::Writes(page, gathers),
                    DataUse::Append => ProgramState::Appends(gathers),
                }
            }
            Decision::Wait => ProgramState::Waits(what, page),
            Decision::Ask { mode, required: alone } => {
                client.lease_state.set_asking(true);
                let ask = Some(client.holding.begin_request(NOW));
                let number = self.call(who, Call::Ask(mode, alone));
                let asks = Some(((mode, alone), what, page));
                let asking = PendingCall { asks, ..PendingCall::new(number, ask) };
                if what != DataUse::Page || variant == Variant::AsksInPageThread {
                    return ProgramState::Calls(asking);
                }
                self.clients[who].askers.push(asking);
                ProgramState::Waits(what, page)
            }
        }
    }

    fn has_called(&mut self, who: usize, asking: PendingCall) -> ProgramState {
        if let Some(looking) = asking.looks {
            return self.end_size_query(who, looking, asking.size);
        }
        let Some((_, what, page)) = asking.asks else { return ProgramState::Idle };
        self.clients[who].asked(&asking);
        ProgramState::Wants(what, page)
    }

    /// A thread that asked for a page has the answer.
    pub fn asker_ends(&mut self, who: usize, at: usize) {
        let asking = self.clients[who].askers.remove(at);
        self.clients[who].asked(&asking);
    }

    /// Pages and bytes, after the lease state let them through.
    fn uses(
        &mut self,
        who: usize,
        program: usize,
        at: ProgramState,
        variant: Variant,
    ) -> ProgramState {
        match at {
            ProgramState::Reads(page) if self.buffers => {
                if variant == Variant::NoFlushBeforePage || self.write_out(who) {
                    return ProgramState::ReadsNow(page);
                }
                self.clients[who].kernel[page] = Page::Absent;
                ProgramState::PageEnds
            }
            ProgramState::Reads(page) | ProgramState::ReadsNow(page) => {
                ProgramState::Gives(page, self.daemon[page])
            }
            ProgramState::Gives(page, version) => {
                self.clients[who].kernel[page] = Page::Has(version);
                ProgramState::PageEnds
            }
            ProgramState::PageEnds => {
                self.clients[who].change(|lease_state| lease_state.end(DataUse::Page));
                ProgramState::Idle
            }
            ProgramState::ReadsPast(page, at_least) if self.buffers => {
                let settled = variant == Variant::NoFlushBeforeRead || self.write_out(who);
                if settled {
                    ProgramState::ReadsPastNow(page, at_least)
                } else {
                    ProgramState::Idle
                }
            }
            ProgramState::ReadsPast(page, at_least)
            | ProgramState::ReadsPastNow(page, at_least) => {
                if self.daemon[page] < at_least {
                    self.fail(format!(
                        "client {who} reads {} of page {page}, {at_least} was written",
                        self.daemon[page]
                    ));
                }
                ProgramState::Idle
            }
            ProgramState::Looks(looking) => {
                // The program that wrote the lost bytes gets the error.
                _ = variant == Variant::NoFlushBeforeSize || self.write_out(who);
                ProgramState::Settled(looking)
            }
            ProgramState::Settled(looking) => {
                ProgramState::LooksNow(SizeQuery { fresh: true, ..looking })
            }
            ProgramState::LooksNow(looking) => self.send_size_query(who, looking, variant),
            ProgramState::Writes(page, gathers) => {
                self.writes((who, program), (DataUse::Write, page), gathers, variant)
            }
            ProgramState::Appends(gathers) => {
                let known = self.clients[who].end;
                if known.is_none() && !self.write_out(who) {
                    return ProgramState::WriteFails(DataUse::Append);
                }
                self.clients[who].end = None;
                ProgramState::EndIs(known.unwrap_or(self.size), gathers)
            }
            ProgramState::EndIs(end, gathers) => match self.appends_at(who, end) {
                true => {
                    self.writes((who, program), (DataUse::Append, end.into()), gathers, variant)
                }
                false => ProgramState::Idle,
            },
            ProgramState::WriteFails(what) => {
                self.write_ends(who, what, variant);
                ProgramState::Idle
            }
            ProgramState::Written(what, page, version) => {
                self.drop_written(who, (what, page, version), variant)
            }
            ProgramState::Drops(what, page, version) => match self.drop_page(who, page) {
                true => ProgramState::DropsEnd(what, page, version),
                false => ProgramState::Drops(what, page, version),
            },
            ProgramState::DropsEnd(what, page, version) => {
                self.clients[who].drops -= 1;
                self.clients[who].change(|lease_state| lease_state.end_drop(false));
                ProgramState::WriteEnds(what, page, version)
            }
            ProgramState::WriteEnds(what, page, version) => {
                self.write_ends(who, what, variant);
                self.clients[who].changed();
                self.has_returned(page, version);
                ProgramState::Idle
            }
            other => other,
        }
    }

    /// `MountCaches::drop_changed_pages`.
    fn drop_written(
        &mut self,
        who: usize,
        (what, page, version): (DataUse, usize, u8),
        variant: Variant,
    ) -> ProgramState {
        let client = &mut self.clients[who];
        if !client.lease_state.may_have_pages() || variant == Variant::NoDropAfterWrite {
            return ProgramState::WriteEnds(what, page, version);
        }
        client.drops += 1;
        client.change(|lease_state| lease_state.begin_drop(false));
        ProgramState::Drops(what, page, version)
    }
}
