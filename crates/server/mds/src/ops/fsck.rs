//! What `braid fsck` asks: files, names, orphans, and what it may mend. It never deletes data.

use std::{collections::HashMap, sync::Arc};

use braid_meta::{FileKind, Identity, Inode, Parts};
use braid_types::{ByteCount, Failure, FileIndex, ObjectId, ShardId, Status};
use braid_wire::message::mds::{
    FsckFile, FsckFiles, FsckMendFile, FsckNamespace, FsckNamespaceReply, FsckOrphans, FsckProblem, FsckProblemKind,
};

use crate::{
    call::{Call, Flow},
    core::MdsCore,
    objects,
};

/// Files in one reply: with layouts of 16 parts some 400 B each.
const FILES_MAX: usize = 512;
/// Bytes that the layouts of one reply may take: a reply stays below the limit of a frame (I9).
const FILES_BYTES_MAX: usize = 256 * 1024;
/// Problems in one reply.
const PROBLEMS_MAX: usize = 2048;
/// Entries of a listing that are read at once.
const PAGE_BYTES: usize = 256 * 1024;
/// Directories on the way from a file to the root.
const DEPTH_MAX: usize = 4096;
/// Where files come that no path leads to.
const LOST_FOUND: &[u8] = b"lost+found";

impl MdsCore {
    pub(super) fn fsck_shards(&self, call: Call) -> Flow {
        let shards: Vec<ShardId> = (0..self.names.shards()).map(ShardId).collect();
        Flow::from(call, Ok(shards))
    }

    pub(super) fn fsck_files(&self, call: Call, r: &FsckFiles) -> Flow {
        let files = self.check_files(r);
        Flow::from(call, files)
    }

    fn check_files(&self, r: &FsckFiles) -> Result<Vec<FsckFile>, Failure> {
        let count_max = (r.count_max as usize).clamp(1, FILES_MAX);
        let (mut found, mut bytes, mut after) = (Vec::new(), 0, r.after);
        loop {
            let start = (after != FileIndex(0)).then_some(after);
            let page = self.names.files(r.shard, start, FILES_MAX)?;
            let Some((last, _)) = page.last() else { return Ok(found) };
            after = *last;
            // An inode that cannot be read is told by `FsckNamespace`.
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

    fn check_file(&self, inode: &Inode) -> Result<FsckFile, Failure> {
        let layout = inode.layout.as_deref().cloned();
        Ok(FsckFile {
            file: inode.file,
            bytes: ByteCount(inode.size),
            size_in_objects: inode.size_in_objects,
            size_generation: inode.size_generation,
            layout: layout
                .ok_or_else(|| Failure::new(Status::Corrupted, format!("file {} has no layout", inode.file)))?,
            existing_parts: inode.parts.as_bytes().to_vec(),
            path: self.path_of(inode)?,
        })
    }

    /// A path to a file, by its parents; empty when none leads to it.
    fn path_of(&self, inode: &Inode) -> Result<Vec<u8>, Failure> {
        let mut names = Vec::new();
        let (mut file, mut parent) = (inode.file, inode.parent);
        for _ in 0..DEPTH_MAX {
            if file == FileIndex::ROOT {
                break;
            }
            let Some(name) = self.name_in(parent, file)? else { return Ok(Vec::new()) };
            names.push(name);
            let Ok(directory) = self.names.getattr(parent) else { return Ok(Vec::new()) };
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
        let mut cookie = 0;
        loop {
            let page = match self.names.readdir(&Identity::root(), directory, cookie, PAGE_BYTES, false) {
                Ok(page) => page,
                Err(failure) if matches!(failure.status, Status::StaleHandle | Status::NotDirectory) => {
                    return Ok(None);
                }
                Err(failure) => return Err(failure),
            };
            if let Some(found) = page.entries.iter().find(|listed| listed.entry.file == file) {
                return Ok(Some(found.name.clone()));
            }
            match page.entries.last() {
                Some(last) if !page.end => cookie = last.entry.cookie,
                _ => return Ok(None),
            }
        }
    }

    pub(super) fn fsck_namespace(&self, call: Call, r: &FsckNamespace) -> Flow {
        let checked = self.check_names(&call, r);
        Flow::from(call, checked)
    }

    /// Counts the names that lead to each inode of the shard, wherever the names are.
    fn check_names(&self, call: &Call, r: &FsckNamespace) -> Result<FsckNamespaceReply, Failure> {
        let mut check =
            Check { reply: FsckNamespaceReply { inodes: 0, entries: 0, problems: Vec::new() }, names: HashMap::new() };
        for shard in 0..self.names.shards() {
            self.each_inode(ShardId(shard), &mut |file, inode| match inode {
                Ok(inode) if inode.is_directory() => self.check_directory(&inode, r.shard, &mut check),
                Ok(_) => Ok(()),
                Err(error) if file.shard() == r.shard => {
                    check.problem(file, FsckProblemKind::Unreadable, error.to_string(), false);
                    Ok(())
                }
                Err(_) => Ok(()),
            })?;
        }
        self.each_inode(r.shard, &mut |file, inode| {
            check.reply.inodes += 1;
            let Ok(inode) = inode else { return Ok(()) };
            let names = check.names.get(&file).copied().unwrap_or_default();
            let links = if inode.is_directory() { 2 + names.subdirectories } else { names.names };
            let root = file == FileIndex::ROOT;
            let orphan = inode.nlink == 0;
            if names.names == 0 && !root && !orphan {
                let mended = r.mend && self.bring_back(call, file).is_ok();
                check.problem(file, FsckProblemKind::Unreachable, format!("{:?} without a name", inode.kind), mended);
            } else if !orphan && inode.nlink != links {
                let detail = format!("{} links are recorded, {links} names lead to it", inode.nlink);
                let mended = r.mend && self.names.mend(&self.change(call), file, None, None, Some(links)).is_ok();
                check.problem(file, FsckProblemKind::LinkCount, detail, mended);
            }
            Ok(())
        })?;
        Ok(check.reply)
    }

    fn check_directory(&self, directory: &Inode, shard: ShardId, check: &mut Check) -> Result<(), Failure> {
        let mut cookie = 0;
        loop {
            let page = self.names.readdir(&Identity::root(), directory.file, cookie, PAGE_BYTES, false)?;
            for listed in &page.entries {
                let file = listed.entry.file;
                let by_name = self.names.lookup(&Identity::root(), directory.file, &listed.name);
                if directory.file.shard() == shard {
                    check.reply.entries += 1;
                    check.entry(directory.file, listed, &by_name);
                }
                if file.shard() == shard {
                    check.names.entry(file).or_default().names += 1;
                }
                if directory.file.shard() == shard && listed.entry.kind == FileKind::Directory {
                    check.names.entry(directory.file).or_default().subdirectories += 1;
                }
            }
            match page.entries.last() {
                Some(last) if !page.end => cookie = last.entry.cookie,
                _ => return Ok(()),
            }
        }
    }

    fn each_inode(
        &self,
        shard: ShardId,
        visit: &mut dyn FnMut(FileIndex, Result<Arc<Inode>, braid_meta::RecordError>) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let page = self.names.files(shard, after, FILES_MAX)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            page.into_iter().try_for_each(|(file, inode)| visit(file, inode))?;
        }
    }

    pub(super) fn fsck_mend_file(&self, call: Call, r: &FsckMendFile) -> Flow {
        let parts = r.mend.existing_parts.as_deref().map(Parts::from_bytes);
        let size = r.mend.bytes.map(|bytes| bytes.0);
        let mended = match (size, &parts) {
            (None, None) => self.bring_back(&call, r.file),
            _ => self.names.mend(&self.change(&call), r.file, size, parts, None),
        };
        // What was heard of it is not what is on record now.
        self.state().collector.begin_again(r.file);
        Flow::from(call, mended)
    }

    /// Gives a file that no path leads to a name under `/lost+found`, where only root looks.
    fn bring_back(&self, call: &Call, file: FileIndex) -> Result<(), Failure> {
        let change = self.change(call);
        let root = Identity::root();
        let found = match self.names.lookup(&root, FileIndex::ROOT, LOST_FOUND) {
            Err(failure) if failure.status == Status::NotFound => {
                self.names.mkdir(&change, FileIndex::ROOT, LOST_FOUND, 0o700)
            }
            found => found,
        };
        self.names.adopt(&change, file, found?.file, format!("file-{file}").as_bytes())
    }

    pub(super) fn fsck_orphans(&self, call: Call, r: &FsckOrphans) -> Flow {
        let strays = r.objects.iter().filter_map(|object| match self.belongs(object) {
            Ok(true) => None,
            Ok(false) => Some(Ok(*object)),
            Err(failure) => Some(Err(failure)),
        });
        let strays: Result<Vec<ObjectId>, Failure> = strays.collect();
        Flow::from(call, strays)
    }

    /// Whether an object is of a file that there is, or waits to be deleted.
    fn belongs(&self, object: &ObjectId) -> Result<bool, Failure> {
        if self.names.is_deletion_pending(object.file)? {
            return Ok(true);
        }
        let inode = match self.names.getattr(object.file) {
            Ok(inode) => inode,
            Err(failure) if failure.status == Status::StaleHandle => return Ok(false),
            Err(failure) => return Err(failure),
        };
        let Some(layout) = &inode.layout else { return Ok(false) };
        Ok(objects::parts(layout).any(|(part, at)| part == object.part && at.generation == object.generation))
    }
}

/// How many names lead to a file; for a directory also how many directories are in it.
#[derive(Clone, Copy, Default)]
struct Names {
    names: u32,
    subdirectories: u32,
}

struct Check {
    reply: FsckNamespaceReply,
    names: HashMap<FileIndex, Names>,
}

impl Check {
    fn entry(&mut self, directory: FileIndex, listed: &braid_meta::ListedEntry, by_name: &Result<Arc<Inode>, Failure>) {
        let name = String::from_utf8_lossy(&listed.name).into_owned();
        match by_name {
            Ok(inode) if inode.file == listed.entry.file => {}
            Ok(inode) => {
                let detail =
                    format!("{name:?} is file {} by its cookie and {} by its name", listed.entry.file, inode.file);
                self.problem(directory, FsckProblemKind::EntryIndex, detail, false);
            }
            Err(_) => {
                let detail = format!("{name:?} leads to file {}, which is not there", listed.entry.file);
                self.problem(directory, FsckProblemKind::DanglingEntry, detail, false);
            }
        }
    }

    fn problem(&mut self, file: FileIndex, kind: FsckProblemKind, detail: String, mended: bool) {
        if self.reply.problems.len() < PROBLEMS_MAX {
            self.reply.problems.push(FsckProblem { file, kind, detail, mended });
        }
    }
}
