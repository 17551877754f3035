//! Removing names. An open file stays usable through its handles.

use braid_client::{Attributes, FileIndex, FileKind, message::mds::RemoveReply};

use super::name;
use crate::{
    error::Result,
    names::cached_attributes::Looked,
    vfs::{Before, Vfs},
};

impl Vfs {
    /// Removes a name of a file that is not a directory.
    ///
    /// # Errors
    /// It is a directory, or does not exist; the cluster refuses or is not reached.
    pub fn unlink(&self, directory: FileIndex, wanted: &[u8]) -> Result<()> {
        let (at, before) = ((directory, name(wanted)?), self.before(directory));
        let leads_to = self.holder.cache.leads_to(directory, wanted).flatten();
        leads_to.into_iter().for_each(|file| self.holder.attributes_change(file));
        let _removing = self.holder.cache.removing([directory; 2]);
        let _late = self.holder.late.removing(&[directory])?;
        let done = self.client().unlink_told(at);
        self.removed(at, &before, done)
    }

    /// Removes an empty directory.
    ///
    /// # Errors
    /// It is not empty, not a directory, or does not exist; the cluster refuses or is not reached.
    pub fn remove_directory(&self, directory: FileIndex, wanted: &[u8]) -> Result<()> {
        let (at, before) = ((directory, name(wanted)?), self.before(directory));
        let _removing = self.holder.cache.removing([directory; 2]);
        let seen = self.directory_seen(at);
        let done = self.client().rmdir_told(at);
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
        let known = self.holder.cache.look_up(directory, name, |lease| self.holder.holds(lease));
        match known {
            Some(Looked::Found(known)) => {
                Some(known.attributes).filter(|known| known.kind == FileKind::Directory)
            }
            Some(Looked::Absent(_)) => None,
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
        before: &Before<'_>,
        done: braid_client::Result<RemoveReply>,
    ) -> Result<()> {
        let cache = &self.holder.cache;
        match done {
            Ok(removed) => {
                cache.remove_name(at, before, removed.directory, |lease| self.holder.holds(lease))
            }
            // The outcome may be unknown.
            Err(error) => {
                cache.change_name(at.0, at.1);
                self.gave_up(at.0, &error);
                return Err(error.into());
            }
        }
        Ok(())
    }
}
