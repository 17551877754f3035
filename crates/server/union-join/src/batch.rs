//! Files that join together: one sync of each disk and one of the metadata server for many.

use std::{fs::File, os::fd::OwnedFd, rc::Rc};

use braid_layout::{Distribution, Layout};
use braid_store::ObjectRecord;
use braid_types::{
    FileIndex, ObjectGeneration, ObjectId, PartIndex, SizeGeneration, limits::IMPORTED_ENTRIES_MAX,
};
use braid_union::on_branch::{stat_at, stat_fd};
use braid_wire::{
    Wire,
    message::{
        FileKind,
        import::{ImportEntry, ImportFailure},
    },
};
use rustix::fs::{AtFlags, Mode, OFlags, Statx};
use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::{
    Join, JoinError,
    error::errno,
    links::LinkedFiles,
    metadata::{self, Refusal},
    seal,
    tree::Directory,
};

/// Files of one batch at most. Each is open, and with it its directory.
const FILES_MAX: usize = 4096;
/// Files of one batch where a process may have few open files.
const FILES_MIN: usize = 64;
/// Bytes of one batch, in memory.
const BATCH_BYTES_MAX: usize = 16 << 20;
/// Bytes of one call: half of what a frame may have.
const CALL_BYTES_MAX: usize = braid_types::limits::FRAME_BODY_BYTES_MAX / 2;

/// Files on their way.
pub(crate) struct Batch {
    files: Vec<Pending>,
    files_max: usize,
    bytes: usize,
    /// The directory of the last one.
    directory: Option<(usize, Vec<u8>, Rc<OwnedFd>)>,
}

/// A name that is to join.
struct Pending {
    disk: usize,
    directory: Rc<OwnedFd>,
    path: Vec<u8>,
    /// With `O_PATH` if it is not a regular file.
    file: File,
    inode: u64,
    entry: ImportEntry,
    /// The object of a regular file.
    object: Option<ObjectId>,
    /// It is an object since this batch.
    is_new: bool,
}

impl Batch {
    /// An empty batch, as large as the limit of open files allows.
    pub(crate) fn new() -> Self {
        let limit = getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let quarter = usize::try_from(limit / 4).unwrap_or(usize::MAX);
        let files_max = quarter.clamp(FILES_MIN, FILES_MAX);
        Self { files: Vec::new(), files_max, bytes: 0, directory: None }
    }
}

impl Join<'_> {
    /// Adds a name to the batch, or reports why not.
    pub(crate) fn add_file(
        &mut self,
        directory: &Directory,
        disk: usize,
        name: Vec<u8>,
        path: Vec<u8>,
    ) -> Result<(), JoinError> {
        let mut prepared = self.prepare(directory, disk, name.clone(), path.clone());
        if matches!(prepared, Err(Failed::TooManyOpen)) {
            self.flush()?;
            prepared = self.prepare(directory, disk, name, path.clone());
        }
        let pending = match prepared {
            Ok(pending) => pending,
            Err(Failed::TooManyOpen) => {
                return Err(JoinError::io("opening a file")(Errno::MFILE));
            }
            Err(Failed::Left(why)) => {
                self.report.leave(&self.disks[disk], path, why);
                return Ok(());
            }
            Err(Failed::Ended(error)) => return Err(error),
        };
        if self.options.dry_run {
            let is_new = pending.is_new && self.counted.insert((disk, pending.inode));
            count(&mut self.report, &pending, is_new);
            return Ok(());
        }
        let bytes = pending.entry.to_bytes().len();
        if bytes > CALL_BYTES_MAX {
            self.report.leave(&self.disks[disk], path, "its extended attributes are too long");
            return Ok(());
        }
        self.batch.bytes += bytes;
        self.batch.files.push(pending);
        let is_full = self.batch.files.len() >= self.batch.files_max;
        if is_full || self.batch.bytes > BATCH_BYTES_MAX { self.flush() } else { Ok(()) }
    }

    fn prepare(
        &mut self,
        directory: &Directory,
        disk: usize,
        name: Vec<u8>,
        path: Vec<u8>,
    ) -> Result<Pending, Failed> {
        let at = self.open_directory(disk, &directory.path)?;
        let (file, stat) = open(&at, &name)?;
        let mut entry = metadata::of_stat(&stat);
        (entry.dir, entry.name) = (directory.file, name);
        if entry.kind == FileKind::Symlink {
            let target = rustix::fs::readlinkat(&file, c"", Vec::new())?;
            entry.target = target.into_bytes();
        }
        entry.xattrs = match entry.kind {
            FileKind::Symlink => Vec::new(),
            _ => metadata::xattrs(&file)?,
        };
        let mut pending = Pending {
            disk,
            directory: at,
            path,
            file,
            inode: stat.stx_ino,
            entry,
            object: None,
            is_new: false,
        };
        if pending.entry.kind == FileKind::File {
            let begun = seal::object_of(&self.disks[disk], &pending.file);
            pending.is_new = begun.is_none();
            self.check_links(disk, &stat, begun.is_some())?;
            pending.entry.iod = self.disks[disk].iod;
            pending.object = begun.map(|record| record.id);
        }
        Ok(pending)
    }

    /// Refuses a file of which one name does not join.
    fn check_links(&mut self, disk: usize, stat: &Statx, is_begun: bool) -> Result<(), Failed> {
        if stat.stx_nlink == 1 + u32::from(is_begun) {
            return Ok(());
        }
        let linked = match self.linked.take() {
            Some(linked) => linked,
            None => LinkedFiles::read(self.disks),
        };
        let all = linked.all_join(disk, stat);
        self.linked = Some(linked);
        match all {
            true => Ok(()),
            false => Err(Failed::Left(
                "another name of it does not join: one outside of the pool, or one that is hidden"
                    .to_owned(),
            )),
        }
    }

    fn open_directory(&mut self, disk: usize, path: &[u8]) -> Result<Rc<OwnedFd>, Errno> {
        match &self.batch.directory {
            Some((of, known, fd)) if *of == disk && known == path => Ok(Rc::clone(fd)),
            _ => {
                let fd = Rc::new(self.disks[disk].directory(path)?);
                self.batch.directory = Some((disk, path.to_vec(), Rc::clone(&fd)));
                Ok(fd)
            }
        }
    }

    /// Imports the batch: see the picture in `lib.rs`.
    pub(crate) fn flush(&mut self) -> Result<(), JoinError> {
        let Batch { files, .. } = std::mem::replace(&mut self.batch, Batch::new());
        let mut added = Vec::with_capacity(files.len());
        for mut pending in files {
            match self.add_object(&mut pending) {
                Ok(()) => added.push(pending),
                Err(Failed::Left(why)) => {
                    self.report.leave(&self.disks[pending.disk], pending.path, why);
                }
                Err(Failed::Ended(error)) => return Err(error),
                Err(Failed::TooManyOpen) => {
                    return Err(JoinError::io("opening a file")(Errno::MFILE));
                }
            }
        }
        if added.is_empty() {
            return Ok(());
        }
        for (at, disk) in self.disks.iter().enumerate() {
            if added.iter().any(|pending| pending.disk == at && pending.object.is_some()) {
                disk.sync()?;
            }
        }
        for some in split(added, IMPORTED_ENTRIES_MAX, |pending| &pending.entry) {
            self.step()?;
            let entries = some.iter().map(|pending| pending.entry.clone()).collect();
            let outcomes = self.cluster.import(entries).map_err(JoinError::Cluster)?;
            for (pending, outcome) in some.iter().zip(outcomes) {
                match outcome.failure {
                    None => self.remove_name(pending)?,
                    Some(why) => self.take_back(pending, &reason(&why))?,
                }
            }
        }
        Ok(())
    }

    /// Makes a regular file an object beside its name.
    fn add_object(&mut self, pending: &mut Pending) -> Result<(), Failed> {
        if pending.entry.kind != FileKind::File {
            return Ok(());
        }
        let disk = &self.disks[pending.disk];
        if pending.object.is_none() {
            // An earlier name of the same file may have become an object in this batch.
            let begun = seal::object_of(disk, &pending.file);
            pending.is_new = begun.is_none();
            pending.object = begun.map(|record| record.id);
        }
        if let Some(id) = pending.object {
            pending.entry.file = id.file;
            return Ok(());
        }
        self.step().map_err(Failed::Ended)?;
        let file = self.next_index().map_err(Failed::Ended)?;
        let record = record(pending, file);
        let disk = &self.disks[pending.disk];
        disk.objects.add(&pending.file, &record).map_err(|error| {
            Failed::Left(match errno(&error) {
                Errno::NOSPC => "no space for the record of an object".to_owned(),
                error => error.to_string(),
            })
        })?;
        (pending.object, pending.entry.file) = (Some(record.id), file);
        Ok(())
    }

    /// The file is in the cluster: its name on the disk is removed.
    fn remove_name(&mut self, pending: &Pending) -> Result<(), JoinError> {
        self.step()?;
        let disk = &self.disks[pending.disk];
        let name = &pending.entry.name[..];
        if let Some(id) = pending.object
            && !disk.objects.has(id, &pending.file).unwrap_or(false)
        {
            let why = "its object was removed by somebody else while it joined; try: braid fsck";
            self.report.leave(disk, &pending.path, why);
            return Ok(());
        }
        match stat_at(&*pending.directory, name) {
            Ok(stat) if stat.stx_ino == pending.inode => {
                if let Err(error) =
                    rustix::fs::unlinkat(&*pending.directory, name, AtFlags::empty())
                {
                    let why = format!("it is in the cluster, but its name here stays: {error}");
                    self.report.leave(disk, &pending.path, why);
                    return Ok(());
                }
            }
            // Somebody removed or replaced it directly on the disk.
            _ => {}
        }
        count(&mut self.report, pending, pending.is_new);
        if pending.object.is_some() {
            self.step()?;
            self.seal(pending);
        }
        Ok(())
    }

    /// The last name of an object is gone: the file is its daemon's now.
    fn seal(&mut self, pending: &Pending) {
        let disk = &self.disks[pending.disk];
        let sealed = match stat_fd(&pending.file) {
            Ok(stat) if stat.stx_nlink > 1 => return,
            Ok(stat) if stat.stx_size != pending.entry.bytes.0 && pending.is_new => {
                let why = "a program wrote to it on the disk while it joined; try: braid fsck";
                self.report.leave(disk, &pending.path, why);
                disk.objects.seal(&pending.file)
            }
            Ok(_) => disk.objects.seal(&pending.file),
            Err(error) => Err(error.into()),
        };
        if let Err(error) = sealed {
            self.report.leave(disk, &pending.path, format!("its object keeps its mode: {error}"));
        }
    }

    /// The cluster refused the name: the file is a plain file as before.
    fn take_back(&mut self, pending: &Pending, why: &str) -> Result<(), JoinError> {
        let disk = &self.disks[pending.disk];
        self.report.leave(disk, &pending.path, why);
        if let Some(id) = pending.object {
            // Another name of it may have joined.
            let joined = self.cluster.exists(id.file).map_err(JoinError::Cluster)?;
            if !joined {
                self.step()?;
                let disk = &self.disks[pending.disk];
                let back = disk.objects.take_back(&pending.file, id);
                back.map_err(|error| errno(&error)).map_err(JoinError::io("removing an object"))?;
            }
        }
        Ok(())
    }
}

/// Why a file is not prepared.
enum Failed {
    /// It stays.
    Left(String),
    /// This process has no descriptor left.
    TooManyOpen,
    /// The join ends.
    Ended(JoinError),
}

impl From<Errno> for Failed {
    fn from(error: Errno) -> Self {
        match error {
            Errno::MFILE => Self::TooManyOpen,
            error => Self::Left(error.to_string()),
        }
    }
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        match refusal {
            Refusal::Error(error) => error.into(),
            Refusal::Striped => Self::Left(refusal.to_string()),
        }
    }
}

/// Opens a file without waiting and without following a link. What is not a regular file is opened
/// with `O_PATH`: to open a device may do something.
fn open(directory: &OwnedFd, name: &[u8]) -> Result<(File, Statx), Errno> {
    let flags = OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = rustix::fs::openat(directory, name, flags | OFlags::PATH, Mode::empty())?;
    let stat = stat_fd(&path)?;
    if metadata::of_stat(&stat).kind != FileKind::File {
        return Ok((path.into(), stat));
    }
    let flags = flags | OFlags::RDONLY | OFlags::NONBLOCK;
    let file = rustix::fs::openat(directory, name, flags, Mode::empty())?;
    let opened = stat_fd(&file)?;
    match opened.stx_ino == stat.stx_ino {
        true => Ok((file.into(), opened)),
        false => Err(Errno::AGAIN),
    }
}

fn record(pending: &Pending, file: FileIndex) -> ObjectRecord {
    let layout = Layout::one(Distribution::Single, [pending.entry.iod]);
    let id = ObjectId { file, part: PartIndex(0), generation: ObjectGeneration(1) };
    let small = |id: u64| u32::try_from(id).unwrap_or(u32::MAX);
    ObjectRecord {
        id,
        size_generation: SizeGeneration(0),
        uid: small(pending.entry.uid),
        gid: small(pending.entry.gid),
        layout: layout.to_bytes().into(),
        pending: None,
        // The disk is synced before anybody knows of the object.
        flushed_bytes: pending.entry.bytes.0,
    }
}

fn count(report: &mut crate::JoinReport, pending: &Pending, is_new: bool) {
    match pending.entry.kind {
        FileKind::File => {
            report.names += 1;
            report.files += u64::from(is_new);
            report.bytes += if is_new { pending.entry.bytes.0 } else { 0 };
        }
        _ => report.others += 1,
    }
}

/// A refusal of the cluster, as a user reads it.
pub(crate) fn reason(failure: &ImportFailure) -> String {
    let status = failure.status;
    match (status, failure.detail.is_empty()) {
        (braid_types::Status::Exists, _) => "the cluster has another file of this name".to_owned(),
        (_, true) => format!("the cluster refused it: {}", status.text()),
        (_, false) => format!("the cluster refused it: {}", failure.detail),
    }
}

/// Parts of at most `count` items and [`CALL_BYTES_MAX`] bytes.
pub(crate) fn split<T>(
    items: Vec<T>,
    count: usize,
    entry: impl Fn(&T) -> &ImportEntry,
) -> Vec<Vec<T>> {
    let (mut parts, mut part, mut bytes) = (Vec::new(), Vec::new(), 0);
    for item in items {
        let more = entry(&item).to_bytes().len();
        if !part.is_empty() && (part.len() == count || bytes + more > CALL_BYTES_MAX) {
            parts.push(std::mem::take(&mut part));
            bytes = 0;
        }
        bytes += more;
        part.push(item);
    }
    if !part.is_empty() {
        parts.push(part);
    }
    parts
}
