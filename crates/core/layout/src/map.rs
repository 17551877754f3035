//! A layout prepared for use: file offsets to objects and back, sizes, and the parts of a daemon.

use std::sync::Arc;

use braid_types::limits::{COMPONENTS_MAX, PARTS_MAX};
use braid_types::{FileOffset, ObjectOffset, PartIndex};

use crate::distribution::{Aggregation, Cover, Mapping};
use crate::{Layout, LayoutError, PartSet};

/// The location of one byte of a file.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Location {
    /// The part that holds it.
    pub part: PartIndex,
    /// Offset in the part's object.
    pub object_offset: ObjectOffset,
    /// Number of bytes from here that are contiguous in the file and in the object, at least 1.
    pub contiguous: u64,
}

/// A [`Layout`] prepared for use. Make it once for each open file; a clone only counts a reference.
#[derive(Clone, Debug)]
pub struct LayoutMap {
    components: Arc<[ComponentMap]>,
}

/// One component, prepared for use.
#[derive(Clone, Debug)]
pub(crate) struct ComponentMap {
    /// First byte of the file that it holds.
    pub(crate) start: u64,
    /// First byte past it; `u64::MAX` for "no end".
    pub(crate) end: u64,
    first_part: u16,
    parts: u16,
    /// Index in the file of the component's part 0.
    base: u16,
    mapping: Mapping,
}

impl Layout {
    /// Prepares the layout for use. This allocates memory; keep the result for many calls.
    ///
    /// # Errors
    /// The layout cannot be mapped: no components, gaps, no parts, sizes of 0, or a group width
    /// that does not divide the parts. [`Layout::validate`] is stricter.
    pub fn map(&self) -> Result<LayoutMap, LayoutError> {
        let count = self.components.len();
        match count {
            0 => return Err(LayoutError::NoComponents),
            _ if count > COMPONENTS_MAX => {
                return Err(LayoutError::TooManyComponents { count, max: COMPONENTS_MAX });
            }
            _ => {}
        }
        let parts: usize = self.components.iter().map(|component| component.parts.len()).sum();
        if parts > PARTS_MAX {
            return Err(LayoutError::TooManyParts { count: parts, max: PARTS_MAX });
        }
        let mut slices = Vec::with_capacity(count);
        let (mut start, mut base) = (0, 0);
        for component in 0..count {
            let slice = self.component_map(component, start, base)?;
            (start, base) = (slice.end, base + slice.parts);
            slices.push(slice);
        }
        match start {
            u64::MAX => Ok(LayoutMap { components: slices.into() }),
            end => Err(LayoutError::LastComponentEnds { end }),
        }
    }

    fn component_map(
        &self,
        ordinal: usize,
        start: u64,
        base: u16,
    ) -> Result<ComponentMap, LayoutError> {
        let component = &self.components[ordinal];
        let parts = component.parts.len();
        if component.start.0 != start || component.end.0 <= start {
            return Err(LayoutError::ComponentGap { component: ordinal, start });
        }
        if parts == 0 {
            return Err(LayoutError::NoParts { component: ordinal });
        }
        let first_part = component.first_part;
        if usize::from(first_part) >= parts {
            return Err(LayoutError::FirstPart { component: ordinal, first_part, parts });
        }
        let mapping = Mapping::new(component)?;
        Ok(ComponentMap {
            start,
            end: component.end.0,
            first_part,
            parts: parts as u16,
            base,
            mapping,
        })
    }

    /// [`LayoutMap::locate`] of this layout. For frequent calls, make a [`LayoutMap`].
    ///
    /// ```
    /// use braid_layout::{Distribution, Layout};
    /// use braid_types::{FileOffset, IodId, ObjectOffset, PartIndex};
    /// let iods = (1..=4).map(IodId);
    /// let layout = Layout::one(Distribution::SimpleStripe { stripe_size: 65536 }, iods);
    /// let location = layout.locate(FileOffset(5 * 65536 + 10))?;
    /// assert_eq!(location.part, PartIndex(1));
    /// assert_eq!(location.object_offset, ObjectOffset(65536 + 10));
    /// assert_eq!(location.contiguous, 65526);
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// As [`Layout::map`] and [`LayoutMap::locate`].
    pub fn locate(&self, offset: FileOffset) -> Result<Location, LayoutError> {
        self.map()?.locate(offset)
    }

    /// [`LayoutMap::file_offset`] of this layout.
    ///
    /// # Errors
    /// As [`Layout::map`] and [`LayoutMap::file_offset`].
    pub fn file_offset(
        &self,
        part: PartIndex,
        object_offset: ObjectOffset,
    ) -> Result<FileOffset, LayoutError> {
        self.map()?.file_offset(part, object_offset)
    }

    /// [`LayoutMap::object_bytes`] of this layout.
    ///
    /// # Errors
    /// As [`Layout::map`] and [`LayoutMap::object_bytes`].
    pub fn object_bytes(&self, file_size: u64, part: PartIndex) -> Result<u64, LayoutError> {
        self.map()?.object_bytes(file_size, part)
    }

    /// [`LayoutMap::file_size_from_objects`] of this layout.
    ///
    /// # Errors
    /// As [`Layout::map`] and [`LayoutMap::file_size_from_objects`].
    pub fn file_size_from_objects(&self, objects: &[(PartIndex, u64)]) -> Result<u64, LayoutError> {
        self.map()?.file_size_from_objects(objects)
    }
}

impl LayoutMap {
    /// The part that holds the byte, and the offset in its object.
    ///
    /// # Errors
    /// [`LayoutError::Overflow`] for offset 2^64-1, which no component holds.
    pub fn locate(&self, offset: FileOffset) -> Result<Location, LayoutError> {
        let slice =
            self.components.get(self.component_at(offset.0)).ok_or(LayoutError::Overflow)?;
        Ok(slice.locate(offset.0))
    }

    /// The file offset of a byte of a part's object: the inverse of [`LayoutMap::locate`].
    ///
    /// # Errors [`LayoutError::UnknownPart`]; [`LayoutError::OutsidePart`] when no byte of the file
    /// lies there.
    pub fn file_offset(
        &self,
        part: PartIndex,
        object_offset: ObjectOffset,
    ) -> Result<FileOffset, LayoutError> {
        let slice = self.component_of(part)?;
        let outside = LayoutError::OutsidePart { part, object_offset: object_offset.0 };
        let relative = slice.mapping.offset(slice.column(part), object_offset.0).ok_or(outside)?;
        let offset = slice
            .start
            .checked_add(relative)
            .filter(|offset| *offset < slice.end)
            .ok_or(outside)?;
        Ok(FileOffset(offset))
    }

    /// Length of the part's object when the file has `file_size` bytes and no holes.
    ///
    /// ```
    /// use braid_layout::{Distribution, Layout};
    /// use braid_types::{IodId, PartIndex};
    /// let stripe = Distribution::SimpleStripe { stripe_size: 4096 };
    /// let layout = Layout::one(stripe, (1..=2).map(IodId));
    /// assert_eq!(layout.object_bytes(4096 + 100, PartIndex(0))?, 4096);
    /// assert_eq!(layout.object_bytes(4096 + 100, PartIndex(1))?, 100);
    /// # Ok::<(), braid_layout::LayoutError>(())
    /// ```
    ///
    /// # Errors
    /// [`LayoutError::UnknownPart`].
    pub fn object_bytes(&self, file_size: u64, part: PartIndex) -> Result<u64, LayoutError> {
        let slice = self.component_of(part)?;
        let bytes = file_size.min(slice.end).saturating_sub(slice.start);
        Ok(slice.mapping.object_bytes(bytes, slice.column(part)))
    }

    /// The size of the file, from the lengths of its objects: the largest file offset just past an
    /// object's last byte. Parts that are not listed, and empty objects, have no influence.
    ///
    /// # Errors
    /// [`LayoutError::UnknownPart`]; [`LayoutError::OutsidePart`] for an object that is longer than
    /// possible.
    pub fn file_size_from_objects(&self, objects: &[(PartIndex, u64)]) -> Result<u64, LayoutError> {
        let mut size = 0;
        for (part, bytes) in objects {
            let end = match bytes.checked_sub(1) {
                Some(last) => self.file_offset(*part, ObjectOffset(last))?.0 + 1,
                None => self.component_of(*part).map(|_| 0)?,
            };
            size = size.max(end);
        }
        Ok(size)
    }

    /// Number of parts.
    pub fn part_count(&self) -> usize {
        self.components.iter().map(|slice| usize::from(slice.parts)).sum()
    }

    /// The components, in file order.
    pub(crate) fn components(&self) -> &[ComponentMap] {
        &self.components
    }

    /// Ordinal of the component that holds the byte. For `u64::MAX`, one past the last.
    pub(crate) fn component_at(&self, offset: u64) -> usize {
        if offset < self.components[0].end {
            0
        } else {
            self.components.partition_point(|slice| slice.end <= offset)
        }
    }

    fn component_of(&self, part: PartIndex) -> Result<&ComponentMap, LayoutError> {
        let ordinal = self.components.partition_point(|slice| slice.base <= part.0) - 1;
        let slice = &self.components[ordinal];
        if part.0 - slice.base < slice.parts {
            Ok(slice)
        } else {
            Err(LayoutError::UnknownPart { part })
        }
    }
}

impl ComponentMap {
    /// Location of a byte of the component; `start <= offset < end`.
    pub(crate) fn locate(&self, offset: u64) -> Location {
        let location = self.mapping.locate(offset - self.start);
        let part = self.base + (location.column + self.first_part) % self.parts;
        Location {
            part: PartIndex(part),
            object_offset: ObjectOffset(location.object_offset),
            contiguous: location.contiguous.min(self.end - offset),
        }
    }

    fn column(&self, part: PartIndex) -> u16 {
        (part.0 - self.base + self.parts - self.first_part) % self.parts
    }

    /// The component's bytes that lie on these parts.
    pub(crate) fn cover(&self, parts: &PartSet) -> Cover {
        let columns = self.columns(parts);
        if columns.len() == usize::from(self.parts) {
            Cover::everything()
        } else {
            self.mapping.cover(&columns)
        }
    }

    /// Those of the parts that belong to this component, as columns.
    fn columns(&self, parts: &PartSet) -> PartSet {
        let own =
            (self.base..self.base + self.parts).map(PartIndex).filter(|part| parts.contains(*part));
        own.map(|part| PartIndex(self.column(part))).collect()
    }
}
