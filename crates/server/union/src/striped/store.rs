//! `.braid-striped` in the root of a branch: the objects of striped files, and the stubs that are
//! being created or removed.
//!
//! ```text
//!   .braid-striped/objects/ab/ab…-0   the object of position 0 of the file ab…
//!   .braid-striped/pending/ab…        a link of the stub of the file ab…
//! ```
//!
//! A disk may come from somebody hostile: no symbolic link and no other file system is followed.

use std::{
    os::fd::{AsFd, BorrowedFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{AtFlags, CWD, Dir, Mode, OFlags, ResolveFlags, Statx};
use rustix::io::Errno;

use super::layout::FileId;
use crate::{
    Result,
    attributes::{S_IFMT, S_IFREG, path_of, stat_at, stat_fd},
    branch::Branch,
    node::lock,
};

/// The directory in the root of a branch. Reserved names are hidden in the union.
pub(crate) const STORE: &str = ".braid-striped";
const OBJECTS: &str = "objects";
const PENDING: &str = "pending";

/// An open `.braid-striped`.
#[derive(Debug)]
pub(crate) struct Store {
    objects: OwnedFd,
    pending: OwnedFd,
}

impl Branch {
    /// The store of the branch.
    ///
    /// # Errors
    /// `ENOENT`: it has none. `ENODEV`: the branch was removed.
    pub(crate) fn store(&self) -> Result<Arc<Store>> {
        if let Some(store) = &*lock(&self.striped) {
            return Ok(Arc::clone(store));
        }
        let root = self.root()?;
        let open = |part: &str| open_directory(root.as_fd(), &format!("{STORE}/{part}"));
        let store = Arc::new(Store { objects: open(OBJECTS)?, pending: open(PENDING)? });
        Ok(Arc::clone(lock(&self.striped).insert(store)))
    }

    /// The store of the branch, which is created if it has none. Only root may look into it.
    pub(crate) fn ensure_store(&self) -> Result<Arc<Store>> {
        match self.store() {
            Err(Errno::NOENT) => {}
            found => return found,
        }
        for path in [STORE.to_owned(), format!("{STORE}/{OBJECTS}"), format!("{STORE}/{PENDING}")] {
            make_directory(self.root()?.as_fd(), &path)?;
        }
        self.store()
    }

    /// An object or a pending stub of the branch, if it has one, as a path from its root.
    ///
    /// # Errors
    /// Those of getdents(2).
    pub(crate) fn first_of_store(&self) -> Result<Option<String>> {
        let store = match self.store() {
            Err(Errno::NOENT) => return Ok(None),
            store => store?,
        };
        let object = store.objects()?.first().map(|(id, position)| object_path(*id, *position));
        let object = object.map(|path| format!("{STORE}/{OBJECTS}/{path}"));
        let pending = || -> Result<_> { Ok(store.pending()?.first().map(FileId::to_string)) };
        Ok(object.or(pending()?.map(|id| format!("{STORE}/{PENDING}/{id}"))))
    }

    /// Whether the branch has, or had, objects or stubs of striped files.
    pub(crate) fn has_store(&self) -> bool {
        self.root().and_then(|root| stat_at(&*root, STORE.as_bytes())).is_ok()
    }
}

impl Store {
    /// Creates an empty object.
    pub(crate) fn create_object(&self, id: FileId, position: usize) -> Result<OwnedFd> {
        let (path, mode) = (object_path(id, position), Mode::RUSR | Mode::WUSR);
        let flags =
            OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        match open_below(&self.objects, &path, flags, mode) {
            Err(Errno::NOENT) => {
                make_directory(self.objects.as_fd(), &path[..2])?;
                open_below(&self.objects, &path, flags, mode)
            }
            created => created,
        }
    }

    /// Opens an object; only to read where the branch is read-only.
    ///
    /// # Errors
    /// `EIO`: it is missing, or is no regular file.
    pub(crate) fn open_object(&self, id: FileId, position: usize, writes: bool) -> Result<OwnedFd> {
        let path = object_path(id, position);
        // NONBLOCK: a FIFO in its place must not stop this thread.
        let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
        let open = |access| open_below(&self.objects, &path, flags | access, Mode::empty());
        let opened = match if writes { open(OFlags::RDWR) } else { Err(Errno::ROFS) } {
            // A file system that is read-only after an error can still be read.
            Err(Errno::ROFS) => open(OFlags::RDONLY),
            opened => opened,
        };
        match opened {
            Ok(object) if is_regular(&stat_fd(&object)?) => Ok(object),
            Err(error @ (Errno::MFILE | Errno::NFILE | Errno::NOMEM)) => Err(error),
            _ => Err(Errno::IO),
        }
    }

    pub(crate) fn stat_object(&self, id: FileId, position: usize) -> Result<Statx> {
        stat_at(&self.objects, object_path(id, position).as_bytes())
    }

    /// Removes an object; it may be gone.
    pub(crate) fn remove_object(&self, id: FileId, position: usize) -> Result<()> {
        match rustix::fs::unlinkat(&self.objects, object_path(id, position), AtFlags::empty()) {
            Err(Errno::NOENT) => Ok(()),
            done => done,
        }
    }

    /// Gives a stub a link in `pending`.
    pub(crate) fn link_pending(&self, stub: impl AsFd, id: FileId) -> Result<()> {
        let to = id.to_string();
        rustix::fs::linkat(CWD, path_of(stub), &self.pending, to, AtFlags::SYMLINK_FOLLOW)
    }

    pub(crate) fn unlink_pending(&self, id: FileId) -> Result<()> {
        rustix::fs::unlinkat(&self.pending, id.to_string(), AtFlags::empty())
    }

    /// A pending stub, as `O_PATH`.
    pub(crate) fn open_pending(&self, id: FileId) -> Result<OwnedFd> {
        let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let stub = open_below(&self.pending, &id.to_string(), flags, Mode::empty())?;
        if is_regular(&stat_fd(&stub)?) { Ok(stub) } else { Err(Errno::IO) }
    }

    /// The files that have a pending stub.
    pub(crate) fn pending(&self) -> Result<Vec<FileId>> {
        let names = list(&self.pending)?;
        Ok(names.iter().filter_map(|name| FileId::from_text(name)).collect())
    }

    /// All objects: the file and the position of each.
    pub(crate) fn objects(&self) -> Result<Vec<(FileId, usize)>> {
        let mut objects = Vec::new();
        for directory in list(&self.objects)? {
            let Ok(inner) = open_directory(self.objects.as_fd(), &directory) else { continue };
            for name in list(&inner)? {
                let parsed = name.split_once('-').and_then(|(id, position)| {
                    let (id, position) = (FileId::from_text(id)?, position.parse().ok()?);
                    (object_path(id, position) == format!("{directory}/{name}"))
                        .then_some((id, position))
                });
                objects.extend(parsed);
            }
        }
        Ok(objects)
    }
}

/// 256 directories, so that none has very many names.
fn object_path(id: FileId, position: usize) -> String {
    let id = id.to_string();
    format!("{}/{id}-{position}", &id[..2])
}

fn is_regular(stat: &Statx) -> bool {
    u32::from(stat.stx_mode) & S_IFMT == S_IFREG
}

fn open_below(directory: impl AsFd, path: &str, flags: OFlags, mode: Mode) -> Result<OwnedFd> {
    let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_XDEV;
    rustix::fs::openat2(directory, path, flags, mode, resolve)
}

fn open_directory(above: BorrowedFd<'_>, path: &str) -> Result<OwnedFd> {
    open_below(above, path, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

fn make_directory(above: BorrowedFd<'_>, path: &str) -> Result<()> {
    match rustix::fs::mkdirat(above, path, Mode::RWXU) {
        // Another thread was faster.
        Err(Errno::EXIST) => Ok(()),
        done => done,
    }
}

/// The names in a directory that are UTF-8: all that the union made are.
fn list(directory: &OwnedFd) -> Result<Vec<String>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let readable = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    let mut names = Vec::new();
    for entry in Dir::read_from(&readable)? {
        names.extend(entry?.file_name().to_str().ok().map(str::to_owned));
    }
    Ok(names)
}
