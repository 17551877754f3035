//! `braid sync`.

use std::path::PathBuf;

use crate::{
    config::Settings,
    connect,
    output::{Fault, Printer},
};

/// Makes written data durable. Without paths, the servers do it for everything that they have
/// acknowledged. With paths, their mounts do it, including data that they buffer.
pub fn sync(
    paths: &[PathBuf],
    settings: impl FnOnce() -> Result<Settings, Fault>,
    out: Printer,
) -> Result<(), Fault> {
    if paths.is_empty() {
        connect::client(&settings()?)?.sync_all()?;
        out.hint(
            "everything that the servers had acknowledged is on disk; data that mounts still \
             buffer is not included",
        );
        out.next("braid sync POINT    (a mount point)");
    } else {
        mounts(paths, out)?;
        out.next("braid status");
    }
    if out.json {
        out.value(&serde_json::json!({ "synced": paths }));
    }
    Ok(())
}

#[cfg(target_os = "linux")]
fn mounts(paths: &[PathBuf], out: Printer) -> Result<(), Fault> {
    paths.iter().try_for_each(|path| {
        let point = mounted::point_of(path)?;
        mounted::sync(&point)?;
        out.hint(format!("everything written through {} is on disk", point.display()));
        Ok(())
    })
}

/// Only Linux has mounts.
#[cfg(not(target_os = "linux"))]
fn mounts(_: &[PathBuf], _: Printer) -> Result<(), Fault> {
    Err(Fault::usage("syncing a mount", "mounting needs Linux").hint("braid sync"))
}

#[cfg(target_os = "linux")]
mod mounted {
    use std::{
        fs::File,
        io,
        path::{Path, PathBuf},
    };

    use braid_fuse::kernel::mount::{MountEntry, entries};

    use crate::output::{Exit, Fault};

    /// The mount point of a path.
    pub fn point_of(path: &Path) -> Result<PathBuf, Fault> {
        let doing = || format!("syncing {}", path.display());
        let whole = path.canonicalize().map_err(|error| {
            let exit =
                if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
            Fault::new(exit, doing(), error.to_string()).hint("findmnt -t fuse.braid")
        })?;
        let table = entries().map_err(|error| Fault::failed(doing(), error))?;
        // The longest mount point; of several mounts on it the topmost.
        let on = table.into_iter().filter(|entry| whole.starts_with(&entry.point));
        let refused = |why| {
            Err(Fault::usage(doing(), why).hint("findmnt -t fuse.braid, or braid sync alone"))
        };
        match on.max_by_key(|entry| entry.point.as_os_str().len()) {
            Some(entry) if !entry.is_ours() => {
                refused("it is not on a mount of BraidFS".to_owned())
            }
            Some(MountEntry { point, root, .. }) if root == Path::new("/") => Ok(point),
            Some(entry) => {
                refused(format!("{} shows only a part of the file system", entry.point.display()))
            }
            None => refused("it is not on a mount that is visible from here".to_owned()),
        }
    }

    /// Syncs the mount with fsync on its root. Before that, the kernel writes back dirty pages of
    /// mappings, as far as it does.
    pub fn sync(point: &Path) -> Result<(), Fault> {
        let synced = File::open(point).and_then(|root| {
            rustix::fs::syncfs(&root)?;
            root.sync_all()
        });
        synced.map_err(|error| {
            Fault::failed(format!("syncing {}", point.display()), error)
                .hint("braid sync without a path, which names an unreachable server")
        })
    }
}
