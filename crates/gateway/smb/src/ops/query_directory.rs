//! QUERY_DIRECTORY. MS-SMB2 3.3.5.18, MS-FSA 2.1.5.6.3.
//!
//! A listing is a cookie of the directory and the entries of the last page that no response has
//! had yet. So a response reads no entry twice, and a directory of any length costs one page.

use std::collections::VecDeque;

use braid_share::{Attributes, DirectoryEntry, FileIndex, FileKind, Identity, Share, ShareClient};
use braid_smb_wire::NtStatus;
use braid_smb_wire::access::AccessMask;
use braid_smb_wire::fscc::{DirectoryClass, DirectoryWriter, Entry};
use braid_smb_wire::smb2::query_directory::{
    QueryDirectoryFlags, QueryDirectoryRequest, QueryDirectoryResponse,
};
use braid_smb_wire::wildcard::Pattern;

use crate::attributes::entry as entry_of;
use crate::context::{Context, OpResult, Reply};
use crate::open::{FileOpen, Place};
use crate::path::{SharePath, is_name};
use crate::status::failed;
use crate::walk::{look_up, walk};

/// Bytes of a page: about 200 for each entry with its attributes.
const PAGE_BYTES_MAX: u32 = 256 << 10;
/// Bytes of the smallest page.
const PAGE_BYTES_MIN: u32 = 4 << 10;
/// UTF-16 units of a pattern: those of the longest name. A long pattern with many wildcards would
/// be slow to compare.
const PATTERN_UNITS_MAX: usize = 255;
/// Bytes of a response: further entries are in the next one.
const OUTPUT_BYTES_MAX: u32 = 1 << 20;

/// A listing, from one request to the next.
#[derive(Debug)]
pub struct Search {
    text: String,
    pattern: Pattern,
    /// `.` and `..` that come first, and are no entries of the file system.
    dots: VecDeque<&'static str>,
    /// Entries of the last page that were not sent.
    page: VecDeque<DirectoryEntry>,
    /// Where the next page begins.
    cookie: u64,
    /// Whether there is no further page.
    is_end: bool,
    /// Whether a response has had an entry.
    has_found: bool,
}

impl Search {
    fn new(text: String) -> Self {
        Self {
            pattern: Pattern::new(&text),
            text,
            dots: VecDeque::from([".", ".."]),
            page: VecDeque::new(),
            cookie: 0,
            is_end: false,
            has_found: false,
        }
    }

    /// The name that is asked for, if the pattern has no wildcard.
    fn only_name(&self) -> Option<&str> {
        self.pattern.only_name().map(|_| self.text.as_str())
    }
}

/// Sends entries of a directory.
pub async fn query_directory<S: Share>(
    context: &Context<S>,
    request: QueryDirectoryRequest,
) -> OpResult {
    let open = context.open(request.file_id)?;
    let file = open.file()?;
    context.paid_for(request.output_buffer_length)?;
    if !file.is_directory {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    file.needs(AccessMask::LIST_DIRECTORY.0)?;
    let class = DirectoryClass::from_number(request.information_class);
    let class = class.ok_or(NtStatus::INVALID_INFO_CLASS)?;
    let mut search = file.search.lock().await;
    begin(&mut search, &request)?;
    let search = search.get_or_insert_with(|| Search::new("*".to_owned()));
    let listing = Listing { context, file, client: context.client()?, who: context.who()? };
    let output = listing.fill(search, class, &request).await?;
    let body = QueryDirectoryResponse { output: output.into() };
    Ok(Reply::new(&body).with_file(open.id()))
}

/// Begins a listing, or begins it again. 3.3.5.18.
fn begin(search: &mut Option<Search>, request: &QueryDirectoryRequest) -> Result<(), NtStatus> {
    let flags = request.flags;
    let again =
        flags.has(QueryDirectoryFlags::RESTART_SCANS) || flags.has(QueryDirectoryFlags::REOPEN);
    let pattern = match search {
        Some(_) if !again => return Ok(()),
        Some(search) if request.pattern.is_empty() => search.text.clone(),
        // MS-FSA 2.1.5.6.3: an empty pattern is `*`.
        None if request.pattern.is_empty() => "*".to_owned(),
        _ => request.pattern.clone(),
    };
    let units = pattern.encode_utf16().count();
    if units > PATTERN_UNITS_MAX || pattern.contains(['\\', '/', ':', '|', '\0']) {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    *search = Some(Search::new(pattern));
    Ok(())
}

/// What a listing needs.
struct Listing<'a, S: Share> {
    context: &'a Context<S>,
    file: &'a FileOpen<S>,
    client: &'a S::Client,
    who: &'a Identity,
}

impl<S: Share> Listing<'_, S> {
    /// The entries of a response.
    async fn fill(
        &self,
        search: &mut Search,
        class: DirectoryClass,
        request: &QueryDirectoryRequest,
    ) -> Result<Vec<u8>, NtStatus> {
        let max_bytes = request.output_buffer_length.min(OUTPUT_BYTES_MAX);
        if (max_bytes as usize) < class.fixed_bytes() {
            return Err(NtStatus::INFO_LENGTH_MISMATCH);
        }
        let is_single = request.flags.has(QueryDirectoryFlags::RETURN_SINGLE_ENTRY);
        let page_bytes = match is_single {
            true => PAGE_BYTES_MIN,
            false => max_bytes.clamp(PAGE_BYTES_MIN, PAGE_BYTES_MAX),
        };
        let mut writer = DirectoryWriter::new(class, max_bytes as usize);
        loop {
            match self.step(search, &mut writer, class, page_bytes).await {
                Ok(true) if is_single && !writer.is_empty() => break,
                Ok(true) => {}
                Ok(false) => break,
                Err(status) if writer.is_empty() => return Err(status),
                // What was read is sent; the next request finds the error.
                Err(_) => break,
            }
        }
        if !writer.is_empty() {
            search.has_found = true;
            return Ok(writer.finish());
        }
        let is_done = search.is_end && search.page.is_empty() && search.dots.is_empty();
        Err(match (is_done, search.has_found) {
            // Not even one fits.
            (false, _) => NtStatus::INFO_LENGTH_MISMATCH,
            (true, true) => NtStatus::NO_MORE_FILES,
            (true, false) => {
                // The next request finds the end of the listing.
                search.has_found = true;
                NtStatus::NO_SUCH_FILE
            }
        })
    }

    /// Appends the next entry, or reads the next page. Returns whether there may be more.
    async fn step(
        &self,
        search: &mut Search,
        writer: &mut DirectoryWriter,
        class: DirectoryClass,
        page_bytes: u32,
    ) -> Result<bool, NtStatus> {
        if let Some(dot) = search.dots.front().copied() {
            if search.pattern.matches(dot) {
                let known = self.dot(dot).await?;
                if !writer.push(&entry_of(&known, dot.to_owned())) {
                    return Ok(false);
                }
            }
            search.dots.pop_front();
        } else if let Some(next) = search.page.front() {
            if let Some(entry) = self.entry(search, next, class).await
                && !writer.push(&entry)
            {
                return Ok(false);
            }
            search.page.pop_front();
        } else if search.is_end {
            return Ok(false);
        } else {
            self.next_page(search, class, page_bytes).await?;
        }
        Ok(true)
    }

    /// Reads the next page.
    async fn next_page(
        &self,
        search: &mut Search,
        class: DirectoryClass,
        page_bytes: u32,
    ) -> Result<(), NtStatus> {
        if let Some(name) = search.only_name() {
            let found = self.only_entry(name).await?;
            search.is_end = true;
            search.page.extend(found);
            return Ok(());
        }
        let with_attributes = class != DirectoryClass::Names;
        let (dir, cookie) = (self.file.file, search.cookie);
        let listing = self.client.list(self.who, dir, cookie, page_bytes, with_attributes).await;
        let listing = listing.map_err(failed)?;
        if let Some(last) = listing.entries.last() {
            search.cookie = last.cookie;
        }
        // A page without entries that is not the last would be asked for again and again.
        search.is_end = listing.end || listing.entries.is_empty();
        search.page = listing.entries.into();
        Ok(())
    }

    /// The entry with a name, without a listing.
    async fn only_entry(&self, name: &str) -> Result<Option<DirectoryEntry>, NtStatus> {
        if !is_name(name) {
            return Ok(None);
        }
        match look_up(self.client, self.who, self.file.file, name.as_bytes()).await {
            Ok((name, known)) => Ok(Some(DirectoryEntry {
                cookie: 0,
                name,
                file: known.file,
                kind: known.kind,
                attributes: Some(known),
            })),
            Err(error) => match failed(error) {
                NtStatus::OBJECT_NAME_NOT_FOUND => Ok(None),
                status => Err(status),
            },
        }
    }

    /// The directory, or the one above it. The root of the share is its own parent.
    async fn dot(&self, dot: &str) -> Result<Attributes, NtStatus> {
        let Place { dir, .. } = self.file.place();
        let file = if dot == "." { self.file.file } else { dir };
        self.attributes(file).await
    }

    async fn attributes(&self, file: FileIndex) -> Result<Attributes, NtStatus> {
        self.client.attributes(self.who, file).await.map_err(failed)
    }

    /// An entry that matches. `None` for one that does not, that was removed meanwhile, or whose
    /// name cannot be sent.
    async fn entry(
        &self,
        search: &Search,
        found: &DirectoryEntry,
        class: DirectoryClass,
    ) -> Option<Entry> {
        let name = std::str::from_utf8(&found.name).ok().filter(|name| is_name(name))?;
        if !search.pattern.matches(name) {
            return None;
        }
        if class == DirectoryClass::Names {
            return Some(Entry { name: name.to_owned(), ..Entry::default() });
        }
        let known = found.attributes.as_ref()?;
        if found.kind == FileKind::Symlink
            && let Some(target) = self.target(name).await
        {
            return Some(entry_of(&target, name.to_owned()));
        }
        Some(entry_of(known, name.to_owned()))
    }

    /// What a symbolic link of the directory leads to: an open of its name opens that. `None` if
    /// there is nothing, so that the link itself is shown, and can be removed.
    async fn target(&self, name: &str) -> Option<Attributes> {
        let root = self.context.tree().ok()?.root()?;
        let Place { path, .. } = self.file.place();
        let path = if path.is_empty() { name.to_owned() } else { format!("{path}\\{name}") };
        let path = SharePath::parse(&path).ok()?;
        walk(self.client, self.who, root, &path, true).await.ok()?.found
    }
}

#[cfg(test)]
mod tests {
    use braid_smb_wire::smb2::FileId;

    use super::*;

    fn request(flags: QueryDirectoryFlags, pattern: &str) -> QueryDirectoryRequest {
        QueryDirectoryRequest {
            information_class: 1,
            flags,
            file_index: 0,
            file_id: FileId::RELATED,
            pattern: pattern.to_owned(),
            output_buffer_length: 4096,
        }
    }

    fn text(search: &Option<Search>) -> (&str, u64) {
        search.as_ref().map_or(("", 0), |search| (&search.text, search.cookie))
    }

    #[test]
    fn a_listing_goes_on_until_it_begins_again() {
        let mut search = None;
        begin(&mut search, &request(QueryDirectoryFlags::default(), "")).unwrap();
        assert_eq!(text(&search), ("*", 0));
        search.as_mut().unwrap().cookie = 9;
        begin(&mut search, &request(QueryDirectoryFlags::default(), "b*")).unwrap();
        assert_eq!(text(&search), ("*", 9), "the pattern of the first request counts");
        begin(&mut search, &request(QueryDirectoryFlags::RESTART_SCANS, "")).unwrap();
        assert_eq!(text(&search), ("*", 0));
        begin(&mut search, &request(QueryDirectoryFlags::REOPEN, "c*")).unwrap();
        assert_eq!(text(&search), ("c*", 0));
    }

    #[test]
    fn a_pattern_that_is_long_or_has_a_separator_is_refused() {
        for pattern in ["a\\*", "a/b", "a:b", &"x".repeat(256), &"\u{1f600}".repeat(128)] {
            let begun = begin(&mut None, &request(QueryDirectoryFlags::default(), pattern));
            assert_eq!(begun, Err(NtStatus::OBJECT_NAME_INVALID));
        }
        for pattern in ["x".repeat(255), "\u{e9}".repeat(255)] {
            let begun = begin(&mut None, &request(QueryDirectoryFlags::default(), &pattern));
            assert_eq!(begun, Ok(()));
        }
    }

    #[test]
    fn a_pattern_without_wildcards_is_one_name() {
        assert_eq!(Search::new("Read me".to_owned()).only_name(), Some("Read me"));
        assert_eq!(Search::new("Read*".to_owned()).only_name(), None);
    }
}
