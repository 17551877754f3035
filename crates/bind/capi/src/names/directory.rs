//! Directory listings.

use std::{
    ffi::{c_char, c_int},
    sync::{Arc, Mutex, PoisonError},
};

use braid_client::{FileIndex, FileKind, Listing};

use crate::{
    cluster::Cluster,
    ffi::{
        Failure, call,
        pointers::{put, text},
        process,
        table::{self, DescriptorTarget},
    },
};

/// One entry of a directory. Listings do not have "." and "..".
#[repr(C)]
#[allow(non_camel_case_types)]
pub struct braid_dirent {
    /// The file index: st_ino.
    pub file: u64,
    /// Position after this entry, for braid_seekdir. It stays valid after a new braid_opendir.
    pub cookie: u64,
    /// The file type: one of DT_* of dirent.h.
    pub kind: u32,
    /// Length of the name, in bytes.
    pub name_bytes: u32,
    /// The name, ended by a zero byte.
    pub name: [c_char; 256],
}

/// An open directory listing.
pub(crate) struct Directory {
    pub(crate) cluster: Arc<Cluster>,
    pub(crate) index: FileIndex,
    listing: Mutex<Listing>,
}

/// As opendir(3). Returns a descriptor for braid_readdir and braid_closedir, or -1.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_opendir(cluster: c_int, path: *const c_char) -> c_int {
    call(|| {
        // SAFETY: the promise of C's caller, see `pointers`; also below.
        let (cluster, path) = (table::cluster(cluster)?, unsafe { text(path, "path") }?);
        let attributes = cluster.client.stat(path)?;
        if attributes.kind != FileKind::Directory {
            let shown = String::from_utf8_lossy(path);
            return Err(Failure::new(
                libc::ENOTDIR,
                format!("list {shown}: not a directory; try: braid_open"),
            ));
        }
        let listing = Mutex::new(cluster.client.read_dir_from(attributes.file, 0, false));
        let directory =
            Directory { cluster: Arc::clone(&cluster), index: attributes.file, listing };
        process::table().add(DescriptorTarget::Directory(Arc::new(directory)))
    })
}

/// Reads the next entry. Returns 1 and the entry, 0 at the end, -1 for a failure. A name that does
/// not change during the listing appears exactly once, whatever else changes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn braid_readdir(directory: c_int, entry: *mut braid_dirent) -> c_int {
    call(|| {
        let directory = table::directory(directory)?;
        let next = directory.listing.lock().unwrap_or_else(PoisonError::into_inner).next();
        let Some(found) = next.transpose()? else { return Ok(0) };
        let mut name = [0; 256];
        for (to, from) in name[..255].iter_mut().zip(&found.name) {
            *to = from.cast_signed() as c_char;
        }
        let name_bytes = found.name.len().min(255) as u32;
        let given = braid_dirent {
            file: found.file.0,
            cookie: found.cookie,
            kind: directory_type(found.kind),
            name_bytes,
            name,
        };
        // SAFETY: as above.
        unsafe { put(entry, given, "entry") }?;
        Ok(1)
    })
}

/// Continues the listing after the entry that had this cookie; 0 is the start.
#[unsafe(no_mangle)]
pub extern "C" fn braid_seekdir(directory: c_int, cookie: u64) -> c_int {
    call(|| {
        let directory = table::directory(directory)?;
        let listing = directory.cluster.client.read_dir_from(directory.index, cookie, false);
        *directory.listing.lock().unwrap_or_else(PoisonError::into_inner) = listing;
        Ok(0)
    })
}

/// As closedir(3).
#[unsafe(no_mangle)]
pub extern "C" fn braid_closedir(directory: c_int) -> c_int {
    call(|| table::take_directory(directory).map(|_| 0))
}

fn directory_type(kind: FileKind) -> u32 {
    let kind = match kind {
        FileKind::File => libc::DT_REG,
        FileKind::Directory => libc::DT_DIR,
        FileKind::Symlink => libc::DT_LNK,
        FileKind::Fifo => libc::DT_FIFO,
        FileKind::Socket => libc::DT_SOCK,
        FileKind::CharDevice => libc::DT_CHR,
        FileKind::BlockDevice => libc::DT_BLK,
        _ => libc::DT_UNKNOWN,
    };
    kind.into()
}
