//! `--name value` pairs of the two programs.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, bail};

/// What was given.
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Reads the command line; a name that is not among `known` is an error.
    pub fn read(known: &[&str]) -> Result<Self> {
        let mut given = BTreeMap::new();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").filter(|name| known.contains(name));
            let Some(name) = name else {
                bail!("`{word}` is not known; try: --{}", known.join(" --"))
            };
            given.insert(
                name.to_owned(),
                words.next().with_context(|| format!("{word} wants a value"))?,
            );
        }
        Ok(Self(given))
    }

    /// As it was given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A number, or what stands for it.
    pub fn number(&self, name: &str, otherwise: u64) -> Result<u64> {
        let Some(text) = self.text(name) else { return Ok(otherwise) };
        text.parse().with_context(|| format!("--{name} {text} is not a number"))
    }

    /// A new directory for everything of a run: `--dir`, or one in memory, else on the disk. What is lost when the
    /// power fails is computed here, so no real disk has to be waited for.
    pub fn directory(&self, program: &str) -> Result<PathBuf> {
        let dir = match self.text("dir") {
            Some(given) => PathBuf::from(given),
            None => scratch().join(format!("{program}-{}", std::process::id())),
        };
        std::fs::create_dir_all(&dir).with_context(|| format!("making {}", dir.display()))?;
        // The recorder compares paths as the kernel sees them.
        dir.canonicalize().with_context(|| format!("finding {}", dir.display()))
    }
}

/// Memory with a file system that has extended attributes, where there is one.
pub fn scratch() -> PathBuf {
    const MEMORY: &str = "/dev/shm";
    let has_attributes = |dir: &str| {
        let probe = PathBuf::from(dir).join(format!("braid-probe-{}", std::process::id()));
        let set = std::fs::write(&probe, "").is_ok()
            && rustix::fs::setxattr(
                &probe,
                "user.braid.probe",
                b"1",
                rustix::fs::XattrFlags::empty(),
            )
            .is_ok();
        let _ = std::fs::remove_file(&probe);
        set
    };
    if has_attributes(MEMORY) { MEMORY.into() } else { std::env::temp_dir() }
}
