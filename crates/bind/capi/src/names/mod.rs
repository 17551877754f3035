//! The namespace: one source file for each group of calls.

pub mod change;
pub mod directory;
pub mod link;
pub mod make;
pub mod stat;
pub mod xattr;
