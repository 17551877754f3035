//! Objects without a stub, and stubs that were copied.
//!
//! Both come from changes on a branch itself: a stub that was removed there, a disk that was
//! restored from a backup. Only a walk of all branches can tell, so it is a command, and no other
//! process may have the pool in use.

use std::{
    collections::{HashMap, HashSet},
    os::fd::{AsFd, OwnedFd},
    sync::Arc,
};

use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, XattrFlags};
use rustix::io::Errno;

use super::{
    layout::{FileId, Layout},
    store::{STORE, Store},
    stub::{STUB_XATTR, Stub},
};
use crate::{
    PoolError, Result, Union,
    attributes::{path_of, stat_fd},
    error::During,
};

/// What a walk over all branches found.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Sweep {
    /// Striped files.
    pub files: u64,
    /// Stubs that cannot be read. Some object that seems to be of no file may be theirs.
    pub damaged: u64,
    /// Objects of no file.
    pub orphans: u64,
    /// Bytes on the disks of these.
    pub orphan_bytes: u64,
    /// Objects that a file needs, but that are missing.
    pub missing: u64,
    /// Files whose only stub is a copy, as after a restore of a disk: they can only be read.
    pub restored: u64,
}

/// The stubs of all branches.
#[derive(Default)]
struct Stubs {
    files: HashMap<FileId, Stubbed>,
    damaged: u64,
}

struct Stubbed {
    layout: Arc<Layout>,
    has_original: bool,
    /// Branch and inode of each copy.
    copies: HashSet<(u8, u64)>,
}

impl Stubbed {
    fn is_restored(&self) -> bool {
        !self.has_original && self.copies.len() == 1
    }
}

/// An object on a branch.
type Object = (Arc<Store>, FileId, usize);

impl Union {
    /// Compares the stubs of all branches with the objects. `repair`: objects of no file are
    /// removed, unless a stub is damaged; and the only copy of a stub becomes the original.
    ///
    /// # Errors
    /// A directory cannot be read: then nothing was changed. A repair failed.
    pub fn sweep(&self, repair: bool) -> std::result::Result<Sweep, PoolError> {
        let mut stubs = Stubs::default();
        self.each_file(&mut |branch, file| self.note_stub(branch, file, &mut stubs))?;
        let (present, orphans) = self.objects(&stubs)?;
        let blocks = |(store, id, position): &Object| {
            store.stat_object(*id, *position).map_or(0, |stat| stat.stx_blocks)
        };
        let needed: usize = stubs.files.values().map(|file| file.layout.stripes()).sum();
        let restored = stubs.files.values().filter(|file| file.is_restored()).count();
        let sweep = Sweep {
            files: stubs.files.len() as u64,
            damaged: stubs.damaged,
            orphans: orphans.len() as u64,
            orphan_bytes: orphans.iter().map(blocks).sum::<u64>() * 512,
            missing: (needed - present) as u64,
            restored: restored as u64,
        };
        if repair && restored > 0 {
            self.each_file(&mut |_, file| self.restore(file, &stubs))?;
        }
        if repair && stubs.damaged == 0 {
            for (store, id, position) in orphans {
                let what = || format!("removing the object {id}-{position}");
                store.remove_object(id, position).during(what)?;
            }
        }
        Ok(sweep)
    }

    /// How many objects belong to files, and those that do not.
    fn objects(&self, stubs: &Stubs) -> std::result::Result<(usize, Vec<Object>), PoolError> {
        let (mut present, mut orphans) = (0, Vec::new());
        for branch in self.branches.iter() {
            let store = match branch.store() {
                Err(Errno::NOENT) => continue,
                store => {
                    store.during(|| format!("opening {STORE} of {}", branch.path.display()))?
                }
            };
            let what = || format!("reading {STORE} of {}", branch.path.display());
            for (id, position) in store.objects().during(what)? {
                let number =
                    stubs.files.get(&id).and_then(|file| file.layout.branches.get(position));
                if number == Some(&branch.number) {
                    present += 1;
                } else {
                    orphans.push((Arc::clone(&store), id, position));
                }
            }
        }
        Ok((present, orphans))
    }

    /// Calls `visit` with each regular file of each branch, and the branch's number.
    fn each_file(
        &self,
        visit: &mut dyn FnMut(u8, OwnedFd) -> Result<()>,
    ) -> std::result::Result<(), PoolError> {
        for branch in self.branches.iter() {
            let mut visit = |file: OwnedFd| visit(branch.number, file);
            let what = || format!("reading the directories of {}", branch.path.display());
            let root = branch.root().during(what)?;
            walk(&*root, true, &mut visit).during(what)?;
        }
        Ok(())
    }

    fn note_stub(&self, branch: u8, file: OwnedFd, stubs: &mut Stubs) -> Result<()> {
        let stub = self.stub(&file)?;
        stubs.damaged += u64::from(stub == Stub::Damaged);
        let Some(layout) = stub.layout() else { return Ok(()) };
        let known = stubs.files.entry(layout.id).or_insert_with(|| Stubbed {
            layout: Arc::clone(layout),
            has_original: false,
            copies: HashSet::new(),
        });
        match stub {
            Stub::Copy(_) => _ = known.copies.insert((branch, stat_fd(&file)?.stx_ino)),
            _ => known.has_original = true,
        }
        Ok(())
    }

    fn restore(&self, file: OwnedFd, stubs: &Stubs) -> Result<()> {
        let Stub::Copy(layout) = self.stub(&file)? else { return Ok(()) };
        if !stubs.files.get(&layout.id).is_some_and(Stubbed::is_restored) {
            return Ok(());
        }
        let text = layout.to_text(self.pool, stat_fd(&file)?.stx_ino);
        rustix::fs::setxattr(path_of(&file), STUB_XATTR, text.as_bytes(), XattrFlags::REPLACE)
    }
}

/// Calls `visit` with each regular file below a directory. Other file systems that are mounted
/// there belong to the branch, as everywhere in the union.
fn walk(
    directory: impl AsFd,
    is_root: bool,
    visit: &mut dyn FnMut(OwnedFd) -> Result<()>,
) -> Result<()> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let directory = rustix::fs::openat(directory, c".", flags, Mode::empty())?;
    for entry in Dir::read_from(&directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            let stat = rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW)?;
            kind = FileType::from_raw_mode(stat.st_mode);
        }
        let open = |above: &OwnedFd, name: &std::ffi::CStr| {
            let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(above, name, flags, Mode::empty())
        };
        match kind {
            FileType::RegularFile => visit(open(&directory, name)?)?,
            FileType::Directory if is_root && name.to_bytes() == STORE.as_bytes() => {
                // Of the store only the pending stubs: objects are no stubs.
                match open(&open(&directory, name)?, c"pending") {
                    Err(Errno::NOENT) => {}
                    pending => walk(&pending?, false, visit)?,
                }
            }
            FileType::Directory => walk(&open(&directory, name)?, false, visit)?,
            _ => {}
        }
    }
    Ok(())
}
