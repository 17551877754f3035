//! Opening an existing file.

use std::sync::Arc;

use braid_client::{File, FileIndex, FileKind, LeaseMode, OpenOptions, Status};

use crate::{
    data::{
        HandleData,
        set_ids::{Which, has_set_ids},
    },
    error::{Error, Result},
    names::cached_attributes::Known,
    open::{handles::FileHandle, lazy_open::Late, open_file::OpenFile},
    vfs::Vfs,
};

/// The access with which a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Access {
    /// Reading.
    pub read: bool,
    /// Writing.
    pub write: bool,
}

impl Access {
    /// Reading only.
    pub const READ: Self = Self { read: true, write: false };
    /// Writing only.
    pub const WRITE: Self = Self { read: false, write: true };
    /// Both.
    pub const READ_WRITE: Self = Self { read: true, write: true };

    /// The options for the cluster. They always allow reading: the end of the data and holes are
    /// queried with the right to read. A write-only handle is enforced by this crate.
    pub(crate) fn options(self) -> OpenOptions {
        OpenOptions::new().read(true).write(self.write)
    }

    /// The data lease that is useful for this access.
    pub(crate) fn lease(self) -> LeaseMode {
        if self.write { LeaseMode::Write } else { LeaseMode::Read }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenAs {
    /// The access.
    pub access: Access,
    /// It is truncated.
    pub truncate: bool,
    /// With `truncate`, setuid and setgid are cleared, as POSIX requires of a caller without the
    /// right to keep them.
    pub kill_privileges: bool,
}

impl From<Access> for OpenAs {
    fn from(access: Access) -> Self {
        Self { access, truncate: false, kill_privileges: false }
    }
}

/// An open file.
#[derive(Clone, Debug)]
pub struct Opened {
    /// Its handle.
    pub handle: FileHandle,
    /// Its attributes when it was opened.
    pub known: Known,
    /// Whether a gateway may cache the file's pages until a recall. On a relaxed mount, pages of
    /// another version were dropped.
    pub keeps_data: bool,
}

impl Vfs {
    /// Opens a file by its index.
    ///
    /// # Errors
    /// The file is gone, or is not a regular file; the cluster is not reached.
    pub fn open(&self, file: FileIndex, how: impl Into<OpenAs>) -> Result<Opened> {
        let how = how.into();
        if how == Access::READ.into()
            && let Some(opened) = self.open_lazily(file)?
        {
            return Ok(opened);
        }
        if how.truncate && !how.access.write {
            // O_RDONLY | O_TRUNC: Linux truncates the file.
            let _ = self.holder.settle_file(file);
            let cut = self.client().truncate(file, 0);
            self.holder.resized(file);
            cut?;
            self.changed(file);
        }
        // The attributes of the reply must include what was written before.
        let _ = self.holder.settle_file(file);
        let data = HandleData::new(&self.holder, file, how.access);
        let lease = self.holder.to_wish(&data, how.access.lease());
        let options = how.access.options().truncate(how.truncate && how.access.write).lease(lease);
        let opened = self.client().open(file, &options);
        if how.truncate && how.access.write {
            self.holder.resized(file);
            self.changed(file);
        }
        let opened = opened?;
        let mut opened = self.opened(opened, how.access, None, Some(data))?;
        if how.truncate && how.kill_privileges && has_set_ids(opened.known.attributes.mode) {
            match self.drop_set_ids(file, Which::All) {
                Ok(known) => opened.known = known,
                Err(error) => {
                    self.release(opened.handle, None)?;
                    return Err(error);
                }
            }
        }
        Ok(opened)
    }

    /// Opens a file for reading whose attributes are cached and whose pages may be cached: no
    /// server is asked now. See [`crate::open::lazy_open`].
    fn open_lazily(&self, file: FileIndex) -> Result<Option<Opened>> {
        let caches = &self.holder;
        let Some(known) = caches.cache.attributes(file, |lease| caches.holds(lease)) else {
            return Ok(None);
        };
        let (Some(directory), Some(lease)) =
            (caches.cache.parent(file), known.keep.attributes.clone())
        else {
            return Ok(None);
        };
        let (access, data) = (Access::READ, HandleData::new(caches, file, Access::READ));
        if known.attributes.kind != FileKind::File
            || lease.directory() != directory
            || !caches.keeps_pages(&data)
        {
            return Ok(None);
        }
        caches.renew(&data, &known);
        let (late, shared) =
            (Late::later(self.client(), file), self.files.share(known.attributes.file));
        let open = Arc::new(OpenFile::new(late, access, shared, data).late_in(directory));
        let number = self.open_files.insert_shared(Arc::clone(&open))?;
        let may_stay = caches.late.note(directory, number, &open) && caches.holds(&lease);
        if !may_stay && let Err(error) = open.file.get() {
            drop(open);
            self.release(FileHandle(number), None)?;
            return Err(error);
        }
        Ok(Some(Opened { handle: FileHandle(number), known, keeps_data: true }))
    }

    /// Gives an open file its handle.
    pub(crate) fn opened(
        &self,
        file: File,
        access: Access,
        known: Option<Known>,
        data: Option<HandleData>,
    ) -> Result<Opened> {
        self.opened_as(file, access, known, data, false)
    }

    /// As [`Vfs::opened`]. `made`: the call created the file.
    pub(crate) fn opened_as(
        &self,
        file: File,
        access: Access,
        known: Option<Known>,
        data: Option<HandleData>,
        made: bool,
    ) -> Result<Opened> {
        let known = known.unwrap_or_else(|| self.seen(file.opened_attributes()));
        let shared = self.files.share(known.attributes.file);
        let data = data.unwrap_or_else(|| HandleData::new(&self.holder, file.index(), access));
        let keeps_data = !access.write && self.holder.keeps_pages(&data);
        if keeps_data {
            self.holder.renew(&data, &known);
        }
        if made {
            data.made(&known);
        }
        let number =
            self.open_files.insert(OpenFile::new(Late::open(file), access, shared, data))?;
        Ok(Opened { handle: FileHandle(number), known, keeps_data })
    }

    /// The open file behind a handle, if it was opened for reading.
    pub(crate) fn readable(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        self.file(handle)
            .and_then(|open| if open.access.read { Ok(open) } else { Err(Error::BadHandle) })
    }

    /// The open file behind a handle, if it was opened for writing.
    pub(crate) fn writable(&self, handle: FileHandle) -> Result<Arc<OpenFile>> {
        self.file(handle)
            .and_then(|open| if open.access.write { Ok(open) } else { Err(Error::BadHandle) })
    }
}

/// Whether the error says that the file does not exist any more.
pub(crate) fn is_gone(error: &braid_client::Error) -> bool {
    matches!(error.status(), Status::NotFound | Status::StaleHandle)
}
