//! The objects of a file: which daemon has which, and what their lengths mean for the file. Pure.

use std::collections::{BTreeMap, BTreeSet};

use braid_layout::Layout;
use braid_meta::{Inode, ObjectSummary, Parts};
use braid_types::{
    Failure, FileIndex, IodId, ObjectId, PartIndex, Status, Timestamp, WriteVerifier,
};
use braid_wire::message::types::ObjectInfo;

/// Every object of a file, by the daemon that has it.
pub(crate) fn by_daemon(file: FileIndex, layout: &Layout) -> BTreeMap<IodId, Vec<ObjectId>> {
    let mut found = BTreeMap::<IodId, Vec<ObjectId>>::new();
    for (part, placement) in parts(layout) {
        let object = ObjectId { file, part, generation: placement.generation };
        placement.iods.iter().for_each(|iod| found.entry(*iod).or_default().push(object));
    }
    found
}

/// Every daemon of a layout.
pub(crate) fn daemons(layout: &Layout) -> Vec<IodId> {
    let mut iods: Vec<IodId> =
        parts(layout).flat_map(|(_, placement)| placement.iods.iter().copied()).collect();
    iods.sort_unstable();
    iods.dedup();
    iods
}

/// Parts in the order of their index in the file.
pub(crate) fn parts(
    layout: &Layout,
) -> impl Iterator<Item = (PartIndex, &braid_layout::PartPlacement)> {
    layout
        .components
        .iter()
        .flat_map(|component| &component.parts)
        .enumerate()
        .map(|(at, placement)| (PartIndex(at as u16), placement))
}

/// The parts that are on these daemons and on no others.
pub(crate) fn parts_on_only(layout: &Layout, iods: &BTreeSet<IodId>) -> Parts {
    let mut found = Parts::none();
    let gone = parts(layout)
        .filter(|(_, at)| !at.iods.is_empty() && at.iods.iter().all(|iod| iods.contains(iod)));
    gone.for_each(|(part, _)| found.insert(part));
    found
}

/// What one daemon said of a file's objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct IodReply {
    pub(crate) iod: IodId,
    pub(crate) verifier: WriteVerifier,
    pub(crate) infos: Vec<ObjectInfo>,
}

/// The size and time of a file by its objects.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct CollectedSize {
    pub(crate) fetch: ObjectSummary,
    pub(crate) allocated_bytes: u64,
    /// The verifier of each daemon that has an object of the file: while it is the same, the daemon
    /// has lost nothing.
    pub(crate) verifiers: Vec<(IodId, WriteVerifier)>,
    /// The verifier of each daemon that was asked and has no object.
    pub(crate) empty: Vec<(IodId, WriteVerifier)>,
    /// A recorded part was lost with a removed daemon: the size is at least this, and is not known
    /// better.
    pub(crate) is_part_lost: bool,
}

impl CollectedSize {
    /// Whether an object that `before` had is missing, although no daemon has a new verifier.
    pub(crate) fn lost_object_since(&self, before: &Self) -> bool {
        let is_unchanged = |said| self.verifiers.contains(said) || self.empty.contains(said);
        before.verifiers.iter().all(is_unchanged)
            && !before.fetch.parts.iter().all(|part| self.fetch.parts.contains(part))
    }
}

/// Combines what the daemons of a file said of its objects. Daemons in `removed` are out of the
/// cluster and were not asked. `change` is a new number for [`ObjectSummary::change`].
///
/// # Errors
/// [`Status::ObjectLost`] for a part that is recorded as existing and is missing (I11);
/// [`Status::Corrupted`] for lengths that the layout cannot have.
pub(crate) fn file_state(
    inode: &Inode,
    layout: &Layout,
    answers: &[IodReply],
    removed: &BTreeSet<IodId>,
    change: u64,
) -> Result<CollectedSize, Failure> {
    let mut there = Parts::none();
    let (mut mtime, mut bytes_used) = (None::<Timestamp>, 0u64);
    let (mut lengths, mut verifiers, mut empty) = (Vec::new(), Vec::new(), Vec::new());
    for answer in answers {
        for info in &answer.infos {
            if !info.exists {
                if inode.parts.contains(info.part) {
                    let detail =
                        format!("part {} of file {}; try: braid fsck", info.part, inode.file);
                    return Err(Failure::new(Status::ObjectLost, detail));
                }
                continue;
            }
            there.insert(info.part);
            mtime = mtime.max(Some(info.mtime));
            bytes_used = bytes_used.saturating_add(info.bytes_used.0);
            lengths.push((info.part, info.bytes.0));
        }
        let some = answer.infos.iter().any(|info| info.exists);
        let of = if some { &mut verifiers } else { &mut empty };
        of.push((answer.iod, answer.verifier));
    }
    let size = layout.file_size_from_objects(&lengths);
    let mut size = size.map_err(|error| {
        Failure::new(Status::Corrupted, format!("file {}: {error}", inode.file))
    })?;
    let lost = !removed.is_empty() && has_lost_part(inode, layout, removed);
    if lost {
        size = size.max(inode.size);
    }
    let fetch =
        ObjectSummary { generation: inode.size_generation, size, parts: there, mtime, change };
    Ok(CollectedSize { fetch, allocated_bytes: bytes_used, verifiers, empty, is_part_lost: lost })
}

/// Whether a recorded part of a file was lost with a removed daemon (I11).
pub(crate) fn has_lost_part(inode: &Inode, layout: &Layout, removed: &BTreeSet<IodId>) -> bool {
    parts_on_only(layout, removed).iter().any(|part| inode.parts.contains(part))
}
