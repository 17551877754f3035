//! The operations, and the random choice of one.

use braid_types::Random;

use crate::mapping::PAGE;

/// One operation, on the file as one path shows it. Offsets and lengths are in bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Operation {
    Read {
        offset: u64,
        length: u64,
    },
    ReadDirect {
        offset: u64,
        length: u64,
    },
    ReadMapped {
        offset: u64,
        length: u64,
        fresh: bool,
    },
    Write {
        offset: u64,
        length: u64,
    },
    WriteDirect {
        offset: u64,
        length: u64,
    },
    WriteMapped {
        offset: u64,
        length: u64,
        sync: bool,
    },
    Append {
        length: u64,
    },
    Truncate {
        length: u64,
    },
    Punch {
        offset: u64,
        length: u64,
    },
    Zero {
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    Allocate {
        offset: u64,
        length: u64,
        keep_size: bool,
    },
    /// From this path to another.
    CopyRange {
        from: u64,
        to: u64,
        length: u64,
        to_path: usize,
    },
    SeekData {
        offset: u64,
    },
    SeekHole {
        offset: u64,
    },
    Stat,
    Sync {
        data_only: bool,
    },
    Reopen,
}

/// The limits of drawn operations.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Maximum length of the file.
    pub file: u64,
    /// Maximum range of one operation.
    pub operation: u64,
    /// Number of paths.
    pub paths: usize,
}

/// How often each operation is drawn, relative to the sum.
const WEIGHTS: &[(u64, Draw)] = &[
    (16, Draw::Read),
    (5, Draw::ReadDirect),
    (8, Draw::ReadMapped),
    (16, Draw::Write),
    (5, Draw::WriteDirect),
    (8, Draw::WriteMapped),
    (5, Draw::Append),
    (6, Draw::Truncate),
    (4, Draw::Punch),
    (3, Draw::Zero),
    (3, Draw::Allocate),
    (4, Draw::CopyRange),
    (3, Draw::Seek),
    (6, Draw::Stat),
    (3, Draw::Sync),
    (2, Draw::Reopen),
];

#[derive(Clone, Copy, Debug)]
enum Draw {
    Read,
    ReadDirect,
    ReadMapped,
    Write,
    WriteDirect,
    WriteMapped,
    Append,
    Truncate,
    Punch,
    Zero,
    Allocate,
    CopyRange,
    Seek,
    Stat,
    Sync,
    Reopen,
}

/// The next operation for a file of this length.
pub fn draw(random: &mut Random, limits: &Limits, length: u64) -> Operation {
    let sum: u64 = WEIGHTS.iter().map(|(weight, _)| weight).sum();
    let mut left = random.below(sum);
    let drawn = WEIGHTS.iter().find(|(weight, _)| {
        let here = left < *weight;
        left = left.saturating_sub(*weight);
        here
    });
    let (_, draw) = drawn.expect("the drawn number is less than the sum");
    operation(*draw, random, limits, length)
}

fn operation(draw: Draw, random: &mut Random, limits: &Limits, length: u64) -> Operation {
    let keep_size = random.below(2) == 0;
    match draw {
        Draw::Read => {
            inside(random, limits, length, |offset, length| Operation::Read { offset, length })
        }
        Draw::ReadMapped => inside(random, limits, length, |offset, length| {
            Operation::ReadMapped { offset, length, fresh: keep_size }
        }),
        Draw::WriteMapped => inside(random, limits, length, |offset, length| {
            Operation::WriteMapped { offset, length, sync: keep_size }
        }),
        Draw::ReadDirect => {
            aligned(random, limits, |offset, length| Operation::ReadDirect { offset, length })
        }
        Draw::WriteDirect => {
            aligned(random, limits, |offset, length| Operation::WriteDirect { offset, length })
        }
        Draw::Write => {
            anywhere(random, limits, |offset, length| Operation::Write { offset, length })
        }
        Draw::Punch => {
            anywhere(random, limits, |offset, length| Operation::Punch { offset, length })
        }
        Draw::Zero => {
            anywhere(random, limits, |offset, length| Operation::Zero { offset, length, keep_size })
        }
        Draw::Allocate => anywhere(random, limits, |offset, length| Operation::Allocate {
            offset,
            length,
            keep_size,
        }),
        Draw::Append => Operation::Append {
            length: (1 + random.below(limits.operation)).min(limits.file.saturating_sub(length)),
        },
        Draw::Truncate => Operation::Truncate { length: random.below(limits.file + 1) },
        Draw::CopyRange => copy(random, limits, length),
        Draw::Seek if keep_size => Operation::SeekData { offset: random.below(length + PAGE) },
        Draw::Seek => Operation::SeekHole { offset: random.below(length + PAGE) },
        Draw::Stat => Operation::Stat,
        Draw::Sync => Operation::Sync { data_only: keep_size },
        Draw::Reopen => Operation::Reopen,
    }
}

/// A range anywhere in the longest file.
fn anywhere(
    random: &mut Random,
    limits: &Limits,
    make: impl Fn(u64, u64) -> Operation,
) -> Operation {
    let offset = random.below(limits.file);
    make(offset, (1 + random.below(limits.operation)).min(limits.file - offset))
}

/// A range of whole pages.
fn aligned(
    random: &mut Random,
    limits: &Limits,
    make: impl Fn(u64, u64) -> Operation,
) -> Operation {
    let offset = random.below(limits.file / PAGE);
    let pages =
        (1 + random.below((limits.operation / PAGE).max(1))).min(limits.file / PAGE - offset);
    make(offset * PAGE, pages * PAGE)
}

/// A range inside the file; an empty file has none, so its attributes are queried instead.
fn inside(
    random: &mut Random,
    limits: &Limits,
    length: u64,
    make: impl Fn(u64, u64) -> Operation,
) -> Operation {
    if length == 0 {
        return Operation::Stat;
    }
    let offset = random.below(length);
    make(offset, (1 + random.below(limits.operation)).min(length - offset))
}

/// Two ranges of the file that do not overlap.
fn copy(random: &mut Random, limits: &Limits, length: u64) -> Operation {
    let to_path = random.below(limits.paths as u64) as usize;
    let (from, to) = (random.below(length.max(1)), random.below(limits.file));
    let apart = from.abs_diff(to);
    let fits = length.saturating_sub(from).min(limits.file - to).min(apart);
    if fits == 0 {
        return Operation::Stat;
    }
    Operation::CopyRange {
        from,
        to,
        length: (1 + random.below(limits.operation)).min(fits),
        to_path,
    }
}

impl Operation {
    /// Number of new bytes that it writes.
    pub fn written(&self) -> u64 {
        match self {
            Self::Write { length, .. }
            | Self::WriteDirect { length, .. }
            | Self::WriteMapped { length, .. } => *length,
            Self::Append { length } => *length,
            _ => 0,
        }
    }

    /// Its name in the table of counts.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Read { .. } => "read",
            Self::ReadDirect { .. } => "read O_DIRECT",
            Self::ReadMapped { .. } => "read mapped",
            Self::Write { .. } => "write",
            Self::WriteDirect { .. } => "write O_DIRECT",
            Self::WriteMapped { .. } => "write mapped",
            Self::Append { .. } => "append",
            Self::Truncate { .. } => "truncate",
            Self::Punch { .. } => "punch hole",
            Self::Zero { .. } => "zero range",
            Self::Allocate { .. } => "allocate",
            Self::CopyRange { .. } => "copy range",
            Self::SeekData { .. } => "seek data",
            Self::SeekHole { .. } => "seek hole",
            Self::Stat => "stat",
            Self::Sync { .. } => "sync",
            Self::Reopen => "reopen",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_operation_stays_within_the_limits() {
        let limits = Limits { file: 10 * PAGE, operation: 3 * PAGE, paths: 2 };
        let mut random = Random::new(1);
        for length in (0..20_000).map(|at| at % (limits.file + 1)) {
            match draw(&mut random, &limits, length) {
                Operation::ReadMapped { offset, length: wanted, .. }
                | Operation::WriteMapped { offset, length: wanted, .. } => {
                    assert!(offset + wanted <= length)
                }
                Operation::Write { offset, length }
                | Operation::WriteDirect { offset, length }
                | Operation::Allocate { offset, length, .. }
                | Operation::Zero { offset, length, .. } => {
                    assert!(length > 0 && offset + length <= limits.file)
                }
                Operation::Append { length: more } => assert!(length + more <= limits.file),
                Operation::CopyRange { from, to, length: wanted, .. } => {
                    assert!(
                        from + wanted <= length
                            && to + wanted <= limits.file
                            && from.abs_diff(to) >= wanted
                    );
                }
                _ => {}
            }
        }
    }
}
