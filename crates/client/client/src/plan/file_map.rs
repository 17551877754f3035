//! A file's layout by daemon: which parts each daemon stores.

use braid_layout::{Layout, LayoutError, LayoutMap, PartSet, Request, Unfold};
use braid_types::{
    FileOffset, IodId, PartIndex,
    limits::{FILE_BYTES_MAX, RESERVATION_BLOCK_BYTES, RESERVATION_OBJECT_BYTES},
};

/// One I/O daemon of a file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// The daemon.
    pub iod: IodId,
    /// The file's parts that it stores.
    pub parts: PartSet,
}

/// A layout prepared for use.
#[derive(Clone, Debug)]
pub struct FileMap {
    layout: Layout,
    layout_map: LayoutMap,
    /// By ascending ids: connections are always taken in this order, so that no two calls wait for
    /// each other.
    targets: Vec<Target>,
    /// The index in `targets` of each part's daemon.
    target_of: Vec<u16>,
}

impl FileMap {
    /// Prepares a layout.
    ///
    /// # Errors
    /// The layout is malformed, or a part has no daemon.
    pub fn new(layout: Layout) -> Result<Self, LayoutError> {
        layout.validate()?;
        let ready = layout.map()?;
        let iods: Vec<IodId> =
            layout.placements().map(|(_, placement)| placement.iods[0]).collect();
        let mut sorted = iods.clone();
        sorted.sort_unstable();
        sorted.dedup();
        let target_of: Vec<u16> =
            iods.iter().map(|iod| sorted.partition_point(|other| other < iod) as u16).collect();
        let mut targets: Vec<Target> =
            sorted.into_iter().map(|iod| Target { iod, parts: PartSet::EMPTY }).collect();
        for (part, target) in target_of.iter().enumerate() {
            targets[usize::from(*target)].parts.insert(PartIndex(part as u16));
        }
        Ok(Self { layout, layout_map: ready, targets, target_of })
    }

    /// The layout.
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The prepared layout.
    pub fn layout_map(&self) -> &LayoutMap {
        &self.layout_map
    }

    /// The file's daemons.
    pub fn targets(&self) -> &[Target] {
        &self.targets
    }

    /// The index of the daemon that stores a byte, and how many bytes from there on are contiguous
    /// in one object. `None` past the largest file.
    pub(super) fn daemon_at(&self, offset: FileOffset) -> Option<(usize, u64)> {
        let location = self.layout_map.locate(offset).ok()?;
        Some((usize::from(self.target_of[usize::from(location.part.0)]), location.contiguous))
    }

    /// The accesses of one daemon for a request.
    ///
    /// # Errors
    /// The request is malformed.
    pub fn accesses(&self, target: usize, request: &Request) -> Result<Unfold, LayoutError> {
        self.layout_map.unfold(request, &self.targets[target].parts)
    }

    /// The largest space that `[start, end)` of the file can take on the disk of each daemon that
    /// stores a byte of it: whole blocks, and what each object takes besides. By index in
    /// [`FileMap::targets`], each once.
    pub(crate) fn bytes_per_target(
        &self,
        start: u64,
        end: u64,
    ) -> Result<Vec<(usize, u64)>, LayoutError> {
        let Some(bytes) = end.checked_sub(start).filter(|bytes| *bytes > 0) else {
            return Ok(Vec::new());
        };
        // Both ends may lie within a block.
        let takes = |bytes: u64| {
            bytes.saturating_add(2 * RESERVATION_BLOCK_BYTES + RESERVATION_OBJECT_BYTES)
        };
        if let Some(target) = self.only_target(&Request::contiguous(FileOffset(start), bytes))?
            && self.targets[target].parts.len() == 1
        {
            return Ok(vec![(target, takes(bytes))]);
        }
        let mut costs: Vec<(usize, u64)> = Vec::new();
        for (part, target) in self.target_of.iter().enumerate() {
            let part = PartIndex(part as u16);
            let bytes = self.layout_map.object_bytes(end, part)?
                - self.layout_map.object_bytes(start, part)?;
            match costs.iter_mut().find(|(known, _)| *known == usize::from(*target)) {
                _ if bytes == 0 => {}
                Some((_, costs)) => *costs += takes(bytes),
                None => costs.push((usize::from(*target), takes(bytes))),
            }
        }
        Ok(costs)
    }

    /// The one daemon that stores a contiguous request within one strip; `None` for any other
    /// request.
    pub(crate) fn only_target(&self, request: &Request) -> Result<Option<usize>, LayoutError> {
        if request.view != braid_layout::View::whole() {
            return Ok(None);
        }
        if request.start.checked_add(request.bytes).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(LayoutError::PastLargestFile { max: FILE_BYTES_MAX });
        }
        let location = self.layout_map.locate(FileOffset(request.start))?;
        let target = usize::from(self.target_of[usize::from(location.part.0)]);
        Ok((location.contiguous >= request.bytes || self.targets.len() == 1).then_some(target))
    }
}
