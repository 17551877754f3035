//! The calls of `braid fsck`: files, orphans, and repairs. They never delete data. (Names:
//! `fsck_names.rs`.)

use braid_meta::{
    FileKind, Identity, Inode, Parts,
    lease::{LeaseMode, LeaseOf},
};
use braid_types::{ByteCount, Failure, FileIndex, ObjectId, ShardId, Status};
use braid_wire::message::mds::{FsckFile, FsckFiles, FsckMendFile, FsckOrphans, NeedsFsck};

use super::name_search;
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
    lease::{claimed, names_of},
    objects,
};

/// Files in one reply: about 400 B each with layouts of 16 parts.
pub(super) const FILES_MAX: usize = 512;
/// Bytes of the files in one reply: it stays below the limit of a frame (I9).
pub(super) const FILES_BYTES_MAX: usize = 256 * 1024;
/// Directories from a file to the root.
const DEPTH_MAX: usize = 4096;

impl MdsCore {
    pub(super) fn fsck_shards(&self, call: Call) -> CallOutcome {
        let shards: Vec<ShardId> = (0..self.namespace.shards()).map(ShardId).collect();
        CallOutcome::from(call, Ok(shards))
    }

    pub(super) fn fsck_files(&self, call: Call, r: &FsckFiles) -> CallOutcome {
        let files = self.check_files(r);
        CallOutcome::from(call, files)
    }

    fn check_files(&self, r: &FsckFiles) -> Result<Vec<FsckFile>, Failure> {
        let count_max = (r.count_max as usize).clamp(1, FILES_MAX);
        let (mut found, mut bytes, mut after) = (Vec::new(), 0, r.after);
        loop {
            let start = (after != FileIndex(0)).then_some(after);
            let page = self.namespace.files(r.shard, start, FILES_MAX)?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after = *last;
            // An inode that cannot be read is reported by `FsckNamespace`.
            let readable = page.into_iter().filter_map(|(_, inode)| inode.ok());
            for inode in readable.filter(|inode| inode.kind == FileKind::Regular) {
                let file = self.check_file(&inode)?;
                bytes += braid_wire::Wire::to_bytes(&file).len();
                if found.len() == count_max || (bytes > FILES_BYTES_MAX && !found.is_empty()) {
                    return Ok(found);
                }
                found.push(file);
            }
        }
    }

    pub(super) fn check_file(&self, inode: &Inode) -> Result<FsckFile, Failure> {
        let layout = inode.layout.as_deref().cloned();
        Ok(FsckFile {
            file: inode.file,
            bytes: ByteCount(inode.size),
            size_in_objects: inode.size_in_objects,
            size_generation: inode.size_generation,
            layout: layout.ok_or_else(|| {
                Failure::new(Status::Corrupted, format!("file {} has no layout", inode.file))
            })?,
            existing_parts: inode.parts.as_bytes().to_vec(),
            path: self.path_of(inode)?,
        })
    }

    /// A path to a file, by its parents; empty when there is none.
    pub(super) fn path_of(&self, inode: &Inode) -> Result<Vec<u8>, Failure> {
        let mut names = Vec::new();
        let (mut file, mut parent) = (inode.file, inode.parent);
        for _ in 0..DEPTH_MAX {
            if file == FileIndex::ROOT {
                break;
            }
            let Some(name) = self.name_in(parent, file)? else { return Ok(Vec::new()) };
            names.push(name);
            let Ok(directory) = self.namespace.getattr(parent) else { return Ok(Vec::new()) };
            (file, parent) = (directory.file, directory.parent);
        }
        let mut path = Vec::new();
        names.iter().rev().for_each(|name| {
            path.push(b'/');
            path.extend_from_slice(name);
        });
        Ok(path)
    }

    fn name_in(&self, directory: FileIndex, file: FileIndex) -> Result<Option<Vec<u8>>, Failure> {
        let hints = || self.name_search.lock().unwrap_or_else(braid_types::poisoned);
        let begin = hints().begin(directory);
        let found = name_search::search(file, begin, |cookie, bytes| {
            match self.namespace.readdir(&Identity::root(), directory, cookie, bytes, false) {
                Err(failure)
                    if matches!(failure.status, Status::StaleHandle | Status::NotDirectory) =>
                {
                    Ok(None)
                }
                page => page.map(Some),
            }
        })?;
        if let Some(found) = &found {
            hints().ended(directory, found);
        }
        Ok(found.map(|found| found.name))
    }

    pub(super) fn fsck_mend_file(&self, call: Call, r: &FsckMendFile) -> CallOutcome {
        let known = self.namespace.getattr(r.file).ok();
        let mut needs = vec![(LeaseOf::Data(r.file), LeaseMode::Shared)];
        needs.extend(known.and_then(|inode| names_of(&inode)));
        needs.push((LeaseOf::Delegation(r.file), LeaseMode::Write));
        let call = claimed!(self.claim(call, &needs));
        let parts = r.mend.existing_parts.as_deref().map(Parts::from_bytes);
        let size = r.mend.bytes.map(|bytes| bytes.0);
        let mended = match (size, &parts) {
            (None, None) => self.bring_back_if_lost(&call, r.file),
            _ => self.namespace.mend(&self.change(&call), r.file, size, parts),
        };
        // What was collected of it does not agree with the new record.
        self.state().sizes.record_was_mended(r.file);
        CallOutcome::from(call, mended)
    }

    pub(super) fn fsck_mark(&self, call: Call, r: &NeedsFsck) -> CallOutcome {
        let mark = self.namespace.needs_fsck().and_then(|mark| match (mark, r.clear) {
            (Some(mark), true) => self.namespace.clear_needs_fsck().map(|()| Some(mark)),
            (mark, _) => Ok(mark),
        });
        CallOutcome::from(call, mark)
    }

    pub(super) fn fsck_orphans(&self, call: Call, r: &FsckOrphans) -> CallOutcome {
        let strays = r.objects.iter().filter_map(|object| match self.belongs(object) {
            Ok(true) => None,
            Ok(false) => Some(Ok(*object)),
            Err(failure) => Some(Err(failure)),
        });
        let strays: Result<Vec<ObjectId>, Failure> = strays.collect();
        CallOutcome::from(call, strays)
    }

    /// Whether an object belongs to a file that exists, or is to be deleted.
    fn belongs(&self, object: &ObjectId) -> Result<bool, Failure> {
        if self.namespace.is_deletion_pending(object.file)? {
            return Ok(true);
        }
        let inode = match self.namespace.getattr(object.file) {
            Ok(inode) => inode,
            Err(failure) if failure.status == Status::StaleHandle => return Ok(false),
            Err(failure) => return Err(failure),
        };
        let Some(layout) = &inode.layout else { return Ok(false) };
        Ok(objects::parts(layout)
            .any(|(part, at)| part == object.part && at.generation == object.generation))
    }
}
