//! Lookups of names.

use std::sync::Arc;

use braid_client::{Attributes, FileIndex, FileKind, Status};

use super::name;
use crate::{
    error::Result,
    names::{
        cached_attributes::{Keep, Known, Looked},
        names_lease::Promise,
    },
    vfs::Vfs,
};

impl Vfs {
    /// What `wanted` in the directory leads to; a symbolic link is not followed. `.` and `..` work.
    ///
    /// # Errors
    /// The directory is gone, or is not a directory; a name of more than 255 bytes; the cluster is
    /// not reached.
    pub fn look_up(&self, directory: FileIndex, wanted: &[u8]) -> Result<Looked> {
        let name = name(wanted)?;
        if matches!(name, b"." | b"..") {
            return Ok(Looked::Found(self.seen(self.client().lstat((directory, name))?)));
        }
        let buffered = !self.holder.runs.is_empty();
        if let Some(looked) =
            self.holder.cache.look_up(directory, name, |lease| self.holder.holds(lease))
        {
            return Ok(looked);
        }
        let (lease, mark) = (self.holder.promise(directory), self.holder.cache.mark());
        let is_valid = |lease: &Promise| self.holder.holds(lease);
        match self.client().lstat((directory, name)) {
            // The reply may be older than bytes that were written here, and are buffered or were
            // just sent.
            Ok(found) if self.is_in_doubt(found.file, buffered, mark) => {
                let known = self.attributes(found.file, None)?;
                // This mount may have moved the name meanwhile.
                let leads = Some((found.file, found.kind));
                let keep = lease.filter(|lease| {
                    known.keep.attributes.is_some()
                        && self.holder.cache.keep_name(lease, mark, name, leads, is_valid)
                });
                Ok(Looked::Found(Known { keep: Keep { name: keep, ..known.keep }, ..known }))
            }
            Ok(found) => {
                let keep = lease.map(|lease| {
                    self.holder.cache.keep_found(&lease, mark, name, &found, is_valid)
                });
                if found.kind == FileKind::Directory {
                    self.removed.note_seen((directory, name), &found);
                }
                Ok(Looked::Found(self.with_own(found, keep.unwrap_or_default())))
            }
            Err(error) if error.status() == Status::NotFound => {
                let kept = lease
                    .filter(|lease| self.holder.cache.keep_name(lease, mark, name, None, is_valid));
                Ok(Looked::Absent(Keep { name: kept, attributes: None }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// For a directory that was just looked up: asks for its attributes again under its own lease,
    /// so that they are cacheable.
    pub(super) fn with_own(&self, found: Attributes, keep: Keep) -> Known {
        let own = match found.kind == FileKind::Directory && keep.name.is_some() {
            true => self.holder.promise(found.file),
            false => None,
        };
        match own.map(|own| self.attributes_under(found.file, &own)) {
            Some(Ok(known)) => {
                Known { attributes: known.attributes, keep: Keep { name: keep.name, ..known.keep } }
            }
            // The attributes that were found were true a moment ago.
            Some(Err(_)) | None => Known { attributes: found, keep },
        }
    }

    /// The attributes of a file, cached under a lease that was held before this call.
    pub(super) fn attributes_under(&self, file: FileIndex, lease: &Arc<Promise>) -> Result<Known> {
        // The attributes of a directory come with its lease.
        if let Some(known) = self.holder.cache.attributes(file, |lease| self.holder.holds(lease)) {
            return Ok(known);
        }
        let mark = self.holder.cache.mark();
        let attributes = self.client().lstat(file)?;
        Ok(self.kept_under(attributes, lease, mark))
    }
}
