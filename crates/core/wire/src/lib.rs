//! The native protocol of BraidFS, without I/O: frames, messages, keys, capabilities, handshake.
//!
//! ```text
//!   frame  = header (32 bytes) · body (message, little-endian) · payload (raw file bytes)
//!   call   = one request frame -> zero or more data frames (<= 256 KiB each) -> one final frame
//! ```
//!
//! `docs/format.md` describes every byte. No code here panics for any input. No length from the
//! network is used before it is checked (I9), and unknown values are refused (I10).
#![forbid(unsafe_code)]

mod capability;
mod codec;
mod data_server_handle;
mod deny;
mod frame;
mod handshake;
mod key;
mod layout_codec;
pub mod message;
mod reply;
#[cfg(test)]
mod sample;
#[cfg(test)]
mod tests;

pub use capability::{Capability, Rights};
pub use codec::{Decoder, Wire, WireError};
pub use data_server_handle::{
    DATA_SERVER_HANDLE_BYTES_MAX, DataServerHandle, NFS_ADDRESS_LABEL, NFS_STRIPE_UNIT, nfs_layout,
};
pub use deny::Deny;
pub use frame::{FRAME_HEADER_BYTES, FrameFlags, FrameHeader, PROTOCOL_VERSION};
pub use handshake::{
    Auth, AuthReply, CHANNEL_BINDING_BYTES, Credential, Features, Hello, HelloReply, NodeKind,
    Role, Ticket, Transcript,
};
pub use key::{KEY_BYTES, Secret};
pub use message::Call;
pub use reply::{decode_outcome, encode_failure, encode_success};
