//! The cost of FUSE itself: libfuse's examples over a local directory, from Debian's source.
//! `passthrough` finds everything by its path and lets the kernel cache nothing; `passthrough_ll`
//! with `cache=always` lets it cache everything for a day. The first one over io_uring needs a
//! newer version than Debian's, which the user builds.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use braid_testbed::{cleanup::Cleanup, programs::need, shell::sh};

use super::subject;

const SOURCES: &str = "/usr/share/doc/libfuse3-dev/examples";

const BUILD: &str = r#"
mkdir -p "$1/mount" "$1/below"
cc -O2 -D_FILE_OFFSET_BITS=64 "$2" $(pkg-config --cflags --libs fuse3) -o "$1/example"
"#;

/// libfuse falls back on `/dev/fuse` without an error, so the script checks for rings.
const MOUNT_URING: &str = r#"
"$1/example" -o "modules=subdir,subdir=$1/below" -o io_uring "$1/mount"
ls "$1/mount" > /dev/null
for process in /proc/[0-9]*; do
  tr '\0' '\n' < "$process/cmdline" 2>/dev/null | grep -qxF "$1/mount" || continue
  ls -l "$process/fd" 2>/dev/null | grep -qF 'anon_inode:[io_uring]' && exit 0
done
echo "the mount does not use io_uring" >&2; exit 1
"#;

/// The examples.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Example {
    Passthrough,
    PassthroughLl,
    PassthroughUring,
}

impl Example {
    /// Its name in the report; for those built here also the name of the source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passthrough => subject::PASSTHROUGH,
            Self::PassthroughLl => subject::PASSTHROUGH_LL,
            Self::PassthroughUring => subject::PASSTHROUGH_URING,
        }
    }

    fn mount(self) -> &'static str {
        match self {
            Self::Passthrough => r#""$1/example" -o "modules=subdir,subdir=$1/below" "$1/mount""#,
            Self::PassthroughLl => r#""$1/example" -o "source=$1/below,cache=always" "$1/mount""#,
            Self::PassthroughUring => MOUNT_URING,
        }
    }
}

/// A mount of an example. Dropping it unmounts it.
pub struct Passthrough {
    example: Example,
    dir: PathBuf,
    _cleanup: Cleanup,
}

impl Passthrough {
    /// Builds it, installs missing packages, and mounts it in a new directory.
    pub fn start(dir: &Path, example: Example) -> Result<Self> {
        let source = format!("{SOURCES}/{}.c", example.name());
        need("cc", &["gcc", "libc6-dev"])?;
        need("pkg-config", &["pkg-config"])?;
        need(&source, &["libfuse3-dev", "fuse3"])?;
        fs::create_dir_all(dir)?;
        let cleanup = Cleanup::new("umount -l \"$1/mount\"", &[&dir.display().to_string()])?;
        let passthrough = Self { example, dir: dir.to_owned(), _cleanup: cleanup };
        sh(BUILD, &[&passthrough.show(), &source])
            .with_context(|| format!("build libfuse's {}", example.name()))?;
        sh(example.mount(), &[&passthrough.show()]).context("mounting it")?;
        Ok(passthrough)
    }

    /// Mounts the first example, which the user built with io_uring, in a new directory.
    pub fn start_built(dir: &Path, program: &Path) -> Result<Self> {
        let program =
            fs::canonicalize(program).with_context(|| format!("find {}", program.display()))?;
        fs::create_dir_all(dir.join("mount"))?;
        fs::create_dir_all(dir.join("below"))?;
        std::os::unix::fs::symlink(&program, dir.join("example"))?;
        let cleanup = Cleanup::new("umount -l \"$1/mount\"", &[&dir.display().to_string()])?;
        let passthrough =
            Self { example: Example::PassthroughUring, dir: dir.to_owned(), _cleanup: cleanup };
        sh(passthrough.example.mount(), &[&passthrough.show()]).context("mounting it")?;
        Ok(passthrough)
    }

    /// The example.
    pub fn example(&self) -> Example {
        self.example
    }

    /// The mount point.
    pub fn point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// Mounts it again: a client with a cold cache.
    pub fn remount(&self) -> Result<()> {
        sh(&format!("umount \"$1/mount\"; {}", self.example.mount()), &[&self.show()]).map(drop)
    }

    fn show(&self) -> String {
        self.dir.display().to_string()
    }
}
