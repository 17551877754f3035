//! Removing names. An open file stays usable through its handles.

use braid_client::{Attributes, FileIndex, FileKind, message::mds::RemoveReply};

use super::name;
use crate::{
    error::Result,
    names::cached_attributes::LookupResult,
    vfs::{BeforeChange, Vfs},
};

impl Vfs {
    /// Removes a name of a file that is not a directory.
    ///
    /// # Errors
    /// It is a directory, or does not exist; the cluster refuses or is not reached.
    pub fn unlink(&self, directory: FileIndex, wanted: &[u8]) -> Result<()> {
        let (at, before) = ((directory, name(wanted)?), self.before_change(directory));
        let leads_to = self.caches.names.last_known_target(directory, wanted).flatten();
        leads_to.into_iter().for_each(|file| self.caches.note_attribute_change(file));
        let _removing = self.caches.names.begin_removal([directory; 2]);
        let _late = self.caches.lazy_opens.begin_removal(&[directory])?;
        let done = self.client().unlink_with_parent(at);
        self.removed(at, &before, done)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// It is not empty, not a directory, or does not exist; the cluster refuses or is not reached.
    pub fn remove_directory(&self, directory: FileIndex, wanted: &[u8]) -> Result<()> {
        let (at, before) = ((directory, name(wanted)?), self.before_change(directory));
        let _removing = self.caches.names.begin_removal([directory; 2]);
        let seen = self.directory_seen(at);
        let done = self.client().rmdir_with_parent(at);
        self.removed(at, &before, done)?;
        seen.into_iter().for_each(|seen| self.removed.add(seen));
        Ok(())
    }

    /// The attributes of the directory that has a name, if they are known without asking a server:
    /// [`crate::names::removed_dirs`].
    pub(super) fn directory_seen(
        &self,
        (directory, name): (FileIndex, &[u8]),
    ) -> Option<Attributes> {
        let known = self.caches.names.look_up(directory, name, |lease| self.caches.is_valid(lease));
        match known {
            Some(LookupResult::Found(known)) => {
                Some(known.attributes).filter(|known| known.kind == FileKind::Directory)
            }
            Some(LookupResult::Absent(_)) => None,
            None => self.removed.seen((directory, name)),
        }
    }

    /// The kernel has forgotten a file: it does not use its index again before another lookup.
    pub fn forgotten(&self, file: FileIndex) {
        self.removed.forget(file);
    }

    fn removed(
        &self,
        at: (FileIndex, &[u8]),
        before: &BeforeChange<'_>,
        done: braid_client::Result<RemoveReply>,
    ) -> Result<()> {
        let cache = &self.caches.names;
        match done {
            Ok(removed) => cache
                .remove_name(at, before, removed.directory, |lease| self.caches.is_valid(lease)),
            // The outcome may be unknown.
            Err(error) => {
                cache.invalidate_name(at.0, at.1);
                self.note_failure(at.0, &error);
                return Err(error.into());
            }
        }
        Ok(())
    }
}
