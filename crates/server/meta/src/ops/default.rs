//! The default layout and placement of a directory; the layout of a file that was never written.

use std::sync::Arc;

use braid_layout::Layout;
use braid_types::{Failure, FileIndex, Status};

use crate::identity::Call;
use crate::key;
use crate::namespace::Namespace;
use crate::record::{DirectoryDefault, FileKind, Inode, Outcome, layout_fits};
use crate::tx::{Op, Tx};

impl Namespace {
    /// The defaults for files created in a directory; `None`: those of the file system.
    pub fn directory_default(
        &self,
        directory: FileIndex,
    ) -> Result<Option<DirectoryDefault>, Failure> {
        let inode = self.directory(directory)?;
        self.default_of(&inode)
    }

    fn default_of(&self, directory: &Inode) -> Result<Option<DirectoryDefault>, Failure> {
        if !directory.has_default {
            return Ok(None);
        }
        let bytes = self.store.get(&key::directory_default(directory.file))?;
        Ok(bytes.map(|bytes| DirectoryDefault::decode(&bytes)).transpose()?)
    }

    /// Sets or removes a directory's default. Existing files and directories keep theirs.
    pub fn set_directory_default(
        &self,
        call: &Call<'_>,
        directory: FileIndex,
        default: Option<&DirectoryDefault>,
    ) -> Result<(), Failure> {
        self.change(call, Op::SetDefault, directory, |tx| {
            let mut inode = (*tx.directory(directory)?).clone();
            owner_only(call, &inode)?;
            inode.has_default = default.is_some();
            match default {
                Some(default) => tx.batch.put(key::directory_default(directory), default.encode()),
                None => tx.batch.remove(key::directory_default(directory)),
            }
            inode.touch(tx.now);
            tx.put_inode(inode);
            Ok(Outcome::Done)
        })?;
        Ok(())
    }

    /// Gives a file another layout, if it has no bytes and is not open. The version rises.
    pub fn set_layout(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        layout: Layout,
    ) -> Result<Arc<Inode>, Failure> {
        let outcome = self.change(call, Op::SetLayout, file, |tx| {
            let mut inode = (*tx.inode(file)?).clone();
            if inode.kind != FileKind::Regular || !layout_fits(&layout) {
                return Err(Status::Invalid.into());
            }
            owner_only(call, &inode)?;
            if inode.size != 0
                || inode.size_in_objects
                || !inode.parts.is_empty()
                || tx.writer.opens.is_open(file)
            {
                return Err(Failure::new(
                    Status::Busy,
                    "the file was written or is open; try: copy it",
                ));
            }
            if tx.has_intent(&inode)? {
                return Err(Failure::new(Status::Busy, "a truncate of the file is in progress"));
            }
            let version = inode.layout.as_ref().map_or(0, |old| old.version.0) + 1;
            let version = braid_types::LayoutVersion(version);
            inode.layout = Some(tx.intern_layout(Arc::new(Layout { version, ..layout })));
            inode.touch(tx.now);
            Ok(Outcome::File(tx.put_inode(inode)))
        })?;
        outcome.inode().ok_or_else(|| Status::Internal.into())
    }
}

impl Tx<'_> {
    pub(super) fn default_of(
        &self,
        directory: &Inode,
    ) -> Result<Option<DirectoryDefault>, Failure> {
        if !directory.has_default {
            return Ok(None);
        }
        let bytes = self.get(&key::directory_default(directory.file))?;
        Ok(bytes.map(|bytes| DirectoryDefault::decode(&bytes)).transpose()?)
    }
}

fn owner_only(call: &Call<'_>, inode: &Inode) -> Result<(), Failure> {
    if call.who.bypasses_permissions() || call.who.owns(inode) {
        Ok(())
    } else {
        Err(Status::NotPermitted.into())
    }
}
