//! Path references: how calls name a file or directory.

use std::{
    borrow::Cow,
    ffi::{OsStr, OsString},
    path::{Path, PathBuf},
};

use braid_types::FileIndex;
use braid_wire::message::types::PathRef;

/// A value that names a file or directory: a path (always from the root of the file system), a file
/// index, or a path from a directory.
///
/// ```
/// use braid_client::{FileIndex, PathRef, ToPathRef};
/// assert_eq!("/a/b".to_path_ref(), PathRef::root(b"a/b"));
/// let below = PathRef { dir: FileIndex(7), path: b"c".to_vec() };
/// assert_eq!((FileIndex(7), "c").to_path_ref(), below);
/// ```
pub trait ToPathRef {
    /// The path reference as it is sent.
    fn to_path_ref(&self) -> PathRef;
}

/// Paths are bytes. On Windows a backslash separates names, too.
fn from_root(path: &OsStr) -> PathRef {
    let bytes = path.as_encoded_bytes();
    let bytes = if cfg!(windows) {
        Cow::Owned(bytes.iter().map(|byte| if *byte == b'\\' { b'/' } else { *byte }).collect())
    } else {
        Cow::Borrowed(bytes)
    };
    let leading = bytes.iter().take_while(|byte| **byte == b'/').count();
    PathRef::root(&bytes[leading..])
}

macro_rules! paths {
    ($($path:ty),*) => {$(
        impl ToPathRef for $path {
            fn to_path_ref(&self) -> PathRef {
                from_root(self.as_ref())
            }
        }
    )*};
}
paths!(str, String, Path, PathBuf, OsStr, OsString);

impl ToPathRef for [u8] {
    fn to_path_ref(&self) -> PathRef {
        let leading = self.iter().take_while(|byte| **byte == b'/').count();
        PathRef::root(&self[leading..])
    }
}

impl ToPathRef for PathRef {
    fn to_path_ref(&self) -> PathRef {
        self.clone()
    }
}

impl ToPathRef for FileIndex {
    fn to_path_ref(&self) -> PathRef {
        PathRef::file(*self)
    }
}

impl<N: AsRef<[u8]>> ToPathRef for (FileIndex, N) {
    fn to_path_ref(&self) -> PathRef {
        PathRef { dir: self.0, path: self.1.as_ref().to_vec() }
    }
}

impl<T: ToPathRef + ?Sized> ToPathRef for &T {
    fn to_path_ref(&self) -> PathRef {
        (**self).to_path_ref()
    }
}
