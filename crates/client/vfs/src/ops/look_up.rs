//! What a name in a directory leads to.

use std::sync::Arc;

use braid_client::{Attributes, FileIndex, FileKind, Status};

use super::name;
use crate::{
    error::Result,
    known::{Keep, Known, Looked},
    promise::Promise,
    vfs::Vfs,
};

impl Vfs {
    /// What `wanted` in the directory leads to; a symbolic link is not followed. `.` and `..` are understood.
    ///
    /// # Errors
    /// The directory is gone or none; a name of more than 255 bytes; the cluster is not reached.
    pub fn look_up(&self, directory: FileIndex, wanted: &[u8]) -> Result<Looked> {
        let name = name(wanted)?;
        if matches!(name, b"." | b"..") {
            return Ok(Looked::Found(self.seen(self.client().lstat((directory, name))?)));
        }
        let gathered = !self.holder.runs.is_empty();
        if let Some(looked) =
            self.holder.cache.look_up(directory, name, |promise| self.holder.holds(promise))
        {
            return Ok(looked);
        }
        let (promise, mark) = (self.holder.promise(directory), self.holder.cache.mark());
        let holds = |promise: &Promise| self.holder.holds(promise);
        match self.client().lstat((directory, name)) {
            // What is told of it may be of before bytes that were written since, and are gathered or just sent.
            Ok(found) if self.is_in_doubt(found.file, gathered, mark) => {
                let known = self.attributes(found.file, None)?;
                // Asking for them took a while, in which this mount may have moved the name.
                let leads = Some((found.file, found.kind));
                let keep = promise.filter(|promise| {
                    known.keep.attributes.is_some()
                        && self.holder.cache.keep_name(promise, mark, name, leads, holds)
                });
                Ok(Looked::Found(Known { keep: Keep { name: keep, ..known.keep }, ..known }))
            }
            Ok(found) => {
                let keep = promise.map(|promise| {
                    self.holder.cache.keep_found(&promise, mark, name, &found, holds)
                });
                if found.kind == FileKind::Directory {
                    self.removed.note_seen((directory, name), &found);
                }
                Ok(Looked::Found(self.with_own(found, keep.unwrap_or_default())))
            }
            Err(error) if error.status() == Status::NotFound => {
                let kept = promise.filter(|promise| {
                    self.holder.cache.keep_name(promise, mark, name, None, holds)
                });
                Ok(Looked::Absent(Keep { name: kept, attributes: None }))
            }
            Err(error) => Err(error.into()),
        }
    }

    /// Attributes of a directory are under its own promise: the first time they are asked for again, with it.
    pub(super) fn with_own(&self, found: Attributes, keep: Keep) -> Known {
        let own = match found.kind == FileKind::Directory && keep.name.is_some() {
            true => self.holder.promise(found.file),
            false => None,
        };
        match own.map(|own| self.attributes_under(found.file, &own)) {
            Some(Ok(known)) => {
                Known { attributes: known.attributes, keep: Keep { name: keep.name, ..known.keep } }
            }
            // What was found was true a moment ago.
            Some(Err(_)) | None => Known { attributes: found, keep },
        }
    }

    /// The attributes of a file, kept under a promise that was held before this.
    pub(super) fn attributes_under(
        &self,
        file: FileIndex,
        promise: &Arc<Promise>,
    ) -> Result<Known> {
        // A directory's come with its lease.
        if let Some(known) =
            self.holder.cache.attributes(file, |promise| self.holder.holds(promise))
        {
            return Ok(known);
        }
        let mark = self.holder.cache.mark();
        let attributes = self.client().lstat(file)?;
        Ok(self.kept_under(attributes, promise, mark))
    }
}
