//! One side of a copy: the local file system or the cluster.

use braid_types::Timestamp;

use crate::output::Fault;

/// What an entry is, for copying.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Regular file.
    File,
    /// Directory.
    Directory,
    /// Symbolic link.
    Symlink,
    /// Something that is not copied: a device, a socket, a pipe.
    Other,
}

/// What is kept of an entry.
#[derive(Clone, Debug)]
pub struct Meta {
    /// What it is.
    pub kind: Kind,
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
    /// Names the file within its side when it has several names.
    pub link_id: Option<(u64, u64)>,
}

impl Meta {
    /// Whether a copy with `other`'s size and time is this file already.
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
    /// Closes; forces the file to disk first where asked. Errors of writes that were gathered come here.
    fn close(self: Box<Self>, sync: bool) -> Result<(), Fault>;
}

/// One side of a copy. Paths are bytes with `/` between components.
pub trait Side: Sync {
    /// The command that lists a directory of this side.
    const LIST: &'static str;
    /// Attributes; `None` when nothing is there. A final symbolic link is not followed.
    fn meta(&self, path: &[u8]) -> Result<Option<Meta>, Fault>;
    /// Whether a path leads to a directory, also through symbolic links.
    fn is_directory(&self, path: &[u8]) -> Result<bool, Fault>;
    /// Names in a directory.
    fn names(&self, path: &[u8]) -> Result<Vec<Vec<u8>>, Fault>;
    /// Opens a file to read.
    fn open(&self, path: &[u8]) -> Result<Box<dyn Source>, Fault>;
    /// Opens a file to write, made with `mode` when it is not there; what it holds stays when `keep`. Tells whether it was made.
    fn create(&self, path: &[u8], mode: u32, keep: bool) -> Result<(Box<dyn Sink>, bool), Fault>;
    /// Removes a file.
    fn remove(&self, path: &[u8]) -> Result<(), Fault>;
    /// Makes a directory; no error when it exists.
    fn make_directory(&self, path: &[u8]) -> Result<(), Fault>;
    /// Target of a symbolic link.
    fn read_link(&self, path: &[u8]) -> Result<Vec<u8>, Fault>;
    /// Makes a symbolic link, in place of an older one.
    fn symlink(&self, target: &[u8], path: &[u8]) -> Result<(), Fault>;
    /// Makes a hard link, in place of an older name.
    fn hard_link(&self, existing: &[u8], path: &[u8]) -> Result<(), Fault>;
    /// Sets mode, times, and owner where asked. Symbolic links get only what they can have.
    fn set_meta(&self, path: &[u8], meta: &Meta, owner: bool) -> Result<(), Fault>;
    /// Whether both paths name the same file on this side; copying it onto itself would lose it.
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

/// The directory that a path is in.
pub fn above(path: &[u8]) -> &[u8] {
    let end = path.iter().rposition(|b| *b != b'/').map_or(0, |at| at + 1);
    match path[..end].iter().rposition(|b| *b == b'/') {
        Some(0) => b"/",
        Some(slash) => &path[..slash],
        None if path.starts_with(b"/") => b"/",
        None => b".",
    }
}

/// A path for people.
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
