//! Open striped files. All open files of one stub share its descriptors and locks.

use std::{
    collections::{HashMap, hash_map::Entry as MapEntry},
    os::fd::{AsFd, OwnedFd},
    sync::{Arc, Mutex, OnceLock, RwLock, atomic::AtomicBool},
};

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

use super::{layout::Layout, read::ReadAhead, remove::Removal, stub::Stub};
use crate::{
    Result, Union,
    attributes::{copy_of, path_of, stat_fd},
    branch::Branch,
    node::{Copy, Node, lock},
};

/// By the inode of the stub.
pub(crate) type OpenTable = HashMap<Copy, OpenStub>;

/// A stub that is open, or whose objects are being removed.
#[derive(Debug)]
pub(crate) struct OpenStub {
    file: Arc<StripedFile>,
    opens: u64,
    /// Its last name is gone: what is to be removed at the last close.
    removal: Option<Removal>,
}

/// A striped file that is open at least once.
#[derive(Debug)]
pub(crate) struct StripedFile {
    copy: Copy,
    pub(crate) layout: Arc<Layout>,
    pub(crate) stub: OwnedFd,
    /// By position; opened when they are needed, so that a missing one harms only its units.
    objects: Vec<OnceLock<OwnedFd>>,
    /// A copy of a stub (S5): objects are opened only to read.
    is_copy: bool,
    /// Reads and writes hold it shared; what cuts or zeroes a range holds it exclusive.
    pub(crate) range: RwLock<()>,
    /// Held while the file grows.
    pub(crate) growth: Mutex<()>,
    /// Whether no object has bytes beyond the size of the stub (S3).
    pub(crate) ends_cut: AtomicBool,
}

/// One open file of a striped file.
#[derive(Debug)]
pub(crate) struct StripedOpen {
    pub(crate) file: Arc<StripedFile>,
    pub(crate) ahead: ReadAhead,
}

impl StripedOpen {
    pub(crate) fn new(file: Arc<StripedFile>) -> Self {
        Self { file, ahead: ReadAhead::default() }
    }
}

impl StripedFile {
    /// `stub`: open to write, if the file will be written.
    pub(crate) fn new(copy: Copy, layout: Arc<Layout>, stub: OwnedFd, is_copy: bool) -> Self {
        let objects = (0..layout.stripes()).map(|_| OnceLock::new()).collect();
        let (range, growth) = (RwLock::default(), Mutex::default());
        let ends_cut = AtomicBool::new(false);
        Self { copy, layout, stub, objects, is_copy, range, growth, ends_cut }
    }

    /// The size of the file, bytes.
    pub(crate) fn size(&self) -> Result<u64> {
        Ok(stat_fd(&self.stub)?.stx_size)
    }
}

impl Union {
    /// The striped file of an open stub, or `None` for a plain file. Each needs a
    /// [`Union::close_striped`].
    ///
    /// # Errors
    /// `EIO`: the stub is damaged. `EROFS`: to write a copy, or where a branch is read-only.
    /// `ESTALE`: the file is being removed.
    pub(crate) fn open_striped(
        &self,
        node: &Node,
        branch: usize,
        file: impl AsFd,
        writes: bool,
    ) -> Result<Option<Arc<StripedFile>>> {
        let stub = self.stub_of(node, &file)?;
        let layout = match &stub {
            Stub::Plain => return Ok(None),
            Stub::Damaged => return Err(Errno::IO),
            Stub::Copy(_) if writes => return Err(Errno::ROFS),
            Stub::Striped(layout) | Stub::Copy(layout) => layout,
        };
        let is_copy = matches!(stub, Stub::Copy(_));
        let numbers = layout.branches.iter();
        let mut branches = numbers.filter_map(|number| self.branch_numbered(*number));
        if writes && branches.any(|branch| !branch.is_writable()) {
            return Err(Errno::ROFS);
        }
        let stat = stat_fd(&file)?;
        let access = match self.branches[branch].is_writable() && !is_copy {
            true => OFlags::RDWR,
            false => OFlags::RDONLY,
        };
        // Before the table is locked: the disk may be slow.
        let stub = rustix::fs::open(path_of(&file), access | OFlags::CLOEXEC, Mode::empty())?;
        if stat.stx_nlink == 0 {
            return Err(Errno::STALE);
        }
        let copy = copy_of(branch, &stat);
        let opened = StripedFile::new(copy, Arc::clone(layout), stub, is_copy);
        self.enter_striped(opened).map(Some)
    }

    /// Counts an open of the file, or of the one that is open already.
    pub(crate) fn enter_striped(&self, opened: StripedFile) -> Result<Arc<StripedFile>> {
        match lock(&self.striped.open).entry(opened.copy) {
            MapEntry::Vacant(vacant) => {
                let file = Arc::new(opened);
                vacant.insert(OpenStub { file: Arc::clone(&file), opens: 1, removal: None });
                Ok(file)
            }
            MapEntry::Occupied(mut occupied) => {
                let known = occupied.get_mut();
                if known.opens == 0 {
                    return Err(Errno::STALE);
                }
                known.opens += 1;
                Ok(Arc::clone(&known.file))
            }
        }
    }

    /// The counterpart of [`Union::open_striped`]. The last close of a file without a name removes
    /// its objects.
    pub(crate) fn close_striped(&self, file: &StripedFile) {
        let removal = {
            let mut open = lock(&self.striped.open);
            let Some(known) = open.get_mut(&file.copy) else { return };
            known.opens -= 1;
            match (known.opens, known.removal.take()) {
                (0, Some(removal)) => removal,
                (0, None) => {
                    open.remove(&file.copy);
                    return;
                }
                (_, removal) => {
                    known.removal = removal;
                    return;
                }
            }
        };
        // The entry stays meanwhile: nobody opens a file whose objects are being removed.
        self.remove_objects(&removal);
        lock(&self.striped.open).remove(&file.copy);
    }

    /// The last name of a stub is gone. The removal is returned if no open file has it.
    pub(crate) fn removed_while_open(&self, copy: Copy, removal: Removal) -> Option<Removal> {
        match lock(&self.striped.open).get_mut(&copy) {
            Some(known) if known.opens > 0 => {
                known.removal = Some(removal);
                None
            }
            _ => Some(removal),
        }
    }

    /// Whether the last name of a stub is gone.
    pub(crate) fn is_removed(&self, copy: Copy) -> bool {
        let open = lock(&self.striped.open);
        open.get(&copy).is_some_and(|known| known.removal.is_some() || known.opens == 0)
    }

    pub(crate) fn branch_numbered(&self, number: u8) -> Option<&Branch> {
        self.branches.iter().find(|branch| branch.number == number)
    }

    /// The object of a position, which is opened if it is not yet.
    ///
    /// # Errors
    /// `EIO`: it is missing, or its branch is.
    pub(crate) fn object<'f>(&self, file: &'f StripedFile, position: usize) -> Result<&'f OwnedFd> {
        let cell = &file.objects[position];
        if let Some(object) = cell.get() {
            return Ok(object);
        }
        let branch = self.branch_numbered(file.layout.branches[position]).ok_or(Errno::IO)?;
        let store = branch.store().map_err(|_| Errno::IO)?;
        let writes = branch.is_writable() && !file.is_copy;
        let object = store.open_object(file.layout.id, position, writes)?;
        Ok(cell.get_or_init(|| object))
    }
}
