//! The mounts of this host, for `braid status`. A file per mount records how its requests arrive,
//! since the mount table of the kernel cannot show it. The files are beside the sockets of this
//! host's services.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use braid_fuse::kernel::mount::{MountEntry, entries};

/// Directory for mounts of root; those of other users are in their `XDG_RUNTIME_DIR`.
const ROOT_DIR: &str = "/run";
/// The directory below it; each file has the name of a mount's device.
const RECORDS_DIR: &str = "braid/mounts";

/// The record of one mount, removed when it is dropped. If a killed mount leaves one, the next
/// mount with that device overwrites it.
#[derive(Debug)]
pub struct MountRecord(PathBuf);

impl MountRecord {
    /// Writes the record. A mount works without it.
    pub fn write(entry: &MountEntry, transport: &str) -> io::Result<Self> {
        let root = rustix::process::geteuid().is_root();
        let dir = if root { Some(ROOT_DIR.into()) } else { own_dir() }
            .ok_or(io::ErrorKind::NotFound)?
            .join(RECORDS_DIR);
        fs::create_dir_all(&dir)?;
        let note = Self(dir.join(&entry.device));
        fs::write(&note.0, format!("{}\n", transport))?;
        Ok(note)
    }
}

impl Drop for MountRecord {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn own_dir() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
}

/// All BraidFS mounts of this mount namespace, and how their requests arrive. It makes no call to a
/// mount, so that a hanging mount cannot block it.
pub fn mounts() -> Vec<(PathBuf, String)> {
    let dirs: Vec<PathBuf> = [Some(ROOT_DIR.into()), own_dir()].into_iter().flatten().collect();
    let ours = entries()
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| entry.is_ours() && entry.root == Path::new("/"));
    ours.map(|entry| {
        let note = dirs.iter().find_map(|dir: &PathBuf| {
            fs::read_to_string(dir.join(RECORDS_DIR).join(&entry.device)).ok()
        });
        (entry.point, note.map_or_else(|| "unknown".into(), |note| note.trim_end().to_owned()))
    })
    .collect()
}
