//! The state of a file between its disk and the cluster, and the last step: an object belongs to
//! its daemon alone.

use std::{
    fs::{self, File},
    os::unix::fs::{MetadataExt, PermissionsExt},
};

use braid_store::{AdoptingDirectory, ObjectRecord};
use rustix::fs::{Mode, OFlags};

use crate::{Disk, JoinError, OBJECTS_DIRECTORY, error::errno};

/// The record of a file that is an object already. A record alone proves nothing: any user can
/// write one.
pub(crate) fn object_of(disk: &Disk, file: &File) -> Option<ObjectRecord> {
    let record = AdoptingDirectory::record_of(file).ok()??;
    disk.objects.has(record.id, file).ok()?.then_some(record)
}

/// Seals the objects that an interrupted join left as they were.
pub(crate) fn seal_all(disk: &Disk) -> Result<(), JoinError> {
    let objects = disk.path.join(OBJECTS_DIRECTORY).join("objects");
    let failed = |error: std::io::Error| JoinError::Io {
        what: format!("reading {}", objects.display()),
        source: errno(&error),
    };
    let owner = fs::metadata(&objects).map_err(failed)?.uid();
    for directory in fs::read_dir(&objects).map_err(failed)? {
        for object in fs::read_dir(directory.map_err(failed)?.path()).map_err(failed)? {
            let object = object.map_err(failed)?;
            let Ok(found) = object.metadata() else { continue };
            let sealed = found.uid() == owner && found.permissions().mode() & 0o7777 == 0o600;
            if !sealed && found.is_file() && found.nlink() == 1 {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                let file = rustix::fs::open(object.path(), flags, Mode::empty());
                let sealed = file.map(|file| disk.objects.seal(&File::from(file)));
                sealed.map_err(JoinError::io("opening an object"))?.map_err(failed)?;
            }
        }
    }
    Ok(())
}
