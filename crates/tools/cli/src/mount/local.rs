//! The mounts of this host, as `braid status` shows them: how the requests of each come stands in a file beside the sockets of this
//! host's services, since the kernel's table of mounts cannot say it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use braid_fuse::kernel::mount::{MountEntry, entries};

/// Of root's mounts; those of others lie in their `XDG_RUNTIME_DIR`.
const OF_ROOT: &str = "/run";
/// Below it, files named after the mounts' devices.
const BELOW: &str = "braid/mounts";

/// A note of one mount, gone when dropped. One that a killed mount leaves is overwritten by the next mount with that device.
#[derive(Debug)]
pub struct Note(PathBuf);

impl Note {
    /// Makes it; a mount works without.
    pub fn write(entry: &MountEntry, transport: &str) -> io::Result<Self> {
        let root = rustix::process::geteuid().is_root();
        let dir = if root { Some(OF_ROOT.into()) } else { own_dir() }
            .ok_or(io::ErrorKind::NotFound)?
            .join(BELOW);
        fs::create_dir_all(&dir)?;
        let note = Self(dir.join(&entry.device));
        fs::write(&note.0, format!("{}\n", transport))?;
        Ok(note)
    }
}

impl Drop for Note {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

fn own_dir() -> Option<PathBuf> {
    std::env::var_os("XDG_RUNTIME_DIR").map(PathBuf::from)
}

/// Each mount of BraidFS that this namespace has, and how its requests come. Asks no mount: one that hangs does not hold it up.
pub fn mounts() -> Vec<(PathBuf, String)> {
    let dirs: Vec<PathBuf> = [Some(OF_ROOT.into()), own_dir()].into_iter().flatten().collect();
    let ours = entries()
        .unwrap_or_default()
        .into_iter()
        .filter(|entry| entry.is_ours() && entry.root == Path::new("/"));
    ours.map(|entry| {
        let note = dirs
            .iter()
            .find_map(|dir: &PathBuf| fs::read_to_string(dir.join(BELOW).join(&entry.device)).ok());
        (entry.point, note.map_or_else(|| "unknown".into(), |note| note.trim_end().to_owned()))
    })
    .collect()
}
