//! Buffered writes: `data/write_coalescing.rs` of `braid-vfs`, and what flushes them.
//!
//! One step takes the lock of the buffer and does everything under it, including the write: nobody
//! waits under it for a lease or a page. Names leases are returned immediately: cached sizes are
//! dropped when another client opens the file for writing.

use braid_vfs::data::lease_state::DataUse;
use braid_wire::message::lease::LeaseMode;

use super::{
    client::Client,
    program::{PendingCall, ProgramState},
    scenario::{Act, Variant},
    world::{Call, NOW, PAGES, World},
};

/// The buffered part of the file: consecutive pages, all of one program.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct WriteBuffer {
    by: usize,
    from: usize,
    versions: Vec<u8>,
    /// Its handle is closed, and counts as a writer until the bytes are sent.
    closed: bool,
}

impl WriteBuffer {
    pub fn end(&self) -> usize {
        self.from + self.versions.len()
    }

    /// Whether the handle that this program has open wrote it.
    fn is_of(&self, program: usize) -> bool {
        self.by == program && !self.closed
    }

    fn pages(&self) -> impl Iterator<Item = (usize, u8)> {
        self.versions.iter().enumerate().map(|(at, version)| (self.from + at, *version))
    }
}

/// A pending size query.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct SizeQuery {
    /// The file is at least this long.
    pub at_least: u8,
    /// The answer may be cached: this client has changed nothing since.
    pub fresh: bool,
}

impl Client {
    /// The version of a buffered page.
    pub fn buffered_version(&self, page: usize) -> u8 {
        let found = self.buffer.iter().flat_map(WriteBuffer::pages).find(|(at, _)| *at == page);
        found.map_or(0, |(_, version)| version)
    }

    /// `WriteGuard.gathers`.
    pub fn may_buffer(&self, variant: Variant) -> bool {
        let ticket = self.held_ticket();
        let insisted = self.insisted == ticket && variant != Variant::BuffersInsisted;
        self.held() == LeaseMode::Write && !self.lease_state.is_asking() && !insisted
    }

    /// `Data::asked`.
    pub fn asked(&mut self, asking: &PendingCall) {
        if let Some(((LeaseMode::Write, true), ..)) = asking.asks {
            self.insisted = asking.ticket;
        }
        self.change(|lease_state| lease_state.set_asking(false));
    }

    /// `Cache::change`: what is cached of the file is dropped, and answers to earlier queries are
    /// not cached.
    pub fn changed(&mut self) {
        self.kept_size = None;
        for program in &mut self.programs {
            match &mut program.at {
                ProgramState::LooksNow(looking)
                | ProgramState::Calls(PendingCall { looks: Some(looking), .. }) => {
                    looking.fresh = false;
                }
                _ => {}
            }
        }
    }
}

impl World {
    /// Whether a program's write may be buffered.
    pub fn may_gather(&self, who: usize, at: usize) -> bool {
        let program = &self.clients[who].programs[at];
        self.buffers
            && program.small
            && matches!(program.at, ProgramState::Writes(_, true) | ProgramState::EndIs(_, true))
    }

    /// `MountCaches::ask_for_write_lease`: whether a request for the write lease is worth its cost.
    pub fn may_wish(&self, who: usize, at: usize) -> bool {
        let client = &self.clients[who];
        let program = &client.programs[at];
        let gains = match program.acts.first() {
            Some(Act::WriteSmall(_)) => client.held() == LeaseMode::Shared,
            Some(Act::Append) => {
                !client.appending && matches!(client.held(), LeaseMode::None | LeaseMode::Shared)
            }
            _ => false,
        };
        self.buffers && !client.has_wished && program.at == ProgramState::Idle && gains
    }

    pub fn wishes(&mut self, who: usize, at: usize) {
        let client = &mut self.clients[who];
        let program = &mut client.programs[at];
        let Some((act, rest)) = program.acts.split_first() else { return };
        (program.acts, program.small) = (rest, true);
        program.at = match act {
            Act::WriteSmall(page) => ProgramState::Wishes(DataUse::Write, *page),
            _ => ProgramState::Wishes(DataUse::Append, 0),
        };
        client.appending |= *act == Act::Append;
    }

    /// `MountCaches::begin_ask_for_write`, and the request.
    pub fn wishes_now(&mut self, who: usize, what: DataUse, page: usize) -> ProgramState {
        let client = &mut self.clients[who];
        if client.has_wished || !client.lease_state.is_open() {
            return ProgramState::Wants(what, page);
        }
        client.has_wished = true;
        client.lease_state.set_asking(true);
        let ask = Some(client.holding.begin_request(NOW));
        let number = self.call(who, Call::Ask(LeaseMode::Write, false));
        let asks = Some(((LeaseMode::Write, false), what, page));
        ProgramState::Calls(PendingCall { asks, ..PendingCall::new(number, ask) })
    }

    /// `MountCaches::write_or_buffer`, for a write that is not buffered.
    pub fn writes(
        &mut self,
        (who, program): (usize, usize),
        (what, page): (DataUse, usize),
        gathers: bool,
        variant: Variant,
    ) -> ProgramState {
        if self.clients[who].programs[program].lost {
            return ProgramState::WriteFails(what);
        }
        if (gathers || variant != Variant::NoFlushBeforeWrite) && !self.write_out(who) {
            return ProgramState::WriteFails(what);
        }
        let version = self.newer(page);
        self.daemon[page] = version;
        self.size = self.size.max(page as u8 + 1);
        self.ends_at(who, what, page);
        ProgramState::Written(what, page, version)
    }

    /// `MountCaches::coalesce`: a program's write is buffered.
    pub fn buffer_write(&mut self, who: usize, at: usize) {
        let (what, page) = match &self.clients[who].programs[at].at {
            ProgramState::Writes(page, _) => (DataUse::Write, *page),
            ProgramState::EndIs(end, _) => (DataUse::Append, usize::from(*end)),
            _ => return,
        };
        if what == DataUse::Append && !self.appends_at(who, page as u8) {
            return;
        }
        self.clients[who].programs[at].at = match self.takes_in(who, at, page) {
            Some(version) => {
                self.ends_at(who, what, page);
                ProgramState::Written(what, page, version)
            }
            None => ProgramState::WriteFails(what),
        };
    }

    fn takes_in(&mut self, who: usize, by: usize, page: usize) -> Option<u8> {
        if self.clients[who].programs[by].lost {
            return None;
        }
        let goes_on =
            self.clients[who].buffer.as_ref().is_none_or(|run| run.is_of(by) && run.end() == page);
        if !goes_on && !self.write_out(who) {
            return None;
        }
        let version = self.newer(page);
        let run = self.clients[who].buffer.get_or_insert(WriteBuffer {
            by,
            from: page,
            versions: Vec::new(),
            closed: false,
        });
        run.versions.push(version);
        Some(version)
    }

    /// A write ends under its lease.
    pub fn write_ends(&mut self, who: usize, what: DataUse, variant: Variant) {
        let client = &mut self.clients[who];
        if variant != Variant::EndsBefore {
            client.change(|lease_state| lease_state.end(what));
        }
        client.appending &= what != DataUse::Append;
    }

    /// Whether the file ends at the offset of an append; otherwise it is no append.
    pub fn appends_at(&mut self, who: usize, end: u8) -> bool {
        let is = self.clients[who]
            .buffer
            .as_ref()
            .map_or(self.size, |run| self.size.max(run.end() as u8));
        // After lost bytes there is a hole.
        let right = (end == is || self.has_lost && end > is) && usize::from(end) < PAGES;
        if !right {
            self.fail(format!("client {who} appends at {end} to a file that ends at {is}"));
        }
        right
    }

    /// What is known of the end after a write.
    fn ends_at(&mut self, who: usize, what: DataUse, page: usize) {
        let (end, written) = (&mut self.clients[who].end, page as u8 + 1);
        *end = match what {
            DataUse::Append => Some(written),
            _ => end.map(|end| end.max(written)),
        };
    }

    /// `MountCaches::flush_buffer`. Returns whether the buffer could be written.
    pub fn write_out(&mut self, who: usize) -> bool {
        let Some(run) = self.clients[who].buffer.take() else { return true };
        self.clients[who].changed();
        if !std::mem::take(&mut self.fails) {
            for (page, version) in run.pages() {
                self.daemon[page] = version;
            }
            self.size = self.size.max(run.end() as u8);
            self.ends_closed_handle(who, &run);
            return true;
        }
        let client = &mut self.clients[who];
        client.end = None;
        if run.closed {
            client.closed_loss = !self.forgets_closed_loss;
            client.must_report = true;
        } else {
            client.programs[run.by].lost = true;
        }
        for program in &mut client.programs {
            // A write that has not returned yet has written nothing.
            if let ProgramState::Written(_, page, version) | ProgramState::Drops(_, page, version) =
                &mut program.at
                && run.pages().any(|lost| lost == (*page, *version))
            {
                *version = 0;
            }
            if let ProgramState::DropsEnd(_, page, version)
            | ProgramState::WriteEnds(_, page, version) = &mut program.at
                && run.pages().any(|lost| lost == (*page, *version))
            {
                *version = 0;
            }
        }
        self.lose_buffer(&run);
        self.ends_closed_handle(who, &run);
        false
    }

    /// The buffer had the last reference to a closed handle.
    fn ends_closed_handle(&mut self, who: usize, run: &WriteBuffer) {
        if run.closed && !self.returns_at_close {
            self.closes(who);
        }
    }

    /// `MountCaches::leave_to_mount`: a program closes its handle, and its buffered bytes stay
    /// (ADR 0034). False: there are none that may stay.
    pub fn leaves_to_mount(&mut self, who: usize, at: usize) -> bool {
        let client = &mut self.clients[who];
        let lost = client.programs[at].lost;
        let Some(run) = client.buffer.as_mut().filter(|run| run.is_of(at) && !lost) else {
            return false;
        };
        run.closed = true;
        if self.returns_at_close {
            self.closes(who);
        }
        true
    }

    /// Buffered bytes are lost.
    pub fn lose_buffer(&mut self, run: &WriteBuffer) {
        self.has_lost = true;
        for (page, version) in run.pages() {
            if self.returned[page] == version {
                self.returned[page] = self.daemon[page];
            }
        }
        self.returned_size = self.returned_size.min(self.size);
    }

    /// A kernel's page is written past all checks: it was changed after the buffered bytes.
    pub fn page_written(&mut self, who: usize, page: usize, version: u8) {
        if self.write_out(who) {
            self.daemon[page] = version;
        } else if self.returned[page] == version {
            self.returned[page] = self.daemon[page];
        }
    }

    /// The end of a sync or a close: its program's buffered bytes are written, or it gets an error.
    pub fn flush_and_report(&mut self, who: usize, at: usize, variant: Variant) {
        if variant != Variant::NoFlushOnClose {
            self.write_out(who);
        }
        self.clients[who].programs[at].lost = false;
        if self.clients[who].buffer.as_ref().is_some_and(|run| run.is_of(at)) {
            self.fail(format!("client {who} closes a file and gets no error for buffered bytes"));
        }
    }

    /// The end of a sync: as of a close, and what was lost after a close is reported.
    pub fn sync_and_report(&mut self, who: usize, at: usize) {
        self.flush_and_report(who, at, Variant::Sound);
        let client = &mut self.clients[who];
        let reported = std::mem::take(&mut client.closed_loss);
        if std::mem::take(&mut client.must_report) && !reported {
            self.fail(format!("client {who} syncs and gets no error for bytes lost after a close"));
        }
    }

    /// A program queries the size of the file.
    pub fn begin_size_query(&mut self, who: usize) -> ProgramState {
        let looking = SizeQuery { at_least: self.returned_size, fresh: false };
        match self.clients[who].kept_size {
            Some(cached) => self.end_size_query(who, looking, cached),
            None => ProgramState::Looks(looking),
        }
    }

    /// Bytes buffered before the stamp are written; others are a later change.
    pub fn send_size_query(
        &mut self,
        who: usize,
        looking: SizeQuery,
        variant: Variant,
    ) -> ProgramState {
        let is_gathered = self.clients[who].buffer.is_some();
        if !matches!(variant, Variant::NoFlushBeforeSize | Variant::StampsAfterBuffering) {
            self.write_out(who);
        }
        let fresh = looking.fresh && (!is_gathered || variant == Variant::StampsAfterBuffering);
        let number = self.call(who, Call::Look);
        ProgramState::Calls(PendingCall {
            looks: Some(SizeQuery { fresh, ..looking }),
            ..PendingCall::new(number, None)
        })
    }

    /// The program gets the answer.
    pub fn end_size_query(
        &mut self,
        who: usize,
        SizeQuery { at_least, fresh }: SizeQuery,
        size: u8,
    ) -> ProgramState {
        // Bytes that were lost since do not count.
        if size < at_least.min(self.returned_size) {
            self.fail(format!(
                "client {who} learns that the file ends at {size}, {at_least} was written"
            ));
        }
        let shared = self
            .clients
            .iter()
            .enumerate()
            .any(|(other, client)| other != who && client.lease_state.has_writers());
        if fresh && !shared {
            self.clients[who].kept_size = Some(size);
        }
        ProgramState::Idle
    }

    /// A client opens the file for writing: other clients drop cached sizes first.
    pub fn forget_sizes(&mut self, who: usize) {
        let others = self.clients.iter_mut().enumerate().filter(|(other, _)| *other != who);
        others.for_each(|(_, client)| client.changed());
    }
}
