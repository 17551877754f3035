//! A layout: the part that holds each byte, and the I/O daemon that holds each part.

use braid_types::{FileOffset, IodId, LayoutVersion, ObjectGeneration, PartIndex};

use crate::PartSet;

/// The placement of a file's bytes, chosen when the file is created.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Layout {
    /// Rises with every change.
    pub version: LayoutVersion,
    /// Components in file order: `[start, end)` without gap or overlap, the last without end (`end
    /// == FileOffset::MAX`). At present always one.
    pub components: Vec<Component>,
    /// At present always `None`.
    pub redundancy: Redundancy,
    /// At present always `None`.
    pub checksum: ChecksumKind,
}

impl Layout {
    /// A layout of version 1 with one component, one part on each daemon, in this order.
    pub fn one(distribution: Distribution, iods: impl IntoIterator<Item = IodId>) -> Self {
        let placement = |iod| PartPlacement { generation: ObjectGeneration(1), iods: vec![iod] };
        let parts = iods.into_iter().map(placement).collect();
        let component = Component {
            start: FileOffset::ZERO,
            end: FileOffset::MAX,
            distribution,
            first_part: 0,
            parts,
        };
        Self {
            version: LayoutVersion(1),
            components: vec![component],
            redundancy: Redundancy::None,
            checksum: ChecksumKind::None,
        }
    }

    /// The parts with their indices in the file, in order.
    pub fn placements(&self) -> impl Iterator<Item = (PartIndex, &PartPlacement)> {
        let all = self.components.iter().flat_map(|component| &component.parts);
        (0..=u16::MAX).map(PartIndex).zip(all)
    }

    /// The placement of one part; `None` when the layout has no such part.
    pub fn placement(&self, part: PartIndex) -> Option<&PartPlacement> {
        self.components.iter().flat_map(|component| &component.parts).nth(usize::from(part.0))
    }

    /// The parts on one I/O daemon.
    pub fn parts_on(&self, iod: IodId) -> PartSet {
        self.placements()
            .filter(|(_, placement)| placement.iods.contains(&iod))
            .map(|(part, _)| part)
            .collect()
    }
}

/// A range of a file with one distribution.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Component {
    /// First byte of the file that the component holds.
    pub start: FileOffset,
    /// First byte past it; [`FileOffset::MAX`] for "no end".
    pub end: FileOffset,
    /// How offsets (relative to `start`) map to parts.
    pub distribution: Distribution,
    /// Index into `parts` of the part that holds the component's first byte.
    pub first_part: u16,
    /// The component's parts in order. The part index within the *file* of `parts[i]` is the number
    /// of parts in earlier components plus `i`.
    pub parts: Vec<PartPlacement>,
}

/// The object that holds one part.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartPlacement {
    /// The incarnation of the part.
    pub generation: ObjectGeneration,
    /// The daemons that hold it: one at present, several with redundancy.
    pub iods: Vec<IodId>,
}

/// A pure mapping between file offsets and (part, object offset): Direct-pNFS's aggregation driver.
#[derive(Clone, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum Distribution {
    /// Round robin of `stripe_size`-byte strips over all parts, from `first_part` (1996 paper,
    /// 2.2.1).
    SimpleStripe {
        /// Bytes in one strip.
        stripe_size: u64,
    },
    /// The whole component in one part: the object is the file.
    Single,
    /// A cycle of strips of different sizes.
    VarStrip {
        /// The cycle, in file order. Part ordinals are relative to `first_part`, modulo the part
        /// count.
        strips: Vec<Strip>,
    },
    /// Two-dimensional: stripes over `group_width` parts until `group_depth` full rows are written,
    /// then over the next group. After the last group comes the first again.
    Grouped {
        /// Bytes in one strip.
        stripe_size: u64,
        /// Parts in one group; divides the part count.
        group_width: u16,
        /// Rows (of `group_width * stripe_size` bytes) in one group before the next.
        group_depth: u32,
    },
}

/// One strip of a [`Distribution::VarStrip`] cycle.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Strip {
    /// The part, relative to the component's `first_part`, modulo the part count.
    pub part: u16,
    /// Bytes in the strip, at least 1.
    pub bytes: u64,
}

/// Redundancy of a layout. Only `None` is defined at present (I10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum Redundancy {
    /// One copy of each part.
    #[default]
    None,
}

/// Block checksums of a layout. Only `None` is defined at present (I10).
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
#[non_exhaustive]
pub enum ChecksumKind {
    /// No checksums.
    #[default]
    None,
}
