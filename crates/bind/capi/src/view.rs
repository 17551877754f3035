//! Views: what one task sees of a file (1996 paper, 2.2.2; MPI-4.1 5.1). Values, made here and used by `braid_set_view`.

use std::ptr;

use braid_client::{Dealt, Extent, Pattern, View};
use braid_layout::ViewMap;
use braid_types::FileOffset;

use crate::border::{
    Failure, Outcome, call,
    pointers::{array, position},
};

/// A view: a pattern that is laid at a displacement of the file and then again and again. The bytes that it covers, in order, are
/// its stream; reading and writing through it is at positions of the stream.
#[allow(non_camel_case_types)]
pub struct braid_view {
    view: View,
    map: ViewMap,
}

/// A part of a view: which bytes it covers, relative to where it is laid.
#[allow(non_camel_case_types)]
pub struct braid_pattern(Pattern);

/// A contiguous run of bytes of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct braid_extent {
    /// Where it starts, in bytes.
    pub offset: i64,
    /// How long it is, in bytes; at least 1.
    pub bytes: i64,
}

/// The 1996 paper's partition: from `offset`, `group` bytes in every `stride`. NULL for a failure, as all that make views. A view
/// is freed with braid_view_free.
#[unsafe(no_mangle)]
pub extern "C" fn braid_view_strided(offset: i64, group: i64, stride: i64) -> *mut braid_view {
    call(|| {
        let (offset, group) = (position(offset, "offset")?, position(group, "group")?);
        hand_out(View::strided(offset, group, position(stride, "stride")?))
    })
}

/// A list of extents of the file, ascending, seen once.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_extents(
    extents: *const braid_extent,
    count: usize,
) -> *mut braid_view {
    // SAFETY: the promise of C's caller, see `pointers`; also below.
    call(|| hand_out(View::extents(unsafe { listed(extents, count) }?)))
}

/// A block of an array in C order (last index fastest) whose first byte is at `displacement`: `dimensions` sizes, sizes of the
/// block and its starts, all in elements of `element_bytes`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_subarray(
    displacement: i64,
    dimensions: usize,
    sizes: *const u64,
    block: *const u64,
    starts: *const u64,
    element_bytes: u64,
) -> *mut braid_view {
    call(|| {
        // SAFETY: as above.
        let (sizes, block, starts) = unsafe {
            (
                array(sizes, dimensions, "sizes")?,
                array(block, dimensions, "block")?,
                array(starts, dimensions, "starts")?,
            )
        };
        hand_out(View::subarray(
            position(displacement, "displacement")?,
            sizes,
            block,
            starts,
            element_bytes,
        )?)
    })
}

/// What a task has of an array in C order (last index fastest) that is dealt out in blocks, round after round, and whose first byte is
/// at `displacement`: for each of `dimensions` dimensions its size, the size of a block, how many tasks it is dealt to and which of them
/// this one is, from 0; sizes in elements of `element_bytes`. A dimension of one task is whole. EINVAL for a task that has no element.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_block_cyclic(
    displacement: i64,
    dimensions: usize,
    sizes: *const u64,
    blocks: *const u64,
    tasks: *const u64,
    task: *const u64,
    element_bytes: u64,
) -> *mut braid_view {
    call(|| {
        // SAFETY: as above.
        let (sizes, blocks, tasks, task) = unsafe {
            (
                array(sizes, dimensions, "sizes")?,
                array(blocks, dimensions, "blocks")?,
                array(tasks, dimensions, "tasks")?,
                array(task, dimensions, "task")?,
            )
        };
        let dealt = |at: usize| Dealt {
            size: sizes[at],
            block: blocks[at],
            tasks: tasks[at],
            task: task[at],
        };
        let dealt: Vec<Dealt> = (0..dimensions).map(dealt).collect();
        hand_out(View::block_cyclic(
            position(displacement, "displacement")?,
            &dealt,
            element_bytes,
        )?)
    })
}

/// A view of any nesting: the pattern is laid at `displacement` and again every `extent` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_nested(
    displacement: i64,
    extent: i64,
    pattern: *const braid_pattern,
) -> *mut braid_view {
    call(|| {
        // SAFETY: the caller's promise: NULL, or made by libbraid and not freed; also below.
        let pattern = unsafe { of_pattern(pattern) }?.clone();
        let (displacement, extent) =
            (position(displacement, "displacement")?, position(extent, "extent")?);
        hand_out(View { displacement, extent, pattern })
    })
}

/// Frees a view; NULL is nothing. Files that see through it go on.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_free(view: *mut braid_view) {
    if !view.is_null() {
        // SAFETY: the caller's promise: made by `hand_out` and not freed before.
        drop(unsafe { Box::from_raw(view) });
    }
}

/// Where in the file the byte at a position of the view's stream lies, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_to_file(view: *const braid_view, at: i64) -> i64 {
    call(|| {
        let at = position(at, "position")?;
        // SAFETY: as above.
        let offset = if view.is_null() { at } else { unsafe { &(*view).map }.file_offset(at)?.0 };
        i64::try_from(offset)
            .map_err(|_| Failure::new(libc::EOVERFLOW, "the position is past the largest file"))
    })
}

/// At which position of the view's stream a byte of the file is seen; -1 with ENXIO when it is not seen.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_from_file(view: *const braid_view, offset: i64) -> i64 {
    call(|| {
        let offset = position(offset, "offset")?;
        // SAFETY: as above.
        let found = if view.is_null() {
            Some(offset)
        } else {
            unsafe { &(*view).map }.position(FileOffset(offset))
        };
        let not_seen = || {
            Failure::new(libc::ENXIO, format!("the view does not show byte {offset} of the file"))
        };
        Ok(found.ok_or_else(not_seen)?.cast_signed())
    })
}

/// How many bytes of the view's stream lie below an offset of the file.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_bytes_below(view: *const braid_view, offset: i64) -> i64 {
    call(|| {
        let offset = position(offset, "offset")?;
        // SAFETY: as above.
        let below = if view.is_null() {
            offset
        } else {
            unsafe { &(*view).map }.bytes_before(FileOffset(offset))
        };
        Ok(below.cast_signed())
    })
}

/// This many contiguous bytes. NULL for a failure, as all that make patterns. A pattern is freed with braid_pattern_free; one that
/// is built from it has a copy.
#[unsafe(no_mangle)]
pub extern "C" fn braid_pattern_bytes(bytes: u64) -> *mut braid_pattern {
    call(|| match bytes {
        0 => Err(Failure::invalid("a pattern of 0 bytes; try: leave it out")),
        _ => Ok(hand_out_pattern(Pattern::Bytes(bytes))),
    })
}

/// `count` copies of a pattern, each `stride` bytes after the one before. One copy is the pattern itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pattern_vector(
    count: u64,
    stride: u64,
    child: *const braid_pattern,
) -> *mut braid_pattern {
    call(|| {
        // SAFETY: as above.
        let child = unsafe { of_pattern(child) }?.clone();
        // One copy is no level: views may be 16 deep.
        Ok(hand_out_pattern(match count {
            1 => child,
            _ => Pattern::Vector { count, stride, child: Box::new(child) },
        }))
    })
}

/// Patterns at ascending offsets that do not overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pattern_struct(
    offsets: *const u64,
    patterns: *const *const braid_pattern,
    count: usize,
) -> *mut braid_pattern {
    call(|| {
        // SAFETY: as above.
        let (offsets, patterns) =
            unsafe { (array(offsets, count, "offsets")?, array(patterns, count, "patterns")?) };
        // SAFETY: as above.
        let entry = |(offset, pattern): (&u64, &*const braid_pattern)| {
            Ok((*offset, unsafe { of_pattern(*pattern) }?.clone()))
        };
        let entries = offsets.iter().zip(patterns).map(entry).collect::<Outcome<_>>()?;
        Ok(hand_out_pattern(Pattern::Struct(entries)))
    })
}

/// A list of extents, ascending, without overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pattern_extents(
    extents: *const braid_extent,
    count: usize,
) -> *mut braid_pattern {
    // SAFETY: as above.
    call(|| Ok(hand_out_pattern(Pattern::Extents(unsafe { listed(extents, count) }?))))
}

/// Frees a pattern; NULL is nothing.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pattern_free(pattern: *mut braid_pattern) {
    if !pattern.is_null() {
        // SAFETY: the caller's promise: made by `hand_out_pattern` and not freed before.
        drop(unsafe { Box::from_raw(pattern) });
    }
}

/// The view, the whole file for NULL.
///
/// # Safety
/// NULL, or made by `hand_out` and not freed.
pub(crate) unsafe fn of(view: *const braid_view) -> Outcome<View> {
    // SAFETY: the caller's promise.
    Ok(if view.is_null() { View::whole() } else { unsafe { &(*view).view }.clone() })
}

/// # Safety
/// NULL, or made by `hand_out_pattern` and not freed.
unsafe fn of_pattern<'a>(pattern: *const braid_pattern) -> Outcome<&'a Pattern> {
    // SAFETY: the caller's promise.
    Ok(&unsafe { crate::border::pointers::value(pattern, "pattern") }?.0)
}

/// # Safety
/// As [`array`].
pub(crate) unsafe fn listed(extents: *const braid_extent, count: usize) -> Outcome<Vec<Extent>> {
    // SAFETY: the caller's promise.
    let extents = unsafe { array(extents, count, "extents") }?;
    let extent = |extent: &braid_extent| {
        Ok(Extent {
            offset: position(extent.offset, "offset")?,
            bytes: position(extent.bytes, "bytes")?,
        })
    };
    extents.iter().map(extent).collect()
}

fn hand_out(view: View) -> Outcome<*mut braid_view> {
    let map = view.map()?;
    Ok(ptr::from_mut(Box::leak(Box::new(braid_view { view, map }))))
}

fn hand_out_pattern(pattern: Pattern) -> *mut braid_pattern {
    ptr::from_mut(Box::leak(Box::new(braid_pattern(pattern))))
}
