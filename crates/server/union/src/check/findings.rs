//! `fsck`: names and directories of which several branches have different ones.

use std::{fmt, ops::ControlFlow, path::PathBuf};

use rustix::fs::FileType;
use serde::{Deserialize, Serialize};

use super::walk::{OnEach, Visit};
use crate::{MoveReport, Progress, Result, Union};

/// Findings that a report names.
const NAMED_MAX: usize = 1000;
/// Progress is reported after this number of paths.
const STEP: u64 = 1000;

/// Something that a user would not expect. Nothing of it is an error for the union.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(tag = "finding", rename_all = "kebab-case")]
#[allow(missing_docs)] // the texts say it
pub enum Finding {
    /// The first disk shows its file, the others have one too.
    Hidden { shown: PathBuf, hidden: Vec<PathBuf> },
    /// A file on one disk, a directory on another one.
    Kinds { shown: PathBuf, other: Vec<PathBuf> },
    /// Copies of a directory whose owner, mode or xattrs are not those of the first.
    Directory { first: PathBuf, differs: PathBuf, what: Vec<String>, repaired: bool },
    /// Something could not be read.
    Unread { path: PathBuf, why: String },
}

/// The paths with a comma between them.
fn list(paths: &[PathBuf]) -> String {
    let paths: Vec<String> = paths.iter().map(|path| path.display().to_string()).collect();
    paths.join(", ")
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Hidden { shown, hidden } => {
                write!(f, "{} hides {}", shown.display(), list(hidden))
            }
            Self::Kinds { shown, other } => {
                write!(f, "{} is of another kind than {}", shown.display(), list(other))
            }
            Self::Directory { first, differs, what, repaired } => {
                let (first, differs) = (first.display(), differs.display());
                let done = if *repaired { " (repaired)" } else { "" };
                write!(f, "{differs} differs from {first} in {}{done}", what.join(", "))
            }
            Self::Unread { path, why } => write!(f, "{} cannot be read: {why}", path.display()),
        }
    }
}

/// What a check found.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// Directories and names of several branches that were compared.
    pub compared: u64,
    /// What was found and is still there.
    pub left: u64,
    /// What was repaired.
    pub repaired: u64,
    /// The first thousand of all findings.
    pub findings: Vec<Finding>,
}

impl CheckReport {
    fn add(&mut self, finding: Finding) {
        match finding {
            Finding::Directory { repaired: true, .. } => self.repaired += 1,
            _ => self.left += 1,
        }
        if self.findings.len() < NAMED_MAX {
            self.findings.push(finding);
        }
    }
}

impl Union {
    /// Compares what the branches have. `repair`: all copies of a directory get the owner, the mode
    /// and the xattrs of the first. Files are never changed.
    ///
    /// # Errors
    /// Those of reading the root of a branch.
    pub fn check(&self, repair: bool, progress: Progress<'_>) -> Result<CheckReport> {
        let mut report = CheckReport::default();
        let _ = self.walk_together(b"", &mut |visit| {
            match visit {
                Visit::Directory { path, copies } => {
                    report.compared += 1;
                    let (first, others) = copies.split_first().expect("several have it");
                    for other in others {
                        let found = self.compare_directories(path, first, other, repair);
                        found.into_iter().for_each(|finding| report.add(finding));
                    }
                }
                Visit::Name { path, on } => {
                    report.compared += 1;
                    report.add(self.of_name(path, on));
                }
                Visit::Unread { path, branch, error } => {
                    let path = self.path_on(branch, path);
                    report.add(Finding::Unread { path, why: error.to_string() });
                }
            }
            if !report.compared.is_multiple_of(STEP) {
                return ControlFlow::Continue(());
            }
            progress(&MoveReport { files: report.compared, ..MoveReport::default() })
        })?;
        Ok(report)
    }

    fn of_name(&self, path: &[u8], on: &OnEach) -> Finding {
        let is_directory = |kind: FileType| kind == FileType::Directory;
        let shown = self.path_on(on[0].0, path);
        let of_kind = |same: bool| -> Vec<PathBuf> {
            let others = on[1..].iter();
            let others =
                others.filter(|(_, kind)| (is_directory(*kind) == is_directory(on[0].1)) == same);
            others.map(|(branch, _)| self.path_on(*branch, path)).collect()
        };
        let other = of_kind(false);
        if !other.is_empty() {
            return Finding::Kinds { shown, other };
        }
        Finding::Hidden { shown, hidden: of_kind(true) }
    }
}
