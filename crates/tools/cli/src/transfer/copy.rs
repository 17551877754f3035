//! The copy engine: walks one side and writes the other.

use std::{
    collections::HashMap,
    sync::{Mutex, mpsc},
    time::Instant,
};

use serde::Serialize;

use crate::{
    output::{Exit, Fault, quoted},
    transfer::{
        copy_side::{
            CopySide, EntryAttributes, EntryKind, Sink, Source, above, file_name, join, show,
        },
        progress::Progress,
    },
};

/// Bytes of one read: one window for each of four I/O daemons.
const CHUNK_BYTES: usize = 16 << 20;
/// Maximum number of files in the queue between the walk and the workers.
const QUEUE_FILES_MAX: usize = 1024;
/// Maximum depth of a walk: a deeper tree is a loop, or a tree that no tool can remove.
const DEPTH_MAX: usize = 1000;
/// In a sparse file, runs of this many zeros are not written.
const HOLE_BYTES: usize = 64 << 10;

/// How to copy.
#[derive(Clone, Copy, Debug)]
pub struct Options {
    /// Copy directories.
    pub recursive: bool,
    /// Number of files at the same time.
    pub jobs: usize,
    /// Skip complete files, and complete partial ones.
    pub resume: bool,
    /// Copy owner and group.
    pub owner: bool,
    /// Force data to disk.
    pub sync: bool,
}

/// The result of a copy.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Summary {
    /// Files copied or linked.
    pub files: u64,
    /// Directories created or found.
    pub directories: u64,
    /// Bytes copied.
    pub bytes: u64,
    /// Files that were already complete.
    pub already_there: u64,
    /// Files that failed.
    pub failed: u64,
    /// Special files that are not copied.
    pub skipped: Vec<String>,
    /// Duration.
    pub seconds: f64,
    /// The first failure.
    #[serde(skip)]
    pub first_failure: Option<Fault>,
}

/// One file to copy.
struct FileToCopy {
    from: Vec<u8>,
    to: Vec<u8>,
    meta: EntryAttributes,
}

/// Copies every source to or into `destination`.
pub fn copy_trees(
    from: &impl CopySide,
    sources: &[String],
    to: &impl CopySide,
    destination: &str,
    options: &Options,
    progress: &Progress,
) -> Result<Summary, Fault> {
    let started = Instant::now();
    let into = to.is_directory(destination.as_bytes())?;
    if !into && (sources.len() > 1 || destination.ends_with('/')) {
        return Err(Fault::new(
            Exit::NotFound,
            format!("copying to {destination}"),
            "it is not a directory",
        )
        .hint("braid mkdir -p, or mkdir -p"));
    }
    let summary = Mutex::new(Summary::default());
    let (queue, items) = mpsc::sync_channel::<FileToCopy>(QUEUE_FILES_MAX);
    let items = Mutex::new(items);
    let mut walk = Walk {
        from,
        to,
        options,
        progress,
        summary: &summary,
        queue,
        directories: Vec::new(),
        links: HashMap::new(),
        later: Vec::new(),
    };
    std::thread::scope(|scope| {
        for _ in 0..options.jobs {
            scope.spawn(|| work(from, to, options, progress, &summary, &items));
        }
        let walked = sources.iter().try_for_each(|source| {
            let source = source.as_bytes();
            let target = if into {
                join(destination.as_bytes(), file_name(source))
            } else {
                destination.as_bytes().to_vec()
            };
            walk.root(source, target)
        });
        let Walk { directories, later, queue, .. } = walk;
        drop(queue);
        walked.map(|()| (directories, later))
    })
    .map(|(directories, later)| finish(to, options, &summary, directories, later))?;
    let mut summary = summary.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.seconds = started.elapsed().as_secs_f64();
    Ok(summary)
}

/// Creates hard links and sets the attributes of directories, after all files exist.
fn finish(
    to: &impl CopySide,
    options: &Options,
    summary: &Mutex<Summary>,
    directories: Vec<(Vec<u8>, EntryAttributes)>,
    links: Vec<(Vec<u8>, Vec<u8>)>,
) {
    for (existing, name) in links {
        record(summary, to.hard_link(&existing, &name).map(|()| 0));
    }
    for (path, meta) in directories.into_iter().rev() {
        if let Err(fault) = to.set_attributes(&path, &meta, options.owner) {
            fail(summary, fault);
        }
    }
}

struct Walk<'a, F, T> {
    from: &'a F,
    to: &'a T,
    options: &'a Options,
    progress: &'a Progress,
    summary: &'a Mutex<Summary>,
    queue: mpsc::SyncSender<FileToCopy>,
    directories: Vec<(Vec<u8>, EntryAttributes)>,
    links: HashMap<(u64, u64), Vec<u8>>,
    later: Vec<(Vec<u8>, Vec<u8>)>,
}

impl<F: CopySide, T: CopySide> Walk<'_, F, T> {
    /// Starts with one source of the command line. Its errors are errors of the command.
    fn root(&mut self, source: &[u8], target: Vec<u8>) -> Result<(), Fault> {
        let doing = || format!("copying {}", show(source));
        let missing = || {
            let above = quoted(&show(above(source)));
            Fault::new(Exit::NotFound, doing(), "no such file or directory")
                .hint(format!("{} {above}", F::LIST_COMMAND))
        };
        let meta = self.from.attributes(source)?.ok_or_else(missing)?;
        if meta.kind == EntryKind::Directory && !self.options.recursive {
            return Err(Fault::usage(doing(), "it is a directory").hint("the same command with -r"));
        }
        if self.from.same_file(source, &target) {
            return Err(Fault::usage(doing(), "source and destination are the same file")
                .hint("another destination"));
        }
        if meta.kind == EntryKind::Directory && self.is_below(&target, source) {
            let why = format!("{} is below it: the copy would contain itself", show(&target));
            return Err(Fault::usage(doing(), why).hint("a destination that is not below it"));
        }
        self.entry(source.to_vec(), target, meta, 0);
        Ok(())
    }

    /// Whether `directory` is an ancestor of `path`, under any name.
    fn is_below(&self, path: &[u8], directory: &[u8]) -> bool {
        std::iter::successors(Some(above(path)), |path| {
            Some(above(path)).filter(|next| next.len() < path.len())
        })
        .any(|above| self.from.same_file(directory, above))
    }

    fn entry(&mut self, from: Vec<u8>, to: Vec<u8>, meta: EntryAttributes, depth: usize) {
        match meta.kind {
            EntryKind::Directory => self.directory(&from, to, meta, depth),
            EntryKind::Symlink => record(self.summary, self.symlink(&from, &to, &meta).map(|()| 0)),
            EntryKind::Other => self.with_summary(|s| {
                s.skipped.push(format!("{}: not a file, directory or link", show(&from)))
            }),
            EntryKind::File => self.file(from, to, meta),
        }
    }

    fn directory(&mut self, from: &[u8], to: Vec<u8>, meta: EntryAttributes, depth: usize) {
        let names = self.to.make_directory(&to).and_then(|()| self.from.names(from));
        let mut names = match names {
            Ok(_) if depth == DEPTH_MAX => {
                return fail(
                    self.summary,
                    Fault::failed(
                        format!("copying {}", show(from)),
                        "it is more than 1000 directories deep",
                    ),
                );
            }
            Ok(names) => names,
            Err(fault) => return fail(self.summary, fault),
        };
        names.sort_unstable();
        self.with_summary(|s| s.directories += 1);
        self.directories.push((to.clone(), meta));
        for name in names {
            let child = join(from, &name);
            match self.from.attributes(&child) {
                Ok(Some(meta)) => self.entry(child, join(&to, &name), meta, depth + 1),
                Ok(None) => {} // removed while we walked
                Err(fault) => fail(self.summary, fault),
            }
        }
    }

    fn symlink(&self, from: &[u8], to: &[u8], meta: &EntryAttributes) -> Result<(), Fault> {
        self.to.symlink(&self.from.read_link(from)?, to)?;
        self.to.set_attributes(to, meta, self.options.owner)
    }

    fn file(&mut self, from: Vec<u8>, to: Vec<u8>, meta: EntryAttributes) {
        if let Some(first) = meta.link_id.and_then(|id| self.links.get(&id)) {
            return self.later.push((first.clone(), to));
        }
        if let Some(id) = meta.link_id {
            self.links.insert(id, to.clone());
        }
        self.progress.found(meta.bytes);
        // The receivers are gone only if all workers panicked; the scope reports that.
        let _ = self.queue.send(FileToCopy { from, to, meta });
    }

    fn with_summary(&self, change: impl FnOnce(&mut Summary)) {
        change(&mut self.summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner));
    }
}

fn work(
    from: &impl CopySide,
    to: &impl CopySide,
    options: &Options,
    progress: &Progress,
    summary: &Mutex<Summary>,
    items: &Mutex<mpsc::Receiver<FileToCopy>>,
) {
    let mut buffer = Vec::new();
    loop {
        let next = items.lock().unwrap_or_else(std::sync::PoisonError::into_inner).recv();
        let Ok(item) = next else { return };
        match copy_file(from, to, &item, options, progress, &mut buffer) {
            Ok(Some(bytes)) => record(summary, Ok(bytes)),
            Ok(None) => {
                summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner).already_there += 1
            }
            Err(fault) => fail(summary, fault),
        }
    }
}

/// Copies one file. Returns the bytes written, or `None` if it was already complete.
fn copy_file(
    from: &impl CopySide,
    to: &impl CopySide,
    item: &FileToCopy,
    options: &Options,
    progress: &Progress,
    buffer: &mut Vec<u8>,
) -> Result<Option<u64>, Fault> {
    let there = if options.resume { to.attributes(&item.to)? } else { None };
    if there.as_ref().is_some_and(|there| item.meta.agrees_with(there)) {
        progress.moved(item.meta.bytes);
        return Ok(None);
    }
    let part = there
        .filter(|there| there.kind == EntryKind::File && there.bytes <= item.meta.bytes)
        .map_or(0, |there| there.bytes);
    let mut source = from.open(&item.from)?;
    let mut there = if part > 0 { Some(to.open(&item.to)?) } else { None };
    let (sink, made) = to.create(&item.to, item.meta.mode & 0o777 | 0o200, part > 0)?;
    buffer.resize(CHUNK_BYTES.min((item.meta.bytes.max(1)) as usize + 1), 0);
    let moved = move_bytes(
        (&mut *source, there.as_deref_mut()),
        sink,
        (&item.meta, part),
        options,
        progress,
        buffer,
    );
    if made && moved.as_ref().is_err_and(|fault| fault.exit == Exit::NoSpace) {
        // Removes the incomplete file: it would use space that others need. A failure of that is
        // ignored, since the missing space is the error to report.
        let _ = to.remove(&item.to);
    }
    let written = moved?;
    to.set_attributes(&item.to, &item.meta, options.owner)?;
    Ok(Some(written))
}

/// Copies the bytes of one file and returns how many were written. `there` is a file that may
/// already have the first `part` bytes.
fn move_bytes(
    (source, mut there): (&mut dyn Source, Option<&mut (dyn Source + 'static)>),
    mut sink: Box<dyn Sink>,
    (meta, part): (&EntryAttributes, u64),
    options: &Options,
    progress: &Progress,
    buffer: &mut [u8],
) -> Result<u64, Fault> {
    let (mut offset, mut written) = (0, 0);
    let sparse = meta.bytes_used < meta.bytes;
    loop {
        let read = source.read_at(offset, buffer)?;
        let same = match &mut there {
            Some(there) if offset < part => equal_prefix(&mut **there, offset, &buffer[..read]),
            _ => 0,
        };
        // A hole is skipped only where the file has no data: over an older part, zeros must be
        // written.
        write_chunk(
            &mut *sink,
            offset + same as u64,
            &buffer[same..read],
            sparse && offset >= part,
        )?;
        written += (read - same) as u64;
        offset += read as u64;
        progress.moved(read as u64);
        if read < buffer.len() {
            break;
        }
    }
    if sparse || offset < part {
        sink.set_size(offset)?;
    }
    sink.close(options.sync)?;
    Ok(written)
}

/// Length of the part of `bytes`, in whole pieces, that is there already. The length of a partial
/// file is no proof: after the loss of an I/O daemon, later stripes may exist, with a hole between
/// them.
fn equal_prefix(there: &mut dyn Source, offset: u64, bytes: &[u8]) -> usize {
    let mut found = vec![0; bytes.len()];
    // Data that cannot be read is written again.
    let Ok(read) = there.read_at(offset, &mut found) else { return 0 };
    let pieces = bytes.chunks(HOLE_BYTES).zip(found[..read].chunks(HOLE_BYTES));
    pieces.take_while(|(wanted, found)| wanted == found).map(|(piece, _)| piece.len()).sum()
}

/// Writes a chunk; of a sparse file only the pieces that are not all zeros.
fn write_chunk(sink: &mut dyn Sink, offset: u64, bytes: &[u8], sparse: bool) -> Result<(), Fault> {
    if !sparse {
        return if bytes.is_empty() { Ok(()) } else { sink.write_at(offset, bytes) };
    }
    let mut at = offset;
    for piece in bytes.chunks(HOLE_BYTES) {
        if piece.iter().any(|byte| *byte != 0) {
            sink.write_at(at, piece)?;
        }
        at += piece.len() as u64;
    }
    Ok(())
}

fn record(summary: &Mutex<Summary>, outcome: Result<u64, Fault>) {
    match outcome {
        Ok(bytes) => {
            let mut summary = summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            summary.files += 1;
            summary.bytes += bytes;
        }
        Err(fault) => fail(summary, fault),
    }
}

fn fail(summary: &Mutex<Summary>, fault: Fault) {
    let mut summary = summary.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    summary.failed += 1;
    summary.first_failure.get_or_insert(fault);
}
