//! Finds the name that a file has in a directory. Directories are indexed by name and by cookie,
//! not by file, so the listing is searched. Files of one directory that are looked for in the order
//! of their indexes were mostly made in that order, so that their cookies ascend too. So each
//! search begins where the last one in its directory ended, with few entries.
//!
//! ```text
//!   cookies   0 ..... [last found] ──> pages that double in length ──> end of the directory
//!             └────────────────────── then from the start, up to there
//! ```

use std::collections::HashMap;

use braid_meta::{DirectoryPage, ListedEntry};
use braid_types::{Failure, FileIndex, IdHashBuilder};

/// Directories whose last search is remembered: enough for deep paths.
const DIRECTORIES_MAX: usize = 1024;
/// Bytes of entries that a search reads first: about ten names.
const FIRST_BYTES: usize = 1024;
/// Bytes of a listing that are read together at most.
pub(super) const PAGE_BYTES: usize = 256 * 1024;

/// Where the last search in each directory ended. It is a hint: any other position is only slower.
#[derive(Debug, Default)]
pub(crate) struct NameSearch(HashMap<FileIndex, u64, IdHashBuilder>);

impl NameSearch {
    /// Where to begin: entries after this cookie.
    pub(super) fn begin(&self, directory: FileIndex) -> u64 {
        self.0.get(&directory).copied().unwrap_or_default()
    }

    /// The next search begins with this entry.
    pub(super) fn ended(&mut self, directory: FileIndex, at: &ListedEntry) {
        if self.0.len() >= DIRECTORIES_MAX {
            self.0.clear();
        }
        self.0.insert(directory, at.entry.cookie.saturating_sub(1));
    }
}

/// The entry of a file in a directory. `list` reads entries after a cookie, of about the given
/// number of bytes; `None` if there is no directory.
pub(super) fn search(
    file: FileIndex,
    begin: u64,
    mut list: impl FnMut(u64, usize) -> Result<Option<DirectoryPage>, Failure>,
) -> Result<Option<ListedEntry>, Failure> {
    let mut page_bytes = FIRST_BYTES;
    // Entries that were moved since the search began get later cookies: they are not followed.
    let mut last_cookie = None;
    for (from, end) in [(begin, None), (0, Some(begin))] {
        let mut cookie = from;
        loop {
            let Some(page) = list(cookie, page_bytes)? else { return Ok(None) };
            page_bytes = (page_bytes * 2).min(PAGE_BYTES);
            let end = end.unwrap_or(*last_cookie.get_or_insert(page.last));
            let next = page.entries.last().map(|last| last.entry.cookie);
            if let Some(found) = page.entries.into_iter().find(|listed| listed.entry.file == file) {
                return Ok(Some(found));
            }
            match next {
                Some(next) if !page.end && next < end => cookie = next,
                _ => break,
            }
        }
        if begin == 0 {
            break;
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use braid_meta::{Entry, FileKind};

    use super::*;

    /// A directory of files 1 to `count`, made in that order; how many entries were read.
    struct Directory {
        count: u64,
        read: u64,
    }

    impl Directory {
        fn search(&mut self, hints: &mut NameSearch, file: u64) -> Option<Vec<u8>> {
            let directory = FileIndex::ROOT;
            let found = search(FileIndex(file), hints.begin(directory), |cookie, bytes| {
                let last = self.count.min(cookie + (bytes / 100) as u64);
                self.read += last.saturating_sub(cookie);
                let listed = |n: u64| ListedEntry {
                    name: n.to_string().into_bytes(),
                    entry: Entry { file: FileIndex(n), kind: FileKind::Regular, cookie: n },
                    inode: None,
                };
                let entries = (cookie + 1..=last).map(listed).collect();
                Ok(Some(DirectoryPage { entries, end: last == self.count, last: self.count }))
            });
            let found = found.unwrap()?;
            hints.ended(directory, &found);
            Some(found.name)
        }
    }

    #[test]
    fn names_of_a_large_directory_are_found_in_a_few_entries_each() {
        let (mut directory, mut hints) =
            (Directory { count: 100_000, read: 0 }, NameSearch::default());
        for file in (1..=100_000).filter(|n| n % 7 != 0) {
            assert_eq!(directory.search(&mut hints, file), Some(file.to_string().into_bytes()));
        }
        assert!(directory.read < 100_000 * 12, "{} entries were read", directory.read);
    }

    #[test]
    fn an_earlier_name_is_found_and_a_missing_one_ends_the_search() {
        let (mut directory, mut hints) =
            (Directory { count: 5000, read: 0 }, NameSearch::default());
        for file in [4000, 3999, 4000, 1, 5000, 1, 2500] {
            assert_eq!(directory.search(&mut hints, file), Some(file.to_string().into_bytes()));
        }
        directory.read = 0;
        assert_eq!(directory.search(&mut hints, 5001), None);
        assert!(directory.read <= 2 * 5000 + 3000, "{} entries were read", directory.read);
        let mut empty = Directory { count: 0, read: 0 };
        assert_eq!(empty.search(&mut hints, 1), None);
    }
}
