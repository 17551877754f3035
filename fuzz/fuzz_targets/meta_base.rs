//! A base of the metadata store with any bytes changed: the start refuses it, or LMDB reads it
//! without leaving the file. A salvage ends. No panic.
#![no_main]

use std::{
    fs,
    path::{Path, PathBuf},
    sync::OnceLock,
};

use arbitrary::Arbitrary;
use braid_meta::fuzzing::{Records, make_base, read_base};
use libfuzzer_sys::fuzz_target;

/// The path of the base, and its unchanged content.
struct Base {
    directory: PathBuf,
    file: PathBuf,
    bytes: Vec<u8>,
    records: usize,
}

#[derive(Arbitrary, Debug)]
enum Change {
    Byte(u8),
    Flip(u8),
    Half(u16),
    Word(u32),
    Long(u64),
    /// The number of a page.
    Page(u8),
}

#[derive(Arbitrary, Debug)]
enum Place {
    /// In one of the two meta pages.
    Meta {
        second: bool,
        at: u8,
    },
    /// In the header of a page, or its table of nodes.
    Head {
        page: u8,
        at: u8,
    },
    Any {
        page: u8,
        at: u16,
    },
}

impl Place {
    fn in_file(&self, bytes: usize) -> usize {
        let (page, at) = match *self {
            Self::Meta { second, at } => (usize::from(second), usize::from(at) % 152),
            Self::Head { page, at } => (usize::from(page), usize::from(at) % 64),
            Self::Any { page, at } => (usize::from(page), usize::from(at) % 4096),
        };
        page % bytes.div_ceil(4096) * 4096 + at
    }
}

#[derive(Arbitrary, Debug)]
struct Input {
    changes: Vec<(Place, Change)>,
    /// How many bytes the file loses at its end.
    cut: Option<u16>,
}

/// Branches, leaves, values in overflow pages, and free pages.
fn base() -> &'static Base {
    static BASE: OnceLock<Base> = OnceLock::new();
    BASE.get_or_init(|| {
        // In memory where possible, since each input writes the file anew.
        let memory = Path::new("/dev/shm");
        let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
        let directory = place.join(format!("braid-fuzz-{}", std::process::id()));
        fs::create_dir_all(&directory).unwrap();
        let record = |n: u16| {
            let bytes = if n % 60 == 0 { 9000 } else { usize::from(n % 90) };
            ([&[0, 1, b'E'][..], &n.to_be_bytes(), b"a name"].concat(), vec![n as u8; bytes])
        };
        let records: Records = (0..400).map(record).collect();
        make_base(&directory, &records).unwrap();
        let file = directory.join("base/data.mdb");
        let bytes = fs::read(&file).unwrap();
        Base { records: read_base(&directory).unwrap(), directory, file, bytes }
    })
}

fuzz_target!(|input: Input| {
    let base = base();
    let mut bytes = base.bytes.clone();
    for (place, change) in &input.changes {
        let at = place.in_file(bytes.len());
        let new = match change {
            Change::Byte(byte) => vec![*byte],
            Change::Flip(bit) => {
                bytes.get(at).map(|byte| byte ^ 1 << (bit % 8)).into_iter().collect()
            }
            Change::Half(half) => half.to_ne_bytes().to_vec(),
            Change::Word(word) => word.to_ne_bytes().to_vec(),
            Change::Long(long) => long.to_ne_bytes().to_vec(),
            Change::Page(page) => u64::from(*page).to_ne_bytes().to_vec(),
        };
        if let Some(place) = bytes.get_mut(at..at + new.len()) {
            place.copy_from_slice(&new);
        }
    }
    let is_same = bytes == base.bytes;
    bytes.truncate(bytes.len() - usize::from(input.cut.unwrap_or(0)).min(bytes.len()));
    fs::write(&base.file, &bytes).unwrap();
    let read = read_base(&base.directory);
    assert!(!is_same || input.cut.is_some() || read == Some(base.records), "{read:?}");
});
