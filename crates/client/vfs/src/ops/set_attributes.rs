//! Changes of attributes. A size cuts the file or extends it with zeros.

use std::sync::Arc;

use braid_client::{AttributeChanges, Attributes, Client, FileIndex};

use crate::{
    data::set_ids::{Which, gives_set_ids},
    error::Result,
    handles::FileHandle,
    kept::Mark,
    known::Known,
    promise::Promise,
    users::User,
    vfs::Vfs,
};

impl Vfs {
    /// Changes attributes, all in one call. A size through a handle that is open for writing needs no permission of the
    /// file as it is now. With `kill_privileges` setuid and setgid go, as POSIX wants of a change by somebody else.
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

    /// The same, asked for by a user: who is not root gives a file to another owner or group only where their quota has the room.
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
        // What was written before has its times and its place before this.
        let (promise, mark) = (self.promise_of(file), self.settled_mark(file));
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
        // Whether a change that failed was made is not known.
        let attributes = attributes.inspect_err(|_| self.changed(file))?;
        self.changed_since(file, attributes, promise, mark)
    }

    /// What the change answered is what is known of the file, unless somebody changed it meanwhile.
    fn changed_since(
        &self,
        file: FileIndex,
        attributes: Attributes,
        promise: Option<Arc<Promise>>,
        mark: Mark,
    ) -> Result<Known> {
        Ok(match (promise, self.holder.cache.change_alone(file, mark)) {
            (Some(promise), Some(now)) => self.kept_under(attributes, &promise, now),
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
                if drops && open.bytes.to_drop_now(&self.holder).is_some() {
                    self.drop_set_ids(file, Which::All)?;
                }
                return Ok(open.file.get()?.set_len(bytes.0)?);
            }
        }
        Ok(client.set_attributes(file, false, changes)?)
    }
}
