//! Open modes: what an open may do with its file, what it denies to every other open of it, and
//! which modes conflict. Pure: no I/O, no clock, no lock. The open table (`opens.rs`) stores them;
//! ADR 0009.
//!
//! ```text
//!   none ──open, no conflict──> held(access, deny) ──change, no conflict──> held(access', deny')
//!     ^                                 │
//!     └─ close, session end, fence ─────┘        conflict: refused immediately, nothing changes
//! ```
//!
//! Invariants:
//! 1. No open of a file has an access that another open of it denies, whatever the sessions (RFC
//!    8881 9.7; MS-FSA 2.1.5.1.2.2). Operations call `check_mode` before each open; only a reclaim
//!    may restore what was recorded.
//! 2. A refused open is refused immediately and recalls nothing.
//! 3. An open that denies nothing conflicts with no open that denies nothing. `find_conflict`
//!    asserts it.
//! 4. What a session has open and denies stands until its fence holds.
//!
//! No assertion checks 1, since a reclaim may break it, nor 4: the table does not know of fences.
//! `check_mode` returns the refusal and takes no lease table (2).

use braid_types::{Failure, SessionId, Status};

use crate::opens::{Access, OpenFile};

/// What an open denies to every other open of its file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Deny {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
    /// Removing, moving or replacing a name of the file, by any caller.
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

/// What one open may do and what it denies.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct OpenMode {
    /// What it may do.
    pub access: Access,
    /// What other opens may not do.
    pub deny: Deny,
}

impl OpenMode {
    /// An open with POSIX semantics.
    pub fn plain(access: Access) -> Self {
        Self { access, deny: Deny::NONE }
    }

    /// Why two opens of one file conflict; `None` if they do not. The answer describes `self`, and
    /// the other is the open that is asked for.
    fn conflict_with(self, other: Self) -> Option<ConflictKind> {
        let denies =
            |deny: Deny, access: Access| (deny.read && access.read, deny.write && access.write);
        match (denies(self.deny, other.access), denies(other.deny, self.access)) {
            ((true, _), _) => Some(ConflictKind::DeniesReading),
            ((_, true), _) => Some(ConflictKind::DeniesWriting),
            (_, (_, true)) => Some(ConflictKind::Writes),
            (_, (true, _)) => Some(ConflictKind::Reads),
            _ => None,
        }
    }
}

/// How an open conflicts with another one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ConflictKind {
    /// It denies reading.
    DeniesReading,
    /// It denies writing.
    DeniesWriting,
    /// It has the file open for reading.
    Reads,
    /// It has the file open for writing.
    Writes,
}

/// An open that conflicts with the one asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ModeConflict {
    /// Its session.
    pub by: SessionId,
    /// How it conflicts.
    pub why: ConflictKind,
}

impl From<ModeConflict> for Failure {
    fn from(ModeConflict { by, why }: ModeConflict) -> Self {
        let does = match why {
            ConflictKind::DeniesReading => "denies reading",
            ConflictKind::DeniesWriting => "denies writing",
            ConflictKind::Reads => "has it open for reading",
            ConflictKind::Writes => "has it open for writing",
        };
        Self::new(Status::SharingViolation, format!("session {by} {does}"))
    }
}

/// Which opens of a file are ignored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum IgnoredOpens {
    /// None: the open is a new one.
    Nothing,
    /// One open with this mode: it is the one that changes.
    One(SessionId, OpenMode),
    /// All opens of this session: it reclaims what it had.
    Session(SessionId),
}

/// The first existing open that conflicts with a new one of this mode.
pub fn find_conflict(
    wanted: OpenMode,
    opens: &[OpenFile],
    beside: IgnoredOpens,
) -> Option<ModeConflict> {
    opens.iter().find_map(|open| {
        if beside == IgnoredOpens::Session(open.session) {
            return None;
        }
        let mut modes = open.modes();
        if let IgnoredOpens::One(session, mode) = beside
            && session == open.session
        {
            modes.remove(mode);
        }
        modes.0.iter().find_map(|(mode, _)| Some((mode, mode.conflict_with(wanted)?))).map(
            |(mode, why)| {
                let denies = !(wanted.deny.is_none() && mode.deny.is_none());
                debug_assert!(denies, "3: only an open that denies something conflicts");
                ModeConflict { by: open.session, why }
            },
        )
    })
}

/// What all these opens deny together.
pub(crate) fn denied(opens: &[OpenFile]) -> Deny {
    opens
        .iter()
        .flat_map(|open| &open.denying.0)
        .fold(Deny::NONE, |all, (mode, _)| all.and(mode.deny))
}

/// Opens of one file, counted by mode. Sorted by mode; no count is 0.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ModeCounts(Vec<(OpenMode, u32)>);

impl ModeCounts {
    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The modes with their counts.
    pub fn iter(&self) -> impl Iterator<Item = (OpenMode, u32)> {
        self.0.iter().copied()
    }

    /// The count of a mode.
    pub fn of(&self, mode: OpenMode) -> u32 {
        self.0.binary_search_by_key(&mode, |(mode, _)| *mode).map_or(0, |at| self.0[at].1)
    }

    /// Adds one open.
    pub fn add(&mut self, mode: OpenMode) {
        self.set(mode, self.of(mode).saturating_add(1));
    }

    /// Removes one open.
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

    /// Reduces each count to that in `others`.
    pub(crate) fn at_most(&mut self, others: &Self) {
        self.0.iter_mut().for_each(|(mode, count)| *count = others.of(*mode).min(*count));
        self.0.retain(|(_, count)| *count > 0);
    }

    /// How many opens satisfy `which`.
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
    fn denied_access_conflicts_whichever_open_came_first() {
        let denies = [opens(X, &[mode(Access::READ, DENY_WRITE)])];
        let by_denial = Some(ModeConflict { by: X, why: ConflictKind::DeniesWriting });
        assert_eq!(
            find_conflict(OpenMode::plain(Access::WRITE), &denies, IgnoredOpens::Nothing),
            by_denial
        );
        assert_eq!(
            find_conflict(OpenMode::plain(Access::READ), &denies, IgnoredOpens::Nothing),
            None
        );
        let writes = [opens(X, &[OpenMode::plain(Access::BOTH)])];
        let by_access = Some(ModeConflict { by: X, why: ConflictKind::Writes });
        assert_eq!(
            find_conflict(mode(Access::READ, DENY_WRITE), &writes, IgnoredOpens::Nothing),
            by_access
        );
    }

    #[test]
    fn a_writer_does_not_conflict_with_an_open_that_denies_reading() {
        let writes = [opens(X, &[OpenMode::plain(Access::WRITE)])];
        assert_eq!(
            find_conflict(mode(Access::WRITE, DENY_READ), &writes, IgnoredOpens::Nothing),
            None
        );
        let both = [opens(X, &[OpenMode::plain(Access::WRITE), OpenMode::plain(Access::BOTH)])];
        assert_eq!(
            find_conflict(mode(Access::WRITE, DENY_READ), &both, IgnoredOpens::Nothing)
                .map(|excluded| excluded.why),
            Some(ConflictKind::Reads)
        );
    }

    #[test]
    fn a_changing_open_ignores_itself_but_not_others_of_its_session() {
        let own = mode(Access::BOTH, DENY_WRITE);
        let more = mode(Access::BOTH, Deny { read: true, ..DENY_WRITE });
        assert_eq!(find_conflict(more, &[opens(X, &[own])], IgnoredOpens::One(X, own)), None);
        let two = [opens(X, &[own, OpenMode::plain(Access::READ)])];
        assert_eq!(
            find_conflict(more, &two, IgnoredOpens::One(X, own)).map(|excluded| excluded.why),
            Some(ConflictKind::Reads)
        );
        assert_eq!(find_conflict(more, &two, IgnoredOpens::Session(X)), None);
        assert!(find_conflict(more, &two, IgnoredOpens::Session(Y)).is_some());
    }

    #[test]
    fn an_open_that_denies_only_deleting_conflicts_with_no_open() {
        let denies = [opens(X, &[mode(Access::READ, Deny { delete: true, ..Deny::NONE })])];
        assert_eq!(
            find_conflict(OpenMode::plain(Access::BOTH), &denies, IgnoredOpens::Nothing),
            None
        );
        assert!(denied(&denies).delete);
    }
}
