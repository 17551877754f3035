//! Look up a name without regard to case, with an index of folded names.
//!
//! A directory gets its index with the first look-up that misses, or, if the directory in which it
//! is made has one, when it is made.
//!
//! Invariants:
//! 1. A directory with the mark `NAMES_INDEXED` has one index record for each of its names, under
//!    the folded name and the cookie. Each batch that adds or removes a name changes the index with
//!    it (`Tx::add_entry`, `Tx::remove_entry`).
//! 2. While the index is made, which may take several batches, the directory has the mark
//!    `NAMES_BEING_INDEXED`: names up to a cookie are in the index, and each change keeps it. If
//!    that ends early, the next look-up begins again. No look-up trusts the index meanwhile.
//! 3. Of names that differ only in case, the look-up returns the one asked for, else the one with
//!    the lowest cookie: that which a listing shows first.

use std::ops::ControlFlow;
use std::sync::Arc;

use braid_types::{Failure, FileIndex, Status, Timestamp, fold};

use super::name;
use crate::identity::{Call, Identity, Want, permit};
use crate::key;
use crate::namespace::Namespace;
use crate::record::{
    Inode, NAMES_BEING_INDEXED, NAMES_INDEXED, Outcome, RecordError, decode_entry,
    decode_folded_name,
};
use crate::store::Snapshot;
use crate::tx::{Op, Tx};

/// Bytes of names, counted as for a listing, that one batch adds to an index: the batch stays far
/// below `BATCH_BYTES_MAX`, and others change names between two batches.
const PAGE_BYTES: usize = 64 << 10;
/// Index records that a look-up reads at most. A further one is read only if the one before has no
/// name, which needs a damaged store.
const RECORDS_MAX: usize = 16;

/// A stored name, and the file that it leads to.
type Named = (Vec<u8>, Arc<Inode>);

impl Namespace {
    /// The name that equals `name` without regard to case ([`braid_types::fold`]), and the file
    /// that it leads to: `name` itself, else the first one of a listing. A symbolic link is not
    /// followed.
    ///
    /// If the directory has no index of folded names, all its names are indexed first, in batches
    /// between which others change the namespace. Without space for that they are searched.
    ///
    /// # Errors
    /// [`Status::NotFound`]; [`Status::Invalid`] for `.` and `..`; and those of
    /// [`Namespace::lookup`].
    pub fn look_up_folded(
        &self,
        who: &Identity,
        directory: FileIndex,
        name: &[u8],
    ) -> Result<(Vec<u8>, Arc<Inode>), Failure> {
        name::check(name)?;
        let inode = self.directory(directory)?;
        permit(who, &inode, Want::EXECUTE)?;
        let found = match self.find_folded(&inode, name)? {
            None if !inode.has_name_index() => match self.index_names(directory) {
                Ok(()) => self.find_folded(&self.directory(directory)?, name)?,
                Err(failure) if failure.status == Status::NoSpace => {
                    self.search(directory, name)?
                }
                Err(failure) => return Err(failure),
            },
            found => found,
        };
        found.ok_or_else(|| Status::NotFound.into())
    }

    fn find_folded(&self, directory: &Arc<Inode>, name: &[u8]) -> Result<Option<Named>, Failure> {
        let view = self.store.snapshot()?;
        if let Some(inode) = self.step(&*view, directory, name)? {
            return Ok(Some((name.to_vec(), inode)));
        }
        if !directory.has_name_index() {
            return Ok(None);
        }
        for (cookie, name) in folded_records(&*view, directory.file, name)? {
            let Some(bytes) = view.get(&key::entry(directory.file, &name))? else { continue };
            let entry = decode_entry(&bytes)?;
            if entry.cookie != cookie {
                continue;
            }
            if let Some(inode) = self.find_inode_in(&*view, entry.file)? {
                return Ok(Some((name, inode)));
            }
        }
        Ok(None)
    }

    /// Makes the index of a directory.
    fn index_names(&self, directory: FileIndex) -> Result<(), Failure> {
        let who = Identity::root();
        let call = Call { who: &who, now: Timestamp::default(), replay: None };
        let mut next = Some(0);
        while let Some(after) = next {
            self.change(&call, Op::IndexNames, directory, |tx| {
                next = self.index_page(tx, directory, after)?;
                Ok(Outcome::Done)
            })?;
        }
        Ok(())
    }

    /// Adds names after a cookie to the index. Returns the last one's cookie, or `None` if the
    /// index is complete.
    fn index_page(
        &self,
        tx: &mut Tx<'_>,
        directory: FileIndex,
        after: u64,
    ) -> Result<Option<u64>, Failure> {
        let mut inode = (*tx.directory(directory)?).clone();
        if inode.has_name_index() {
            return Ok(None);
        }
        let page = self.page(directory, after, PAGE_BYTES)?;
        for listed in &page.entries {
            tx.index_name(directory, &listed.name, listed.entry.cookie);
        }
        let next = page.entries.last().filter(|_| !page.end).map(|last| last.entry.cookie);
        inode.flags = match next {
            Some(_) => inode.flags | NAMES_BEING_INDEXED,
            None => inode.flags & !NAMES_BEING_INDEXED | NAMES_INDEXED,
        };
        // Clients do not see the marks: nothing of theirs has changed.
        tx.put_inode_keeping_change(inode);
        Ok(next)
    }

    /// As the index would find it, but reads all names, page by page.
    fn search(&self, directory: FileIndex, name: &[u8]) -> Result<Option<Named>, Failure> {
        let folded = fold(name);
        let mut cookie = 0;
        loop {
            let page = self.page(directory, cookie, PAGE_BYTES)?;
            cookie = page.entries.last().map_or(cookie, |last| last.entry.cookie);
            for listed in page.entries.into_iter().filter(|listed| fold(&listed.name) == folded) {
                if let Some(inode) = self.find_inode(listed.entry.file)? {
                    return Ok(Some((listed.name, inode)));
                }
            }
            if page.end {
                return Ok(None);
            }
        }
    }
}

/// Cookies and names of the index records of a name.
fn folded_records(
    view: &dyn Snapshot,
    directory: FileIndex,
    name: &[u8],
) -> Result<Vec<(u64, Vec<u8>)>, Failure> {
    let range = key::all_folded(directory, &fold(name));
    let mut records: Vec<Result<_, RecordError>> = Vec::new();
    view.scan(&range.from, &range.end, &mut |key, value| {
        if records.len() == RECORDS_MAX {
            return ControlFlow::Break(());
        }
        let cookie = key::cookie_of_folded(key).ok_or(RecordError::Broken { what: "folded name" });
        records.push(cookie.and_then(|cookie| Ok((cookie, decode_folded_name(value)?.to_vec()))));
        ControlFlow::Continue(())
    })?;
    Ok(records.into_iter().collect::<Result<_, _>>()?)
}
