//! Changes of attributes. A new size truncates the file or extends it with zeros.

use braid_client::{AttributeChanges, Attributes, Client, FileIndex};

use crate::{
    data::set_ids::{SetIdBits, may_set_set_ids},
    error::Result,
    names::cached_attributes::CachedAttributes,
    open::handles::FileHandle,
    users::User,
    vfs::Vfs,
};

impl Vfs {
    /// Changes attributes, all in one call. A new size through a handle that is open for writing
    /// does not depend on the file's current permissions. `kill_privileges` clears setuid and
    /// setgid, as POSIX requires of a change by a user without the right to keep them.
    ///
    /// # Errors
    /// The file is gone; the cluster refuses or is not reached.
    pub fn set_attributes(
        &self,
        file: FileIndex,
        handle: Option<FileHandle>,
        changes: AttributeChanges,
        kill_privileges: bool,
    ) -> Result<CachedAttributes> {
        self.set_through(self.client(), file, handle, changes, kill_privileges)
    }

    /// As [`Vfs::set_attributes`], by a user. Only root may give a file to an owner or group whose
    /// quota is used up.
    ///
    /// # Errors
    /// As [`Vfs::set_attributes`]; the quota is used up.
    pub fn set_attributes_for(
        &self,
        user: User,
        file: FileIndex,
        handle: Option<FileHandle>,
        changes: AttributeChanges,
        kill_privileges: bool,
    ) -> Result<CachedAttributes> {
        if changes.uid.is_none() && changes.gid.is_none() {
            return self.set_attributes(file, handle, changes, kill_privileges);
        }
        self.set_through(&self.users.creator(user)?, file, handle, changes, kill_privileges)
    }

    fn set_through(
        &self,
        client: &Client,
        file: FileIndex,
        handle: Option<FileHandle>,
        mut changes: AttributeChanges,
        kill_privileges: bool,
    ) -> Result<CachedAttributes> {
        changes.drop_set_ids |= kill_privileges && changes.mode.is_none();
        let gives = changes.mode.is_some_and(may_set_set_ids);
        if gives {
            self.caches.note_set_ids_change(file);
        }
        let changing = self.caches.begin_attribute_change(file);
        // Earlier writes get their time and their place in the file before this change.
        let (lease, mark) = (self.names_lease_of(file), self.flush_and_mark(file));
        let resizes = changes.bytes.is_some();
        let changes_rights =
            changes.mode.is_some() || changes.uid.is_some() || changes.gid.is_some();
        let _late =
            changes_rights.then(|| self.caches.lazy_opens.begin_rights_change(file)).transpose()?;
        let attributes = self.set_now(client, file, handle, changes);
        if gives {
            self.caches.note_set_ids_change(file);
        }
        if resizes {
            self.caches.note_resize(file);
        }
        // A failed change may have been made: the guard counts it, too.
        let attributes = attributes?;
        // The reply is cached, unless another call of this mount changed the file meanwhile.
        Ok(match (lease, changing.end(mark)) {
            (Some(lease), Some(now)) => self.cache_under(attributes, &lease, now),
            _ => self.uncacheable(attributes),
        })
    }

    fn set_now(
        &self,
        client: &Client,
        file: FileIndex,
        handle: Option<FileHandle>,
        changes: AttributeChanges,
    ) -> Result<Attributes> {
        if let (Some(handle), Some(bytes)) = (handle, changes.bytes) {
            let open = self.file(handle)?;
            let drops = changes.drop_set_ids;
            let only_size = AttributeChanges {
                bytes: Some(bytes),
                drop_set_ids: drops,
                ..AttributeChanges::none()
            } == changes;
            if open.access.write && only_size {
                if drops && self.caches.must_clear_set_ids(&open.data) {
                    self.clear_set_ids(file, SetIdBits::All)?;
                }
                return Ok(open.file.get()?.set_len(bytes.0)?);
            }
        }
        Ok(client.set_attributes(file, false, changes)?)
    }
}
