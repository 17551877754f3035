//! Views: what one task sees of a file (1996 paper, 2.2.2; MPI-4.1 5.1). These functions make
//! values for `braid_set_view`.

use std::ptr;

use braid_client::{BlockCyclicDimension, Extent, Pattern, View};
use braid_layout::ViewMap;
use braid_types::FileOffset;

use crate::ffi::{
    Failure, Outcome, call,
    pointers::{array, position},
};

/// A view: a pattern that starts at a displacement in the file and repeats without end. The bytes
/// that it covers, in order, are its stream. Reads and writes through a view use positions in this
/// stream.
#[allow(non_camel_case_types)]
pub struct braid_view {
    view: View,
    map: ViewMap,
}

/// A pattern of a view: the bytes that it covers, relative to its start.
#[allow(non_camel_case_types)]
pub struct braid_pattern(Pattern);

/// A contiguous range of a file.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
#[allow(non_camel_case_types)]
pub struct braid_extent {
    /// Start, in bytes.
    pub offset: i64,
    /// Length, in bytes; at least 1.
    pub bytes: i64,
}

/// The 1996 paper's partition: from `offset`, `group` bytes in every `stride`. Returns NULL for a
/// failure, as do all functions that make views. Free a view with braid_view_free.
#[unsafe(no_mangle)]
pub extern "C" fn braid_view_strided(offset: i64, group: i64, stride: i64) -> *mut braid_view {
    call(|| {
        let (offset, group) = (position(offset, "offset")?, position(group, "group")?);
        into_raw_view(View::strided(offset, group, position(stride, "stride")?))
    })
}

/// A list of extents of the file in ascending order; it does not repeat.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_extents(
    extents: *const braid_extent,
    count: usize,
) -> *mut braid_view {
    // SAFETY: the promise of C's caller, see `pointers`; also below.
    call(|| into_raw_view(View::extents(unsafe { extents_from_c(extents, count) }?)))
}

/// A block of an array in C order (last index fastest) whose first byte is at `displacement`. Each
/// array has `dimensions` values: the sizes of the array, the sizes of the block, and its starts,
/// all in elements of `element_bytes` bytes.
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
        into_raw_view(View::subarray(
            position(displacement, "displacement")?,
            sizes,
            block,
            starts,
            element_bytes,
        )?)
    })
}

/// The elements of one task of an array in C order (last index fastest) whose first byte is at
/// `displacement`. The array is distributed block-cyclically. For each of `dimensions` dimensions:
/// its size, the size of a block, the number of tasks that share it, and the number of this task,
/// from 0. Sizes are in elements of `element_bytes` bytes. A dimension with one task is not
/// divided. EINVAL for a task without elements.
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
        let dealt = |at: usize| BlockCyclicDimension {
            size: sizes[at],
            block: blocks[at],
            tasks: tasks[at],
            task: task[at],
        };
        let dealt: Vec<BlockCyclicDimension> = (0..dimensions).map(dealt).collect();
        into_raw_view(View::block_cyclic(
            position(displacement, "displacement")?,
            &dealt,
            element_bytes,
        )?)
    })
}

/// A view with any nesting: the pattern starts at `displacement` and repeats every `extent` bytes.
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
        into_raw_view(View { displacement, extent, pattern })
    })
}

/// Frees a view; NULL is ignored. Descriptors with this view keep it.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_free(view: *mut braid_view) {
    if !view.is_null() {
        // SAFETY: the caller's promise: made by `into_raw_view` and not freed before.
        drop(unsafe { Box::from_raw(view) });
    }
}

/// The file offset of a position of the view's stream, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_to_file(view: *const braid_view, at: i64) -> i64 {
    call(|| {
        let at = position(at, "position")?;
        // SAFETY: as above.
        let offset = if view.is_null() { at } else { unsafe { &(*view).map }.file_offset(at)?.0 };
        i64::try_from(offset).map_err(|_| {
            Failure::new(libc::EOVERFLOW, "view: the position is beyond the largest file size")
        })
    })
}

/// The position of a file offset in the view's stream; -1 with ENXIO when the view does not show
/// that byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_from_file(view: *const braid_view, offset: i64) -> i64 {
    call(|| {
        let offset = position(offset, "offset")?;
        let found = if view.is_null() {
            Some(offset)
        } else {
            // SAFETY: as above.
            unsafe { &(*view).map }.position(FileOffset(offset))
        };
        let not_seen = || {
            Failure::new(libc::ENXIO, format!("view: it does not show byte {offset} of the file"))
        };
        Ok(found.ok_or_else(not_seen)?.cast_signed())
    })
}

/// The number of bytes of the view's stream below a file offset.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_view_bytes_below(view: *const braid_view, offset: i64) -> i64 {
    call(|| {
        let offset = position(offset, "offset")?;
        let below = if view.is_null() {
            offset
        } else {
            // SAFETY: as above.
            unsafe { &(*view).map }.bytes_before(FileOffset(offset))
        };
        Ok(below.cast_signed())
    })
}

/// A pattern of `bytes` contiguous bytes. Returns NULL for a failure, as do all functions that make
/// patterns. Free a pattern with braid_pattern_free. A pattern that contains another one has a copy
/// of it.
#[unsafe(no_mangle)]
pub extern "C" fn braid_pattern_bytes(bytes: u64) -> *mut braid_pattern {
    call(|| match bytes {
        0 => Err(Failure::invalid("pattern: it has 0 bytes; try: leave it out")),
        _ => Ok(hand_out_pattern(Pattern::Bytes(bytes))),
    })
}

/// `count` copies of a pattern; each starts `stride` bytes after the one before. One copy is the
/// pattern itself.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pattern_vector(
    count: u64,
    stride: u64,
    child: *const braid_pattern,
) -> *mut braid_pattern {
    call(|| {
        // SAFETY: as above.
        let child = unsafe { of_pattern(child) }?.clone();
        // One copy adds no level: a view has at most 16 levels.
        Ok(hand_out_pattern(match count {
            1 => child,
            _ => Pattern::Vector { count, stride, child: Box::new(child) },
        }))
    })
}

/// Patterns at ascending offsets, without overlap.
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
        let entry = |(offset, pattern): (&u64, &*const braid_pattern)| {
            // SAFETY: as above.
            Ok((*offset, unsafe { of_pattern(*pattern) }?.clone()))
        };
        let entries = offsets.iter().zip(patterns).map(entry).collect::<Outcome<_>>()?;
        Ok(hand_out_pattern(Pattern::Struct(entries)))
    })
}

/// A list of extents in ascending order, without overlap.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pattern_extents(
    extents: *const braid_extent,
    count: usize,
) -> *mut braid_pattern {
    // SAFETY: as above.
    call(|| Ok(hand_out_pattern(Pattern::Extents(unsafe { extents_from_c(extents, count) }?))))
}

/// Frees a pattern; NULL is ignored.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_pattern_free(pattern: *mut braid_pattern) {
    if !pattern.is_null() {
        // SAFETY: the caller's promise: made by `hand_out_pattern` and not freed before.
        drop(unsafe { Box::from_raw(pattern) });
    }
}

/// The view of a pointer; the whole file for NULL.
///
/// # Safety
/// NULL, or made by `into_raw_view` and not freed.
pub(crate) unsafe fn view_or_whole(view: *const braid_view) -> Outcome<View> {
    // SAFETY: the caller's promise.
    Ok(if view.is_null() { View::whole() } else { unsafe { &(*view).view }.clone() })
}

/// # Safety
/// NULL, or made by `hand_out_pattern` and not freed.
unsafe fn of_pattern<'a>(pattern: *const braid_pattern) -> Outcome<&'a Pattern> {
    // SAFETY: the caller's promise.
    Ok(&unsafe { crate::ffi::pointers::value(pattern, "pattern") }?.0)
}

/// # Safety
/// As [`array`].
pub(crate) unsafe fn extents_from_c(
    extents: *const braid_extent,
    count: usize,
) -> Outcome<Vec<Extent>> {
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

fn into_raw_view(view: View) -> Outcome<*mut braid_view> {
    let map = view.map()?;
    Ok(ptr::from_mut(Box::leak(Box::new(braid_view { view, map }))))
}

fn hand_out_pattern(pattern: Pattern) -> *mut braid_pattern {
    ptr::from_mut(Box::leak(Box::new(braid_pattern(pattern))))
}
