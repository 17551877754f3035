//! The cached listing of one directory: complete from the beginning up to some entry. It is under
//! the lease of the directory, and is dropped when this mount changes an entry.

use braid_client::{DirectoryEntry, FileIndex, FileKind};

/// Entries that are cached of one directory. The rest of a larger one is read from the server.
pub(crate) const LISTED_MAX: usize = 8_192;

/// The first entries of a directory, in the order of their cookies.
#[derive(Debug, Default)]
pub(crate) struct DirListing {
    entries: Vec<Entry>,
    /// They are all entries of the directory.
    complete: bool,
    /// The last cookie of the directory when the listing began.
    last: u64,
}

#[derive(Debug)]
struct Entry {
    cookie: u64,
    file: FileIndex,
    kind: FileKind,
    name: Box<[u8]>,
}

impl DirListing {
    /// How many entries are cached.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Adds what the server listed after `cookie`, if the cached listing ends there. `end`: these
    /// are the last entries; `last`: the last cookie of the directory. Returns how many entries
    /// were added.
    pub(crate) fn extend(
        &mut self,
        cookie: u64,
        entries: &[DirectoryEntry],
        (end, last): (bool, u64),
    ) -> usize {
        if self.entries.is_empty() {
            self.last = last;
        }
        let last = self.entries.last().map_or(0, |entry| entry.cookie);
        if cookie != last || self.complete || self.entries.len() + entries.len() > LISTED_MAX {
            return 0;
        }
        self.entries.extend(entries.iter().map(Entry::of));
        self.complete = end;
        entries.len()
    }

    /// The last cookie of the directory when the listing began.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// At most `count` entries after a cookie, and whether the listing ends with them. `None`: they
    /// are not cached.
    pub(crate) fn after(&self, cookie: u64, count: usize) -> Option<(Vec<DirectoryEntry>, bool)> {
        let rest = &self.entries[self.entries.partition_point(|entry| entry.cookie <= cookie)..];
        if rest.is_empty() && !self.complete {
            return None;
        }
        let first = &rest[..rest.len().min(count)];
        let ends = self.complete && first.len() == rest.len();
        Some((first.iter().map(Entry::to_reply).collect(), ends))
    }
}

impl Entry {
    fn of(entry: &DirectoryEntry) -> Self {
        let DirectoryEntry { cookie, file, kind, ref name, .. } = *entry;
        Self { cookie, file, kind, name: name.as_slice().into() }
    }

    fn to_reply(&self) -> DirectoryEntry {
        let Self { cookie, file, kind, ref name } = *self;
        DirectoryEntry { cookie, name: name.to_vec(), file, kind, attributes: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entries(cookies: &[u64]) -> Vec<DirectoryEntry> {
        let entry = |cookie: &u64| Entry {
            cookie: *cookie,
            file: FileIndex(100 + cookie),
            kind: FileKind::File,
            name: format!("n{cookie}").into_bytes().into(),
        };
        cookies.iter().map(|cookie| entry(cookie).to_reply()).collect()
    }

    #[test]
    fn a_listing_without_gaps_is_returned_from_any_cookie_on() {
        let mut listing = DirListing::default();
        assert_eq!(listing.after(0, 10), None, "nothing is cached");
        assert_eq!(listing.extend(9, &entries(&[12]), (true, 99)), 0, "a gap");
        assert_eq!(listing.extend(0, &entries(&[3, 5, 9]), (false, 99)), 3);
        assert_eq!(listing.extend(5, &entries(&[9]), (false, 99)), 0, "cached already");
        assert_eq!(listing.after(0, 2), Some((entries(&[3, 5]), false)));
        assert_eq!(
            listing.after(4, 10),
            Some((entries(&[5, 9]), false)),
            "the cookie of a removed entry"
        );
        assert_eq!(listing.after(9, 10), None, "there may be more");
        assert_eq!(listing.extend(9, &entries(&[12]), (true, 99)), 1);
        assert_eq!(listing.after(9, 10), Some((entries(&[12]), true)));
        assert_eq!(listing.after(12, 10), Some((vec![], true)));
        assert_eq!(listing.extend(12, &entries(&[13]), (true, 99)), 0, "the listing is complete");
    }

    #[test]
    fn the_beginning_of_a_large_directory_is_cached() {
        let mut listing = DirListing::default();
        let cookies: Vec<u64> = (3..3 + LISTED_MAX as u64).collect();
        assert_eq!(listing.extend(0, &entries(&cookies), (false, 99)), LISTED_MAX);
        let last = cookies[LISTED_MAX - 1];
        assert_eq!(listing.extend(last, &entries(&[last + 1]), (true, 99)), 0);
        assert_eq!((listing.len(), listing.after(last, 1)), (LISTED_MAX, None));
    }

    #[test]
    fn the_listing_of_an_empty_directory_is_complete() {
        let mut listing = DirListing::default();
        assert_eq!(listing.extend(0, &[], (true, 99)), 0);
        assert_eq!(listing.after(0, 10), Some((vec![], true)));
    }
}
