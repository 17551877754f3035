//! Extended attributes, with the rules of xattr(7).

use braid_share::{FileIndex, FileKind, Identity, Status, XattrMode, tables::Outcome};
use braid_types::limits::{NAME_BYTES_MAX, XATTR_VALUE_BYTES_MAX};
use braid_union::{Access, SetXattr};

use crate::{
    attributes::kind_of,
    files::NodeRef,
    rights::{is_privileged, owner_only},
    service::Service,
    status::OrStatus,
};

const STICKY: u32 = 0o1000;

impl Service {
    pub(crate) fn xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Outcome<Vec<u8>> {
        let node = self.files.node(file)?;
        self.check_xattr(who, &node, name, Access::READ_OK)?;
        self.union.xattr(node.node, name).or_status()
    }

    pub(crate) fn xattrs(&self, who: &Identity, file: FileIndex) -> Outcome<Vec<Vec<u8>>> {
        let node = self.files.node(file)?;
        let mut names = self.union.xattrs(node.node).or_status()?;
        // Access control lists are attributes of their own in NFS.
        names.retain(|name| !name.starts_with(b"system."));
        names.retain(|name| is_privileged(who) || !name.starts_with(b"trusted."));
        names.sort();
        Ok(names)
    }

    pub(crate) fn set_xattr(
        &self,
        who: &Identity,
        file: FileIndex,
        name: &[u8],
        value: &[u8],
        mode: XattrMode,
    ) -> Outcome<()> {
        let node = self.files.node(file)?;
        self.check_xattr(who, &node, name, Access::WRITE_OK)?;
        if value.len() > XATTR_VALUE_BYTES_MAX {
            return Err(Status::LimitExceeded);
        }
        let how = match mode {
            XattrMode::Create => SetXattr::Create,
            XattrMode::Replace => SetXattr::Replace,
            _ => SetXattr::Any,
        };
        self.union.set_xattr(node.node, name, value, how).or_status()?;
        self.file_changed(file, node.node);
        Ok(())
    }

    pub(crate) fn remove_xattr(&self, who: &Identity, file: FileIndex, name: &[u8]) -> Outcome<()> {
        let node = self.files.node(file)?;
        self.check_xattr(who, &node, name, Access::WRITE_OK)?;
        self.union.remove_xattr(node.node, name).or_status()?;
        self.file_changed(file, node.node);
        Ok(())
    }

    /// `user.`: by the rights to read and write, on files and directories only. `trusted.`: only
    /// root. `security.`: everyone reads, root writes.
    fn check_xattr(
        &self,
        who: &Identity,
        node: &NodeRef,
        name: &[u8],
        wanted: Access,
    ) -> Outcome<()> {
        if name.is_empty() || name.len() > NAME_BYTES_MAX || name.contains(&0) {
            return Err(Status::Range);
        }
        let writes = wanted == Access::WRITE_OK;
        if name.starts_with(b"user.") {
            let found = self.union.attributes(node.node).or_status()?;
            if !matches!(kind_of(found.mode), FileKind::File | FileKind::Directory) {
                return Err(if writes { Status::NotPermitted } else { Status::NoAttribute });
            }
            if writes && found.is_directory() && found.mode & STICKY != 0 {
                owner_only(who, &found)?;
            }
            return self.permit(who, node.node, wanted);
        }
        let trusted = name.starts_with(b"trusted.");
        match (trusted || name.starts_with(b"security."), is_privileged(who)) {
            (false, _) => Err(Status::Unsupported),
            (true, true) => Ok(()),
            (true, false) if writes => Err(Status::NotPermitted),
            (true, false) if trusted => Err(Status::NoAttribute),
            (true, false) => Ok(()),
        }
    }
}
