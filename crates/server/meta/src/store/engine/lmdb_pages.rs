//! The pages of the base, read from the file without LMDB. LMDB trusts its pages: a damaged one
//! would end the process (SIGBUS after the end of the file, SIGSEGV after a wild pointer) or hide
//! keys.
//!
//! ```text
//! page     number u64 | pad u16 | flags u16
//!                     | lower u16, upper u16 (or count of overflow pages u32) | ...
//! meta     pages 0 and 1, alternately: magic, version, ..., free tree, main tree, last page,
//!                     transaction
//! branch   offsets of nodes u16 | nodes: child 48 bits, key length u16, key
//!                     (the key of the first node is not used)
//! leaf     offsets of nodes u16 | nodes: value length u32, flags u16, key length u16, key,
//!                                 value or overflow page
//! ```
//! The format is LMDB's data version 1 (`lmdb.h`, `mdb.c`), in the machine's byte order.
//!
//! LMDB reads what [`PageFile::check`] accepts without leaving the file. The check requires:
//!
//! 1. Every reachable page lies in the file and has its own number.
//! 2. Every node lies in its page.
//! 3. Keys ascend and lie between those of the branch above.
//! 4. No page is used twice, or both free and used.
//! 5. The number of entries is the recorded one.
//! 6. Every record's checksum holds (`base.rs`).
//!
//! Bytes that nothing reads (free pages, gaps, the trees of the older meta page) may have any
//! value.

use std::fs::File;
use std::path::Path;

/// Pages 0 and 1.
const METAS: u64 = 2;
const META_BYTES: usize = 152;
const MAGIC: u32 = 0xBEEF_C0DE;
const VERSION: u32 = 1;
const PAGE_HEADER_BYTES: usize = 16;
const NODE_HEADER_BYTES: usize = 8;
const NONE: u64 = u64::MAX;
/// The most levels that LMDB follows.
const DEPTH_MAX: u16 = 32;
/// The longest value: a batch must hold it.
const VALUE_BYTES_MAX: usize = braid_types::limits::BATCH_BYTES_MAX + 1024;
const BRANCH: u16 = 1;
const LEAF: u16 = 2;
const OVERFLOW: u16 = 4;
const META: u16 = 8;
/// Flag of a node: its value lies in overflow pages.
const BIG: u16 = 1;
/// Flag of the free tree: keys are integers.
const INTEGER_KEYS: u16 = 8;

/// What is wrong, and where in the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bad {
    pub(super) offset: u64,
    pub(super) why: String,
}

fn bad<T>(offset: u64, why: impl Into<String>) -> Result<T, Bad> {
    Err(Bad { offset, why: why.into() })
}

/// Handles a bad page: `Ok` skips everything below it. The page would have held the keys from the
/// first one up to, but not including, the second (`None`: to the end).
pub(super) type OnBad<'a> = dyn FnMut(Bad, &[u8], Option<&[u8]>) -> Result<(), Bad> + 'a;
/// Takes each key and value of the main tree. A record that it refuses is reported as bad.
pub(super) type OnRecord<'a> = dyn FnMut(&[u8], &[u8]) -> Result<(), String> + 'a;

/// The file, and the newest snapshot in it.
pub(super) struct PageFile {
    file: File,
    bytes: u64,
    page_bytes: usize,
    meta: Meta,
}

#[derive(Clone, Copy)]
struct Tree {
    flags: u16,
    depth: u16,
    entries: u64,
    root: u64,
}

#[derive(Clone, Copy)]
struct Meta {
    free: Tree,
    main: Tree,
    last_page: u64,
    transaction: u64,
}

/// A walk over one tree.
struct Walk<'a, 'v> {
    pages: &'a PageFile,
    used: &'a mut Vec<u64>,
    is_free_tree: bool,
    entries: u64,
    on_record: &'v mut OnRecord<'v>,
    on_bad: &'v mut OnBad<'v>,
}

fn word16(bytes: &[u8], at: usize) -> u16 {
    u16::from_ne_bytes([bytes[at], bytes[at + 1]])
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[at..at + 4].try_into().unwrap_or_default())
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[at..at + 8].try_into().unwrap_or_default())
}

#[cfg(unix)]
fn read_at(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    std::os::unix::fs::FileExt::read_exact_at(file, bytes, offset)
}

#[cfg(not(unix))]
fn read_at(mut file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<()> {
    use std::io::{Read, Seek, SeekFrom};
    file.seek(SeekFrom::Start(offset))?;
    file.read_exact(bytes)
}

impl PageFile {
    /// Opens the file and chooses its newest snapshot as LMDB does.
    pub(super) fn open(path: &Path) -> Result<Self, Bad> {
        let (file, bytes) = open(path)?;
        let first = read_meta(&file, bytes, 0, 0)?;
        let page_bytes = first.1;
        let second = read_meta(&file, bytes, page_bytes as u64, 1)?;
        if second.1 != page_bytes {
            return bad(page_bytes as u64, "the two meta pages have different page sizes");
        }
        let (a, b) = (first.0, second.0);
        let (newer, number) = if a.transaction < b.transaction { (b, 1) } else { (a, 0) };
        // Each transaction writes the older of the two. Both pages of a new file are of transaction
        // 0.
        let in_turns =
            a.transaction.abs_diff(b.transaction) == 1 && newer.transaction % METAS == number;
        if !in_turns && (a.transaction, b.transaction) != (0, 0) {
            let why = format!(
                "the meta pages are of transactions {} and {}",
                a.transaction, b.transaction
            );
            return bad(number * page_bytes as u64, why);
        }
        Ok(Self { file, bytes, page_bytes, meta: newer })
    }

    /// Opens a file by any of its meta pages that can be read; by the newer one if both can.
    pub(super) fn open_damaged(path: &Path) -> Result<Self, Bad> {
        Self::open(path).or_else(|wrong| {
            let (file, bytes) = open(path)?;
            let first = read_meta(&file, bytes, 0, 0).ok();
            // The page size is in the meta pages themselves.
            let sizes = first
                .map_or(vec![4096, 8192, 16384, 32768, 65536], |(_, page_bytes)| vec![page_bytes]);
            let second = sizes.into_iter().find_map(|size| {
                read_meta(&file, bytes, size as u64, 1)
                    .ok()
                    .filter(|(_, page_bytes)| *page_bytes == size)
            });
            let newest = first.into_iter().chain(second).max_by_key(|(meta, _)| meta.transaction);
            newest.map(|(meta, page_bytes)| Self { file, bytes, page_bytes, meta }).ok_or(wrong)
        })
    }

    /// The length up to which the snapshot may use pages; the file may be shorter.
    pub(super) fn bytes_used(&self) -> u64 {
        // The meta page has no checksum, so the number may be anything.
        self.meta.last_page.saturating_add(1).saturating_mul(self.page_bytes as u64)
    }

    /// Records of the snapshot, as counted in the meta page.
    pub(super) fn entries(&self) -> u64 {
        self.meta.main.entries
    }

    /// Reads every page of the snapshot. See the module for what is checked.
    pub(super) fn check(&self, map_bytes: u64, on_record: &mut OnRecord<'_>) -> Result<(), Bad> {
        if self.bytes_used() > map_bytes {
            return bad(0, format!("the meta page counts {} pages", self.meta.last_page));
        }
        let mut used = vec![0; (self.meta.last_page / 64 + 1) as usize];
        self.walk(self.meta.free, true, &mut used, &mut |_, _| Ok(()), &mut |bad, _, _| Err(bad))?;
        self.walk(self.meta.main, false, &mut used, on_record, &mut |bad, _, _| Err(bad))
    }

    /// Reports what is bad in the main tree. If anything is, `on_stray` gets possible records from
    /// pages that neither tree accounts for, in any order: those below a bad page, and older ones.
    pub(super) fn survey(
        &self,
        on_stray: &mut dyn FnMut(&[u8], &[u8]),
        on_record: &mut OnRecord<'_>,
        on_bad: &mut OnBad<'_>,
    ) {
        let (mut used, mut is_bad) = (self.unused(), false);
        let mut report = |bad: Bad, from: &[u8], end: Option<&[u8]>| {
            is_bad = true;
            on_bad(bad, from, end)
        };
        // `on_bad` never ends a survey.
        let _ = self.walk(self.meta.main, false, &mut used, on_record, &mut report);
        if is_bad {
            let mut accounted = used.clone();
            let listed = self.walk(
                self.meta.free,
                true,
                &mut accounted,
                &mut |_, _| Ok(()),
                &mut |bad, _, _| Err(bad),
            );
            let accounted = if listed.is_ok() { accounted } else { used };
            let is_stray = |page: &u64| accounted[(page / 64) as usize] >> (page % 64) & 1 == 0;
            (METAS..self.last_page() + 1)
                .filter(is_stray)
                .for_each(|page| self.strays(page, on_stray));
        }
    }

    /// Passes on every record that can be reached, in the order of keys.
    pub(super) fn records(&self, on_record: &mut OnRecord<'_>) {
        let _ =
            self.walk(self.meta.main, false, &mut self.unused(), on_record, &mut |_, _, _| Ok(()));
    }

    /// The last page, limited by the file's length in case the meta page is wrong.
    fn last_page(&self) -> u64 {
        self.meta.last_page.min(self.bytes / self.page_bytes as u64)
    }

    fn unused(&self) -> Vec<u64> {
        vec![0; (self.last_page() / 64 + 1) as usize]
    }

    /// Possible nodes of a leaf, from a page that is not accounted for.
    fn strays(&self, page: u64, visit: &mut dyn FnMut(&[u8], &[u8])) {
        let mut bytes = vec![0; self.page_bytes];
        if read_at(&self.file, &mut bytes, self.offset(page)).is_err()
            || matches!(word16(&bytes, 10), BRANCH | OVERFLOW)
        {
            return;
        }
        let upper = usize::from(word16(&bytes, 14));
        let from = if (PAGE_HEADER_BYTES..bytes.len()).contains(&upper) {
            upper
        } else {
            PAGE_HEADER_BYTES
        };
        for node in (from.next_multiple_of(2)..bytes.len() - NODE_HEADER_BYTES).step_by(2) {
            let (value_bytes, flags) = (word32(&bytes, node) as usize, word16(&bytes, node + 4));
            let value_at = node + NODE_HEADER_BYTES + usize::from(word16(&bytes, node + 6));
            let Some(key) =
                bytes.get(node + NODE_HEADER_BYTES..value_at).filter(|key| !key.is_empty())
            else {
                continue;
            };
            if let Some(value) =
                bytes.get(value_at..value_at.saturating_add(value_bytes)).filter(|_| flags == 0)
            {
                visit(key, value);
            } else if flags == BIG && value_bytes <= VALUE_BYTES_MAX && value_at + 8 <= bytes.len()
            {
                let mut value = vec![0; value_bytes];
                let at =
                    self.offset(word64(&bytes, value_at)).saturating_add(PAGE_HEADER_BYTES as u64);
                if read_at(&self.file, &mut value, at).is_ok() {
                    visit(key, &value);
                }
            }
        }
    }

    fn walk(
        &self,
        tree: Tree,
        is_free_tree: bool,
        used: &mut Vec<u64>,
        on_record: &mut OnRecord<'_>,
        on_bad: &mut OnBad<'_>,
    ) -> Result<(), Bad> {
        let expected_flags = if is_free_tree { INTEGER_KEYS } else { 0 };
        let name = if is_free_tree { "free" } else { "main" };
        if tree.flags != expected_flags
            || tree.depth > DEPTH_MAX
            || (tree.root == NONE) != (tree.depth == 0)
        {
            on_bad(
                Bad {
                    offset: 0,
                    why: format!("the meta page's record of the {name} tree is invalid"),
                },
                b"",
                None,
            )?;
        }
        let mut walk = Walk { pages: self, used, is_free_tree, entries: 0, on_record, on_bad };
        if tree.root != NONE {
            walk.page(tree.root, tree.depth.clamp(1, DEPTH_MAX), b"", None)?;
        }
        let entries = walk.entries;
        if entries != tree.entries {
            let why = format!(
                "the {name} tree has {entries} entries, and the meta page counts {}",
                tree.entries
            );
            on_bad(Bad { offset: 0, why }, b"", None)?;
        }
        Ok(())
    }

    fn offset(&self, page: u64) -> u64 {
        page.saturating_mul(self.page_bytes as u64)
    }

    fn read(&self, page: u64, bytes: usize) -> Result<Vec<u8>, Bad> {
        let offset = self.offset(page);
        if offset.saturating_add(bytes as u64) > self.bytes {
            return bad(
                self.bytes,
                format!("the file ends, and page {page} at byte {offset} is missing"),
            );
        }
        let mut buffer = vec![0; bytes];
        read_at(&self.file, &mut buffer, offset).or_else(|e| bad(offset, e.to_string()))?;
        let found = word64(&buffer, 0);
        if found == page {
            Ok(buffer)
        } else {
            bad(offset, format!("page {page} has the number of page {found}"))
        }
    }
}

fn open(path: &Path) -> Result<(File, u64), Bad> {
    let open = || {
        let file = File::open(path)?;
        let bytes = file.metadata()?.len();
        Ok((file, bytes))
    };
    open().or_else(|e: std::io::Error| bad(0, e.to_string()))
}

fn read_meta(file: &File, bytes: u64, offset: u64, number: u64) -> Result<(Meta, usize), Bad> {
    let mut page = [0; META_BYTES];
    if bytes < offset + META_BYTES as u64 {
        return bad(bytes, "the file ends within its meta pages");
    }
    read_at(file, &mut page, offset).or_else(|e| bad(offset, e.to_string()))?;
    let is_meta = word64(&page, 0) == number
        && word16(&page, 10) == META
        && (word32(&page, 16), word32(&page, 20)) == (MAGIC, VERSION);
    let page_bytes = word32(&page, 40) as usize;
    if !is_meta || !page_bytes.is_power_of_two() || !(512..=65536).contains(&page_bytes) {
        return bad(offset, format!("page {number} is not a meta page"));
    }
    let tree = |at: usize| Tree {
        flags: word16(&page, at + 4),
        depth: word16(&page, at + 6),
        entries: word64(&page, at + 32),
        root: word64(&page, at + 40),
    };
    let (last_page, transaction) = (word64(&page, 136), word64(&page, 144));
    Ok((Meta { free: tree(40), main: tree(88), last_page, transaction }, page_bytes))
}

impl Walk<'_, '_> {
    /// Visits the subtree of `page`, whose keys are in `[from, end)`.
    fn page(&mut self, page: u64, depth: u16, from: &[u8], end: Option<&[u8]>) -> Result<(), Bad> {
        let offset = self.pages.offset(page);
        if let Err(bad) = self.mark_used(page, 1) {
            return (self.on_bad)(bad, from, end);
        }
        let nodes = self.pages.read(page, self.pages.page_bytes).and_then(|bytes| {
            let wanted = if depth == 1 { LEAF } else { BRANCH };
            match (word16(&bytes, 10), nodes(&bytes)) {
                (kind, _) if kind != wanted => {
                    bad(offset, format!("page {page} has flags {kind:#x}, not {wanted:#x}"))
                }
                (_, Some(nodes)) => Ok((bytes, nodes)),
                (_, None) => bad(offset, format!("the nodes of page {page} do not lie in it")),
            }
        });
        let (bytes, nodes) = match nodes {
            Ok(found) => found,
            Err(bad) => {
                // The page's contents are not accounted for.
                self.used[(page / 64) as usize] &= !(1 << (page % 64));
                return (self.on_bad)(bad, from, end);
            }
        };
        if depth == 1 {
            self.leaf(page, &bytes, &nodes, from, end)
        } else {
            self.branch(page, &bytes, &nodes, depth, from, end)
        }
    }

    fn branch(
        &mut self,
        page: u64,
        bytes: &[u8],
        nodes: &[usize],
        depth: u16,
        from: &[u8],
        end: Option<&[u8]>,
    ) -> Result<(), Bad> {
        let key = |n: usize| node_key(bytes, nodes[n]);
        for (n, node) in nodes.iter().enumerate().skip(1) {
            let before = if n == 1 { from } else { key(n - 1) };
            let ascends = before.is_empty() || self.is_less(before, key(n));
            if !ascends || end.is_some_and(|end| !self.is_less(key(n), end)) {
                let at = self.pages.offset(page) + *node as u64;
                let why = format!("the keys of page {page} are not in order");
                return (self.on_bad)(Bad { offset: at, why }, from, end);
            }
        }
        for (n, node) in nodes.iter().enumerate() {
            let child = u64::from(word32(bytes, *node)) | u64::from(word16(bytes, node + 4)) << 32;
            let lower = if n == 0 { from } else { key(n) };
            let upper = if n + 1 < nodes.len() { Some(key(n + 1)) } else { end };
            self.page(child, depth - 1, lower, upper)?;
        }
        Ok(())
    }

    fn leaf(
        &mut self,
        page: u64,
        bytes: &[u8],
        nodes: &[usize],
        from: &[u8],
        end: Option<&[u8]>,
    ) -> Result<(), Bad> {
        let mut last: Option<&[u8]> = None;
        for (n, node) in nodes.iter().enumerate() {
            let at = self.pages.offset(page) + *node as u64;
            let key = node_key(bytes, *node);
            let until = nodes.get(n + 1).map(|next| node_key(bytes, *next)).or(end);
            let in_order = match last {
                Some(last) => self.is_less(last, key),
                None => from.is_empty() || !self.is_less(key, from),
            };
            let outcome =
                if !in_order || key.is_empty() || end.is_some_and(|end| !self.is_less(key, end)) {
                    bad(at, format!("a key of page {page} is not in order"))
                } else {
                    last = Some(key);
                    self.record(bytes, *node, at)
                };
            match outcome {
                Ok(()) => self.entries += 1,
                Err(bad) => (self.on_bad)(bad, key, until)?,
            }
        }
        Ok(())
    }

    fn record(&mut self, bytes: &[u8], node: usize, at: u64) -> Result<(), Bad> {
        let (value_bytes, flags) = (word32(bytes, node) as usize, word16(bytes, node + 4));
        let key = node_key(bytes, node);
        let value_at = node + NODE_HEADER_BYTES + key.len();
        let big;
        let value = if flags == BIG {
            let page = word64(bytes, value_at);
            // A record of the free tree holds every page that one transaction freed.
            let limit = if self.is_free_tree { usize::MAX } else { VALUE_BYTES_MAX };
            let count = ((PAGE_HEADER_BYTES + value_bytes).saturating_sub(1)
                / self.pages.page_bytes
                + 1) as u64;
            let fits = self.pages.offset(page).saturating_add(self.pages.offset(count))
                <= self.pages.bytes;
            if value_bytes > limit || !fits {
                return bad(
                    at,
                    format!(
                        "a value of {value_bytes} bytes at page {page} does not lie in the file"
                    ),
                );
            }
            self.mark_used(page, count)?;
            big = self.pages.read(page, self.pages.offset(count) as usize)?;
            if word16(&big, 10) != OVERFLOW || u64::from(word32(&big, 12)) != count {
                return bad(
                    self.pages.offset(page),
                    format!("page {page} is not the first of {count} overflow pages"),
                );
            }
            &big[PAGE_HEADER_BYTES..PAGE_HEADER_BYTES + value_bytes]
        } else {
            &bytes[value_at..value_at + value_bytes]
        };
        if self.is_free_tree {
            self.free_pages(key, value, at)
        } else {
            (self.on_record)(key, value).or_else(|why| bad(at, why))
        }
    }

    /// A record of the free tree: the key is the transaction that freed the pages; the value is a
    /// count and the pages.
    fn free_pages(&mut self, key: &[u8], value: &[u8], at: u64) -> Result<(), Bad> {
        let pages = (key.len() == 8 && value.len() >= 8).then(|| word64(value, 0) as usize);
        let Some(count) = pages.filter(|count| *count < value.len() / 8) else {
            return bad(at, "a record of free pages is invalid");
        };
        (1..=count).try_for_each(|n| {
            self.mark_used(word64(value, n * 8), 1)
                .or_else(|wrong| bad(at, format!("a record of free pages: {}", wrong.why)))
        })
    }

    /// Marks pages as used or free. Each page is one of these, once.
    fn mark_used(&mut self, page: u64, count: u64) -> Result<(), Bad> {
        for page in page..page.saturating_add(count) {
            let offset = self.pages.offset(page);
            let last = self.pages.meta.last_page;
            if page < METAS || page > last {
                return bad(0, format!("page {page} is used, and the last one is {last}"));
            }
            let Some(word) = self.used.get_mut((page / 64) as usize) else {
                return bad(
                    self.pages.bytes,
                    format!("the file ends, and page {page} at byte {offset} is missing"),
                );
            };
            if *word >> (page % 64) & 1 == 1 {
                return bad(offset, format!("page {page} is used twice"));
            }
            *word |= 1 << (page % 64);
        }
        Ok(())
    }

    fn is_less(&self, a: &[u8], b: &[u8]) -> bool {
        if self.is_free_tree && a.len() == 8 && b.len() == 8 {
            word64(a, 0) < word64(b, 0)
        } else {
            a < b
        }
    }
}

/// Where the nodes of a page begin, if all of them lie in it.
fn nodes(bytes: &[u8]) -> Option<Vec<usize>> {
    let (lower, upper) = (usize::from(word16(bytes, 12)), usize::from(word16(bytes, 14)));
    let is_leaf = word16(bytes, 10) == LEAF;
    if lower < PAGE_HEADER_BYTES + 2 || lower % 2 != 0 || lower > upper || upper > bytes.len() {
        return None;
    }
    let at = (PAGE_HEADER_BYTES..lower).step_by(2).map(|at| usize::from(word16(bytes, at)));
    at.map(|node| {
        let header =
            bytes.get(node..node + NODE_HEADER_BYTES).filter(|_| node >= upper && node % 2 == 0)?;
        let (value_bytes, flags) = (word32(header, 0) as usize, word16(header, 4));
        let value_bytes = match (is_leaf, flags) {
            (false, _) => 0,
            (true, 0) => value_bytes,
            (true, BIG) => 8,
            _ => return None,
        };
        let end = node + NODE_HEADER_BYTES + usize::from(word16(header, 6));
        (end.checked_add(value_bytes)? <= bytes.len()).then_some(node)
    })
    .collect()
}

fn node_key(bytes: &[u8], node: usize) -> &[u8] {
    let from = node + NODE_HEADER_BYTES;
    &bytes[from..from + usize::from(word16(bytes, node + 6))]
}
