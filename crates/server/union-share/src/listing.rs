//! Listings in pages. An entry's cookie is computed from its name, so it is valid for as long as
//! the name exists, also after a restart.

use std::{
    hash::Hasher,
    sync::{Arc, Mutex, PoisonError},
};

use braid_share::{DirectoryEntry, FileIndex, Identity, Listing, Status, tables::Outcome};
use braid_types::fold;
use braid_union::Access;
use rustix::io::Errno;
use siphasher::sip::SipHasher13;

use crate::{
    attributes::kind_of,
    files::NodeRef,
    rights::SEARCH,
    service::Service,
    status::{OrStatus, status_of},
};

/// Bytes that an entry takes in a reply besides its name, about.
const ENTRY_BYTES: usize = 40;
/// Entries of one page at most.
const ENTRIES_MAX: usize = 4096;
/// Listings that are remembered between two pages.
const LISTINGS_MAX: usize = 16;
/// Names of a listing that is remembered at most.
const NAMES_MAX: usize = 1 << 20;
/// Names that differ only in case and that a look-up tries at most.
const FOLDED_MAX: usize = 16;
/// RFC 8881 18.23.3: 0 is the beginning, and 1 and 2 are reserved.
const FIRST_COOKIE: u64 = 3;

/// Names in the order of their cookies.
type Sorted = Arc<Vec<(u64, braid_union::DirectoryEntry)>>;

/// The directories that clients are reading, with the counters that they had.
#[derive(Debug, Default)]
pub(crate) struct Listings {
    recent: Mutex<Vec<(FileIndex, u64, Sorted)>>,
}

impl Listings {
    fn get(&self, directory: FileIndex, change: u64) -> Option<Sorted> {
        let recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        let found = recent.iter().find(|(of, at, _)| (*of, *at) == (directory, change));
        found.map(|(_, _, sorted)| Arc::clone(sorted))
    }

    fn keep(&self, directory: FileIndex, change: u64, sorted: &Sorted) {
        let mut recent = self.recent.lock().unwrap_or_else(PoisonError::into_inner);
        recent.retain(|(of, ..)| *of != directory);
        if sorted.len() <= NAMES_MAX {
            recent.truncate(LISTINGS_MAX - 1);
            recent.insert(0, (directory, change, Arc::clone(sorted)));
        }
    }
}

impl Service {
    pub(crate) fn list(
        &self,
        who: &Identity,
        directory: FileIndex,
        cookie: u64,
        bytes_max: u32,
        with_attributes: bool,
    ) -> Outcome<Listing> {
        let node = self.directory(directory)?;
        self.permit(who, node.node, Access::READ_OK)?;
        // POSIX stat(): attributes need search permission of the directory.
        let with_attributes = with_attributes && self.may(who, node.node, SEARCH)?;
        let sorted = self.sorted(directory, &node, cookie)?;
        let begin = sorted.partition_point(|(at, _)| *at <= cookie);
        let (mut listing, mut bytes) = (Listing { entries: Vec::new(), end: true }, 0);
        for (cookie, listed) in &sorted[begin..] {
            let full = bytes >= bytes_max as usize || listing.entries.len() == ENTRIES_MAX;
            if full && !listing.entries.is_empty() {
                listing.end = false;
                break;
            }
            let entry = self.entry(directory, &node, listed, *cookie, with_attributes)?;
            if let Some(entry) = entry {
                bytes += entry.name.len() + ENTRY_BYTES;
                listing.entries.push(entry);
            }
        }
        Ok(listing)
    }

    /// Names that equal `name` without regard to case, in the order of a listing. A kept listing is
    /// used while the directory has not changed.
    pub(crate) fn listed_as(
        &self,
        directory: FileIndex,
        node: &NodeRef,
        name: &[u8],
    ) -> Outcome<Vec<Vec<u8>>> {
        let folded = fold(name);
        let sorted = self.sorted(directory, node, FIRST_COOKIE)?;
        let equal = sorted.iter().filter(|(_, listed)| fold(&listed.name) == folded);
        Ok(equal.take(FOLDED_MAX).map(|(_, listed)| listed.name.to_vec()).collect())
    }

    fn sorted(&self, directory: FileIndex, node: &NodeRef, cookie: u64) -> Outcome<Sorted> {
        let (change, _) = self.look_at(directory, node)?;
        if cookie != 0
            && let Some(known) = self.listings.get(directory, change)
        {
            return Ok(known);
        }
        let listing = self.union.list(node.node).or_status()?;
        if let Some(error) = listing.failed {
            return Err(status_of(error));
        }
        let sorted = Arc::new(in_order(Arc::unwrap_or_clone(listing.entries)));
        self.listings.keep(directory, change, &sorted);
        Ok(sorted)
    }

    /// `None`: it was removed since.
    fn entry(
        &self,
        directory: FileIndex,
        parent: &Arc<NodeRef>,
        listed: &braid_union::DirectoryEntry,
        cookie: u64,
        with_attributes: bool,
    ) -> Outcome<Option<DirectoryEntry>> {
        let name = listed.name.to_vec();
        let known = self.files.known(listed.branch, listed.inode);
        if let (false, Some(file)) = (with_attributes, known) {
            let kind = kind_of(u32::from(listed.kind) << 12);
            return Ok(Some(DirectoryEntry { cookie, file, kind, name, attributes: None }));
        }
        let named = match self.union.look_up(parent.node, &listed.name) {
            Ok(found) => self.entered(directory, parent, &listed.name, &found),
            Err(Errno::NOENT) => Err(Status::StaleHandle),
            Err(error) => Err(status_of(error)),
        };
        match named {
            Ok(named) => {
                let attributes = with_attributes.then(|| self.shown(named.file, &named.found));
                let (file, kind) = (named.file, kind_of(named.found.mode));
                Ok(Some(DirectoryEntry { cookie, file, kind, name, attributes }))
            }
            Err(Status::StaleHandle) => Ok(None),
            Err(status) => Err(status),
        }
    }
}

/// Sorts names by their cookies. Two names with the same hash get neighbouring ones.
fn in_order(entries: Vec<braid_union::DirectoryEntry>) -> Vec<(u64, braid_union::DirectoryEntry)> {
    let mut sorted: Vec<_> =
        entries.into_iter().map(|entry| (cookie_of(&entry.name), entry)).collect();
    sorted.sort_by(|one, other| (one.0, &one.1.name).cmp(&(other.0, &other.1.name)));
    let mut last = 0;
    for (cookie, _) in &mut sorted {
        *cookie = (*cookie).max(last + 1);
        last = *cookie;
    }
    sorted
}

fn cookie_of(name: &[u8]) -> u64 {
    let mut hasher = SipHasher13::new();
    hasher.write(name);
    // Programs see it as a signed offset.
    (hasher.finish() >> 2).max(FIRST_COOKIE)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_depends_on_the_name_alone() {
        let entry = |name: &str| braid_union::DirectoryEntry {
            name: name.as_bytes().into(),
            branch: 0,
            inode: 5,
            index: 5,
            kind: 8,
            branches: 1,
        };
        let all = in_order(["a", "b", "c", "d"].map(entry).into());
        let some = in_order(["d", "b"].map(entry).into());
        assert!(all.is_sorted_by(|one, other| one.0 < other.0));
        assert!(some.iter().all(|one| all.contains(one)));
        assert!(all.iter().all(|(cookie, _)| *cookie >= FIRST_COOKIE && *cookie <= 1 << 62));
    }
}
