//! Opening a file that exists.

use std::sync::Arc;

use braid_client::{File, FileIndex, FileKind, LeaseMode, OpenOptions, Status};

use crate::{
    data::set_ids::{Which, has_set_ids},
    error::{Error, Result},
    files::{Bytes, OpenFile},
    handles::FileHandle,
    known::Known,
    late::Late,
    vfs::Vfs,
};

/// What a file is opened for.
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

    /// What the cluster is asked for. A file that may be written may also be read there: the end of its data and its holes
    /// are asked for with the right to read, and whoever may only write is held to it here.
    pub(crate) fn options(self) -> OpenOptions {
        OpenOptions::new().read(true).write(self.write)
    }

    /// The lease of the file's bytes that is of use.
    pub(crate) fn lease(self) -> LeaseMode {
        if self.write { LeaseMode::Write } else { LeaseMode::Read }
    }
}

/// How a file is opened.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OpenAs {
    /// What for.
    pub access: Access,
    /// It is made empty.
    pub truncate: bool,
    /// With `truncate`, setuid and setgid go, as POSIX wants of somebody without the right to keep them.
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
    /// Names it from now on.
    pub handle: FileHandle,
    /// Its attributes when it was opened.
    pub known: Known,
    /// Whether a gateway may keep the file's bytes until a recall says otherwise; what it has of another version, on a mount
    /// that is not POSIX, was dropped.
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
            && let Some(opened) = self.open_late(file)?
        {
            return Ok(opened);
        }
        if how.truncate && !how.access.write {
            // O_RDONLY | O_TRUNC: Linux cuts the file.
            let _ = self.holder.settle_file(file);
            let cut = self.client().truncate(file, 0);
            self.holder.resized(file);
            cut?;
            self.changed(file);
        }
        // What comes with it is what was written before.
        let _ = self.holder.settle_file(file);
        let bytes = Bytes::new(&self.holder, file, how.access);
        let options = how
            .access
            .options()
            .truncate(how.truncate && how.access.write)
            .lease(bytes.to_wish(how.access));
        let opened = self.client().open(file, &options);
        if how.truncate && how.access.write {
            self.holder.resized(file);
            self.changed(file);
        }
        let opened = opened?;
        let mut opened = self.opened(opened, how.access, None, Some(bytes))?;
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

    /// Opens a file for reading of which everything is known that the server would say, and whose bytes may be in memory: nobody
    /// is asked now. See [`crate::late`].
    fn open_late(&self, file: FileIndex) -> Result<Option<Opened>> {
        let holder = &self.holder;
        let Some(known) = holder.cache.attributes(file, |promise| holder.holds(promise)) else {
            return Ok(None);
        };
        let (Some(directory), Some(promise)) =
            (holder.cache.parent(file), known.keep.attributes.clone())
        else {
            return Ok(None);
        };
        let (access, bytes) = (Access::READ, Bytes::new(holder, file, Access::READ));
        if known.attributes.kind != FileKind::File
            || promise.directory() != directory
            || !bytes.keeps_pages()
        {
            return Ok(None);
        }
        bytes.renew(&known);
        let (late, shared) =
            (Late::later(self.client(), file), self.files.share(known.attributes.file));
        let open = Arc::new(OpenFile::new(late, access, shared, bytes).late_in(directory));
        let number = self.open_files.insert_shared(Arc::clone(&open))?;
        let may_stay = holder.late.note(directory, number, &open) && holder.holds(&promise);
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
        bytes: Option<Bytes>,
    ) -> Result<Opened> {
        self.opened_as(file, access, known, bytes, false)
    }

    /// The same, of a file that may have been made by that.
    pub(crate) fn opened_as(
        &self,
        file: File,
        access: Access,
        known: Option<Known>,
        bytes: Option<Bytes>,
        made: bool,
    ) -> Result<Opened> {
        let known = known.unwrap_or_else(|| self.seen(file.opened_attributes()));
        let shared = self.files.share(known.attributes.file);
        let bytes = bytes.unwrap_or_else(|| Bytes::new(&self.holder, file.index(), access));
        let keeps_data = !access.write && bytes.keeps_pages();
        if keeps_data {
            bytes.renew(&known);
        }
        if made {
            bytes.made(&known);
        }
        let number =
            self.open_files.insert(OpenFile::new(Late::open(file), access, shared, bytes))?;
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

/// Whether the cluster says that the file is there no more.
pub(crate) fn is_gone(error: &braid_client::Error) -> bool {
    matches!(error.status(), Status::NotFound | Status::StaleHandle)
}
