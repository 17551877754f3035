//! `--name value` pairs of the two programs.

use std::{collections::BTreeMap, path::PathBuf};

use anyhow::{Context, Result, bail};
use braid_testbed::scratch::scratch;

/// The options that were given.
pub struct Arguments(BTreeMap<String, String>);

impl Arguments {
    /// Reads the command line; an option that is not in `known` is an error.
    pub fn read(known: &[&str]) -> Result<Self> {
        let mut given = BTreeMap::new();
        let mut words = std::env::args().skip(1);
        while let Some(word) = words.next() {
            let name = word.strip_prefix("--").filter(|name| known.contains(name));
            let Some(name) = name else {
                bail!("unknown option `{word}`; try: --{}", known.join(" --"))
            };
            given.insert(
                name.to_owned(),
                words.next().with_context(|| format!("{word} needs a value"))?,
            );
        }
        Ok(Self(given))
    }

    /// The value as given.
    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// A number, or the default.
    pub fn number(&self, name: &str, otherwise: u64) -> Result<u64> {
        let Some(text) = self.text(name) else { return Ok(otherwise) };
        text.parse().with_context(|| format!("--{name} {text} is not a number"))
    }

    /// A new directory for everything of a run: `--dir`, or one in memory, otherwise on disk. The
    /// effects of a loss of power are computed, so no real disk is needed.
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
