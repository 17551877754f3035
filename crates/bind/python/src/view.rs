//! Views: the part of a file that one task sees. They are sent as formulas, whatever the number of
//! their blocks.

use braid_client::{BlockCyclicDimension, Error, Extent, Pattern as Shape};
use pyo3::prelude::*;

use crate::error::{IntoPyResult, argument_error, invalid};

/// A pattern of bytes, nested at most 16 levels deep. Offsets in it are relative to its start.
#[pyclass(frozen, module = "braid")]
#[derive(Debug)]
pub(crate) struct Pattern {
    shape: Shape,
    /// Bytes from the start of its first to the end of its last byte.
    span: u64,
}

#[pymethods]
impl Pattern {
    /// `size` contiguous bytes.
    #[staticmethod]
    fn bytes(size: u64) -> PyResult<Self> {
        Self::checked(Shape::Bytes(size), Some(size))
    }

    /// `count` copies of `child`; each starts `stride` bytes after the one before.
    #[staticmethod]
    fn vector(count: u64, stride: u64, child: &Self) -> PyResult<Self> {
        let span =
            count.checked_sub(1).and_then(|gaps| gaps.checked_mul(stride)?.checked_add(child.span));
        Self::checked(Shape::Vector { count, stride, child: Box::new(child.shape.clone()) }, span)
    }

    /// Patterns at ascending displacements, without overlap: (displacement, pattern).
    #[staticmethod]
    #[pyo3(name = "struct")]
    fn structure(entries: Vec<(u64, PyRef<'_, Self>)>) -> PyResult<Self> {
        let span =
            entries.last().and_then(|(displacement, last)| displacement.checked_add(last.span));
        let entries = entries
            .iter()
            .map(|(displacement, pattern)| (*displacement, pattern.shape.clone()))
            .collect();
        Self::checked(Shape::Struct(entries), span)
    }

    /// A list of (offset, bytes) in ascending order, without overlap.
    #[staticmethod]
    fn extents(extents: Vec<(u64, u64)>) -> PyResult<Self> {
        let span = extents.last().and_then(|(offset, bytes)| offset.checked_add(*bytes));
        Self::checked(Shape::Extents(list(extents)), span)
    }

    /// Number of bytes that one copy covers.
    fn __len__(&self) -> usize {
        self.shape.bytes().unwrap_or_default() as usize
    }

    /// Bytes from the start of its first to the end of its last byte.
    #[getter]
    fn span(&self) -> u64 {
        self.span
    }

    fn __repr__(&self) -> String {
        format!("<Pattern of {} bytes over {}>", self.__len__(), self.span)
    }
}

impl Pattern {
    /// Checks depth and 64-bit overflow. The rest is checked when a view is made from it.
    fn checked(shape: Shape, span: Option<u64>) -> PyResult<Self> {
        match (shape.bytes(), span) {
            (Some(1..), Some(span)) => Ok(Self { shape, span }),
            (Some(0), _) => Err(invalid("pattern: it has no bytes", "at least 1 byte and 1 copy")),
            _ => Err(invalid(
                "pattern: it is nested too deep, or exceeds the largest file size",
                "a smaller pattern",
            )),
        }
    }
}

/// The view of one task: a pattern that starts at `offset` and repeats every `extent` bytes without
/// end. The bytes that it covers, in order, are the view's stream. Positions count in this stream.
#[pyclass(frozen, module = "braid")]
#[derive(Debug)]
pub(crate) struct View(braid_client::View);

impl View {
    pub(crate) fn view(&self) -> braid_client::View {
        self.0.clone()
    }

    fn checked(view: braid_client::View) -> PyResult<Self> {
        match view.map() {
            Ok(_) => Ok(Self(view)),
            Err(error) => Err(argument_error(&Error::from(error))),
        }
    }
}

#[pymethods]
impl View {
    /// A pattern that starts at `offset` and repeats every `extent` bytes (by default its span).
    #[new]
    #[pyo3(signature = (pattern, *, offset=0, extent=None))]
    fn new(pattern: &Pattern, offset: u64, extent: Option<u64>) -> PyResult<Self> {
        let extent = extent.unwrap_or(pattern.span);
        Self::checked(braid_client::View {
            displacement: offset,
            extent,
            pattern: pattern.shape.clone(),
        })
    }

    /// From `offset`, `group` bytes in every `stride`: the partition of the 1996 paper.
    #[staticmethod]
    fn strided(offset: u64, group: u64, stride: u64) -> PyResult<Self> {
        Self::checked(braid_client::View::strided(offset, group, stride))
    }

    /// Ranges of the file, (offset, bytes), in ascending order; they do not repeat.
    #[staticmethod]
    fn extents(extents: Vec<(u64, u64)>) -> PyResult<Self> {
        Self::checked(braid_client::View::extents(list(extents)))
    }

    /// A block of an array in C order with items of `item` bytes: its sizes and starts, one number
    /// for each dimension of `sizes`. The array starts at `offset`.
    #[staticmethod]
    #[pyo3(signature = (sizes, block, starts, item, *, offset=0))]
    fn subarray(
        py: Python<'_>,
        sizes: Vec<u64>,
        block: Vec<u64>,
        starts: Vec<u64>,
        item: u64,
        offset: u64,
    ) -> PyResult<Self> {
        let view = braid_client::View::subarray(offset, &sizes, &block, &starts, item);
        view.map_err(Error::from).or_raise(py).and_then(Self::checked)
    }

    /// The part of one task in a block-cyclic distribution of an array: (size, block, tasks, task)
    /// for each dimension, items of `item` bytes. The array starts at `offset`.
    #[staticmethod]
    #[pyo3(signature = (dimensions, item, *, offset=0))]
    fn block_cyclic(
        py: Python<'_>,
        dimensions: Vec<(u64, u64, u64, u64)>,
        item: u64,
        offset: u64,
    ) -> PyResult<Self> {
        let dealt = |(size, block, tasks, task)| BlockCyclicDimension { size, block, tasks, task };
        let dimensions: Vec<BlockCyclicDimension> = dimensions.into_iter().map(dealt).collect();
        let view = braid_client::View::block_cyclic(offset, &dimensions, item);
        view.map_err(Error::from).or_raise(py).and_then(Self::checked)
    }

    fn __repr__(&self) -> String {
        let view = &self.0;
        let bytes = view.pattern.bytes().unwrap_or_default();
        format!("<View of {bytes} bytes in every {} from {}>", view.extent, view.displacement)
    }
}

fn list(extents: Vec<(u64, u64)>) -> Vec<Extent> {
    extents.into_iter().map(|(offset, bytes)| Extent { offset, bytes }).collect()
}
