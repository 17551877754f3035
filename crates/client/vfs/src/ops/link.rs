//! Hard links.

use braid_client::FileIndex;

use super::name;
use crate::{error::Result, names::cached_attributes::CachedAttributes, vfs::Vfs};

impl Vfs {
    /// Gives a file another name, or the first name to a file that was created without one.
    ///
    /// # Errors
    /// The name exists; the file is a directory; the cluster refuses or is not reached.
    pub fn link(
        &self,
        file: FileIndex,
        directory: FileIndex,
        wanted: &[u8],
    ) -> Result<CachedAttributes> {
        let at = (directory, name(wanted)?);
        let before = self.before_create(at);
        let changing = self.caches.begin_attribute_change(file);
        let _ = self.caches.flush_file(file);
        let linked = self.client().hard_link(file, at);
        drop(changing);
        self.note_created(at, linked, before, None)
    }
}
