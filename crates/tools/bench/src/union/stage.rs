//! File systems in image files, mounted side by side.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use braid_testbed::{cleanup::Cleanup, programs::need, shell::sh};

/// Of each image. Images are sparse: only what is written takes space.
const IMAGE_SIZE: &str = "6G";

const EXT4: &str = "mkfs.ext4 -q -F -E nodiscard \"$1\"";
const XFS: &str = "mkfs.xfs -q -f -K \"$1\"";
const MOUNT: &str = r#"mkdir -p "$2"; mount -o "loop$3" "$1" "$2""#;
const UNMOUNT: &str = r#"
for disk in "$1"/disk*; do test -d "$disk" && umount -l "$disk"; done
rm -rf --one-file-system "$1"
"#;

/// The file system of the branches.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum DiskKind {
    Ext4,
    Xfs,
}

impl DiskKind {
    pub const ALL: [Self; 2] = [Self::Ext4, Self::Xfs];

    fn name(self) -> &'static str {
        match self {
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    fn make(self, image: &str) -> Result<()> {
        match self {
            Self::Ext4 => {
                need("mkfs.ext4", &["e2fsprogs"])?;
                sh(EXT4, &[image])?;
            }
            Self::Xfs => {
                need("mkfs.xfs", &["xfsprogs"])?;
                sh(XFS, &[image])?;
            }
        }
        Ok(())
    }
}

/// The mounted disks. Dropping it unmounts and removes them.
pub struct Stage {
    dir: PathBuf,
    kind: DiskKind,
    disks: Vec<PathBuf>,
    _cleanup: Cleanup,
}

impl Stage {
    /// Makes and mounts `count` disks below `parent` (needs root).
    pub fn mount(parent: &Path, kind: DiskKind, count: usize) -> Result<Self> {
        let dir = parent.join(format!("{}x{count}", kind.name()));
        std::fs::create_dir(&dir)?;
        let cleanup = Cleanup::new(UNMOUNT, &[&shown(&dir)])?;
        // Inode tables are not initialised in the background of a measurement.
        let options = if kind == DiskKind::Ext4 { ",noinit_itable" } else { "" };
        let mut disks = Vec::new();
        for number in 0..count {
            let image = shown(&dir.join(format!("{number}.image")));
            let disk = dir.join(format!("disk{number}"));
            sh("truncate -s \"$2\" \"$1\"", &[&image, IMAGE_SIZE])?;
            kind.make(&image)?;
            sh(MOUNT, &[&image, &shown(&disk), options])
                .with_context(|| format!("mounting {image}; it needs root and loop devices"))?;
            disks.push(disk);
        }
        Ok(Self { dir, kind, disks, _cleanup: cleanup })
    }

    /// `ext4x8`.
    pub fn name(&self) -> String {
        format!("{}x{}", self.kind.name(), self.disks.len())
    }

    /// A directory for mount points.
    pub fn dir(&self) -> &Path {
        &self.dir
    }

    /// The mount points of the disks.
    pub fn disks(&self) -> &[PathBuf] {
        &self.disks
    }

    /// A new directory of this name on each disk.
    pub fn branches(&self, name: &str) -> Result<Vec<String>> {
        let make = |disk: &PathBuf| {
            let branch = disk.join(name);
            std::fs::create_dir(&branch)?;
            Ok(shown(&branch))
        };
        self.disks.iter().map(make).collect()
    }
}

/// A path as an argument of a script.
pub fn shown(path: &Path) -> String {
    path.display().to_string()
}
