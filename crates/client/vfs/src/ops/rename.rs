//! Renaming, atomic to every observer (I7).

use braid_client::{FileIndex, RenameMode};

use super::name;
use crate::{error::Result, vfs::Vfs};

impl Vfs {
    /// Renames; what happens to something that has the new name is in `mode`.
    ///
    /// # Errors
    /// Of `rename(2)`; the cluster refuses or is not reached.
    pub fn rename(&self, from: (FileIndex, &[u8]), to: (FileIndex, &[u8]), mode: RenameMode) -> Result<()> {
        Ok(self.client().rename((from.0, name(from.1)?), (to.0, name(to.1)?), mode)?)
    }
}
