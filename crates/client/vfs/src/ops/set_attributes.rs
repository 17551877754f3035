//! Changes of attributes. A new size truncates the file or extends it with zeros.

use std::sync::Arc;

use braid_client::{AttributeChanges, Attributes, Client, FileIndex};

use crate::{
    data::set_ids::{Which, gives_set_ids},
    error::Result,
    names::{cached_attributes::Known, change_marks::ChangeMark, names_lease::Promise},
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
    ) -> Result<Known> {
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
    ) -> Result<Known> {
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
    ) -> Result<Known> {
        changes.drop_set_ids |= kill_privileges && changes.mode.is_none();
        let gives = changes.mode.is_some_and(gives_set_ids);
        if gives {
            self.holder.gives_set_ids(file);
        }
        self.holder.attributes_change(file);
        // Earlier writes get their time and their place in the file before this change.
        let (lease, mark) = (self.promise_of(file), self.settled_mark(file));
        let resizes = changes.bytes.is_some();
        let changes_rights =
            changes.mode.is_some() || changes.uid.is_some() || changes.gid.is_some();
        let _late = changes_rights.then(|| self.holder.late.changing_rights(file)).transpose()?;
        let attributes = self.set_now(client, file, handle, changes);
        if gives {
            self.holder.gives_set_ids(file);
        }
        if resizes {
            self.holder.resized(file);
        }
        // A failed change may have been made.
        let attributes = attributes.inspect_err(|_| self.changed(file))?;
        self.changed_since(file, attributes, lease, mark)
    }

    /// Caches the attributes of the reply, unless another call of this mount changed the file
    /// meanwhile.
    fn changed_since(
        &self,
        file: FileIndex,
        attributes: Attributes,
        lease: Option<Arc<Promise>>,
        mark: ChangeMark,
    ) -> Result<Known> {
        Ok(match (lease, self.holder.cache.change_alone(file, mark)) {
            (Some(lease), Some(now)) => self.kept_under(attributes, &lease, now),
            _ => self.seen(attributes),
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
                if drops && self.holder.must_drop_set_ids(&open.data) {
                    self.drop_set_ids(file, Which::All)?;
                }
                return Ok(open.file.get()?.set_len(bytes.0)?);
            }
        }
        Ok(client.set_attributes(file, false, changes)?)
    }
}
