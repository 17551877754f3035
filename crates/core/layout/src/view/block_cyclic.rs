//! Block-cyclic arrays, as in HPF and ScaLAPACK: blocks are assigned to tasks in turn, in each
//! dimension.

use braid_types::limits::VIEW_DEPTH_MAX;

use super::{Pattern, View};
use crate::LayoutError;

/// One dimension of an array whose blocks are assigned to tasks in turn. Task `t` gets blocks `t`,
/// `t + tasks`, `t + 2 * tasks`, …; the last block ends with the dimension (MPI-4.1 5.1.4:
/// `MPI_DISTRIBUTE_CYCLIC(block)`).
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockCyclicDimension {
    /// Indices of the dimension.
    pub size: u64,
    /// Indices in a block.
    pub block: u64,
    /// Number of tasks that share the dimension.
    pub tasks: u64,
    /// The task; below `tasks`.
    pub task: u64,
}

impl BlockCyclicDimension {
    /// Every task has the whole dimension (`MPI_DISTRIBUTE_NONE`).
    pub fn whole(size: u64) -> Self {
        Self { size, block: size, tasks: 1, task: 0 }
    }

    /// One block for each task, all of one length except the last (`MPI_DISTRIBUTE_BLOCK` with
    /// `MPI_DISTRIBUTE_DFLT_DARG`).
    pub fn block(size: u64, tasks: u64, task: u64) -> Self {
        Self { size, block: size.div_ceil(tasks.max(1)), tasks, task }
    }

    fn is_valid(&self) -> bool {
        self.size > 0 && self.block > 0 && self.task < self.tasks
    }
}

/// A task's share of one dimension.
struct TaskShare {
    /// Its first index.
    first: u64,
    /// Indices in a whole block.
    block: u64,
    /// Whole blocks.
    count: u64,
    /// Indices from one block to the next.
    stride: u64,
    /// Indices of an incomplete last block; 0 when there is none.
    rest: u64,
}

impl TaskShare {
    /// `None` when the task has no index.
    fn of(dealt: &BlockCyclicDimension) -> Result<Option<Self>, LayoutError> {
        // A block is at most as long as the dimension.
        let (size, block) = (dealt.size, dealt.block.min(dealt.size));
        let stride = block.checked_mul(dealt.tasks).ok_or(LayoutError::Overflow)?;
        let first = block.checked_mul(dealt.task).ok_or(LayoutError::Overflow)?;
        if first >= size {
            return Ok(None);
        }
        let left = size - first;
        let count = if left < block { 0 } else { (left - block) / stride + 1 };
        // At most `size` plus one stride, since `count` strides begin inside the dimension.
        let next = count.checked_mul(stride).ok_or(LayoutError::Overflow)?;
        Ok(Some(Self { first, block, count, stride, rest: left.saturating_sub(next) }))
    }
}

impl View {
    /// A task's blocks of an array in C order (last index fastest) of `element` bytes each, from
    /// `displacement`. The array repeats without end (MPI-4.1 5.1.4: `MPI_Type_create_darray`). The
    /// size of the view does not depend on the number of blocks.
    ///
    /// ```
    /// use braid_layout::{BlockCyclicDimension, View};
    /// use braid_types::FileOffset;
    /// // A 10 x 6 array of 8-byte numbers; rows in blocks of 4 over 2 tasks, all columns.
    /// // Task 0 has rows 0..4 and 8..10.
    /// let rows = BlockCyclicDimension { size: 10, block: 4, tasks: 2, task: 0 };
    /// let columns = BlockCyclicDimension::whole(6);
    /// let view = View::block_cyclic(0, &[rows, columns], 8)?.map()?;
    /// assert_eq!(view.file_offset(4 * 6 * 8)?, FileOffset(8 * 6 * 8));
    /// assert_eq!(view.bytes_before(FileOffset(10 * 6 * 8)), 6 * 6 * 8);
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::EmptyPattern`] for a task without elements; [`LayoutError::BlockCyclic`] for
    /// a dimension without indices, an empty block, or a task number that is not below the task
    /// count; [`LayoutError::TooDeep`]; [`LayoutError::Overflow`].
    pub fn block_cyclic(
        displacement: u64,
        dimensions: &[BlockCyclicDimension],
        element: u64,
    ) -> Result<Self, LayoutError> {
        if dimensions.len() >= VIEW_DEPTH_MAX {
            return Err(LayoutError::TooDeep { max: VIEW_DEPTH_MAX });
        }
        let (mut pattern, mut row, mut first) = (Pattern::Bytes(element), element, displacement);
        for dealt in dimensions.iter().rev() {
            if !dealt.is_valid() {
                return Err(LayoutError::BlockCyclic);
            }
            let own = TaskShare::of(dealt)?.ok_or(LayoutError::EmptyPattern)?;
            let skipped = own.first.checked_mul(row).ok_or(LayoutError::Overflow)?;
            first = first.checked_add(skipped).ok_or(LayoutError::Overflow)?;
            pattern = blocks(&own, pattern, row)?;
            row = row.checked_mul(dealt.size).ok_or(LayoutError::Overflow)?;
        }
        let view = Self { displacement: first, extent: row, pattern };
        view.validate().map(|()| view)
    }
}

/// The blocks of one dimension, the first of them at 0; `row` bytes from one index to the next.
fn blocks(own: &TaskShare, child: Pattern, row: u64) -> Result<Pattern, LayoutError> {
    let stride = own.stride.checked_mul(row).ok_or(LayoutError::Overflow)?;
    if own.rest == 0 {
        let block = repeated(own.block, row, child)?;
        return Ok(if own.count == 1 { block } else { vector(own.count, stride, block) });
    }
    let rest = repeated(own.rest, row, child.clone())?;
    if own.count == 0 {
        return Ok(rest);
    }
    let block = repeated(own.block, row, child)?;
    let whole = if own.count == 1 { block } else { vector(own.count, stride, block) };
    let at = own.count.checked_mul(stride).ok_or(LayoutError::Overflow)?;
    Ok(Pattern::Struct(vec![(0, whole), (at, rest)]))
}

/// `count` adjacent indices. What is contiguous stays one extent, which keeps a view of many
/// dimensions flat.
fn repeated(count: u64, row: u64, child: Pattern) -> Result<Pattern, LayoutError> {
    match child {
        Pattern::Bytes(bytes) if bytes == row => {
            bytes.checked_mul(count).map(Pattern::Bytes).ok_or(LayoutError::Overflow)
        }
        child if count == 1 => Ok(child),
        child => Ok(vector(count, row, child)),
    }
}

fn vector(count: u64, stride: u64, child: Pattern) -> Pattern {
    Pattern::Vector { count, stride, child: Box::new(child) }
}
