//! Bounce buffers, for windows of very many very small pieces: one copy between the user's buffers
//! and a buffer of the whole window.

use std::io::{IoSlice, IoSliceMut};

use braid_layout::LayoutError;

use super::{FileMap, Planned};

/// Collects the payload of a window to write from the user's buffers.
pub(crate) fn gather(
    map: &FileMap,
    planned: &Planned,
    buffers: &[IoSlice<'_>],
) -> Result<Vec<u8>, LayoutError> {
    let mut staged = Vec::with_capacity(planned.payload as usize);
    let starts = starts(buffers.iter().map(|buffer| buffer.len()));
    for access in map.accesses(planned.target, &planned.request)? {
        for_each_run(
            &starts,
            planned.position + access.stream_offset,
            access.bytes,
            |at, from, to| {
                staged.extend_from_slice(&buffers[at][from..to]);
            },
        );
    }
    Ok(staged)
}

/// Copies the payload of a window that was read to the user's buffers.
pub(crate) fn scatter(
    map: &FileMap,
    planned: &Planned,
    mut staged: &[u8],
    buffers: &mut [IoSliceMut<'_>],
) -> Result<(), LayoutError> {
    let starts = starts(buffers.iter().map(|buffer| buffer.len()));
    for access in map.accesses(planned.target, &planned.request)? {
        for_each_run(
            &starts,
            planned.position + access.stream_offset,
            access.bytes,
            |at, from, to| {
                let taken = (to - from).min(staged.len());
                buffers[at][from..from + taken].copy_from_slice(&staged[..taken]);
                staged = &staged[taken..];
            },
        );
    }
    Ok(())
}

/// Where each buffer starts, and where the last ends.
fn starts(lengths: impl Iterator<Item = usize>) -> Vec<u64> {
    let mut starts = vec![0];
    for length in lengths {
        starts.push(starts[starts.len() - 1] + length as u64);
    }
    starts
}

/// Calls `each(buffer, from, to)` for `bytes` bytes from `position`.
fn for_each_run(
    starts: &[u64],
    mut position: u64,
    bytes: u64,
    mut each: impl FnMut(usize, usize, usize),
) {
    let end = (position + bytes).min(starts[starts.len() - 1]);
    let mut at = starts.partition_point(|start| *start <= position).saturating_sub(1);
    while position < end {
        let upto = end.min(starts[at + 1]);
        if upto > position {
            each(at, (position - starts[at]) as usize, (upto - starts[at]) as usize);
        }
        (position, at) = (upto.max(position), at + 1);
    }
}
