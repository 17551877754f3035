//! The worlds that are explored, and the ways in which the mount is broken to see that it is noticed.

use super::world::CLIENTS;

/// What a program does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// It opens the file for reading.
    OpenReading,
    /// It opens the file for writing.
    OpenWriting,
    /// It closes a file that it opened for writing.
    Close,
    /// It reads a page, which its kernel keeps.
    Read(usize),
    /// It changes a page in its kernel's memory, which it has mapped.
    Store(usize),
    /// It reads a page past its kernel's memory.
    ReadPast(usize),
    /// It writes a page past its kernel's memory; too much to be gathered.
    Write(usize),
    /// It writes little to a page past its kernel's memory.
    WriteSmall(usize),
    /// It appends a page.
    Append,
    /// It asks how long the file is.
    Look,
    /// It has everything forced to disk.
    Sync,
    /// The mount gives up what is kept of the file, since there are too many.
    GiveUp,
}

/// A world to explore.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What was done before, one after the other: by whom, what.
    pub before: &'static [(usize, &'static [Act])],
    /// The programs of each client.
    pub programs: [&'static [&'static [Act]]; CLIENTS],
    /// What a client without leases does.
    pub plain: &'static [PlainAct],
    /// Whether small writes and appends may be gathered.
    pub gathers: bool,
    /// Pages that the file has.
    pub size: u8,
    /// Pages that it may come to have.
    pub pages: usize,
    /// Calls of the server that are looked at: recalls that overtake grants can make them any number.
    pub calls: u32,
    /// Clients that die.
    pub deaths: u8,
    /// Clients that lose all leases.
    pub losses: u8,
    /// Runs that cannot be written.
    pub failures: u8,
}

/// What a client does that takes no leases and keeps nothing.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlainAct {
    /// It opens the file for reading.
    Open,
    /// It reads a page.
    Read(usize),
    /// It asks how long the file is.
    Look,
    /// It closes the file.
    Close,
}

/// A world in which nothing is done.
const NOTHING: Scenario = Scenario {
    name: "",
    before: &[],
    programs: [&[], &[]],
    plain: &[],
    gathers: false,
    size: 1,
    pages: 1,
    calls: 6,
    deaths: 0,
    losses: 0,
    failures: 0,
};

/// A mount: the one that is meant, or one that is broken.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// As it is.
    Sound,
    /// Who wants a page asks for the lease itself, and does not see that pages begin to be dropped.
    AskHere,
    /// Pages wait while pages are dropped.
    NoServing,
    /// Who opens for writing leaves the pages that were given under *read*.
    KeepForWriters,
    /// What was written past the kernel's memory stays there as it was.
    NoDropAfterWrite,
    /// Pages are dropped once, though some were given meanwhile.
    OneRound,
    /// Two recalls of one lease are carried out at once.
    RecallsAtOnce,
    /// A lease that is kept as it was is not known from the one that was returned.
    SameTicket,
    /// What is given up of a file goes after things may begin again.
    GivesUpAfter,
    /// A lease is returned without what was gathered under it being written.
    NoDrainSettles,
    /// The same, and it is written then.
    SettlesAfter,
    /// Writes are gathered under a lease that was had by insisting.
    GathersInsisted,
    /// Pages are read without what is gathered being written.
    NoPageSettles,
    /// So is what is read past the kernel's memory.
    NoReadSettles,
    /// So are sizes.
    NoLookSettles,
    /// A file is closed and what it gathered stays.
    NoCloseSettles,
    /// A write ends under its lease before its bytes are taken in.
    EndsBefore,
    /// A write that may not be gathered leaves what is.
    NoWriteSettles,
    /// What is gathered between settling and the note of what may be kept of an answer stays.
    MarksAfter,
    /// The server lessens a lease that was held already.
    LessensHeld,
}

use Act::{
    Append, Close, GiveUp, Look, OpenReading, OpenWriting, Read, ReadPast, Store, Sync, Write,
    WriteSmall,
};

/// The worlds.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "pages: one reads, the other writes",
        before: &[(0, &[OpenReading, Read(0)]), (1, &[OpenWriting])],
        programs: [&[&[Read(1), Read(0)]], &[&[Write(0), Write(1)]]],
        size: 2,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "pages: both read, both write",
        before: &[(0, &[OpenReading, Read(0)]), (1, &[OpenReading, Read(0)])],
        programs: [&[&[Read(0)], &[OpenWriting, Write(0), Close]], &[&[OpenWriting, Write(0)]]],
        size: 1,
        pages: 1,
        ..NOTHING
    },
    Scenario {
        name: "pages: both write, both map",
        before: &[(0, &[OpenWriting]), (1, &[OpenWriting])],
        programs: [&[&[Read(0)], &[Write(0)]], &[&[Read(0)], &[Write(0)]]],
        size: 1,
        pages: 1,
        ..NOTHING
    },
    Scenario {
        name: "pages: changed in memory",
        before: &[(0, &[OpenWriting, Store(0)]), (1, &[OpenWriting])],
        programs: [&[&[Store(1), Read(0)]], &[&[Store(0), ReadPast(1)]]],
        size: 2,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "pages: opened with a lease while one is asked for",
        before: &[(0, &[OpenReading, Read(0)]), (1, &[OpenReading, Read(0)])],
        programs: [
            &[&[OpenWriting], &[Read(1), Read(0)]],
            &[&[OpenWriting, Write(0), Close, OpenReading, Read(0)]],
        ],
        size: 2,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "pages: appends",
        before: &[(0, &[OpenWriting, Append]), (1, &[OpenReading, Read(1)])],
        programs: [&[&[Append]], &[&[Read(1)], &[OpenWriting, Append]]],
        size: 0,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "pages: wanted back twice",
        before: &[(1, &[OpenWriting]), (0, &[OpenWriting, Store(0), Close])],
        programs: [&[&[Read(0)]], &[&[Look], &[Write(0)]]],
        size: 1,
        pages: 1,
        ..NOTHING
    },
    Scenario {
        name: "pages: kept, and given up",
        before: &[(0, &[OpenReading, Read(0)]), (1, &[OpenWriting])],
        programs: [&[&[GiveUp], &[Read(0), OpenWriting, Read(0)]], &[&[Write(0)]]],
        size: 1,
        pages: 1,
        ..NOTHING
    },
    Scenario {
        name: "pages: wanted back while more is granted",
        before: &[(0, &[OpenReading, Read(0)]), (1, &[OpenReading, Read(0)])],
        programs: [&[&[OpenWriting, Close], &[Read(1)]], &[&[Read(1)]]],
        size: 2,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "pages: all leases are lost",
        before: &[(0, &[OpenWriting, Write(0), Read(0)]), (1, &[OpenWriting])],
        programs: [&[&[Read(1)], &[Write(0)]], &[&[Write(1)]]],
        size: 2,
        pages: 2,
        losses: 1,
        ..NOTHING
    },
    Scenario {
        name: "pages: a client dies",
        before: &[(0, &[OpenWriting, Store(0)]), (1, &[OpenWriting])],
        programs: [&[&[Read(1)]], &[&[Read(0), Write(0)]]],
        size: 2,
        pages: 2,
        deaths: 1,
        ..NOTHING
    },
    Scenario {
        name: "gather: one writes, the other reads and looks",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(1)]], &[&[Read(0), Look], &[ReadPast(1)]]],
        gathers: true,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "gather: pages, reads and sizes of the same mount",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), WriteSmall(1)], &[Read(0), ReadPast(1)], &[Look, Look]],
            &[&[Look]],
        ],
        gathers: true,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "gather: sizes that are kept",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(1)], &[Look, Look]], &[&[Look, OpenWriting]]],
        gathers: true,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "gather: two write on one mount, a third elsewhere",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), Write(0)], &[WriteSmall(0), ReadPast(0)]],
            &[&[OpenWriting, WriteSmall(0)]],
        ],
        gathers: true,
        ..NOTHING
    },
    Scenario {
        name: "gather: wished for",
        before: &[(0, &[OpenWriting, Write(0)]), (1, &[OpenWriting, Write(0), Close])],
        programs: [
            &[&[WriteSmall(0)], &[OpenWriting, WriteSmall(0), WriteSmall(0), ReadPast(0)]],
            &[],
        ],
        gathers: true,
        ..NOTHING
    },
    Scenario {
        name: "gather: appends",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[Append, Append]], &[&[Look], &[OpenWriting, Append]]],
        gathers: true,
        size: 0,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "gather: beside a client without leases",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(0)]], &[&[Look]]],
        plain: &[
            PlainAct::Look,
            PlainAct::Open,
            PlainAct::Read(0),
            PlainAct::Read(0),
            PlainAct::Close,
        ],
        gathers: true,
        ..NOTHING
    },
    Scenario {
        name: "gather: appends beside a client without leases",
        before: &[],
        programs: [
            &[&[OpenWriting, Append], &[OpenWriting, WriteSmall(0)]],
            &[&[OpenWriting, Append]],
        ],
        plain: &[PlainAct::Open, PlainAct::Read(0), PlainAct::Look, PlainAct::Read(0)],
        gathers: true,
        size: 1,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "gather: opened beside a client without leases",
        before: &[],
        programs: [&[&[Append], &[OpenWriting]], &[&[Write(0)]]],
        plain: &[PlainAct::Open],
        gathers: true,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "gather: a run cannot be written",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), WriteSmall(1), Sync, WriteSmall(0), Close]],
            &[&[Read(0), Look]],
        ],
        gathers: true,
        pages: 2,
        failures: 1,
        ..NOTHING
    },
    Scenario {
        name: "gather: all leases are lost",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(1)]], &[&[Read(0), OpenWriting, WriteSmall(0)]]],
        gathers: true,
        pages: 2,
        losses: 1,
        ..NOTHING
    },
    Scenario {
        name: "gather: a client dies",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(1)]], &[&[Read(0), OpenWriting, WriteSmall(0)]]],
        gathers: true,
        pages: 2,
        deaths: 1,
        ..NOTHING
    },
    Scenario {
        name: "gather: closed and opened",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), Close, OpenWriting, WriteSmall(0), Close]],
            &[&[Look, ReadPast(0)]],
        ],
        gathers: true,
        failures: 1,
        ..NOTHING
    },
];
