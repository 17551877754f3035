//! What FUSE itself costs: libfuse's example `passthrough` over a local directory, as Debian has its source.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::shell::{need, sh};
use crate::cleanup::Cleanup;

const SOURCE: &str = "/usr/share/doc/libfuse3-dev/examples/passthrough.c";

const BUILD: &str = r#"
mkdir -p "$1/mount" "$1/below"
cc -O2 -Wall -D_FILE_OFFSET_BITS=64 "$2" $(pkg-config --cflags --libs fuse3) -o "$1/passthrough"
"#;

const MOUNT: &str = r#""$1/passthrough" -o "modules=subdir,subdir=$1/below" "$1/mount""#;

/// A mount of it. Dropping it unmounts it.
pub struct Passthrough {
    dir: PathBuf,
    _cleanup: Cleanup,
}

impl Passthrough {
    /// Builds it, with what is missing installed, and mounts it in a new directory.
    pub fn start(dir: &Path) -> Result<Self> {
        need("cc", &["gcc", "libc6-dev"])?;
        need("pkg-config", &["pkg-config"])?;
        need(SOURCE, &["libfuse3-dev", "fuse3"])?;
        fs::create_dir_all(dir)?;
        let cleanup = Cleanup::new("umount -l \"$1/mount\"", &[&dir.display().to_string()])?;
        let passthrough = Self { dir: dir.to_owned(), _cleanup: cleanup };
        sh(BUILD, &[&passthrough.show(), SOURCE]).context("building libfuse's passthrough")?;
        sh(MOUNT, &[&passthrough.show()]).context("mounting it")?;
        Ok(passthrough)
    }

    /// Where it is mounted.
    pub fn point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// A new client.
    pub fn remount(&self) -> Result<()> {
        sh(&format!("umount \"$1/mount\"; {MOUNT}"), &[&self.show()]).map(drop)
    }

    fn show(&self) -> String {
        self.dir.display().to_string()
    }
}
