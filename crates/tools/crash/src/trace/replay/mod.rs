//! Turns calls into a history: finds the descriptor, the path and the offset of each call.
//!
//! `opens` tracks descriptors, `contents` and `names` make changes, `paths` finds the node of an
//! argument.

mod contents;
mod names;
mod opens;
mod paths;

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

/// LMDB's table of readers, a writable shared mapping. It describes live processes and is useless
/// after a restart.
pub(crate) const READERS_TABLE: &str = "lock.mdb";
/// Larger files are not recorded: the whole content is held in memory.
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
        replay.descriptors.thread_started(call.thread, calls.parents.get(&call.thread).copied());
        let outcome = match step {
            Step::Enter(_) => replay.enter(index, call),
            Step::Leave(_) => {
                call.returned.map_or(Ok(()), |returned| replay.leave(index, call, returned))
            }
        };
        outcome.with_context(|| format!("{} of thread {}", call.name, call.thread))?;
    }
    Ok(replay.history)
}

struct Replay {
    root: PathBuf,
    marks: PathBuf,
    history: History,
    /// Everything so far, as the processes see it.
    tree: Tree,
    descriptors: Descriptors,
    /// Syncs in progress, and what they cover.
    syncs: HashMap<usize, (Synced, usize)>,
}

/// A path below the root, as given by a call: the directory and the last name.
struct NameLocation {
    directory: Node,
    name: Vec<u8>,
}

impl Replay {
    // ---- effects at the entry: a descriptor is free before `close` returns; a mark precedes its
    // write

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
            "setxattr" | "lsetxattr" | "fsetxattr" | "removexattr" | "lremovexattr"
            | "fremovexattr" => self.attribute(call),
            "chmod" | "fchmod" | "fchmodat" => self.mode(call),
            "mmap" => self.map(call),
            "io_uring_setup" => {
                bail!("io_uring: its writes are not system calls and cannot be recorded")
            }
            "execve" => {
                self.descriptors.executed(call.thread);
                Ok(())
            }
            "clone" | "clone3" | "fork" | "vfork" | "close" | "close_range" | "chdir" => Ok(()),
            _ => self.names(call),
        }
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
