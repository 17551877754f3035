//! The check of names, link counts and reachability: counts how many names lead to each inode of a
//! shard, and compares that with its record.
//!
//! ```text
//!   scan      every directory of every shard: names counted       ──> suspects (none: done)
//!   note      the change counter of each suspect
//!   scan      once more, the suspects' names only
//!   recheck   still wrong, and the counter unchanged?             ──> a problem
//!   repair    in one batch, and only if the counter is unchanged
//! ```
//!
//! Invariants:
//! 1. No call waits for a check: names come and go in the meantime.
//! 2. Each change of a name raises the change counter of its inode and of its directory. A count
//!    taken while the counter did not change is right, and later changes are no problem.
//! 3. Nothing is deleted: an inode without a name gets one in `/lost+found`.
//!
//! No assertion checks these: calls do not know of checks (1), the namespace raises the counters
//! (2), and `bring_back` only adds a name (3).

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use braid_meta::{FileKind, Identity, Inode};
use braid_types::{Failure, FileIndex, ShardId, Status};
use braid_wire::message::mds::{FsckNamespace, FsckNamespaceReply, FsckProblem, FsckProblemKind};

use super::{fsck::FILES_MAX, name_search::PAGE_BYTES};
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
};

/// Problems in one reply.
const PROBLEMS_MAX: usize = 2048;
/// The directory for inodes that no path leads to.
const LOST_FOUND: &[u8] = b"lost+found";

/// The number of names of a file; for a directory also the number of directories in it.
#[derive(Clone, Copy, Default)]
struct NameCount {
    names: u32,
    subdirectories: u32,
}

/// What one scan of all directories found about the files of one shard.
#[derive(Default)]
struct DirectoryScan {
    entries: u64,
    names: HashMap<FileIndex, NameCount>,
    /// Entries of the shard's directories that lead to no file, or to another one.
    broken: Vec<FsckProblem>,
}

/// What is wrong with an inode, and its right link count.
struct LinkProblem {
    kind: FsckProblemKind,
    detail: String,
    links: u32,
}

/// Suspects by their change counters.
type Suspects = BTreeMap<FileIndex, u64>;

impl MdsCore {
    pub(super) fn fsck_namespace(&self, call: Call, r: &FsckNamespace) -> CallOutcome {
        let checked = self.check_names(&call, r);
        CallOutcome::from(call, checked)
    }

    fn check_names(&self, call: &Call, r: &FsckNamespace) -> Result<FsckNamespaceReply, Failure> {
        let first = self.scan(r.shard, None)?;
        let mut reply =
            FsckNamespaceReply { inodes: 0, entries: first.entries, problems: Vec::new() };
        let suspects = self.suspects(r.shard, &first, &mut reply)?;
        if suspects.is_empty() && first.broken.is_empty() {
            return Ok(reply);
        }
        let second = self.scan(r.shard, Some(&suspects))?;
        reply
            .problems
            .extend(first.broken.into_iter().filter(|problem| second.broken.contains(problem)));
        for (file, change) in suspects {
            let names = second.names.get(&file).copied().unwrap_or_default();
            if let Some(problem) = self.recheck(call, file, change, names, r.mend)? {
                reply.problems.push(problem);
            }
        }
        reply.problems.truncate(PROBLEMS_MAX);
        Ok(reply)
    }

    /// Inodes that do not agree with their names in the first scan. Those that cannot be read are
    /// problems right away.
    fn suspects(
        &self,
        shard: ShardId,
        scan: &DirectoryScan,
        reply: &mut FsckNamespaceReply,
    ) -> Result<Suspects, Failure> {
        let mut suspects = Suspects::new();
        self.each_inode(shard, &mut |file, inode| {
            reply.inodes += 1;
            let names = scan.names.get(&file).copied().unwrap_or_default();
            match inode {
                Ok(inode) if wrong(&inode, names).is_some() => {
                    suspects.insert(file, inode.change);
                }
                Ok(_) => {}
                Err(error) => reply.problems.push(FsckProblem {
                    file,
                    kind: FsckProblemKind::Unreadable,
                    detail: format!("file {file}: {error}"),
                    mended: false,
                }),
            }
            Ok(())
        })?;
        // Only those that did not change since the first scan.
        suspects.retain(|file, change| {
            self.namespace.getattr(*file).is_ok_and(|inode| *change == inode.change)
        });
        Ok(suspects)
    }

    /// Checks one suspect again.
    fn recheck(
        &self,
        call: &Call,
        file: FileIndex,
        change: u64,
        names: NameCount,
        mend: bool,
    ) -> Result<Option<FsckProblem>, Failure> {
        let Ok(inode) = self.namespace.getattr(file) else { return Ok(None) };
        let Some(wrong) = wrong(&inode, names).filter(|_| inode.change == change) else {
            return Ok(None);
        };
        let path = String::from_utf8_lossy(&self.path_of(&inode)?).into_owned();
        let outcome = match (mend, wrong.kind) {
            (false, _) => None,
            (true, FsckProblemKind::Unreachable) => Some(self.bring_back(call, file, change)),
            (true, _) => {
                Some(self.namespace.mend_links(&self.change(call), file, wrong.links, change))
            }
        };
        let (mended, why) = match outcome {
            Some(Err(failure)) => (false, format!(" (not repaired: {failure})")),
            outcome => (outcome.is_some(), String::new()),
        };
        let shown =
            if path.is_empty() { format!("file {file}") } else { format!("{path} (file {file})") };
        Ok(Some(FsckProblem {
            file,
            kind: wrong.kind,
            detail: format!("{shown}: {}{why}", wrong.detail),
            mended,
        }))
    }

    /// Scans every directory of every shard. Counts only `wanted` files, if given.
    fn scan(&self, shard: ShardId, wanted: Option<&Suspects>) -> Result<DirectoryScan, Failure> {
        let mut scan = DirectoryScan::default();
        for at in 0..self.namespace.shards() {
            self.each_inode(ShardId(at), &mut |_, inode| match inode {
                Ok(inode) if inode.is_directory() => {
                    self.scan_directory(&inode, shard, wanted, &mut scan)
                }
                _ => Ok(()),
            })?;
        }
        Ok(scan)
    }

    fn scan_directory(
        &self,
        directory: &Inode,
        shard: ShardId,
        wanted: Option<&Suspects>,
        scan: &mut DirectoryScan,
    ) -> Result<(), Failure> {
        let counts = |file: FileIndex| {
            file.shard() == shard && wanted.is_none_or(|wanted| wanted.contains_key(&file))
        };
        let (mut cookie, mut until) = (0, None);
        loop {
            let page = match self.namespace.readdir(
                &Identity::root(),
                directory.file,
                cookie,
                PAGE_BYTES,
                false,
            ) {
                // Removed in the meantime.
                Err(failure) if failure.status == Status::StaleHandle => return Ok(()),
                page => page?,
            };
            for listed in &page.entries {
                let file = listed.entry.file;
                if directory.file.shard() == shard {
                    scan.entries += 1;
                    scan.broken.extend(self.broken(directory.file, listed));
                }
                if counts(file) {
                    scan.names.entry(file).or_default().names += 1;
                }
                if counts(directory.file) && listed.entry.kind == FileKind::Directory {
                    scan.names.entry(directory.file).or_default().subdirectories += 1;
                }
            }
            // Entries that were moved since the scan began get later cookies: they are not
            // followed.
            let until = *until.get_or_insert(page.last);
            match page.entries.last() {
                Some(last) if !page.end && last.entry.cookie < until => cookie = last.entry.cookie,
                _ => return Ok(()),
            }
        }
    }

    /// What is wrong with one entry of a listing.
    fn broken(
        &self,
        directory: FileIndex,
        listed: &braid_meta::ListedEntry,
    ) -> Option<FsckProblem> {
        let (name, file) = (String::from_utf8_lossy(&listed.name), listed.entry.file);
        let (kind, detail) = match self.namespace.lookup(&Identity::root(), directory, &listed.name)
        {
            Ok(inode) if inode.file == file => return None,
            Ok(inode) => {
                let detail =
                    format!("{name:?} is file {file} by its cookie and {} by its name", inode.file);
                (FsckProblemKind::EntryIndex, detail)
            }
            Err(_) => (
                FsckProblemKind::DanglingEntry,
                format!("{name:?} leads to file {file}, which does not exist"),
            ),
        };
        let detail = format!("in directory {directory}: {detail}");
        Some(FsckProblem { file: directory, kind, detail, mended: false })
    }

    fn each_inode(
        &self,
        shard: ShardId,
        visit: &mut dyn FnMut(
            FileIndex,
            Result<Arc<Inode>, braid_meta::RecordError>,
        ) -> Result<(), Failure>,
    ) -> Result<(), Failure> {
        let mut after = None;
        loop {
            let page = self.namespace.files(shard, after, FILES_MAX)?;
            let Some((last, _)) = page.last() else { return Ok(()) };
            after = Some(*last);
            page.into_iter().try_for_each(|(file, inode)| visit(file, inode))?;
        }
    }

    /// Gives a file a name under `/lost+found` if no name leads to it now.
    pub(super) fn bring_back_if_lost(&self, call: &Call, file: FileIndex) -> Result<(), Failure> {
        let inode = self.namespace.getattr(file)?;
        let scan = self.scan(file.shard(), Some(&Suspects::from([(file, inode.change)])))?;
        let names = scan.names.get(&file).copied().unwrap_or_default();
        match wrong(&inode, names) {
            Some(wrong) if wrong.kind == FsckProblemKind::Unreachable => {
                self.bring_back(call, file, inode.change)
            }
            _ => Err(Failure::new(Status::Exists, format!("file {file} is not lost"))),
        }
    }

    /// Gives a file without a name one under `/lost+found`, which only root may search.
    fn bring_back(&self, call: &Call, file: FileIndex, change: u64) -> Result<(), Failure> {
        let root = Identity::root();
        let found = match self.namespace.lookup(&root, FileIndex::ROOT, LOST_FOUND) {
            Err(failure) if failure.status == Status::NotFound => {
                self.namespace.mkdir(&self.change(call), FileIndex::ROOT, LOST_FOUND, 0o700)
            }
            found => found,
        };
        self.namespace.adopt(
            &self.change(call),
            file,
            found?.file,
            format!("file-{file}").as_bytes(),
            change,
        )
    }
}

/// Compares an inode with the names that lead to it.
fn wrong(inode: &Inode, names: NameCount) -> Option<LinkProblem> {
    let links = if inode.is_directory() { 2 + names.subdirectories } else { names.names };
    let (is_root, is_nameless) = (inode.file == FileIndex::ROOT, names.names == 0);
    if is_nameless && inode.nlink == 0 {
        return None; // an orphan, which is open
    }
    if is_nameless && !is_root {
        let detail = format!("{} without a name", kind_word(inode.kind));
        return Some(LinkProblem { kind: FsckProblemKind::Unreachable, detail, links });
    }
    let detail = match inode.is_directory() {
        true => {
            format!("records {} links; with the directories in it there are {links}", inode.nlink)
        }
        false => format!("records {} links; names that lead to it: {links}", inode.nlink),
    };
    (inode.nlink != links).then_some(LinkProblem {
        kind: FsckProblemKind::LinkCount,
        detail,
        links,
    })
}

fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Directory => "a directory",
        FileKind::Regular => "a file",
        _ => "a node",
    }
}
