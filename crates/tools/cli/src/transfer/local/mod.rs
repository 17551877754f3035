//! The local file system as a side of a copy.

#[cfg(unix)]
#[path = "unix.rs"]
mod system;
#[cfg(windows)]
#[path = "windows.rs"]
mod system;

use std::{
    fs::{self, File, FileTimes},
    io,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use braid_types::Timestamp;

use crate::{
    output::{Exit, Fault},
    transfer::copy_side::{CopySide, EntryAttributes, EntryKind, Sink, Source, show},
};

use system::path;

/// The local file system.
pub struct Local;

/// An error about a local file.
fn fault(what: &str, at: &[u8], error: &io::Error) -> Fault {
    let exit = match error.kind() {
        io::ErrorKind::NotFound => Exit::NotFound,
        io::ErrorKind::PermissionDenied => Exit::Refused,
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Exit::NoSpace,
        _ => Exit::Failed,
    };
    Fault::new(exit, format!("{what} {} here", show(at)), error.to_string())
}

impl CopySide for Local {
    const LIST_COMMAND: &'static str = "ls -l";

    fn attributes(&self, at: &[u8]) -> Result<Option<EntryAttributes>, Fault> {
        match path(at).and_then(fs::symlink_metadata) {
            Ok(found) => Ok(Some(meta_of(&found))),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(fault("reading the attributes of", at, &e)),
        }
    }

    fn is_directory(&self, at: &[u8]) -> Result<bool, Fault> {
        Ok(path(at).is_ok_and(std::path::Path::is_dir))
    }

    fn names(&self, at: &[u8]) -> Result<Vec<Vec<u8>>, Fault> {
        let names = |dir: fs::ReadDir| {
            dir.map(|entry| entry.and_then(|e| system::bytes(e.file_name()))).collect()
        };
        path(at).and_then(fs::read_dir).and_then(names).map_err(|e| fault("listing", at, &e))
    }

    fn open(&self, at: &[u8]) -> Result<Box<dyn Source>, Fault> {
        let file = path(at).and_then(File::open).map_err(|e| fault("opening", at, &e))?;
        Ok(Box::new(LocalFile { file, path: at.to_vec() }))
    }

    fn create(&self, at: &[u8], mode: u32, keep: bool) -> Result<(Box<dyn Sink>, bool), Fault> {
        let open = |options: &mut fs::OpenOptions| path(at).and_then(|path| options.open(path));
        let (file, made) = match open(system::writing(mode).create_new(true)) {
            Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {
                (open(system::writing(mode).create(true).truncate(!keep)), false)
            }
            opened => (opened, true),
        };
        let file = file.map_err(|e| fault("writing", at, &e))?;
        Ok((Box::new(LocalFile { file, path: at.to_vec() }), made))
    }

    fn remove(&self, at: &[u8]) -> Result<(), Fault> {
        path(at).and_then(fs::remove_file).map_err(|e| fault("removing", at, &e))
    }

    fn make_directory(&self, at: &[u8]) -> Result<(), Fault> {
        match path(at).and_then(fs::create_dir) {
            Err(_) if self.is_directory(at)? => Ok(()),
            outcome => outcome.map_err(|e| fault("creating directory", at, &e)),
        }
    }

    fn read_link(&self, at: &[u8]) -> Result<Vec<u8>, Fault> {
        let target = path(at)
            .and_then(fs::read_link)
            .and_then(|target| system::bytes(target.into_os_string()));
        target.map_err(|e| fault("reading link", at, &e))
    }

    fn symlink(&self, target: &[u8], at: &[u8]) -> Result<(), Fault> {
        replace(at)?;
        path(target)
            .and_then(|target| system::symlink(target, path(at)?))
            .map_err(|e| fault("creating link", at, &e))
    }

    fn hard_link(&self, existing: &[u8], at: &[u8]) -> Result<(), Fault> {
        replace(at)?;
        path(existing)
            .and_then(|existing| fs::hard_link(existing, path(at)?))
            .map_err(|e| fault("creating link", at, &e))
    }

    fn set_attributes(&self, at: &[u8], meta: &EntryAttributes, owner: bool) -> Result<(), Fault> {
        let fail = |e: io::Error| fault("setting attributes of", at, &e);
        if self.attributes(at)?.is_some_and(|there| there.kind == EntryKind::Other) {
            return Ok(()); // a copy to /dev/null does not change /dev/null
        }
        if owner {
            path(at).and_then(|path| system::set_owner(path, meta.owner)).map_err(fail)?;
        }
        if meta.kind == EntryKind::Symlink {
            return Ok(());
        }
        let times = FileTimes::new()
            .set_accessed(system_time(meta.atime))
            .set_modified(system_time(meta.mtime));
        let set_mode = || path(at).and_then(|path| system::set_mode(path, meta.mode & 0o7777));
        if system::TIMES_BEFORE_MODE {
            path(at).and_then(|path| system::set_times(path, times)).map_err(fail)?;
            return set_mode().map_err(fail);
        }
        set_mode().map_err(fail)?;
        path(at).and_then(|path| system::set_times(path, times)).or_else(|e| {
            // A file whose own mode forbids reading keeps the time of the copy.
            if e.kind() == io::ErrorKind::PermissionDenied { Ok(()) } else { Err(fail(e)) }
        })
    }

    fn same_file(&self, _: &[u8], _: &[u8]) -> bool {
        false // the other side of a local path is always the cluster
    }
}

/// Removes an older file or link, never a directory.
fn replace(at: &[u8]) -> Result<(), Fault> {
    match path(at).and_then(fs::remove_file) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(fault("replacing", at, &e)),
        _ => Ok(()),
    }
}

fn meta_of(found: &fs::Metadata) -> EntryAttributes {
    let kind = match found.file_type() {
        t if t.is_file() => EntryKind::File,
        t if t.is_dir() => EntryKind::Directory,
        t if t.is_symlink() => EntryKind::Symlink,
        _ => EntryKind::Other,
    };
    EntryAttributes { kind, bytes: found.len(), ..system::facts(found, kind) }
}

fn system_time(time: Timestamp) -> SystemTime {
    let nanos = Duration::from_nanos(u64::from(time.nanos));
    match u64::try_from(time.seconds) {
        Ok(seconds) => UNIX_EPOCH + Duration::from_secs(seconds) + nanos,
        Err(_) => UNIX_EPOCH - Duration::from_secs(time.seconds.unsigned_abs()) + nanos,
    }
}

struct LocalFile {
    file: File,
    path: Vec<u8>,
}

impl Source for LocalFile {
    fn read_at(&mut self, offset: u64, buffer: &mut [u8]) -> Result<usize, Fault> {
        let mut filled = 0;
        while filled < buffer.len() {
            match system::read_at(&self.file, &mut buffer[filled..], offset + filled as u64) {
                Ok(0) => break,
                Ok(n) => filled += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => return Err(fault("reading", &self.path, &e)),
            }
        }
        Ok(filled)
    }
}

impl Sink for LocalFile {
    fn write_at(&mut self, offset: u64, bytes: &[u8]) -> Result<(), Fault> {
        system::write_all_at(&self.file, bytes, offset)
            .map_err(|e| fault("writing", &self.path, &e))
    }

    fn set_size(&mut self, bytes: u64) -> Result<(), Fault> {
        self.file.set_len(bytes).map_err(|e| fault("writing", &self.path, &e))
    }

    fn close(self: Box<Self>, sync: bool) -> Result<(), Fault> {
        if sync {
            self.file.sync_all().map_err(|e| fault("syncing", &self.path, &e))
        } else {
            Ok(())
        }
    }
}

#[cfg(all(test, unix))]
mod tests {
    use std::os::unix::{ffi::OsStrExt, fs::PermissionsExt};

    use super::*;

    #[test]
    fn a_device_or_pipe_that_is_copied_to_keeps_its_mode() {
        let dir = tempfile::tempdir().unwrap();
        let pipe = dir.path().join("pipe");
        assert!(
            std::process::Command::new("mkfifo")
                .args(["-m", "622"])
                .arg(&pipe)
                .status()
                .unwrap()
                .success()
        );
        let file = dir.path().join("file");
        fs::write(&file, "x").unwrap();
        let meta = Local.attributes(file.as_os_str().as_bytes()).unwrap().unwrap();
        for at in [&pipe, &file] {
            Local
                .set_attributes(
                    at.as_os_str().as_bytes(),
                    &EntryAttributes { mode: 0o640, ..meta.clone() },
                    false,
                )
                .unwrap();
        }
        let mode = |at: &std::path::Path| fs::metadata(at).unwrap().permissions().mode() & 0o777;
        assert_eq!((mode(&pipe), mode(&file)), (0o622, 0o640));
    }
}
