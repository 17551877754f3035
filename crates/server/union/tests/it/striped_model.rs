//! Random calls on a striped file, compared with the same calls on one plain file.

use std::{
    fs::File,
    os::{fd::AsFd, unix::fs::FileExt},
    sync::Arc,
};

use braid_union::OpenFile;
use proptest::prelude::*;
use rustix::fs::{FallocateFlags, OFlags};
use rustix::io::Errno;

use crate::{
    harness::Fixture,
    striped::{UNIT, open, striped_union, truncate},
};

/// Beyond this no call begins.
const END: u64 = 20 * UNIT;

#[derive(Clone, Debug)]
enum Call {
    Write(u64, u64, u8),
    Read(u64, u64),
    Truncate(u64),
    Punch(u64, u64),
    Allocate(u64, u64, bool),
    Seek(u64),
    Copy(u64, u64, u64),
    Sync,
    Reopen,
    /// The union is dropped without a close, and opened again.
    Kill,
}

/// Offsets in any place, and near the bounds of units.
fn offset() -> impl Strategy<Value = u64> {
    prop_oneof![
        0..END,
        (0..20_u64, 0..3_u64).prop_map(|(unit, off)| (unit * UNIT + off).max(1) - 1)
    ]
}

fn length() -> impl Strategy<Value = u64> {
    prop_oneof![1..64_u64, 1..9 * UNIT, (1..6_u64).prop_map(|units| units * UNIT)]
}

fn call() -> impl Strategy<Value = Call> {
    prop_oneof![
        8 => (offset(), length(), 1..255_u8)
            .prop_map(|(at, bytes, fill)| Call::Write(at, bytes, fill)),
        6 => (offset(), length()).prop_map(|(at, bytes)| Call::Read(at, bytes)),
        4 => offset().prop_map(Call::Truncate),
        3 => (offset(), length()).prop_map(|(at, bytes)| Call::Punch(at, bytes)),
        2 => (offset(), length(), any::<bool>())
            .prop_map(|(at, n, keep)| Call::Allocate(at, n, keep)),
        3 => offset().prop_map(Call::Seek),
        2 => (offset(), offset(), length()).prop_map(|(from, to, n)| Call::Copy(from, to, n)),
        1 => Just(Call::Sync),
        2 => Just(Call::Reopen),
        1 => Just(Call::Kill),
    ]
}

struct Pair {
    union: Fixture,
    file: Arc<OpenFile>,
    plain: File,
}

impl Pair {
    fn new(disks: usize) -> Option<Self> {
        let union = striped_union(disks, "unit=4K")?;
        union.write("s/x", b"").unwrap();
        let file = open(&union, "s/x", OFlags::RDWR).unwrap();
        Some(Self { union, file, plain: tempfile::tempfile().unwrap() })
    }

    fn read(&self, offset: u64, bytes: u64) -> [Vec<u8>; 2] {
        let (mut found, mut expected) = (vec![0xee; bytes as usize], vec![0; bytes as usize]);
        let count = self.union.union.read(&self.file, offset, &mut found).unwrap();
        found.truncate(count);
        let mut filled = 0;
        while filled < expected.len() {
            match self.plain.read_at(&mut expected[filled..], offset + filled as u64).unwrap() {
                0 => break,
                bytes => filled += bytes,
            }
        }
        expected.truncate(filled);
        [found, expected]
    }

    fn allocate(&self, mode: FallocateFlags, offset: u64, bytes: u64) {
        let done = self.union.union.allocate(&self.file, mode.bits(), offset, bytes);
        assert_eq!(done, rustix::fs::fallocate(self.plain.as_fd(), mode, offset, bytes));
    }

    /// Holes may be anywhere where zeros are; data must not be left out.
    fn seek(&self, offset: u64, size: u64) {
        let union = &self.union.union;
        let data = union.seek(&self.file, offset, true);
        if offset >= size {
            assert_eq!(data, Err(Errno::NXIO));
            return;
        }
        let [_, expected] = self.read(offset, data.unwrap_or(size) - offset);
        assert!(expected.iter().all(|byte| *byte == 0), "data from {offset} to {data:?}");
        let hole = union.seek(&self.file, offset, false).unwrap();
        assert!(hole >= offset && hole <= size);
        if data == Ok(offset) {
            assert!(hole > offset, "{offset} is data and hole");
        }
    }

    fn call(mut self, call: &Call) -> Self {
        let size = self.plain.metadata().unwrap().len();
        match *call {
            Call::Write(at, bytes, fill) => {
                let data = vec![fill; bytes as usize];
                let written = self.union.union.write(&self.file, at, &data, false);
                assert_eq!(written, Ok(data.len()));
                self.plain.write_all_at(&data, at).unwrap();
            }
            Call::Read(at, bytes) => {
                let [found, expected] = self.read(at, bytes);
                assert!(found == expected, "{call:?}");
            }
            Call::Truncate(to) => {
                truncate(&self.union, "s/x", to).unwrap();
                self.plain.set_len(to).unwrap();
            }
            Call::Punch(at, bytes) => {
                let mode = FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE;
                self.allocate(mode, at, bytes);
            }
            Call::Allocate(at, bytes, true) => self.allocate(FallocateFlags::KEEP_SIZE, at, bytes),
            Call::Allocate(at, bytes, false) => self.allocate(FallocateFlags::empty(), at, bytes),
            Call::Seek(at) => self.seek(at, size),
            Call::Copy(from, to, bytes) => {
                // Ranges that overlap are refused by the kernel.
                let bytes = bytes.min(from.abs_diff(to)).min(size.saturating_sub(from));
                let [_, data] = self.read(from, bytes);
                let union = &self.union.union;
                let copied = union.copy_range((&self.file, from), (&self.file, to), bytes);
                assert_eq!(copied, Ok(data.len()));
                self.plain.write_all_at(&data, to).unwrap();
            }
            Call::Sync => self.union.union.sync(&self.file, false).unwrap(),
            Call::Reopen => {
                self.union.union.close(&self.file);
                self.file = open(&self.union, "s/x", OFlags::RDWR).unwrap();
            }
            Call::Kill => {
                self.union = self.union.reopened(|_| {});
                self.file = open(&self.union, "s/x", OFlags::RDWR).unwrap();
            }
        }
        let size = self.plain.metadata().unwrap().len();
        let found = self.union.union.attributes(self.file.node).unwrap();
        assert_eq!(found.size, size, "{call:?}");
        let [found, expected] = self.read(0, size + 1);
        assert!(found == expected, "the bytes after {call:?}");
        self
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn a_striped_file_does_what_a_plain_file_does(
        calls in prop::collection::vec(call(), 1..50),
        disks in 2_usize..5,
    ) {
        let Some(mut pair) = Pair::new(disks) else { return Ok(()) };
        for call in &calls {
            pair = pair.call(call);
        }
    }
}
