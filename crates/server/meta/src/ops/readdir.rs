//! A listing, resumed by cookie: every name that exists all the time appears exactly once.

use std::ops::ControlFlow;
use std::sync::Arc;

use braid_types::{Failure, FileIndex};

use crate::identity::{Identity, Want, permit};
use crate::key;
use crate::namespace::Namespace;
use crate::record::{Entry, Inode, RecordError, decode_cookie};

/// Entries in one page at most: bounds how long one listing holds its snapshot of the store (I9).
pub(super) const PAGE_ENTRIES_MAX: usize = 1024;

/// One name of a listing.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ListedEntry {
    /// The name.
    pub name: Vec<u8>,
    /// What it leads to, and the cookie after which to continue.
    pub entry: Entry,
    /// Attributes, if requested; also `None` for a file that was removed meanwhile.
    pub inode: Option<Arc<Inode>>,
}

/// A batch of entries of a listing. It does not contain `.` and `..`: gateways that need them know
/// both.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct DirectoryPage {
    /// Entries in the order of their cookies.
    pub entries: Vec<ListedEntry>,
    /// Whether the listing ends here.
    pub end: bool,
    /// The last cookie that the directory has given to a name: names created or moved later get a
    /// higher one.
    pub last: u64,
}

impl Namespace {
    /// Entries after `cookie` (0: from the start) until they take `bytes_max` bytes, counting 64 B
    /// for each besides its name. Returns at least one entry if there is one.
    pub fn readdir(
        &self,
        who: &Identity,
        directory: FileIndex,
        cookie: u64,
        bytes_max: usize,
        with_attributes: bool,
    ) -> Result<DirectoryPage, Failure> {
        let inode = self.directory(directory)?;
        permit(who, &inode, Want::READ)?;
        let mut page = self.page(directory, cookie, bytes_max)?;
        // The inode was read before the page: entries with a later cookie were added since.
        page.last = inode.next_cookie - 1;
        // POSIX stat(): attributes of entries need search permission on the directory.
        if with_attributes && permit(who, &inode, Want::EXECUTE).is_ok() {
            for listed in &mut page.entries {
                listed.inode = self.find_inode(listed.entry.file)?;
            }
        }
        Ok(page)
    }

    pub(super) fn page(
        &self,
        directory: FileIndex,
        cookie: u64,
        bytes_max: usize,
    ) -> Result<DirectoryPage, Failure> {
        let range = key::cookies_after(directory, cookie);
        let mut page = DirectoryPage { entries: Vec::new(), end: true, last: 0 };
        let (mut bytes, mut broken) = (0, None);
        self.store.snapshot()?.scan(&range.from, &range.end, &mut |key, value| {
            if !page.entries.is_empty()
                && (bytes >= bytes_max || page.entries.len() == PAGE_ENTRIES_MAX)
            {
                page.end = false;
                return ControlFlow::Break(());
            }
            match listed(key, value) {
                Ok(listed) => {
                    bytes += listed.name.len() + 64;
                    page.entries.push(listed);
                    ControlFlow::Continue(())
                }
                Err(error) => {
                    broken = Some(error);
                    ControlFlow::Break(())
                }
            }
        })?;
        broken.map_or(Ok(page), |error| Err(error.into()))
    }
}

fn listed(key: &[u8], value: &[u8]) -> Result<ListedEntry, RecordError> {
    let cookie = key::number_of(key).ok_or(RecordError::Broken { what: "entry" })?;
    let (entry, name) = decode_cookie(cookie, value)?;
    Ok(ListedEntry { name: name.to_vec(), entry, inode: None })
}
