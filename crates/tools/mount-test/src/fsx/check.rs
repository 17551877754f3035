//! Executes one operation and compares its result with the image.

use std::fmt;

use braid_types::Random;

use super::{
    image::{Difference, Image},
    operation::Operation,
    subject::Subject,
};

/// A deviation from the image.
#[derive(Debug)]
pub enum Mismatch {
    /// The operation failed.
    Failed(std::io::Error),
    /// Bytes differ.
    Bytes(Difference),
    /// A number that the call returned.
    Number { what: &'static str, wanted: u64, found: Option<u64> },
    /// Data where the file system reports a hole.
    DataInHole { from: u64, to: u64, at: u64 },
}

impl From<std::io::Error> for Mismatch {
    fn from(error: std::io::Error) -> Self {
        Self::Failed(error)
    }
}

impl fmt::Display for Mismatch {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Failed(error) => write!(out, "failed: {error}"),
            Self::Bytes(it) => write!(
                out,
                "{} bytes differ, the first at offset {} ({:#x}): wanted {:02x?}, found {:02x?}; \
                 operation {} was the last to \
                 change that byte",
                it.count, it.offset, it.offset, it.wanted, it.found, it.writer
            ),
            Self::Number { what, wanted, found } => {
                write!(out, "{what}: wanted {wanted}, found {found:?}")
            }
            Self::DataInHole { from, to, at } => {
                write!(out, "[{from}, {to}) is reported as a hole, but byte {at} of it is data")
            }
        }
    }
}

/// Executes `operation` (of this number) on `subjects[at]`, changes the image accordingly, and
/// compares.
pub fn perform(
    subjects: &mut [Subject],
    at: usize,
    image: &mut Image,
    number: u64,
    operation: &Operation,
) -> Result<(), Mismatch> {
    let bytes = contents(number, operation.written());
    let subject = &mut subjects[at];
    match *operation {
        Operation::Read { offset, length } => {
            return same(image, offset, length, &subject.read(offset, length)?);
        }
        Operation::ReadDirect { offset, length } => {
            return same(image, offset, length, &subject.read_direct(offset, length)?);
        }
        Operation::ReadMapped { offset, length, fresh } => {
            return same(image, offset, length, &subject.read_mapped(offset, length, fresh)?);
        }
        Operation::SeekData { offset } => return seek_data(subject, image, offset),
        Operation::SeekHole { offset } => return seek_hole(subject, image, offset),
        Operation::Stat => return length_is(subject, image),
        Operation::Sync { data_only } => subject.sync(data_only)?,
        Operation::Reopen => subject.reopen()?,
        Operation::Write { offset, .. } => {
            subject.write(offset, &bytes)?;
            image.write(number, offset, &bytes);
        }
        Operation::WriteDirect { offset, .. } => {
            subject.write_direct(offset, &bytes)?;
            image.write(number, offset, &bytes);
        }
        Operation::WriteMapped { offset, sync, .. } => {
            subject.write_mapped(offset, &bytes, sync)?;
            image.write(number, offset, &bytes);
        }
        Operation::Append { .. } => {
            subject.append(&bytes)?;
            image.write(number, image.length(), &bytes);
        }
        Operation::Truncate { length } => {
            subject.truncate(length)?;
            image.truncate(number, length);
        }
        Operation::Punch { offset, length } => {
            subject.punch(offset, length)?;
            image.zero(number, offset, length);
        }
        Operation::Zero { offset, length, keep_size } => {
            subject.zero(offset, length, keep_size)?;
            grow(image, number, offset + length, keep_size);
            image.zero(number, offset, length);
        }
        Operation::Allocate { offset, length, keep_size } => {
            subject.allocate(offset, length, keep_size)?;
            grow(image, number, offset + length, keep_size);
        }
        Operation::CopyRange { from, to, length, to_path } => {
            subjects[at].copy_range(&subjects[to_path], from, to, length)?;
            let copied = image.part(from, length).to_vec();
            image.write(number, to, &copied);
        }
    }
    Ok(())
}

/// The bytes that an operation writes: never zero, so that a hole shows, and different for each
/// operation.
fn contents(number: u64, length: u64) -> Vec<u8> {
    let mut random = Random::new(number);
    let mut bytes = vec![0; length.next_multiple_of(8) as usize];
    // Eight at a time: generating single bytes took a third of the exerciser's time.
    for word in bytes.chunks_exact_mut(8) {
        word.copy_from_slice(&(random.next_u64() | NEVER_ZERO).to_le_bytes());
    }
    bytes.truncate(length as usize);
    debug_assert!(!bytes.contains(&0), "invariant 3: no written byte is zero");
    bytes
}

/// A bit of each byte.
const NEVER_ZERO: u64 = 0x0101_0101_0101_0101;

fn grow(image: &mut Image, number: u64, end: u64, keep_size: bool) {
    if !keep_size {
        image.reach(number, end);
    }
}

/// A read returned what the image has there, and as much of it.
fn same(image: &Image, offset: u64, length: u64, found: &[u8]) -> Result<(), Mismatch> {
    if let Some(difference) = image.compare(offset, found) {
        return Err(Mismatch::Bytes(difference));
    }
    let wanted = image.part(offset, length).len() as u64;
    number("bytes read", wanted, Some(found.len() as u64))
}

/// The whole file is as in the image, through this path.
pub fn whole(subject: &Subject, image: &Image) -> Result<(), Mismatch> {
    length_is(subject, image)?;
    same(image, 0, image.length() + 1, &subject.read(0, image.length() + 1)?)
}

fn length_is(subject: &Subject, image: &Image) -> Result<(), Mismatch> {
    number("length by fstat", image.length(), Some(subject.length()?))
}

fn number(what: &'static str, wanted: u64, found: Option<u64>) -> Result<(), Mismatch> {
    if found == Some(wanted) { Ok(()) } else { Err(Mismatch::Number { what, wanted, found }) }
}

/// Between `offset` and the next data there are only zeros.
fn seek_data(subject: &Subject, image: &Image, offset: u64) -> Result<(), Mismatch> {
    let found = subject.seek_data(offset)?;
    match found {
        Some(at) if at < offset || at >= image.length() => {
            Err(Mismatch::Number { what: "SEEK_DATA, at least", wanted: offset, found })
        }
        _ => only_zeros(image, offset, found.unwrap_or(image.length())),
    }
}

/// A hole begins at or behind `offset`, the last one at the end, and contains only zeros.
fn seek_hole(subject: &Subject, image: &Image, offset: u64) -> Result<(), Mismatch> {
    let found = subject.seek_hole(offset)?;
    match found {
        None if offset >= image.length() => Ok(()),
        Some(hole) if (offset..=image.length()).contains(&hole) && offset < image.length() => {
            let end = if hole < image.length() { subject.seek_data(hole)? } else { None };
            only_zeros(image, hole, end.unwrap_or(image.length()))
        }
        _ => Err(Mismatch::Number { what: "SEEK_HOLE, at most", wanted: image.length(), found }),
    }
}

fn only_zeros(image: &Image, from: u64, to: u64) -> Result<(), Mismatch> {
    let part = image.part(from, to.saturating_sub(from));
    match part.iter().position(|byte| *byte != 0) {
        Some(at) => Err(Mismatch::DataInHole { from, to, at: from + at as u64 }),
        None => Ok(()),
    }
}
