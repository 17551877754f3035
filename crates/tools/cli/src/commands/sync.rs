//! `braid sync`.

use std::path::PathBuf;

use crate::{
    config::Settings,
    connect,
    output::{Fault, Printer},
};

/// Without paths, by the servers: all that they have acknowledged. With them, by the mounts that they are on, of which what
/// they gather is in it.
pub fn sync(
    paths: &[PathBuf],
    settings: impl FnOnce() -> Result<Settings, Fault>,
    out: Printer,
) -> Result<(), Fault> {
    if paths.is_empty() {
        connect::client(&settings()?)?.sync_all()?;
        out.hint("all that the servers had acknowledged is on disk; what mounts still gather is not among it");
        out.next("braid sync POINT, of a mount");
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

/// FUSE is Linux's.
#[cfg(not(target_os = "linux"))]
fn mounts(_: &[PathBuf], _: Printer) -> Result<(), Fault> {
    Err(Fault::usage("syncing a mount", "a mount needs Linux").hint("braid sync"))
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

    /// Where the mount is that a path is on.
    pub fn point_of(path: &Path) -> Result<PathBuf, Fault> {
        let doing = || format!("syncing {}", path.display());
        let whole = path.canonicalize().map_err(|error| {
            let exit =
                if error.kind() == io::ErrorKind::NotFound { Exit::NotFound } else { Exit::Failed };
            Fault::new(exit, doing(), error.to_string()).hint("findmnt -t fuse.braid")
        })?;
        let table = entries().map_err(|error| Fault::failed(doing(), error))?;
        // The longest, and of several in one place the uppermost.
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
                refused(format!("{} shows a part of the file system alone", entry.point.display()))
            }
            None => refused("it is on no mount that is seen from here".to_owned()),
        }
    }

    /// An fsync of the root; before it the kernel hands over what was stored through mappings, as far as it does.
    pub fn sync(point: &Path) -> Result<(), Fault> {
        let synced = File::open(point).and_then(|root| {
            rustix::fs::syncfs(&root)?;
            root.sync_all()
        });
        synced.map_err(|error| {
            Fault::failed(format!("syncing {}", point.display()), error)
                .hint("braid sync alone, which names a server that is away; the log of the mount says why")
        })
    }
}
