//! The operations, by subject. `compound.rs` describes their form.

pub mod filehandle;
pub mod security;
pub mod session;
pub mod walk;
