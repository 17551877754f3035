//! A Linux guest in QEMU: the distribution's own kernel with its NFS client, for hosts whose kernel
//! has none, and so that a client that hangs cannot harm the host.
//!
//! ```text
//!  image.rs    kernel and busybox, from the distribution's packages ──► target/guest
//!  machine.rs  one boot, one script ──► its output and exit status
//!  network.rs  how the guest reaches the server: through QEMU, or over a tap device
//! ```
//!
//! 1. The guest has no disk. Its root directory is the host's, read-only by 9p, with temporary file
//!    systems in memory where programs write. Programs built on the host run in it unchanged.
//! 2. Each run boots a new guest; nothing survives but the files of the shared directory.
//! 3. A guest that does not end in its limit is killed, and its output up to then is reported.

mod image;
mod machine;
mod network;

pub use image::Image;
pub use machine::{Guest, GuestOutput};
pub use network::GuestNetwork;
