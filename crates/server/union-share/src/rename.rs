//! Rename, with the checks that the kernel makes for a program.

use std::sync::Arc;

use braid_share::{DirectoryChange, FileIndex, Identity, RenameMode, Status, tables::Outcome};
use braid_union::{self as union, Access};
use rustix::io::Errno;

use crate::{files::NodeRef, names::Named, service::Service, status::status_of};

/// One end of a rename: directory and name.
type End<'n> = (FileIndex, &'n [u8]);

/// An end with what is there.
struct Side<'n> {
    directory: FileIndex,
    parent: Arc<NodeRef>,
    name: &'n [u8],
    named: Option<Named>,
}

impl Service {
    pub(crate) fn rename(
        &self,
        who: &Identity,
        from: End<'_>,
        to: End<'_>,
        mode: RenameMode,
    ) -> Outcome<(DirectoryChange, DirectoryChange)> {
        let (old, new) = (self.directory(from.0)?, self.directory(to.0)?);
        let _alone = self.lock_two(from.0, to.0);
        let of_old = self.look_at(from.0, &old)?;
        let of_new = self.look_at(to.0, &new)?;
        let from = self.side(who, from, old)?;
        let to = self.side(who, to, new)?;
        self.rename_checked(who, &from, &to, mode)?;
        Ok((
            self.change_since(of_old, from.directory, &from.parent)?,
            self.change_since(of_new, to.directory, &to.parent)?,
        ))
    }

    fn side<'n>(
        &self,
        who: &Identity,
        (directory, name): End<'n>,
        parent: Arc<NodeRef>,
    ) -> Outcome<Side<'n>> {
        let named = self.find(who, directory, &parent, name)?;
        Ok(Side { directory, parent, name, named })
    }

    fn rename_checked(
        &self,
        who: &Identity,
        from: &Side<'_>,
        to: &Side<'_>,
        mode: RenameMode,
    ) -> Outcome<()> {
        let source = from.named.as_ref().ok_or(Status::NotFound)?;
        if to.named.is_some() && mode == RenameMode::NoReplace {
            return Err(Status::Exists);
        }
        self.check_may_remove(who, &from.parent, Some(source))?;
        self.check_may_remove(who, &to.parent, to.named.as_ref())?;
        let target = to.named.as_ref();
        if target.is_some_and(|target| target.file == source.file) {
            // POSIX rename(): two names of one file stay as they are.
            return Ok(());
        }
        self.check_may_delete(source.file)?;
        target.map_or(Ok(()), |target| self.check_may_delete(target.file))?;
        self.check_new_parent(who, source, from, to)?;
        if let (Some(target), RenameMode::Exchange) = (target, mode) {
            self.check_new_parent(who, target, to, from)?;
        }
        let how = match mode {
            RenameMode::Replace => union::RenameMode::Replace,
            RenameMode::NoReplace => union::RenameMode::NoReplace,
            RenameMode::Exchange => union::RenameMode::Exchange,
            _ => return Err(Status::Unsupported),
        };
        let ends = ((from.parent.node, from.name), (to.parent.node, to.name));
        self.union.rename(ends.0, ends.1, how).map_err(|error| match error {
            Errno::INVAL => Status::WouldLoop,
            error => status_of(error),
        })?;
        self.renamed(source, from, to, mode);
        Ok(())
    }

    fn renamed(&self, source: &Named, from: &Side<'_>, to: &Side<'_>, mode: RenameMode) {
        self.name_changed(from.directory, from.parent.node, from.name);
        self.name_changed(to.directory, to.parent.node, to.name);
        self.file_changed(source.file, source.node.node);
        self.files.renamed(source.file, to.directory, to.name);
        match &to.named {
            Some(target) if mode == RenameMode::Exchange => {
                self.file_changed(target.file, target.node.node);
                self.files.renamed(target.file, from.directory, from.name);
            }
            Some(target) => self.name_removed(target),
            None => {}
        }
    }

    /// A directory with a new parent gets a new `..`, which needs the right to write it, as on
    /// Linux.
    fn check_new_parent(
        &self,
        who: &Identity,
        moved: &Named,
        from: &Side<'_>,
        to: &Side<'_>,
    ) -> Outcome<()> {
        match moved.found.is_directory() && from.directory != to.directory {
            true => self.permit(who, moved.node.node, Access::WRITE_OK),
            false => Ok(()),
        }
    }
}
