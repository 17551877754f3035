//! Extended attributes.

use braid_client::{FileIndex, Status, XattrMode};
use braid_types::limits::NAME_BYTES_MAX;

use super::layout_xattr::LAYOUT_XATTR;
use crate::{
    error::{Error, Result},
    users::User,
    vfs::Vfs,
};

/// The prefix of access control lists.
const ACCESS_LISTS: &[u8] = b"system.posix_acl_";

/// The attribute that shows an NFSv4 access control list, as Linux's NFS client has it.
pub const NFS4_LIST: &[u8] = b"system.nfs4_acl";

/// Capabilities of a program, which a write removes: [`crate::data::set_ids`].
const CAPABILITIES: &[u8] = b"security.capability";

impl Vfs {
    /// The value of an extended attribute.
    ///
    /// # Errors
    /// There is no attribute of that name; the cluster is not reached.
    pub fn xattr(&self, file: FileIndex, name: &[u8]) -> Result<Vec<u8>> {
        match check(name)? {
            LAYOUT_XATTR => self.layout_xattr(file),
            name if is_stored(name) && self.has_none(file) => Err(Error::of(Status::NoAttribute)),
            name => Ok(self.client().xattr(file, name)?),
        }
    }

    /// Names of all extended attributes. The layout is not among them: a program that copies files
    /// with their attributes would copy the layout, too.
    ///
    /// # Errors
    /// The cluster is not reached.
    pub fn xattrs(&self, file: FileIndex) -> Result<Vec<Vec<u8>>> {
        if self.has_none(file) {
            return Ok(Vec::new());
        }
        Ok(self.client().xattrs(file)?)
    }

    /// Whether the cached attributes say that a file has none. Most files have none, and programs
    /// ask each file for several.
    fn has_none(&self, file: FileIndex) -> bool {
        let known = self.caches.names.attributes(file, |lease| self.caches.is_valid(lease));
        known.is_some_and(|known| !known.attributes.has_xattrs)
    }

    /// Sets an extended attribute.
    ///
    /// # Errors
    /// It exists or not, contrary to `mode`; there is no space for it; the cluster refuses or is
    /// not reached.
    pub fn set_xattr(
        &self,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Result<()> {
        match check(name)? {
            LAYOUT_XATTR => self.set_layout_xattr(file, value, mode),
            name => {
                self.change_xattr(file, name, || self.client().set_xattr(file, name, value, mode))
            }
        }
    }

    /// Sets an access control list (`system.posix_acl_access`) and clears setgid: the user is not
    /// in the file's group.
    ///
    /// # Errors
    /// The list is not valid; the cluster refuses or is not reached.
    pub fn set_acl_dropping_setgid(
        &self,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
    ) -> Result<()> {
        self.change_xattr(file, name, || self.client().set_acl_dropping_setgid(file, name, value))
    }

    /// Removes an extended attribute.
    ///
    /// # Errors
    /// There is no attribute of that name; the cluster refuses or is not reached.
    pub fn remove_xattr(&self, file: FileIndex, name: &[u8]) -> Result<()> {
        match check(name)? {
            LAYOUT_XATTR => self.remove_layout_xattr(file),
            name => self.change_xattr(file, name, || self.client().remove_xattr(file, name)),
        }
    }

    /// Sets or removes (`None`) an NFSv4 access control list in the name of a user: no kernel has
    /// checked who may. The metadata server allows root and the owner.
    ///
    /// # Errors
    /// The list is not valid; the user does not own the file; the cluster refuses or is not
    /// reached.
    pub fn set_nfs4_list(&self, user: User, file: FileIndex, value: Option<&[u8]>) -> Result<()> {
        let client = match user.uid {
            0 => self.users.asker(user)?,
            _ => self.users.creator(user)?,
        };
        self.change_xattr(file, NFS4_LIST, || match value {
            Some(value) => client.set_xattr(file, NFS4_LIST, value, XattrMode::Either),
            None => client.remove_xattr(file, NFS4_LIST),
        })
    }

    /// An ACL changes the mode, too: with the group's right to execute, setgid takes effect.
    fn change_xattr(
        &self,
        file: FileIndex,
        name: &[u8],
        change: impl FnOnce() -> braid_client::Result<()>,
    ) -> Result<()> {
        let _changing = self.caches.begin_attribute_change(file);
        let is_list = name.starts_with(ACCESS_LISTS) || name == NFS4_LIST;
        let gives = is_list || name == CAPABILITIES;
        let _late =
            is_list.then(|| self.caches.lazy_opens.begin_rights_change(file)).transpose()?;
        if gives {
            self.caches.note_set_ids_change(file);
        }
        let done = change();
        if gives {
            self.caches.note_set_ids_change(file);
        }
        Ok(done?)
    }
}

fn check(name: &[u8]) -> Result<&[u8]> {
    if name.is_empty() || name.len() > NAME_BYTES_MAX {
        Err(Error::of(Status::Range))
    } else {
        Ok(name)
    }
}

/// Whether attributes with this prefix are stored with files. The server refuses others.
fn is_stored(name: &[u8]) -> bool {
    const STORED: [&[u8]; 3] = [b"security.", b"user.", ACCESS_LISTS];
    STORED.iter().any(|prefix| name.starts_with(prefix))
}
