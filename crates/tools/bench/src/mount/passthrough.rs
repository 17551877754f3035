//! What FUSE itself costs: libfuse's examples over a local directory, as Debian has their source. `passthrough` finds everything by its
//! path and has the kernel remember nothing; `passthrough_ll` with `cache=always` has it remember all for a day.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{
    shell::{need, sh},
    subject,
};
use crate::cleanup::Cleanup;

const SOURCES: &str = "/usr/share/doc/libfuse3-dev/examples";

const BUILD: &str = r#"
mkdir -p "$1/mount" "$1/below"
cc -O2 -D_FILE_OFFSET_BITS=64 "$2" $(pkg-config --cflags --libs fuse3) -o "$1/example"
"#;

/// Which of them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Example {
    Passthrough,
    PassthroughLl,
}

impl Example {
    /// Its name in the report, and that of its source.
    pub fn name(self) -> &'static str {
        match self {
            Self::Passthrough => subject::PASSTHROUGH,
            Self::PassthroughLl => subject::PASSTHROUGH_LL,
        }
    }

    fn mount(self) -> &'static str {
        match self {
            Self::Passthrough => r#""$1/example" -o "modules=subdir,subdir=$1/below" "$1/mount""#,
            Self::PassthroughLl => r#""$1/example" -o "source=$1/below,cache=always" "$1/mount""#,
        }
    }
}

/// A mount of one. Dropping it unmounts it.
pub struct Passthrough {
    example: Example,
    dir: PathBuf,
    _cleanup: Cleanup,
}

impl Passthrough {
    /// Builds it, with what is missing installed, and mounts it in a new directory.
    pub fn start(dir: &Path, example: Example) -> Result<Self> {
        let source = format!("{SOURCES}/{}.c", example.name());
        need("cc", &["gcc", "libc6-dev"])?;
        need("pkg-config", &["pkg-config"])?;
        need(&source, &["libfuse3-dev", "fuse3"])?;
        fs::create_dir_all(dir)?;
        let cleanup = Cleanup::new("umount -l \"$1/mount\"", &[&dir.display().to_string()])?;
        let passthrough = Self { example, dir: dir.to_owned(), _cleanup: cleanup };
        sh(BUILD, &[&passthrough.show(), &source]).with_context(|| format!("building libfuse's {}", example.name()))?;
        sh(example.mount(), &[&passthrough.show()]).context("mounting it")?;
        Ok(passthrough)
    }

    /// Which it is.
    pub fn example(&self) -> Example {
        self.example
    }

    /// Where it is mounted.
    pub fn point(&self) -> PathBuf {
        self.dir.join("mount")
    }

    /// A new client.
    pub fn remount(&self) -> Result<()> {
        sh(&format!("umount \"$1/mount\"; {}", self.example.mount()), &[&self.show()]).map(drop)
    }

    fn show(&self) -> String {
        self.dir.display().to_string()
    }
}
