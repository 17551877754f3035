//! Renaming, atomic to every observer (I7).
//!
//! A kernel moves a cached name by itself, with the lease of its old directory. That lease does not
//! cover the new directory, so a gateway that caches names takes the new directory's lease before
//! the rename ([`Vfs::lease_for_renamed`]).

use braid_client::{FileIndex, RenameMode};

use super::{is_outcome_unknown, name};
use crate::{error::Result, vfs::Vfs};

impl Vfs {
    /// Renames. `mode`: what happens to a file that has the new name.
    ///
    /// # Errors
    /// Those of `rename(2)`; the cluster refuses or is not reached.
    pub fn rename(
        &self,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        mode: RenameMode,
    ) -> Result<()> {
        for (directory, name) in [from, to] {
            let leads_to = self.caches.names.last_known_target(directory, name).flatten();
            leads_to.into_iter().for_each(|file| self.caches.note_attribute_change(file));
        }
        self.flush_before_rename(from);
        if mode == RenameMode::Exchange {
            self.flush_before_rename(to);
        }
        let leases = [from.0, to.0].map(|directory| self.caches.held_names_lease(directory));
        let _changing = self.caches.names.begin_change([from.0, to.0]).with_creation_of(to.0, to.1);
        let _removing = self.caches.names.begin_removal([from.0, to.0]);
        let _removing = self.caches.lazy_opens.begin_removal(&[from.0, to.0])?;
        let replaced = if mode == RenameMode::Replace {
            self.directory_seen((to.0, name(to.1)?))
        } else {
            None
        };
        let done = self.client().rename((from.0, name(from.1)?), (to.0, name(to.1)?), mode);
        if from.0 != to.0 {
            self.caches.names.note_move();
        }
        if let Err(error) = &done
            && (error.server().is_none() || is_outcome_unknown(error))
        {
            // The outcome is unknown, so neither name is known.
            self.caches.names.invalidate_name(from.0, from.1);
            self.caches.names.invalidate_name(to.0, to.1);
            [from.0, to.0]
                .into_iter()
                .for_each(|directory| self.caches.forget_directory(directory));
            [from.0, to.0].into_iter().for_each(|directory| self.note_failure(directory, error));
        }
        done?;
        replaced.into_iter().for_each(|replaced| self.removed.add(replaced));
        let exchanges = mode == RenameMode::Exchange;
        for file in self.caches.names.rename(from, to, exchanges, &leases) {
            self.caches.drop_attributes(file);
        }
        Ok(())
    }

    /// Sends the buffered bytes of a file before it is renamed. Programs replace a file so; if the
    /// mount is killed afterwards, the old name must not lead to an empty file.
    fn flush_before_rename(&self, (directory, name): (FileIndex, &[u8])) {
        if self.caches.buffers.is_empty() {
            return;
        }
        // The handle that wrote the bytes, or an fsync, reports the error.
        let _ = match self.caches.names.last_known_target(directory, name) {
            Some(file) => file.map_or(Ok(()), |file| self.caches.flush_file(file)),
            None => self.caches.flush_closed_files(),
        };
    }
}
