//! Calls -> history: whose descriptor, which path, which offset.

use std::{
    cell::Cell,
    collections::HashMap,
    os::unix::ffi::OsStrExt,
    path::{Component, Path, PathBuf},
    rc::Rc,
};

use anyhow::{Context, Result, bail, ensure};

use super::{
    calls::{Call, Calls, Step},
    descriptors::{Descriptor, Descriptors, OpenFile, Target},
    text,
};
use crate::disk::{Change, Event, History, Kind, Node, Synced, Tree};

/// LMDB's table of readers, a writable shared mapping: about processes that live, worth nothing after a restart.
pub(crate) const READERS_TABLE: &str = "lock.mdb";
/// Larger files than this are not recorded: the whole content is held in memory.
const FILE_BYTES_MAX: i64 = 1 << 30;

pub(super) fn replay(calls: &Calls<'_>, root: &Path, marks: &Path) -> Result<History> {
    let history = History::new();
    let tree = Tree::new(&history.nodes);
    let mut replay = Replay {
        root: root.to_owned(),
        marks: marks.to_owned(),
        history,
        tree,
        descriptors: Descriptors::default(),
        syncs: HashMap::new(),
    };
    for step in &calls.steps {
        let (Step::Enter(index) | Step::Leave(index)) = *step;
        let call = &calls.calls[index];
        replay.descriptors.born(call.thread, calls.made_by.get(&call.thread).copied());
        let outcome = match step {
            Step::Enter(_) => replay.enter(index, call),
            Step::Leave(_) => call.returned.map_or(Ok(()), |returned| replay.leave(index, call, returned)),
        };
        outcome.with_context(|| format!("{} of thread {}", call.name, call.thread))?;
    }
    Ok(replay.history)
}

struct Replay {
    root: PathBuf,
    marks: PathBuf,
    history: History,
    /// Everything so far: the live view of the processes.
    tree: Tree,
    descriptors: Descriptors,
    /// Syncs under way: what they cover.
    syncs: HashMap<usize, (Synced, usize)>,
}

/// A path as a call gives it, below the root: the directory and the last name.
struct Place {
    directory: Node,
    name: Vec<u8>,
}

impl Replay {
    // ---- what counts from the entry: a descriptor is free before `close` returns; a mark is said before it is written

    fn enter(&mut self, index: usize, call: &Call<'_>) -> Result<()> {
        match call.name {
            "close" => self.descriptors.close(call.thread, number(call, 0)?),
            "close_range" if !text::has_flag(argument(call, 2)?, "CLOSE_RANGE_CLOEXEC") => {
                self.descriptors.close_range(call.thread, number(call, 0)?, number(call, 1)?);
            }
            "fsync" | "fdatasync" | "syncfs" => self.sync_begins(index, call)?,
            "write" => self.mark(call)?,
            _ => {}
        }
        Ok(())
    }

    fn mark(&mut self, call: &Call<'_>) -> Result<()> {
        if self.open_file(call, 0)?.is_some_and(|file| file.target == Target::Marks) {
            let text = String::from_utf8(text::bytes(argument(call, 1)?)?)?;
            self.history.events.push(Event::Mark(text.trim_end().to_owned()));
        }
        Ok(())
    }

    fn sync_begins(&mut self, index: usize, call: &Call<'_>) -> Result<()> {
        let Some(node) = self.node(call, 0)? else { return Ok(()) };
        let synced = match call.name {
            "syncfs" => Synced::Volume(self.history.volumes[node.0]),
            name => Synced::Node { node, data_only: name == "fdatasync" },
        };
        self.syncs.insert(index, (synced, self.history.events.len()));
        Ok(())
    }

    fn leave(&mut self, index: usize, call: &Call<'_>, returned: i64) -> Result<()> {
        match call.name {
            "open" | "openat" | "openat2" | "creat" => self.open(call, returned),
            "dup" | "dup2" | "dup3" | "fcntl" => self.duplicate(call, returned),
            "lseek" => self.seek(call, returned),
            "read" | "readv" => self.advance(call, returned),
            "write" | "writev" | "pwrite64" | "pwritev" | "pwritev2" => self.write(call, returned),
            "ftruncate" | "truncate" | "fallocate" => self.resize(call),
            "copy_file_range" => self.copy(call, returned),
            "sendfile" => self.refuse(call, 0),
            "splice" => self.refuse(call, 2),
            "fsync" | "fdatasync" | "syncfs" => {
                if let Some((synced, since)) = self.syncs.remove(&index) {
                    self.history.events.push(Event::Sync { synced, since });
                }
                Ok(())
            }
            "sync" => self.sync_all(),
            "setxattr" | "lsetxattr" | "fsetxattr" | "removexattr" | "lremovexattr" | "fremovexattr" => {
                self.attribute(call)
            }
            "chmod" | "fchmod" | "fchmodat" => self.mode(call),
            "mmap" => self.map(call),
            "io_uring_setup" => bail!("io_uring: its writes are not system calls, and cannot be recorded"),
            "execve" => {
                self.descriptors.executed(call.thread);
                Ok(())
            }
            "clone" | "clone3" | "fork" | "vfork" | "close" | "close_range" | "chdir" => Ok(()),
            _ => self.names(call),
        }
    }

    // ---- descriptors

    fn open(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let (directory, path, flags) = match call.name {
            "openat" | "openat2" => (Some(0), 1, argument(call, 2)?),
            "creat" => (None, 1, &b"O_CREAT|O_TRUNC"[..]),
            _ => (None, 0, argument(call, 1)?),
        };
        let path = if call.name == "creat" { 0 } else { path };
        let full = self.full_path(call, directory, path)?;
        let target = if full.as_deref() == Some(&*self.marks) {
            Target::Marks
        } else {
            match self.place(full.as_deref())? {
                Some(Ok(place)) => {
                    ensure!(!text::has_flag(flags, "O_TMPFILE"), "O_TMPFILE is not understood");
                    Target::Node(self.opened(&place, call, flags)?)
                }
                Some(Err(node)) => Target::Node(node),
                None => {
                    // Something else now has this number.
                    self.descriptors.close(call.thread, returned);
                    return Ok(());
                }
            }
        };
        let lasting = text::has_flag(flags, "O_DSYNC") || text::has_flag(flags, "O_SYNC");
        let append = text::has_flag(flags, "O_APPEND");
        let file = Rc::new(OpenFile { target, position: Cell::new(0), append, lasting });
        let until_exec = text::has_flag(flags, "O_CLOEXEC");
        self.descriptors.open(call.thread, returned, Descriptor { file, until_exec });
        Ok(())
    }

    /// The node behind an open, made or cut to nothing if the flags say so.
    fn opened(&mut self, place: &Place, call: &Call<'_>, flags: &[u8]) -> Result<Node> {
        if let Some(node) = self.tree.lookup(place.directory, &place.name) {
            if text::has_flag(flags, "O_TRUNC") && !self.tree.bytes(node).is_empty() {
                self.change(Change::Resize(node, 0));
            }
            return Ok(node);
        }
        let mode =
            if call.name == "openat2" { &b"0644"[..] } else { call.arguments.last().copied().unwrap_or(b"0644") };
        let node = self.make(Kind::File(octal(mode)), place);
        Ok(node)
    }

    fn duplicate(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let command = call.arguments.get(1).copied().unwrap_or_default();
        if call.name == "fcntl" && !command.starts_with(b"F_DUPFD") {
            return Ok(());
        }
        let number = number(call, 0)?;
        match self.descriptors.find(call.thread, number) {
            Some(descriptor) => {
                let until_exec = call.arguments.iter().any(|a| a.ends_with(b"CLOEXEC"));
                self.descriptors.open(call.thread, returned, Descriptor { until_exec, ..descriptor });
            }
            None => self.descriptors.close(call.thread, returned),
        }
        Ok(())
    }

    fn seek(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        if let Some(file) = self.open_file(call, 0)? {
            file.position.set(returned as u64);
        }
        Ok(())
    }

    fn advance(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        if let Some(file) = self.open_file(call, 0)? {
            file.position.set(file.position.get() + returned as u64);
        }
        Ok(())
    }

    // ---- contents

    fn write(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let Some(file) = self.open_file(call, 0)? else { return Ok(()) };
        let Target::Node(node) = file.target else { return Ok(()) };
        let mut bytes = match call.name {
            "write" | "pwrite64" => text::bytes(argument(call, 1)?)?,
            _ => text::vectors(argument(call, 1)?)?,
        };
        ensure!(bytes.len() as i64 >= returned, "{returned} bytes were written, {} seen", bytes.len());
        bytes.truncate(returned as usize);
        let given = match call.name {
            "write" | "writev" => None,
            "pwritev2" => Some(number(call, 3)?).filter(|offset| *offset >= 0),
            _ => Some(number(call, 3)?),
        };
        let end = self.tree.bytes(node).len() as u64;
        let offset = if file.append { end } else { given.map_or(file.position.get(), |offset| offset as u64) };
        if given.is_none() {
            file.position.set(offset + bytes.len() as u64);
        }
        ensure!(offset as i64 <= FILE_BYTES_MAX, "a write at {offset}: too large a file to be recorded");
        let flags = call.arguments.get(4).copied().unwrap_or_default();
        let lasting = file.lasting || text::has_flag(flags, "RWF_DSYNC") || text::has_flag(flags, "RWF_SYNC");
        self.change(Change::Write { node, offset, bytes, lasting });
        Ok(())
    }

    fn resize(&mut self, call: &Call<'_>) -> Result<()> {
        let node = if call.name == "truncate" {
            let path = self.full_path(call, None, 0)?;
            self.existing(path.as_deref())?
        } else {
            self.node(call, 0)?
        };
        let Some(node) = node else { return Ok(()) };
        if call.name != "fallocate" {
            let bytes = number(call, 1)?;
            ensure!(bytes <= FILE_BYTES_MAX, "a size of {bytes}: too large a file to be recorded");
            self.change(Change::Resize(node, bytes as u64));
            return Ok(());
        }
        let (mode, offset, bytes) = (argument(call, 1)?, number(call, 2)? as u64, number(call, 3)? as u64);
        let keep_size = text::has_flag(mode, "FALLOC_FL_KEEP_SIZE");
        if text::has_flag(mode, "FALLOC_FL_PUNCH_HOLE") || text::has_flag(mode, "FALLOC_FL_ZERO_RANGE") {
            ensure!(keep_size, "a zeroed range that may make the file longer is not understood");
            self.change(Change::Punch(node, offset, bytes));
        } else {
            ensure!(mode == b"0" || keep_size, "fallocate {} is not understood", text::excerpt(mode));
            if !keep_size && offset + bytes > self.tree.bytes(node).len() as u64 {
                self.change(Change::Resize(node, offset + bytes));
            }
        }
        Ok(())
    }

    fn copy(&mut self, call: &Call<'_>, returned: i64) -> Result<()> {
        let Some(to) = self.open_file(call, 2)? else { return Ok(()) };
        let from = self.open_file(call, 0)?.context("a copy from a file that is not recorded is not understood")?;
        let (Target::Node(source), Target::Node(node)) = (from.target, to.target) else {
            bail!("a copy of marks is not understood");
        };
        for (file, offset) in [(&from, 1), (&to, 3)] {
            ensure!(argument(call, offset)? == b"NULL" && !file.append, "a copy at an offset is not understood");
        }
        let (start, bytes) = (from.position.get() as usize, returned as usize);
        let bytes = self.tree.bytes(source).get(start..start + bytes).context("a copy from beyond the end")?.to_vec();
        let offset = to.position.get();
        from.position.set(from.position.get() + returned as u64);
        to.position.set(offset + returned as u64);
        self.change(Change::Write { node, offset, bytes, lasting: to.lasting });
        Ok(())
    }

    fn refuse(&mut self, call: &Call<'_>, to: usize) -> Result<()> {
        match self.open_file(call, to)? {
            Some(_) => bail!("{} into a recorded file is not understood", call.name),
            None => Ok(()),
        }
    }

    fn map(&mut self, call: &Call<'_>) -> Result<()> {
        let (protection, flags) = (argument(call, 2)?, argument(call, 3)?);
        let shared = text::has_flag(flags, "MAP_SHARED") || text::has_flag(flags, "MAP_SHARED_VALIDATE");
        if !shared || !text::has_flag(protection, "PROT_WRITE") {
            return Ok(());
        }
        let Some(node) = self.node(call, 4)? else { return Ok(()) };
        let name = self.tree.name_of(node).unwrap_or_default();
        ensure!(
            name == READERS_TABLE.as_bytes(),
            "{} is mapped writable and shared: what is stored through it cannot be recorded, nor ordered by a sync",
            String::from_utf8_lossy(&name)
        );
        Ok(())
    }

    fn attribute(&mut self, call: &Call<'_>) -> Result<()> {
        let node = if call.name.starts_with('f') {
            self.node(call, 0)?
        } else {
            let path = self.full_path(call, None, 0)?;
            self.existing(path.as_deref())?
        };
        let Some(node) = node else { return Ok(()) };
        let value = match call.name.contains("set") {
            true => Some(text::bytes(argument(call, 2)?)?),
            false => None,
        };
        self.change(Change::Attribute(node, text::bytes(argument(call, 1)?)?, value));
        Ok(())
    }

    /// Permission bits are no promise that is checked; they are taken as if they had always been there.
    fn mode(&mut self, call: &Call<'_>) -> Result<()> {
        let (path, mode) = match call.name {
            "fchmod" => (None, 1),
            "chmod" => (self.full_path(call, None, 0)?, 1),
            _ => (self.full_path(call, Some(0), 1)?, 2),
        };
        let node = if call.name == "fchmod" { self.node(call, 0)? } else { self.existing(path.as_deref())? };
        if let Some(node) = node {
            let mode = octal(argument(call, mode)?);
            self.tree.set_mode(node, mode);
            self.history.nodes[node.0] = self.tree.kind(node).clone();
        }
        Ok(())
    }

    fn sync_all(&mut self) -> Result<()> {
        let since = self.history.events.len();
        let mut volumes = self.history.volumes.clone();
        volumes.sort_unstable();
        volumes.dedup();
        let syncs = volumes.into_iter().map(|volume| Event::Sync { synced: Synced::Volume(volume), since });
        self.history.events.extend(syncs);
        Ok(())
    }

    // ---- names

    fn names(&mut self, call: &Call<'_>) -> Result<()> {
        match call.name {
            "rename" => self.rename(call, (None, 0), (None, 1)),
            "renameat" | "renameat2" => self.rename(call, (Some(0), 1), (Some(2), 3)),
            "unlink" | "rmdir" => self.remove(call, None, 0),
            "unlinkat" => self.remove(call, Some(0), 1),
            "mkdir" => self.make_directory(call, None, 0),
            "mkdirat" => self.make_directory(call, Some(0), 1),
            "link" => self.link(call, (None, 0), (None, 1)),
            "linkat" => self.link(call, (Some(0), 1), (Some(2), 3)),
            "symlink" => self.symbolic(call, None, 1),
            "symlinkat" => self.symbolic(call, Some(1), 2),
            // A socket or pipe, or something outside.
            _ => Ok(()),
        }
    }

    fn rename(&mut self, call: &Call<'_>, from: (Option<usize>, usize), to: (Option<usize>, usize)) -> Result<()> {
        let from = self.place_of(call, from.0, from.1)?;
        let to = self.place_of(call, to.0, to.1)?;
        let (Some(from), Some(to)) = (&from, &to) else {
            ensure!(from.is_none() && to.is_none(), "a rename across the border of what is recorded");
            return Ok(());
        };
        let node = self.tree.lookup(from.directory, &from.name).context("a rename of what is not known")?;
        let flags = call.arguments.get(4).copied().unwrap_or_default();
        let exchanged = match text::has_flag(flags, "RENAME_EXCHANGE") {
            true => self.tree.lookup(to.directory, &to.name),
            false => None,
        };
        let old = (from.directory, from.name.clone(), exchanged);
        self.change(Change::Names(vec![old, (to.directory, to.name.clone(), Some(node))]));
        Ok(())
    }

    fn remove(&mut self, call: &Call<'_>, directory: Option<usize>, path: usize) -> Result<()> {
        if let Some(place) = self.place_of(call, directory, path)? {
            self.change(Change::Names(vec![(place.directory, place.name, None)]));
        }
        Ok(())
    }

    fn make_directory(&mut self, call: &Call<'_>, directory: Option<usize>, path: usize) -> Result<()> {
        let full = self.full_path(call, directory, path)?;
        if let Some(Ok(place)) = self.place(full.as_deref())? {
            let mode = octal(argument(call, path + 1)?);
            if self.tree.lookup(place.directory, &place.name).is_none() {
                self.make(Kind::Directory(mode), &place);
            }
        }
        Ok(())
    }

    fn link(&mut self, call: &Call<'_>, from: (Option<usize>, usize), to: (Option<usize>, usize)) -> Result<()> {
        let from = self.place_of(call, from.0, from.1)?;
        let to = self.place_of(call, to.0, to.1)?;
        let (Some(from), Some(to)) = (&from, &to) else {
            ensure!(to.is_none(), "a link from outside of what is recorded");
            return Ok(());
        };
        let node = self.tree.lookup(from.directory, &from.name).context("a link of what is not known")?;
        self.change(Change::Names(vec![(to.directory, to.name.clone(), Some(node))]));
        Ok(())
    }

    fn symbolic(&mut self, call: &Call<'_>, directory: Option<usize>, path: usize) -> Result<()> {
        if let Some(place) = self.place_of(call, directory, path)? {
            let target = text::bytes(argument(call, 0)?)?;
            self.make(Kind::Link(target), &place);
        }
        Ok(())
    }

    /// A new node, and its name.
    fn make(&mut self, kind: Kind, place: &Place) -> Node {
        let directory = matches!(kind, Kind::Directory(_));
        let node = self.tree.add(kind.clone());
        self.history.nodes.push(kind);
        let above = self.history.volumes[place.directory.0];
        let top = place.directory == Node::ROOT && directory;
        self.history.volumes.push(if top { node } else { above });
        self.change(Change::Names(vec![(place.directory, place.name.clone(), Some(node))]));
        node
    }

    fn change(&mut self, change: Change) {
        self.tree.apply(&change);
        self.history.events.push(Event::Change(change));
    }

    // ---- paths

    /// The absolute path of an argument; `None` when it is relative to something that is not recorded.
    fn full_path(&mut self, call: &Call<'_>, directory: Option<usize>, path: usize) -> Result<Option<PathBuf>> {
        let bytes = text::bytes(argument(call, path)?)?;
        let path = Path::new(std::ffi::OsStr::from_bytes(&bytes));
        if path.is_absolute() {
            return Ok(Some(path.to_owned()));
        }
        let Some(directory) = directory else { return Ok(None) };
        if argument(call, directory)?.starts_with(b"AT_FDCWD") {
            return Ok(None);
        }
        let Some(node) = self.node(call, directory)? else { return Ok(None) };
        let above = self.tree.path_of(node).context("a directory without a name")?;
        Ok(Some(self.root.join(above).join(path)))
    }

    /// Where a path lies below the root: the last name in its directory, or the root itself.
    fn place(&self, path: Option<&Path>) -> Result<Option<Result<Place, Node>>> {
        let Some(below) = path.and_then(|path| path.strip_prefix(&self.root).ok()) else { return Ok(None) };
        let mut names = Vec::new();
        for component in below.components() {
            match component {
                Component::Normal(name) => names.push(name.as_bytes().to_vec()),
                Component::CurDir => {}
                _ => bail!("the path {} is not understood", below.display()),
            }
        }
        let Some(last) = names.pop() else { return Ok(Some(Err(Node::ROOT))) };
        let mut directory = Node::ROOT;
        for name in &names {
            directory =
                self.tree.lookup(directory, name).with_context(|| format!("{} is not known", below.display()))?;
        }
        Ok(Some(Ok(Place { directory, name: last })))
    }

    fn place_of(&mut self, call: &Call<'_>, directory: Option<usize>, path: usize) -> Result<Option<Place>> {
        let full = self.full_path(call, directory, path)?;
        Ok(self.place(full.as_deref())?.and_then(Result::ok))
    }

    fn existing(&self, path: Option<&Path>) -> Result<Option<Node>> {
        Ok(match self.place(path)? {
            Some(Ok(place)) => self.tree.lookup(place.directory, &place.name),
            Some(Err(node)) => Some(node),
            None => None,
        })
    }

    fn open_file(&mut self, call: &Call<'_>, descriptor: usize) -> Result<Option<Rc<OpenFile>>> {
        let number = number(call, descriptor)?;
        Ok(self.descriptors.find(call.thread, number).map(|descriptor| descriptor.file))
    }

    fn node(&mut self, call: &Call<'_>, descriptor: usize) -> Result<Option<Node>> {
        Ok(self.open_file(call, descriptor)?.and_then(|file| match file.target {
            Target::Node(node) => Some(node),
            Target::Marks => None,
        }))
    }
}

fn argument<'t>(call: &Call<'t>, at: usize) -> Result<&'t [u8]> {
    call.arguments.get(at).copied().with_context(|| format!("has no argument {at}"))
}

fn number(call: &Call<'_>, at: usize) -> Result<i64> {
    text::number(argument(call, at)?)
}

fn octal(argument: &[u8]) -> u32 {
    let digits = std::str::from_utf8(argument).unwrap_or_default();
    u32::from_str_radix(digits, 8).unwrap_or(0o644) & 0o7777
}
