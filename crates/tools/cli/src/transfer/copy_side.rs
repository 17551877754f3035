//! One side of a copy: the local file system or the cluster.

use braid_types::Timestamp;

use crate::output::Fault;

/// The type of an entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum EntryKind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// An entry that is not copied: a device, a socket, a pipe.
    Other,
}

/// The attributes of an entry that a copy preserves.
#[derive(Clone, Debug)]
pub struct EntryAttributes {
    /// Its type.
    pub kind: EntryKind,
    /// Size in bytes.
    pub bytes: u64,
    /// Bytes on disk; fewer than `bytes` for a sparse file.
    pub bytes_used: u64,
    /// Permission bits.
    pub mode: u32,
    /// Owner and group.
    pub owner: (u64, u64),
    /// Last read.
    pub atime: Timestamp,
    /// Last write.
    pub mtime: Timestamp,
    /// Identifies the file within its side, if it has several names.
    pub link_id: Option<(u64, u64)>,
}

impl EntryAttributes {
    /// Whether `other` has the same type, size and time, so that it counts as the same file.
    pub fn agrees_with(&self, other: &Self) -> bool {
        self.kind == other.kind && self.bytes == other.bytes && self.mtime == other.mtime
    }
}

/// A file open for reading.
pub trait Source: Send {
    /// Reads at an offset; fewer bytes than asked only at the end of the file.
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault>;
}

/// A file open for writing.
pub trait Sink: Send {
    /// Writes all of `bytes` at an offset.
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Fault>;
    /// Sets the size: the file may end in a hole, or an older one may have been longer.
    fn set_size(&mut self, bytes: u64) -> Result<(), Fault>;
    /// Closes the file, after forcing it to disk if `sync`. Reports errors of buffered writes.
    fn close(self: Box<Self>, sync: bool) -> Result<(), Fault>;
}

/// One side of a copy. Paths are bytes with `/` between components.
pub trait CopySide: Sync {
    /// The command that lists a directory of this side.
    const LIST_COMMAND: &'static str;
    /// Attributes; `None` if the path does not exist. Does not follow a final symbolic link.
    fn attributes(&self, path: &[u8]) -> Result<Option<EntryAttributes>, Fault>;
    /// Whether a path leads to a directory, also through symbolic links.
    fn is_directory(&self, path: &[u8]) -> Result<bool, Fault>;
    /// Names in a directory.
    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Fault>;
    /// Opens a file to read.
    fn open(&self, path: &[u8]) -> Result<Box<dyn Source>, Fault>;
    /// Opens a file to write, and creates it with `mode` if it does not exist. Keeps its contents
    /// if `keep`. Also returns whether it was created.
    fn create(&self, path: &[u8], mode: u32, keep: bool) -> Result<(Box<dyn Sink>, bool), Fault>;
    /// Removes a file.
    fn remove(&self, path: &[u8]) -> Result<(), Fault>;
    /// Creates a directory; an existing one is no error.
    fn make_directory(&self, path: &[u8]) -> Result<(), Fault>;
    /// Target of a symbolic link.
    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Fault>;
    /// Creates a symbolic link, and replaces an older entry.
    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Fault>;
    /// Creates a hard link, and replaces an older entry.
    fn hard_link(&self, existing: &[u8], path: &[u8]) -> Result<(), Fault>;
    /// Sets mode, times, and owner if `owner`. Symbolic links get only the attributes that they can
    /// have.
    fn set_attributes(&self, path: &[u8], meta: &EntryAttributes, owner: bool)
    -> Result<(), Fault>;
    /// Whether both paths name the same file on this side. Copying a file onto itself would lose
    /// it.
    fn same_file(&self, a: &[u8], b: &[u8]) -> bool;
}

/// `directory/name`.
pub fn join(directory: &[u8], name: &[u8]) -> Vec<u8> {
    let mut path = directory.to_vec();
    if !path.ends_with(b"/") && !path.is_empty() {
        path.push(b'/');
    }
    path.extend_from_slice(name);
    path
}

/// The last component of a path; empty for `/`.
pub fn file_name(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    let start = path[..end].iter().rposition(|b| *b == b'/').map_or(0, |at| at + 1);
    &path[start..end]
}

/// The parent directory of a path.
pub fn above(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    match path[..end].iter().rposition(|b| *b == b'/') {
        Some(0) => b"/",
        Some(slash) => &path[..slash],
        None if path.starts_with(b"/") => b"/",
        None => b".",
    }
}

/// A path as text.
pub fn show(path: &[u8]) -> String {
    String::from_utf8_lossy(path).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_joined_and_taken_apart() {
        assert_eq!(join(b"/", b"a"), b"/a");
        assert_eq!(join(b"/a", b"b"), b"/a/b");
        assert_eq!(file_name(b"/a/b/"), b"b");
        assert_eq!(file_name(b"/"), b"");
        assert_eq!(file_name(b"x"), b"x");
        for (path, directory) in
            [("/", "/"), ("/a", "/"), ("/a/b/", "/a"), ("a/b", "a"), ("x", ".")]
        {
            assert_eq!(show(above(path.as_bytes())), directory, "{path}");
        }
    }
}
