//! Opening an existing file.

use std::sync::Arc;

use braid_client::{File, FileIndex, FileKind, LeaseMode, OpenOptions, Status};

use crate::{
    data::{
        HandleData,
        set_ids::{SetIdBits, has_clearable_bits},
    },
    error::{Error, Result},
    names::cached_attributes::CachedAttributes,
    open::{handles::FileHandle, lazy_open::LazyOpen, open_file::OpenFile},
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
    pub known: CachedAttributes,
    /// Whether a gateway may cache the file's pages until a recall. On a relaxed mount, pages of
    /// another version were dropped.
    pub may_cache_pages: bool,
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
        let changing = how.truncate.then(|| self.caches.begin_attribute_change(file));
        if how.truncate && !how.access.write {
            // O_RDONLY | O_TRUNC: Linux truncates the file.
            let _ = self.caches.flush_file(file);
            let cut = self.client().truncate(file, 0);
            self.caches.note_resize(file);
            cut?;
        }
        // The attributes of the reply must include what was written before.
        let _ = self.caches.flush_file(file);
        let data = HandleData::new(&self.caches, file, how.access);
        let lease = self.caches.mode_to_ask(&data, how.access.lease());
        let options = how.access.options().truncate(how.truncate && how.access.write).lease(lease);
        let opened = self.client().open(file, &options);
        if how.truncate && how.access.write {
            self.caches.note_resize(file);
        }
        drop(changing);
        let opened = opened?;
        let mut opened = self.opened(opened, how.access, None, Some(data))?;
        if how.truncate && how.kill_privileges && has_clearable_bits(opened.known.attributes.mode) {
            match self.clear_set_ids(file, SetIdBits::All) {
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
        let caches = &self.caches;
        let Some(known) = caches.names.attributes(file, |lease| caches.is_valid(lease)) else {
            return Ok(None);
        };
        let (Some(directory), Some(lease)) =
            (caches.names.parent_of_file(file), known.leases.attributes.clone())
        else {
            return Ok(None);
        };
        let (access, data) = (Access::READ, HandleData::new(caches, file, Access::READ));
        if known.attributes.kind != FileKind::File
            || lease.directory() != directory
            || !caches.can_cache_pages(&data)
        {
            return Ok(None);
        }
        caches.check_page_version(&data, &known);
        let (lazy, shared) =
            (LazyOpen::on_demand(self.client(), file), self.files.share(known.attributes.file));
        let open = Arc::new(OpenFile::new(lazy, access, shared, data).lazy_in(directory));
        let number = self.open_files.insert_shared(Arc::clone(&open))?;
        let may_stay = caches.lazy_opens.add(directory, number, &open) && caches.is_valid(&lease);
        if !may_stay && let Err(error) = open.file.get() {
            drop(open);
            self.release(FileHandle(number), None)?;
            return Err(error);
        }
        Ok(Some(Opened { handle: FileHandle(number), known, may_cache_pages: true }))
    }

    /// Gives an open file its handle.
    pub(crate) fn opened(
        &self,
        file: File,
        access: Access,
        known: Option<CachedAttributes>,
        data: Option<HandleData>,
    ) -> Result<Opened> {
        self.opened_as(file, access, known, data, false)
    }

    /// As [`Vfs::opened`]. `made`: the call created the file.
    pub(crate) fn opened_as(
        &self,
        file: File,
        access: Access,
        known: Option<CachedAttributes>,
        data: Option<HandleData>,
        made: bool,
    ) -> Result<Opened> {
        let known = known.unwrap_or_else(|| self.uncacheable(file.opened_attributes()));
        let shared = self.files.share(known.attributes.file);
        let data = data.unwrap_or_else(|| HandleData::new(&self.caches, file.index(), access));
        let keeps_data = !access.write && self.caches.can_cache_pages(&data);
        if keeps_data {
            self.caches.check_page_version(&data, &known);
        }
        if made {
            data.note_created(&known);
        }
        let number =
            self.open_files.insert(OpenFile::new(LazyOpen::open(file), access, shared, data))?;
        Ok(Opened { handle: FileHandle(number), known, may_cache_pages: keeps_data })
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
