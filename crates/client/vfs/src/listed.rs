//! What a directory lists, as far as it was told without a gap from the beginning: under the promise of the directory, until this
//! mount changes an entry of it.

use braid_client::{DirectoryEntry, FileIndex, FileKind};

/// Entries that are remembered of one directory. Who lists a larger one asks for what comes after them.
pub(crate) const LISTED_MAX: usize = 8_192;

/// The first entries of a directory, in the order of their cookies.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    entries: Vec<Entry>,
    /// There are no more.
    whole: bool,
    /// The last cookie that there was at its beginning.
    last: u64,
}

#[derive(Debug)]
struct Entry {
    cookie: u64,
    file: FileIndex,
    kind: FileKind,
    name: Box<[u8]>,
}

impl Listing {
    /// So many entries are remembered.
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes in what was told to come after `cookie`, if that is where this ends, whether it ends there, and the last cookie that there
    /// was; how many entries more it has.
    pub(crate) fn extend(
        &mut self,
        cookie: u64,
        told: &[DirectoryEntry],
        (end, last): (bool, u64),
    ) -> usize {
        if self.entries.is_empty() {
            self.last = last;
        }
        let last = self.entries.last().map_or(0, |entry| entry.cookie);
        if cookie != last || self.whole || self.entries.len() + told.len() > LISTED_MAX {
            return 0;
        }
        self.entries.extend(told.iter().map(Entry::of));
        self.whole = end;
        told.len()
    }

    /// The last cookie that there was when it began.
    pub(crate) fn last(&self) -> u64 {
        self.last
    }

    /// At most `count` entries after a cookie, and whether the listing ends with them; `None` where that is not remembered.
    pub(crate) fn after(&self, cookie: u64, count: usize) -> Option<(Vec<DirectoryEntry>, bool)> {
        let rest = &self.entries[self.entries.partition_point(|entry| entry.cookie <= cookie)..];
        if rest.is_empty() && !self.whole {
            return None;
        }
        let given = &rest[..rest.len().min(count)];
        Some((given.iter().map(Entry::told).collect(), self.whole && given.len() == rest.len()))
    }
}

impl Entry {
    fn of(told: &DirectoryEntry) -> Self {
        Self {
            cookie: told.cookie,
            file: told.file,
            kind: told.kind,
            name: told.name.as_slice().into(),
        }
    }

    fn told(&self) -> DirectoryEntry {
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
        cookies.iter().map(|cookie| entry(cookie).told()).collect()
    }

    #[test]
    fn what_was_told_without_a_gap_is_given_from_any_cookie_on() {
        let mut listing = Listing::default();
        assert_eq!(listing.after(0, 10), None, "nothing was told");
        assert_eq!(listing.extend(9, &entries(&[12]), (true, 99)), 0, "a gap");
        assert_eq!(listing.extend(0, &entries(&[3, 5, 9]), (false, 99)), 3);
        assert_eq!(listing.extend(5, &entries(&[9]), (false, 99)), 0, "it was told");
        assert_eq!(listing.after(0, 2), Some((entries(&[3, 5]), false)));
        assert_eq!(listing.after(4, 10), Some((entries(&[5, 9]), false)), "of an entry that went");
        assert_eq!(listing.after(9, 10), None, "there may be more");
        assert_eq!(listing.extend(9, &entries(&[12]), (true, 99)), 1);
        assert_eq!(listing.after(9, 10), Some((entries(&[12]), true)));
        assert_eq!(listing.after(12, 10), Some((vec![], true)));
        assert_eq!(listing.extend(12, &entries(&[13]), (true, 99)), 0, "it has ended");
    }

    #[test]
    fn of_a_large_directory_the_beginning_is_remembered() {
        let mut listing = Listing::default();
        let cookies: Vec<u64> = (3..3 + LISTED_MAX as u64).collect();
        assert_eq!(listing.extend(0, &entries(&cookies), (false, 99)), LISTED_MAX);
        let last = cookies[LISTED_MAX - 1];
        assert_eq!(listing.extend(last, &entries(&[last + 1]), (true, 99)), 0);
        assert_eq!((listing.len(), listing.after(last, 1)), (LISTED_MAX, None));
    }

    #[test]
    fn an_empty_directory_has_ended_at_its_beginning() {
        let mut listing = Listing::default();
        assert_eq!(listing.extend(0, &[], (true, 99)), 0);
        assert_eq!(listing.after(0, 10), Some((vec![], true)));
    }
}
