//! Requests as the kernel lays them out, byte by byte.

use super::*;
use crate::kernel::abi::fattr;
use crate::kernel::{Forget, SetAttributes, SetTime, Time};
use proptest::prelude::*;

const EXT: ProtocolOptions = ProtocolOptions { setxattr_ext: true };

/// Puts a request together: a header, and what follows it.
struct Bytes {
    opcode: u32,
    body: Vec<u8>,
    extensions: Vec<u8>,
}

impl Bytes {
    fn new(opcode: u32) -> Self {
        Self { opcode, body: Vec::new(), extensions: Vec::new() }
    }

    fn u32(mut self, numbers: &[u32]) -> Self {
        self.body.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        self
    }

    fn u64(mut self, numbers: &[u64]) -> Self {
        self.body.extend(numbers.iter().flat_map(|number| number.to_ne_bytes()));
        self
    }

    fn text(mut self, text: &str) -> Self {
        self.body.extend_from_slice(text.as_bytes());
        self
    }

    fn groups(mut self, size: u32, count: u32, gids: &[u32]) -> Self {
        let numbers = [size, 32, count].into_iter().chain(gids.iter().copied());
        self.extensions.extend(numbers.flat_map(u32::to_ne_bytes));
        self.extensions.resize(self.extensions.len().next_multiple_of(8), 0);
        self
    }

    fn finish(&self) -> Vec<u8> {
        let len = (IN_HEADER_BYTES + self.body.len() + self.extensions.len()) as u32;
        let mut bytes: Vec<u8> =
            [len, self.opcode].into_iter().flat_map(u32::to_ne_bytes).collect();
        bytes.extend([0x1234u64, 77].into_iter().flat_map(u64::to_ne_bytes));
        bytes.extend([1000u32, 100, 4321].into_iter().flat_map(u32::to_ne_bytes));
        bytes.extend(((self.extensions.len() / 8) as u16).to_ne_bytes());
        bytes.extend([0, 0]);
        bytes.extend_from_slice(&self.body);
        bytes.extend_from_slice(&self.extensions);
        bytes
    }

    /// Must be this, whole; and every shorter one must be an error, not something else.
    #[track_caller]
    fn is(&self, expected: &Operation<'_>) {
        let bytes = self.finish();
        let request = Request::parse(&bytes, EXT).unwrap();
        assert_eq!(&request.operation, expected);
        let header = Header {
            opcode: self.opcode,
            unique: 0x1234,
            node: 77,
            uid: 1000,
            gid: 100,
            pid: 4321,
        };
        assert_eq!(request.header, header);
        for cut in 0..self.body.len() {
            let shorter = Self {
                opcode: self.opcode,
                body: self.body[..cut].to_vec(),
                extensions: Vec::new(),
            };
            assert!(Request::parse(&shorter.finish(), EXT).is_err(), "cut to {cut} bytes");
        }
        let longer = Self {
            opcode: self.opcode,
            body: [&self.body[..], &[1]].concat(),
            extensions: Vec::new(),
        };
        assert!(Request::parse(&longer.finish(), EXT).is_err(), "with a byte behind");
    }

    #[track_caller]
    fn fails(&self, expected: ParseError) {
        assert_eq!(Request::parse(&self.finish(), EXT).unwrap_err(), expected);
    }
}

#[test]
fn names_are_read_to_their_end() {
    Bytes::new(opcode::LOOKUP).text("name\0").is(&Operation::Lookup { name: b"name" });
    Bytes::new(opcode::UNLINK).text("name\0").is(&Operation::Unlink { name: b"name" });
    Bytes::new(opcode::RMDIR).text("name\0").is(&Operation::RemoveDirectory { name: b"name" });
    Bytes::new(opcode::SYMLINK)
        .text("name\0to\0")
        .is(&Operation::Symlink { name: b"name", target: b"to" });
    Bytes::new(opcode::REMOVEXATTR)
        .text("user.a\0")
        .is(&Operation::RemoveXattr { name: b"user.a" });
    Bytes::new(opcode::MKDIR).u32(&[0o40755, 0o22]).text("d\0").is(&Operation::MakeDirectory {
        name: b"d",
        mode: 0o40755,
        umask: 0o22,
    });
    Bytes::new(opcode::MKNOD).u32(&[0o10600, 259, 0o77, 0]).text("p\0").is(&Operation::MakeNode {
        name: b"p",
        mode: 0o10600,
        umask: 0o77,
        device: 259,
    });
    Bytes::new(opcode::LINK).u64(&[5]).text("n\0").is(&Operation::Link { node: 5, new_name: b"n" });
}

#[test]
fn both_renames_are_one_operation() {
    let plain = Operation::Rename { name: b"a", new_parent: 9, new_name: b"b", flags: 0 };
    Bytes::new(opcode::RENAME).u64(&[9]).text("a\0b\0").is(&plain);
    let exchange = Operation::Rename { name: b"a", new_parent: 9, new_name: b"b", flags: 2 };
    Bytes::new(opcode::RENAME2).u64(&[9]).u32(&[2, 0]).text("a\0b\0").is(&exchange);
}

#[test]
fn opens_say_how_and_whether_bits_are_cleared() {
    Bytes::new(opcode::OPEN)
        .u32(&[0o1001, 1])
        .is(&Operation::Open { flags: 0o1001, kill_suidgid: true });
    Bytes::new(opcode::OPENDIR)
        .u32(&[0o200_000, 0])
        .is(&Operation::OpenDirectory { flags: 0o200_000 });
    let create = Operation::Create {
        name: b"f",
        flags: 0o102,
        mode: 0o100_644,
        umask: 0o22,
        kill_suidgid: false,
    };
    Bytes::new(opcode::CREATE).u32(&[0o102, 0o100_644, 0o22, 0]).text("f\0").is(&create);
    let temporary = Operation::TemporaryFile { flags: 2, mode: 0o100_600, umask: 0 };
    Bytes::new(opcode::TMPFILE).u32(&[2, 0o100_600, 0, 0]).text("/\0").is(&temporary);
}

#[test]
fn reads_and_writes_name_the_lock_owner_only_where_it_is_said() {
    let read =
        |lock_owner| Operation::Read { handle: 7, offset: 4096, size: 65536, flags: 2, lock_owner };
    Bytes::new(opcode::READ)
        .u64(&[7, 4096])
        .u32(&[65536, 2])
        .u64(&[99])
        .u32(&[2, 0])
        .is(&read(Some(99)));
    Bytes::new(opcode::READ)
        .u64(&[7, 4096])
        .u32(&[65536, 0])
        .u64(&[99])
        .u32(&[2, 0])
        .is(&read(None));
    let write = Operation::Write {
        handle: 7,
        offset: 10,
        data: b"data",
        flags: 1,
        lock_owner: Some(99),
        from_cache: true,
        kill_suidgid: true,
    };
    Bytes::new(opcode::WRITE)
        .u64(&[7, 10])
        .u32(&[4, 7])
        .u64(&[99])
        .u32(&[1, 0])
        .text("data")
        .is(&write);
}

#[test]
fn a_write_that_has_not_the_bytes_it_says_is_refused() {
    let write = |size| {
        Bytes::new(opcode::WRITE).u64(&[7, 10]).u32(&[size, 0]).u64(&[0]).u32(&[0, 0]).text("data")
    };
    write(5).fails(ParseError::Short);
    write(u32::MAX).fails(ParseError::Short);
    write(3).fails(ParseError::Rest(1));
}

#[test]
fn closing_says_whose_locks_go() {
    let release = Operation::Release {
        handle: 7,
        flags: 2,
        lock_owner: 99,
        flush: false,
        flock_unlock: true,
    };
    Bytes::new(opcode::RELEASE).u64(&[7]).u32(&[2, 2]).u64(&[99]).is(&release);
    let directory = Operation::ReleaseDirectory { handle: 7, flags: 2 };
    Bytes::new(opcode::RELEASEDIR).u64(&[7]).u32(&[2, 0]).u64(&[0]).is(&directory);
    Bytes::new(opcode::FLUSH).u64(&[7, 0, 99]).is(&Operation::Flush { handle: 7, lock_owner: 99 });
    Bytes::new(opcode::FSYNC)
        .u64(&[7])
        .u32(&[1, 0])
        .is(&Operation::Sync { handle: 7, data_only: true });
    let directory = Operation::SyncDirectory { handle: 7, data_only: false };
    Bytes::new(opcode::FSYNCDIR).u64(&[7]).u32(&[0, 0]).is(&directory);
}

#[test]
fn attributes_are_set_only_where_they_are_said_to_be_valid() {
    let set = |valid: u32| {
        Bytes::new(opcode::SETATTR)
            .u32(&[valid, 0])
            .u64(&[7, 4096, 99, -1i64 as u64, 20, 30])
            .u32(&[1, 2, 3, 0o100_644, 0, 1000, 100, 0])
    };
    set(0).is(&Operation::SetAttributes(SetAttributes::default()));
    let all_but_now = fattr::MODE
        | fattr::UID
        | fattr::GID
        | fattr::SIZE
        | fattr::ATIME
        | fattr::MTIME
        | fattr::FH;
    set(all_but_now | fattr::CTIME).is(&Operation::SetAttributes(SetAttributes {
        mode: Some(0o100_644),
        uid: Some(1000),
        gid: Some(100),
        size: Some(4096),
        accessed: Some(SetTime::At(Time { seconds: -1, nanoseconds: 1 })),
        modified: Some(SetTime::At(Time { seconds: 20, nanoseconds: 2 })),
        changed: Some(Time { seconds: 30, nanoseconds: 3 }),
        handle: Some(7),
        lock_owner: None,
        kill_suidgid: false,
    }));
    let now = SetAttributes {
        accessed: Some(SetTime::Now),
        modified: Some(SetTime::Now),
        lock_owner: Some(99),
        kill_suidgid: true,
        ..SetAttributes::default()
    };
    let now_flags = fattr::ATIME | fattr::ATIME_NOW | fattr::MTIME | fattr::MTIME_NOW;
    set(now_flags | fattr::LOCKOWNER | fattr::KILL_SUIDGID).is(&Operation::SetAttributes(now));
}

#[test]
fn attributes_are_asked_through_an_open_file_only_where_it_is_said() {
    Bytes::new(opcode::GETATTR)
        .u32(&[1, 0])
        .u64(&[7])
        .is(&Operation::GetAttributes { handle: Some(7) });
    Bytes::new(opcode::GETATTR)
        .u32(&[0, 0])
        .u64(&[7])
        .is(&Operation::GetAttributes { handle: None });
    let statx = Operation::ExtendedStat { handle: None, flags: 0x800, mask: 0xfff };
    Bytes::new(opcode::STATX).u32(&[0, 0]).u64(&[7]).u32(&[0x800, 0xfff]).is(&statx);
}

#[test]
fn extended_attributes_have_two_forms() {
    let value = |acl_kill_sgid| Operation::SetXattr {
        name: b"user.a",
        value: b"xyz",
        flags: 1,
        acl_kill_sgid,
    };
    let long = Bytes::new(opcode::SETXATTR).u32(&[3, 1, 1, 0]).text("user.a\0xyz");
    long.is(&value(true));
    let short = Bytes::new(opcode::SETXATTR).u32(&[3, 1]).text("user.a\0xyz").finish();
    assert_eq!(Request::parse(&short, ProtocolOptions::default()).unwrap().operation, value(false));
    Bytes::new(opcode::GETXATTR)
        .u32(&[64, 0])
        .text("n\0")
        .is(&Operation::GetXattr { name: b"n", size: 64 });
    Bytes::new(opcode::LISTXATTR).u32(&[64, 0]).is(&Operation::ListXattr { size: 64 });
    Bytes::new(opcode::SETXATTR).u32(&[4, 0, 0, 0]).text("n\0xyz").fails(ParseError::Short);
}

#[test]
fn locks_say_whose_which_and_of_what_kind() {
    let bytes = |code, kind, flags| {
        Bytes::new(code).u64(&[7, 99, 10, i64::MAX as u64]).u32(&[kind, 4321, flags, 0])
    };
    let lock = |kind, flock| Lock {
        handle: 7,
        owner: 99,
        start: 10,
        end: i64::MAX as u64,
        kind,
        pid: 4321,
        flock,
    };
    bytes(opcode::GETLK, 0, 0).is(&Operation::TestLock(lock(LockKind::Read, false)));
    bytes(opcode::SETLK, 2, 0)
        .is(&Operation::SetLock { lock: lock(LockKind::Unlock, false), wait: false });
    bytes(opcode::SETLKW, 1, 1)
        .is(&Operation::SetLock { lock: lock(LockKind::Write, true), wait: true });
    bytes(opcode::SETLKW, 3, 1).fails(ParseError::Value { what: "the kind of a lock", value: 3 });
}

#[test]
fn ranges_and_positions_are_read() {
    let allocate = Operation::Allocate { handle: 7, offset: 1, length: 2, mode: 3 };
    Bytes::new(opcode::FALLOCATE).u64(&[7, 1, 2]).u32(&[3, 0]).is(&allocate);
    Bytes::new(opcode::LSEEK).u64(&[7, 1]).u32(&[3, 0]).is(&Operation::Seek {
        handle: 7,
        offset: 1,
        whence: 3,
    });
    let copy = Operation::CopyRange {
        handle: 1,
        offset: 2,
        to_node: 3,
        to_handle: 4,
        to_offset: 5,
        length: 6,
        flags: 7,
    };
    Bytes::new(opcode::COPY_FILE_RANGE).u64(&[1, 2, 3, 4, 5, 6, 7]).is(&copy);
    Bytes::new(opcode::COPY_FILE_RANGE_64).u64(&[1, 2, 3, 4, 5, 6, 7]).is(&copy);
    let listing = |plus| Operation::ReadDirectory { handle: 7, offset: 3, size: 4096, plus };
    Bytes::new(opcode::READDIR)
        .u64(&[7, 3])
        .u32(&[4096, 0])
        .u64(&[0])
        .u32(&[0, 0])
        .is(&listing(false));
    Bytes::new(opcode::READDIRPLUS)
        .u64(&[7, 3])
        .u32(&[4096, 0])
        .u64(&[0])
        .u32(&[0, 0])
        .is(&listing(true));
}

#[test]
fn small_requests_are_read() {
    Bytes::new(opcode::READLINK).is(&Operation::ReadLink);
    Bytes::new(opcode::STATFS).is(&Operation::StatFs);
    Bytes::new(opcode::DESTROY).is(&Operation::Destroy);
    Bytes::new(opcode::SYNCFS).u64(&[0]).is(&Operation::SyncFs);
    Bytes::new(opcode::ACCESS).u32(&[4, 0]).is(&Operation::Access { mask: 4 });
    Bytes::new(opcode::INTERRUPT).u64(&[0x1232]).is(&Operation::Interrupt { unique: 0x1232 });
    Bytes::new(opcode::BMAP)
        .u64(&[5])
        .u32(&[512, 0])
        .is(&Operation::BlockMap { block: 5, block_size: 512 });
    let poll = Operation::Poll { handle: 7, wake: 8, flags: 1, events: 5 };
    Bytes::new(opcode::POLL).u64(&[7, 8]).u32(&[1, 5]).is(&poll);
    let ioctl =
        Operation::Ioctl { handle: 7, flags: 0, command: 5, argument: 6, data: b"in", out_size: 9 };
    Bytes::new(opcode::IOCTL).u64(&[7]).u32(&[0, 5]).u64(&[6]).u32(&[2, 9]).text("in").is(&ioctl);
}

#[test]
fn forgets_come_one_or_many_at_a_time() {
    let nodes = |bytes: &[u8]| match Request::parse(bytes, EXT).unwrap().operation {
        Operation::Forget(forgotten) => forgotten.iter().collect::<Vec<_>>(),
        other => panic!("{other:?}"),
    };
    let one = Bytes::new(opcode::FORGET).u64(&[3]).finish();
    assert_eq!(nodes(&one), [Forget { node: 77, lookups: 3 }]);
    let many = Bytes::new(opcode::BATCH_FORGET).u32(&[2, 0]).u64(&[5, 1, 6, 2]).finish();
    assert_eq!(nodes(&many), [Forget { node: 5, lookups: 1 }, Forget { node: 6, lookups: 2 }]);
    Bytes::new(opcode::BATCH_FORGET).u32(&[u32::MAX, 0]).u64(&[5, 1]).fails(ParseError::Short);
}

#[test]
fn init_is_read_with_and_without_its_second_half() {
    let init =
        |flags| Operation::Init { major: 7, minor: 45, read_ahead_bytes_max: 131_072, flags };
    let short = Bytes::new(opcode::INIT).u32(&[7, 45, 131_072, 0x8]).finish();
    assert_eq!(Request::parse(&short, EXT).unwrap().operation, init(8));
    let long = Bytes::new(opcode::INIT).u32(&[7, 45, 131_072, 1 << 30, 4]).u32(&[0; 11]).finish();
    assert_eq!(Request::parse(&long, EXT).unwrap().operation, init(4 << 32 | 1 << 30));
    Bytes::new(opcode::INIT).u32(&[7, 45, 0, 1 << 30]).fails(ParseError::Short);
}

#[test]
fn groups_behind_the_arguments_are_found() {
    let bytes =
        Bytes::new(opcode::MKDIR).u32(&[0o755, 0]).text("d\0").groups(16, 1, &[50]).finish();
    let request = Request::parse(&bytes, EXT).unwrap();
    assert_eq!(request.groups.iter().collect::<Vec<_>>(), [50]);
    assert_eq!(request.operation, Operation::MakeDirectory { name: b"d", mode: 0o755, umask: 0 });
}

#[test]
fn extensions_that_do_not_fit_are_refused() {
    for (size, count) in [(16, 2), (16, u32::MAX), (24, 1), (0, 1), (4, 1), (15, 1), (u32::MAX, 1)]
    {
        let bytes =
            Bytes::new(opcode::MKDIR).u32(&[0o755, 0]).text("d\0").groups(size, count, &[50]);
        bytes.fails(ParseError::Extension);
    }
    let mut more_than_there_is = Bytes::new(opcode::STATFS).finish();
    more_than_there_is[36] = 1;
    assert_eq!(Request::parse(&more_than_there_is, EXT).unwrap_err(), ParseError::Extension);
}

#[test]
fn a_header_that_lies_about_the_length_is_refused() {
    let bytes = Bytes::new(opcode::LOOKUP).text("name\0").finish();
    assert_eq!(
        Request::parse(&bytes[..44], EXT).unwrap_err(),
        ParseError::Length { said: 45, have: 44 }
    );
    assert_eq!(Request::parse(&bytes[..39], EXT).unwrap_err(), ParseError::NoHeader(39));
}

#[test]
fn names_without_an_end_and_empty_ones_are_refused() {
    Bytes::new(opcode::LOOKUP).text("name").fails(ParseError::Name);
    Bytes::new(opcode::LOOKUP).text("\0").fails(ParseError::Name);
    Bytes::new(opcode::LOOKUP).text("a\0b\0").fails(ParseError::Rest(2));
    Bytes::new(opcode::CREATE).u32(&[0; 4]).text("\0").fails(ParseError::Name);
}

#[test]
fn what_is_newer_than_this_code_is_unknown_whatever_it_carries() {
    for code in [7, 19, 48, 49, 54, 4096, u32::MAX] {
        let bytes = Bytes::new(code).text("anything").finish();
        assert_eq!(Request::parse(&bytes, EXT).unwrap().operation, Operation::Unknown);
    }
}

proptest! {
    #[test]
    fn any_bytes_give_a_request_or_an_error(
        code in 0u32..64,
        body in prop::collection::vec(any::<u8>(), 0..200),
    ) {
        let bytes = Bytes { opcode: code, body, extensions: Vec::new() }.finish();
        let _ = Request::parse(&bytes, EXT);
        let _ = Request::parse(&bytes[IN_HEADER_BYTES..], EXT);
    }
}
