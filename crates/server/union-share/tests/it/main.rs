//! The tests of `braid-share` that hold for each implementation, on a union; and what only a union
//! has. They need root, to act as other users and to open files by their handles.
//!
//! Not run here: `adoption` (sessions end with the process), `delegations` (none are granted) and
//! `gateways` (two gateways of one cluster).
#![cfg(target_os = "linux")]

#[path = "../../../../client/share/tests/it/attributes.rs"]
mod attributes;
#[path = "../../../../client/share/tests/it/data.rs"]
mod data;
#[path = "../../../../client/share/tests/it/locks.rs"]
mod locks;
#[path = "../../../../client/share/tests/it/names.rs"]
mod names;
#[path = "../../../../client/share/tests/it/opens.rs"]
mod opens;
#[path = "../../../../client/share/tests/it/permissions.rs"]
mod permissions;
#[path = "../../../../client/share/tests/it/rename.rs"]
mod rename;

mod branches;
mod handles;
mod nfs;
mod sessions;
mod support;
