//! Rename, as POSIX and renameat2(2) specify it.

use braid_types::{FileIndex, Status};

use super::{
    permission::{WRITE, permit},
    state::{Outcome, State},
};
use crate::{DirectoryChange, Identity, RenameMode};

/// One end of a rename: directory and name.
type End<'n> = (FileIndex, &'n [u8]);

impl State {
    pub(super) fn rename(
        &mut self,
        who: &Identity,
        from: End<'_>,
        to: End<'_>,
        mode: RenameMode,
    ) -> Outcome<(DirectoryChange, DirectoryChange)> {
        self.directory(to.0)?;
        let changed = self.changing(from.0, |state| {
            state.changing(to.0, |state| state.rename_unmeasured(who, from, to, mode))
        });
        changed.map(|(((), of_to), of_from)| (of_from, of_to))
    }

    fn rename_unmeasured(
        &mut self,
        who: &Identity,
        from: End<'_>,
        to: End<'_>,
        mode: RenameMode,
    ) -> Outcome<()> {
        let source = self.find(who, from.0, from.1)?;
        let target = self.find(who, to.0, to.1)?;
        let source = source.ok_or(Status::NotFound)?;
        if target.is_some() && mode == RenameMode::NoReplace {
            return Err(Status::Exists);
        }
        self.check_may_remove(who, from.0, Some(source))?;
        self.check_may_remove(who, to.0, target)?;
        self.check_loop(source, to.0)?;
        if target != Some(source) {
            self.check_may_delete(source)?;
            target.map_or(Ok(()), |target| self.check_may_delete(target))?;
        }
        match (target, mode) {
            (None, RenameMode::Exchange) => Err(Status::NotFound),
            // POSIX rename(): two names of one file stay as they are.
            (Some(target), _) if target == source => Ok(()),
            (Some(target), RenameMode::Exchange) => {
                self.exchange(who, (from, source), (to, target))
            }
            (Some(target), _) => self.replace(who, (from, source), (to, target)),
            (None, _) => {
                self.check_new_parent(who, source, from.0, to.0)?;
                self.remove_name(from.0, from.1)?;
                self.set_name(to.0, to.1, source)?;
                self.moved(source, to.0)
            }
        }
    }

    fn replace(
        &mut self,
        who: &Identity,
        (from, source): (End<'_>, FileIndex),
        (to, target): (End<'_>, FileIndex),
    ) -> Outcome<()> {
        self.check_new_parent(who, source, from.0, to.0)?;
        match (self.inode(source)?.is_directory(), self.inode(target)?.is_directory()) {
            (true, false) => return Err(Status::NotDirectory),
            (false, true) => return Err(Status::IsDirectory),
            (true, true) => self.check_empty(target)?,
            (false, false) => {}
        }
        self.remove_name(from.0, from.1)?;
        self.set_name(to.0, to.1, source)?;
        self.drop_name(target)?;
        self.moved(source, to.0)
    }

    fn exchange(
        &mut self,
        who: &Identity,
        (from, source): (End<'_>, FileIndex),
        (to, target): (End<'_>, FileIndex),
    ) -> Outcome<()> {
        self.check_new_parent(who, source, from.0, to.0)?;
        self.check_new_parent(who, target, to.0, from.0)?;
        self.check_loop(target, from.0)?;
        self.set_name(from.0, from.1, target)?;
        self.set_name(to.0, to.1, source)?;
        self.moved(source, to.0)?;
        self.moved(target, from.0)
    }

    /// A directory cannot be moved below itself.
    fn check_loop(&self, moved: FileIndex, into: FileIndex) -> Outcome<()> {
        let mut at = into;
        while self.inode(moved)?.is_directory() && at != FileIndex::ROOT {
            if at == moved {
                return Err(Status::WouldLoop);
            }
            at = self.inode(at)?.parent;
        }
        Ok(())
    }

    /// A directory with a new parent gets a new `..`, which needs the right to write it, as on
    /// Linux.
    fn check_new_parent(
        &self,
        who: &Identity,
        moved: FileIndex,
        from: FileIndex,
        to: FileIndex,
    ) -> Outcome<()> {
        let inode = self.inode(moved)?;
        if inode.is_directory() && from != to { permit(who, inode, WRITE) } else { Ok(()) }
    }

    fn moved(&mut self, file: FileIndex, into: FileIndex) -> Outcome<()> {
        self.change(file, |inode| inode.parent = into)
    }
}
