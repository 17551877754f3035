//! The operations, by subject. `compound.rs` describes their form.

pub mod attrs;
pub mod courtesy;
pub mod delegated_attributes;
pub mod delegation;
pub mod filehandle;
pub mod io;
pub mod layout;
pub mod layout_recall;
pub mod lock;
pub mod lock_wait;
pub mod names;
pub mod open;
pub mod readdir;
pub mod reclaim;
pub mod security;
pub mod session;
pub mod stateid;
pub mod walk;
pub mod xattr;
