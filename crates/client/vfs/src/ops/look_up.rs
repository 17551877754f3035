//! Lookups of names.

use std::sync::Arc;

use braid_client::{Attributes, FileIndex, FileKind, Status};

use super::name;
use crate::{
    error::Result,
    names::{
        cached_attributes::{CachedAttributes, CachingLeases, LookupResult},
        names_lease::NamesLease,
    },
    vfs::Vfs,
};

impl Vfs {
    /// What `wanted` in the directory leads to; a symbolic link is not followed. `.` and `..` work.
    ///
    /// # Errors
    /// The directory is gone, or is not a directory; a name of more than 255 bytes; the cluster is
    /// not reached.
    pub fn look_up(&self, directory: FileIndex, wanted: &[u8]) -> Result<LookupResult> {
        let name = name(wanted)?;
        if matches!(name, b"." | b"..") {
            return Ok(LookupResult::Found(
                self.uncacheable(self.client().lstat((directory, name))?),
            ));
        }
        let buffered = !self.caches.buffers.is_empty();
        if let Some(looked) =
            self.caches.names.look_up(directory, name, |lease| self.caches.is_valid(lease))
        {
            return Ok(looked);
        }
        let (lease, mark) = (self.caches.names_lease(directory), self.caches.names.mark());
        let is_valid = |lease: &NamesLease| self.caches.is_valid(lease);
        match self.client().lstat((directory, name)) {
            // The reply may be older than bytes that were written here, and are buffered or were
            // just sent.
            Ok(found) if self.may_be_stale(found.file, buffered, mark) => {
                let known = self.attributes(found.file, None)?;
                // This mount may have moved the name meanwhile.
                let leads = Some((found.file, found.kind));
                let keep = lease.filter(|lease| {
                    known.leases.attributes.is_some()
                        && self.caches.names.cache_name(lease, mark, name, leads, is_valid)
                });
                Ok(LookupResult::Found(CachedAttributes {
                    leases: CachingLeases { name: keep, ..known.leases },
                    ..known
                }))
            }
            Ok(found) => {
                let keep = lease.map(|lease| {
                    self.caches.names.cache_found(&lease, mark, name, &found, is_valid)
                });
                if found.kind == FileKind::Directory {
                    self.removed.note_seen((directory, name), &found);
                }
                Ok(LookupResult::Found(self.with_own_lease(found, keep.unwrap_or_default())))
            }
            Err(error) if error.status() == Status::NotFound => {
                let valid_lease = lease.filter(|lease| {
                    self.caches.names.cache_name(lease, mark, name, None, is_valid)
                });
                Ok(LookupResult::Absent(CachingLeases { name: valid_lease, attributes: None }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// For a directory that was just looked up: asks for its attributes again under its own lease,
    /// so that they are cacheable.
    pub(super) fn with_own_lease(
        &self,
        found: Attributes,
        keep: CachingLeases,
    ) -> CachedAttributes {
        let own = match found.kind == FileKind::Directory && keep.name.is_some() {
            true => self.caches.names_lease(found.file),
            false => None,
        };
        match own.map(|own| self.attributes_under(found.file, &own)) {
            Some(Ok(known)) => CachedAttributes {
                attributes: known.attributes,
                leases: CachingLeases { name: keep.name, ..known.leases },
            },
            // The attributes that were found were true a moment ago.
            Some(Err(_)) | None => CachedAttributes { attributes: found, leases: keep },
        }
    }

    /// The attributes of a file, cached under a lease that was held before this call.
    pub(super) fn attributes_under(
        &self,
        file: FileIndex,
        lease: &Arc<NamesLease>,
    ) -> Result<CachedAttributes> {
        // The attributes of a directory come with its lease.
        if let Some(known) = self.caches.names.attributes(file, |lease| self.caches.is_valid(lease))
        {
            return Ok(known);
        }
        let mark = self.caches.names.mark();
        let attributes = self.client().lstat(file)?;
        Ok(self.cache_under(attributes, lease, mark))
    }
}
