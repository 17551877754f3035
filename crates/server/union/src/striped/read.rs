//! Reads. The disks work at the same time without threads here: before the first object is read,
//! the kernel is asked to read all of them ahead; and a program that reads in order has the next
//! units read ahead on all disks.

use std::{
    io::IoSliceMut,
    num::NonZeroU64,
    os::fd::OwnedFd,
    sync::{
        PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use rustix::fs::Advice;
use rustix::io::Errno;

use super::{StripedFile, StripedOpen, layout::Layout};
use crate::{Result, Union};

/// Linux reads at most the largest request of the disk for one call, and this is below that of
/// usual disks (1,280 KiB, `max_sectors_kb`).
const ADVICE_BYTES: u64 = 512 << 10;
/// Bytes that are read ahead of a program at most.
const WINDOW_MAX: u64 = 32 << 20;

/// Where the reads of one open file are.
#[derive(Debug, Default)]
pub(crate) struct ReadAhead {
    /// The end of the last read.
    last: AtomicU64,
    /// What is before this was read ahead.
    done: AtomicU64,
}

/// The part of a read that is in one object: one range of it, several pieces of the buffer.
struct Part<'b> {
    position: usize,
    object_offset: u64,
    pieces: Vec<IoSliceMut<'b>>,
}

impl Union {
    /// Reads at an offset; fewer bytes than the buffer's only at the end of the file.
    ///
    /// # Errors
    /// `EIO`: an object is missing; those of pread(2).
    pub(crate) fn read_striped(
        &self,
        open: &StripedOpen,
        offset: u64,
        buffer: &mut [u8],
    ) -> Result<usize> {
        let file = &*open.file;
        let _shared = file.range.read().unwrap_or_else(PoisonError::into_inner);
        let size = file.size()?;
        let left = usize::try_from(size.saturating_sub(offset)).unwrap_or(usize::MAX);
        let bytes = buffer.len().min(left);
        self.read_ahead(open, offset, bytes as u64, size);
        for mut part in parts(&file.layout, offset, &mut buffer[..bytes]) {
            read_part(self.object(file, part.position)?, &mut part)?;
        }
        Ok(bytes)
    }

    /// Starts the reads that this read and the next ones need.
    fn read_ahead(&self, open: &StripedOpen, offset: u64, bytes: u64, size: u64) {
        let layout = &open.file.layout;
        let (end, ahead) = (offset + bytes, &open.ahead);
        let in_order = ahead.last.swap(end, Ordering::Relaxed) == offset && offset > 0;
        let done = if in_order { ahead.done.load(Ordering::Relaxed) } else { 0 };
        let from = done.max(offset);
        // At least one row is ahead, also when half of the window is used up: all disks work.
        let window = (2 * layout.row()).max(2 * bytes).min(WINDOW_MAX);
        let to = match in_order {
            // Half of the window is still ahead: nothing to do yet.
            true if done >= end + window / 2 => return,
            true => (end + window).min(size),
            false => end,
        };
        // One unit is read by the read itself.
        if to > from && (in_order || bytes > layout.unit()) {
            self.advise(&open.file, from, to);
        }
        ahead.done.store(to, Ordering::Relaxed);
    }

    fn advise(&self, file: &StripedFile, from: u64, to: u64) {
        for position in 0..file.layout.stripes() {
            let range = [from, to].map(|at| file.layout.object_bytes_before(position, at));
            // A missing object is an error of the read itself.
            let Ok(object) = self.object(file, position) else { continue };
            let mut at = range[0];
            while at < range[1] {
                let bytes = NonZeroU64::new(ADVICE_BYTES.min(range[1] - at));
                let _ = rustix::fs::fadvise(object, at, bytes, Advice::WillNeed);
                at += ADVICE_BYTES;
            }
        }
    }
}

/// Splits a read by objects.
fn parts<'b>(layout: &Layout, offset: u64, buffer: &'b mut [u8]) -> Vec<Part<'b>> {
    let mut parts: Vec<Part<'b>> = Vec::new();
    let mut rest = buffer;
    for piece in layout.pieces(offset, rest.len() as u64) {
        let bytes = usize::try_from(piece.bytes).unwrap_or(usize::MAX);
        let (this, after) = std::mem::take(&mut rest).split_at_mut(bytes);
        rest = after;
        let this = IoSliceMut::new(this);
        match parts.iter_mut().find(|part| part.position == piece.position) {
            Some(part) => part.pieces.push(this),
            None => parts.push(Part {
                position: piece.position,
                object_offset: piece.object_offset,
                pieces: vec![this],
            }),
        }
    }
    parts
}

/// Reads a range of an object. Beyond its end are zeros (S4).
fn read_part(object: &OwnedFd, part: &mut Part<'_>) -> Result<()> {
    let mut offset = part.object_offset;
    let mut left = &mut part.pieces[..];
    while !left.is_empty() {
        match rustix::io::preadv(object, left, offset) {
            Ok(0) => break,
            Ok(bytes) => {
                offset += bytes as u64;
                IoSliceMut::advance_slices(&mut left, bytes);
            }
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
    left.iter_mut().for_each(|piece| piece.fill(0));
    Ok(())
}
