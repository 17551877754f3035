//! The worlds that are explored, and the ways in which the mount is broken to see that the checks
//! notice it.

use super::world::CLIENTS;

/// What a program does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum Act {
    /// Opens the file for reading.
    OpenReading,
    /// Opens the file for writing.
    OpenWriting,
    /// Closes a file that it opened for writing.
    Close,
    /// The same, and leaves its buffered bytes to the mount (ADR 0034).
    CloseBehind,
    /// Reads a page, which its kernel caches.
    Read(usize),
    /// Changes a page in its kernel's cache, which it has mapped.
    Store(usize),
    /// Reads a page past its kernel's cache.
    ReadPast(usize),
    /// Writes a page past its kernel's cache; too much to be buffered.
    Write(usize),
    /// Writes little to a page past its kernel's cache.
    WriteSmall(usize),
    /// Appends a page.
    Append,
    /// Queries the size of the file.
    Look,
    /// Calls fsync.
    Sync,
    /// The mount drops the caches of the file, because it has too many.
    GiveUp,
}

/// A world to explore.
#[derive(Clone, Copy, Debug)]
pub struct Scenario {
    /// Its name.
    pub name: &'static str,
    /// What was done before, in this order: client and acts.
    pub before: &'static [(usize, &'static [Act])],
    /// The programs of each client.
    pub programs: [&'static [&'static [Act]]; CLIENTS],
    /// What the client without leases does.
    pub plain: &'static [PlainAct],
    /// Whether small writes and appends may be buffered.
    pub buffers: bool,
    /// Pages that the file has.
    pub size: u8,
    /// Pages that it may get.
    pub pages: usize,
    /// Server calls to explore: recalls that overtake grants can cause any number.
    pub calls: u32,
    /// Clients that die.
    pub deaths: u8,
    /// Clients that lose all leases.
    pub losses: u8,
    /// Write buffers that cannot be written.
    pub failures: u8,
}

/// What the client without leases does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum PlainAct {
    /// Opens the file for reading.
    Open,
    /// Reads a page.
    Read(usize),
    /// Queries the size of the file.
    Look,
    /// Closes the file.
    Close,
}

/// A world in which nothing is done.
const NOTHING: Scenario = Scenario {
    name: "",
    before: &[],
    programs: [&[], &[]],
    plain: &[],
    buffers: false,
    size: 1,
    pages: 1,
    calls: 6,
    deaths: 0,
    losses: 0,
    failures: 0,
};

/// The correct mount, or a broken one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Variant {
    /// As it is.
    Sound,
    /// A reader of a page requests the lease itself, and does not notice that pages begin to be
    /// dropped.
    AsksInPageThread,
    /// Pages wait while pages are dropped.
    PagesWaitForDrops,
    /// An open for writing leaves the pages that were cached under *read*.
    KeepForWriters,
    /// A direct write leaves the old page in the kernel's cache.
    NoDropAfterWrite,
    /// Pages are dropped once, although some arrived meanwhile.
    OneRound,
    /// Two recalls of one lease are carried out at the same time.
    RecallsAtOnce,
    /// A lease that remains unchanged is not distinguished from the one that was returned.
    SameTicket,
    /// A dropped file's lease is returned after new uses may begin.
    GivesUpAfter,
    /// A lease is returned without flushing the bytes buffered under it.
    NoFlushOnDrain,
    /// The same, and they are flushed afterwards.
    FlushesAfterReturn,
    /// Writes are buffered under a lease that was obtained by insisting.
    BuffersInsisted,
    /// Pages are read without flushing buffered bytes.
    NoFlushBeforePage,
    /// Direct reads do not flush buffered bytes either.
    NoFlushBeforeRead,
    /// Size queries do not flush buffered bytes either.
    NoFlushBeforeSize,
    /// A file is closed, and its buffered bytes stay.
    NoFlushOnClose,
    /// A file that is closed with bytes left returns its lease at the close, before they are sent.
    ReturnsLeaseAtClose,
    /// Bytes that are lost after a close are reported to the closed handle alone.
    ForgetsClosedLoss,
    /// A write ends under its lease before its bytes are buffered.
    EndsBefore,
    /// A write that may not be buffered leaves buffered bytes.
    NoFlushBeforeWrite,
    /// Bytes buffered between the flush and the stamp of a size query stay.
    StampsAfterBuffering,
    /// The server reduces a lease that was held already.
    ReducesHeldLease,
}

use Act::{
    Append, Close, CloseBehind, GiveUp, Look, OpenReading, OpenWriting, Read, ReadPast, Store,
    Sync, Write, WriteSmall,
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
        name: "pages: recalled twice",
        before: &[(1, &[OpenWriting]), (0, &[OpenWriting, Store(0), Close])],
        programs: [&[&[Read(0)]], &[&[Look], &[Write(0)]]],
        size: 1,
        pages: 1,
        ..NOTHING
    },
    Scenario {
        name: "pages: cached, then dropped",
        before: &[(0, &[OpenReading, Read(0)]), (1, &[OpenWriting])],
        programs: [&[&[GiveUp], &[Read(0), OpenWriting, Read(0)]], &[&[Write(0)]]],
        size: 1,
        pages: 1,
        ..NOTHING
    },
    Scenario {
        name: "pages: recalled while more is granted",
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
        name: "buffered: one writes, the other reads and queries",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(1)]], &[&[Read(0), Look], &[ReadPast(1)]]],
        buffers: true,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "buffered: pages, reads and sizes of the same mount",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), WriteSmall(1)], &[Read(0), ReadPast(1)], &[Look, Look]],
            &[&[Look]],
        ],
        buffers: true,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "buffered: cached sizes",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(1)], &[Look, Look]], &[&[Look, OpenWriting]]],
        buffers: true,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "buffered: two write on one mount, a third elsewhere",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), Write(0)], &[WriteSmall(0), ReadPast(0)]],
            &[&[OpenWriting, WriteSmall(0)]],
        ],
        buffers: true,
        ..NOTHING
    },
    Scenario {
        name: "buffered: requested",
        before: &[(0, &[OpenWriting, Write(0)]), (1, &[OpenWriting, Write(0), Close])],
        programs: [
            &[&[WriteSmall(0)], &[OpenWriting, WriteSmall(0), WriteSmall(0), ReadPast(0)]],
            &[],
        ],
        buffers: true,
        ..NOTHING
    },
    Scenario {
        name: "buffered: appends",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[Append, Append]], &[&[Look], &[OpenWriting, Append]]],
        buffers: true,
        size: 0,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "buffered: beside a client without leases",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(0)]], &[&[Look]]],
        plain: &[
            PlainAct::Look,
            PlainAct::Open,
            PlainAct::Read(0),
            PlainAct::Read(0),
            PlainAct::Close,
        ],
        buffers: true,
        ..NOTHING
    },
    Scenario {
        name: "buffered: appends beside a client without leases",
        before: &[],
        programs: [
            &[&[OpenWriting, Append], &[OpenWriting, WriteSmall(0)]],
            &[&[OpenWriting, Append]],
        ],
        plain: &[PlainAct::Open, PlainAct::Read(0), PlainAct::Look, PlainAct::Read(0)],
        buffers: true,
        size: 1,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "buffered: opened beside a client without leases",
        before: &[],
        programs: [&[&[Append], &[OpenWriting]], &[&[Write(0)]]],
        plain: &[PlainAct::Open],
        buffers: true,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "buffered: a buffer cannot be written",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), WriteSmall(1), Sync, WriteSmall(0), Close]],
            &[&[Read(0), Look]],
        ],
        buffers: true,
        pages: 2,
        failures: 1,
        ..NOTHING
    },
    Scenario {
        name: "buffered: all leases are lost",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(1)]], &[&[Read(0), OpenWriting, WriteSmall(0)]]],
        buffers: true,
        pages: 2,
        losses: 1,
        ..NOTHING
    },
    Scenario {
        name: "buffered: a client dies",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), WriteSmall(1)]], &[&[Read(0), OpenWriting, WriteSmall(0)]]],
        buffers: true,
        pages: 2,
        deaths: 1,
        ..NOTHING
    },
    Scenario {
        name: "buffered: closed and opened",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), Close, OpenWriting, WriteSmall(0), Close]],
            &[&[Look, ReadPast(0)]],
        ],
        buffers: true,
        failures: 1,
        ..NOTHING
    },
    Scenario {
        name: "buffered: closed with bytes left",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), CloseBehind, OpenWriting, WriteSmall(1), CloseBehind]],
            &[&[Look, Read(0)]],
        ],
        buffers: true,
        pages: 2,
        ..NOTHING
    },
    Scenario {
        name: "buffered: closed with bytes left on two mounts",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), CloseBehind]],
            &[&[OpenWriting, WriteSmall(0), CloseBehind, ReadPast(0)]],
        ],
        buffers: true,
        ..NOTHING
    },
    Scenario {
        name: "buffered: closed with bytes left, read on the same mount",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), CloseBehind], &[Read(0), Look]], &[&[ReadPast(0)]]],
        buffers: true,
        ..NOTHING
    },
    Scenario {
        name: "buffered: closed with bytes left beside a client without leases",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), CloseBehind]], &[&[Look]]],
        plain: &[PlainAct::Open, PlainAct::Read(0), PlainAct::Look],
        buffers: true,
        ..NOTHING
    },
    Scenario {
        name: "buffered: appended and closed in turn",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[Append, CloseBehind, OpenWriting, Append, CloseBehind]],
            &[&[OpenWriting, Append, CloseBehind]],
        ],
        buffers: true,
        size: 0,
        pages: 3,
        ..NOTHING
    },
    Scenario {
        name: "buffered: lost after a close",
        before: &[(0, &[OpenWriting])],
        programs: [
            &[&[WriteSmall(0), CloseBehind, Sync], &[OpenWriting, WriteSmall(0), Sync]],
            &[&[Look]],
        ],
        buffers: true,
        failures: 1,
        ..NOTHING
    },
    Scenario {
        name: "buffered: all leases are lost after a close",
        before: &[(0, &[OpenWriting])],
        programs: [&[&[WriteSmall(0), CloseBehind]], &[&[OpenWriting, WriteSmall(0)]]],
        buffers: true,
        losses: 1,
        ..NOTHING
    },
];
