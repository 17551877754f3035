//! Listing directories. A listing continues from the cookie of the last entry, so that a listing
//! during changes returns every unchanged name exactly once, and a restart from the beginning sees
//! the current directory. All that is stored with the handle is the last cookie at the listing's
//! beginning. What is made or moved meanwhile has a higher cookie; a listing that followed names
//! that are moved while they are listed would never end. The cached listing ([`crate::names`]) has
//! what the server would return.

use std::sync::atomic::{AtomicU64, Ordering};

use braid_client::{Attributes, DirectoryEntry, FileIndex};

use crate::{
    error::Result,
    names::{
        cached_attributes::{Cacheable, CachingLeases},
        names_lease::NamesLease,
    },
    open::handles::DirectoryHandle,
    vfs::Vfs,
};

/// How many bytes the metadata server counts for an entry beside its name.
const ENTRY_BYTES: usize = 64;
/// How much is asked for in one call at most (I9): a thousand names.
const STRETCH_BYTES_MAX: usize = 64 * 1024;

/// An open directory.
#[derive(Debug)]
pub(crate) struct OpenDirectory {
    file: FileIndex,
    /// The last cookie of the listing; 0 before it has begun.
    until: AtomicU64,
}

/// A batch of directory entries.
#[derive(Clone, Debug)]
pub struct DirectoryBatch {
    /// Entries in the order of their cookies, from 3 on. Gateways that show `.` and `..` use 1 and
    /// 2.
    pub entries: Vec<DirectoryEntry>,
    /// Whether the listing ends here.
    pub end: bool,
    /// The leases under which entries may be cached, if the reply is written by
    /// [`Vfs::reply_cacheable`].
    pub leases: CachingLeases,
    /// What of each entry may be cached, in their order.
    pub cacheable: Vec<Cacheable>,
}

impl DirectoryBatch {
    /// Removes entries after a cookie.
    fn end_at(&mut self, until: u64) {
        let within = self.entries.partition_point(|entry| entry.cookie <= until);
        self.end |= within < self.entries.len();
        self.entries.truncate(within);
        self.cacheable.truncate(within);
    }
}

impl Vfs {
    /// Opens a directory.
    ///
    /// # Errors
    /// Too many are open.
    pub fn open_directory(&self, directory: FileIndex) -> Result<DirectoryHandle> {
        let opened = OpenDirectory { file: directory, until: AtomicU64::new(0) };
        self.open_directories.insert(opened).map(DirectoryHandle)
    }

    /// About `count` entries after a cookie; 0: from the beginning. At least one, if there is one.
    /// Their attributes are cached, since a program that lists a directory often looks at its
    /// files.
    ///
    /// # Errors
    /// No such handle; the directory is gone; the cluster is not reached.
    pub fn read_directory(
        &self,
        handle: DirectoryHandle,
        cookie: u64,
        count: usize,
        with_attributes: bool,
    ) -> Result<DirectoryBatch> {
        let open = self.open_directories.find(handle.0)?;
        let begun = if cookie == 0 { 0 } else { open.until.load(Ordering::Relaxed) };
        if begun != 0 && cookie >= begun {
            return Ok(DirectoryBatch {
                entries: Vec::new(),
                end: true,
                leases: CachingLeases::default(),
                cacheable: Vec::new(),
            });
        }
        let (mut batch, last) = self.batch(open.file, cookie, count, with_attributes)?;
        let until = if begun == 0 { last } else { begun };
        open.until.store(until, Ordering::Relaxed);
        batch.end_at(until);
        Ok(batch)
    }

    /// The entries after a cookie, and the last cookie of the directory.
    fn batch(
        &self,
        directory: FileIndex,
        cookie: u64,
        count: usize,
        with_attributes: bool,
    ) -> Result<(DirectoryBatch, u64)> {
        let bytes = count.saturating_mul(ENTRY_BYTES).clamp(1, STRETCH_BYTES_MAX);
        let lease = self.caches.names_lease(directory);
        let is_valid = |lease: &NamesLease| self.caches.is_valid(lease);
        if !with_attributes
            && let Some(listed) = self.caches.names.listing(directory, (cookie, count), is_valid)
        {
            let cacheable =
                vec![Cacheable { name: false, attributes: false }; listed.entries.len()];
            let batch = DirectoryBatch {
                entries: listed.entries,
                end: listed.end,
                leases: CachingLeases::default(),
                cacheable,
            };
            return Ok((batch, listed.last_cookie));
        }
        let with_attributes = with_attributes
            || lease.is_some() && self.caches.names.wants_listed_attributes(directory, is_valid);
        let buffered = with_attributes && !self.caches.buffers.is_empty();
        let mark = self.caches.names.mark();
        let mut reply =
            self.client().read_directory(directory, cookie, bytes as u32, with_attributes)?;
        // Attributes that may be older than buffered writes are left out, as the server leaves out
        // those of files that other clients buffer. A caller that wants them asks for them.
        let doubted = |seen: &mut Attributes| self.may_be_stale(seen.file, buffered, mark);
        reply.entries.iter_mut().for_each(|entry| _ = entry.attributes.take_if(doubted));
        let mut cacheable = Vec::with_capacity(reply.entries.len());
        for entry in &reply.entries {
            let keep = match (&lease, &entry.attributes) {
                (Some(lease), Some(found)) => {
                    self.caches.names.cache_found(lease, mark, &entry.name, found, is_valid)
                }
                _ => CachingLeases::default(),
            };
            cacheable.push(Cacheable {
                name: keep.name.is_some(),
                attributes: keep.attributes.is_some(),
            });
        }
        if let Some(lease) = &lease {
            self.caches.names.cache_listing(lease, mark, cookie, &reply, is_valid);
        }
        let keep = CachingLeases { name: lease.clone(), attributes: lease };
        Ok((
            DirectoryBatch { entries: reply.entries, end: reply.end, leases: keep, cacheable },
            reply.last_cookie,
        ))
    }

    /// The directory above a directory, for `..`.
    ///
    /// # Errors
    /// The directory is gone; the cluster is not reached.
    pub fn parent(&self, directory: FileIndex) -> Result<FileIndex> {
        let (cache, is_valid) =
            (&self.caches.names, |lease: &NamesLease| self.caches.is_valid(lease));
        if let Some(above) = cache.parent_of_directory(directory, is_valid) {
            return Ok(above);
        }
        let (lease, moves) = (self.caches.names_lease(directory), cache.move_count());
        let above = self.client().lstat((directory, b".."))?.file;
        if let Some(lease) = lease {
            cache.cache_parent_of_directory(&lease, moves, above, is_valid);
        }
        Ok(above)
    }

    /// Forces the names in a directory to disk (I6). For the root, everything: see
    /// [`Vfs::sync_all`].
    ///
    /// # Errors
    /// No such handle; the cluster is not reached; as [`Vfs::sync_all`].
    pub fn sync_directory(&self, handle: DirectoryHandle) -> Result<()> {
        match self.open_directories.find(handle.0)?.file {
            FileIndex::ROOT => self.sync_all(),
            directory => Ok(self.client().sync_directory(directory)?),
        }
    }

    /// Closes a directory.
    ///
    /// # Errors
    /// No such handle.
    pub fn release_directory(&self, handle: DirectoryHandle) -> Result<()> {
        self.open_directories.remove(handle.0).map(drop)
    }
}
