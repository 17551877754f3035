//! `fsck` and `dedup`: what several branches have under one path.
//!
//! Both walk the directories of all branches together. A name that only one branch has is not
//! looked at: its path is all that the union knows of it.

mod attributes;
mod duplicates;
mod findings;
mod walk;

pub use duplicates::DuplicateReport;
pub use findings::{CheckReport, Finding};
