//! Open modes: what an open has of its file, what it denies to every other open of it, and which exclude each other. Pure:
//! no I/O, no clock, no lock. The table of opens (`opens.rs`) keeps them; ADR 0009.
//!
//! ```text
//!   none ──open, nothing excludes it──> held(access, deny) ──change, nothing else excludes it──> held(access', deny')
//!     ^                                        │
//!     └── closed, session over, or fenced ─────┘        excluded: refused at once, and nothing has changed
//! ```
//!
//! Invariants: (1) no two opens of a file have and deny the same, whoever they are of: neither excludes the other
//! (RFC 8881 9.7; MS-FSA 2.1.5.1.2.2); (2) what is refused is refused at once, and recalls nothing; (3) an open that denies
//! nothing excludes nobody for denying nothing; (4) what a session had and denied stands until its fence holds.

use braid_types::{Failure, SessionId, Status};

use crate::opens::{Access, OpenFile};

/// What an open denies to every other open of its file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Deny {
    /// That it reads.
    pub read: bool,
    /// That it writes.
    pub write: bool,
    /// That a name of the file is removed, moved or replaced, by whomever.
    pub delete: bool,
}

impl Deny {
    /// Nothing.
    pub const NONE: Self = Self { read: false, write: false, delete: false };

    /// Whether it denies nothing.
    pub fn is_none(self) -> bool {
        self == Self::NONE
    }

    pub(crate) fn bits(self) -> u8 {
        u8::from(self.read) | u8::from(self.write) << 1 | u8::from(self.delete) << 2
    }

    pub(crate) fn from_bits(bits: u8) -> Option<Self> {
        (bits < 8).then_some(Self {
            read: bits & 1 != 0,
            write: bits & 2 != 0,
            delete: bits & 4 != 0,
        })
    }

    fn and(self, other: Self) -> Self {
        Self {
            read: self.read || other.read,
            write: self.write || other.write,
            delete: self.delete || other.delete,
        }
    }
}

/// What one open has, and denies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpenMode {
    /// What it may do.
    pub access: Access,
    /// What the others may not.
    pub deny: Deny,
}

impl OpenMode {
    /// An open as POSIX has it.
    pub fn plain(access: Access) -> Self {
        Self { access, deny: Deny::NONE }
    }

    /// Why two opens of one file may not be; `None` when they may. Said of `self`, of which the other is asked.
    fn excludes(self, other: Self) -> Option<Why> {
        let denies =
            |deny: Deny, access: Access| (deny.read && access.read, deny.write && access.write);
        match (denies(self.deny, other.access), denies(other.deny, self.access)) {
            ((true, _), _) => Some(Why::DeniesReading),
            ((_, true), _) => Some(Why::DeniesWriting),
            (_, (_, true)) => Some(Why::Writes),
            (_, (true, _)) => Some(Why::Reads),
            _ => None,
        }
    }
}

/// How an open excludes another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Why {
    /// It denies reading.
    DeniesReading,
    /// It denies writing.
    DeniesWriting,
    /// It has the file open for reading.
    Reads,
    /// It has the file open for writing.
    Writes,
}

/// An open that excludes what is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Excluded {
    /// Of which session.
    pub by: SessionId,
    /// How.
    pub why: Why,
}

impl From<Excluded> for Failure {
    fn from(Excluded { by, why }: Excluded) -> Self {
        let does = match why {
            Why::DeniesReading => "denies reading",
            Why::DeniesWriting => "denies writing",
            Why::Reads => "has it open for reading",
            Why::Writes => "has it open for writing",
        };
        Self::new(Status::SharingViolation, format!("session {by} {does}"))
    }
}

/// Which opens of a file are not looked at.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Beside {
    /// None: the open is a new one.
    All,
    /// One with this mode: it is the one that changes.
    One(SessionId, OpenMode),
    /// This session's: what it says of itself was so.
    Others(SessionId),
}

/// Whether an open with this mode may be, beside those that there are.
pub fn excluded(wanted: OpenMode, opens: &[OpenFile], beside: Beside) -> Option<Excluded> {
    opens.iter().find_map(|open| {
        if beside == Beside::Others(open.session) {
            return None;
        }
        let mut modes = open.modes();
        if let Beside::One(session, mode) = beside
            && session == open.session
        {
            modes.remove(mode);
        }
        modes
            .0
            .iter()
            .find_map(|(mode, _)| mode.excludes(wanted))
            .map(|why| Excluded { by: open.session, why })
    })
}

/// What is denied by all of these opens together.
pub(crate) fn denied(opens: &[OpenFile]) -> Deny {
    opens
        .iter()
        .flat_map(|open| &open.denying.0)
        .fold(Deny::NONE, |all, (mode, _)| all.and(mode.deny))
}

/// Opens of one file, counted by their modes; in the order of the modes, none with none.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Counted(Vec<(OpenMode, u32)>);

impl Counted {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The modes, and of each how many.
    pub fn iter(&self) -> impl Iterator<Item = (OpenMode, u32)> {
        self.0.iter().copied()
    }

    /// How many have a mode.
    pub fn of(&self, mode: OpenMode) -> u32 {
        self.0.binary_search_by_key(&mode, |(mode, _)| *mode).map_or(0, |at| self.0[at].1)
    }

    /// One more.
    pub fn add(&mut self, mode: OpenMode) {
        self.set(mode, self.of(mode).saturating_add(1));
    }

    /// One less.
    pub fn remove(&mut self, mode: OpenMode) {
        self.set(mode, self.of(mode).saturating_sub(1));
    }

    pub(crate) fn set(&mut self, mode: OpenMode, count: u32) {
        match (self.0.binary_search_by_key(&mode, |(mode, _)| *mode), count) {
            (Ok(at), 0) => drop(self.0.remove(at)),
            (Ok(at), count) => self.0[at].1 = count,
            (Err(_), 0) => {}
            (Err(at), count) => self.0.insert(at, (mode, count)),
        }
    }

    /// Of each mode no more than `others` has.
    pub(crate) fn at_most(&mut self, others: &Self) {
        self.0.iter_mut().for_each(|(mode, count)| *count = others.of(*mode).min(*count));
        self.0.retain(|(_, count)| *count > 0);
    }

    /// How many satisfy `which`.
    pub(crate) fn count(&self, which: impl Fn(Access) -> bool) -> u32 {
        self.0.iter().filter(|(mode, _)| which(mode.access)).map(|(_, count)| count).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_types::FileIndex;

    const X: SessionId = SessionId(1);
    const Y: SessionId = SessionId(2);
    const DENY_READ: Deny = Deny { read: true, ..Deny::NONE };
    const DENY_WRITE: Deny = Deny { write: true, ..Deny::NONE };

    fn mode(access: Access, deny: Deny) -> OpenMode {
        OpenMode { access, deny }
    }

    fn opens(session: SessionId, modes: &[OpenMode]) -> OpenFile {
        let mut open = OpenFile::none(FileIndex(5), session);
        modes.iter().for_each(|mode| open.add(*mode).unwrap());
        open
    }

    #[test]
    fn what_an_open_denies_excludes_those_that_have_it_whichever_came_first() {
        let denies = [opens(X, &[mode(Access::READ, DENY_WRITE)])];
        let by_denial = Some(Excluded { by: X, why: Why::DeniesWriting });
        assert_eq!(excluded(OpenMode::plain(Access::WRITE), &denies, Beside::All), by_denial);
        assert_eq!(excluded(OpenMode::plain(Access::READ), &denies, Beside::All), None);
        let writes = [opens(X, &[OpenMode::plain(Access::BOTH)])];
        let by_access = Some(Excluded { by: X, why: Why::Writes });
        assert_eq!(excluded(mode(Access::READ, DENY_WRITE), &writes, Beside::All), by_access);
    }

    #[test]
    fn who_only_writes_is_not_in_the_way_of_who_denies_reading() {
        let writes = [opens(X, &[OpenMode::plain(Access::WRITE)])];
        assert_eq!(excluded(mode(Access::WRITE, DENY_READ), &writes, Beside::All), None);
        let both = [opens(X, &[OpenMode::plain(Access::WRITE), OpenMode::plain(Access::BOTH)])];
        assert_eq!(
            excluded(mode(Access::WRITE, DENY_READ), &both, Beside::All)
                .map(|excluded| excluded.why),
            Some(Why::Reads)
        );
    }

    #[test]
    fn an_open_does_not_exclude_itself_and_another_of_its_session_does() {
        let own = mode(Access::BOTH, DENY_WRITE);
        let more = mode(Access::BOTH, Deny { read: true, ..DENY_WRITE });
        assert_eq!(excluded(more, &[opens(X, &[own])], Beside::One(X, own)), None);
        let two = [opens(X, &[own, OpenMode::plain(Access::READ)])];
        assert_eq!(
            excluded(more, &two, Beside::One(X, own)).map(|excluded| excluded.why),
            Some(Why::Reads)
        );
        assert_eq!(excluded(more, &two, Beside::Others(X)), None);
        assert!(excluded(more, &two, Beside::Others(Y)).is_some());
    }

    #[test]
    fn an_open_that_denies_only_deleting_excludes_no_open() {
        let denies = [opens(X, &[mode(Access::READ, Deny { delete: true, ..Deny::NONE })])];
        assert_eq!(excluded(OpenMode::plain(Access::BOTH), &denies, Beside::All), None);
        assert!(denied(&denies).delete);
    }
}
