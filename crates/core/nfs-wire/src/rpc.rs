//! ONC RPC version 2 (RFC 5531), without I/O: records, messages, and the security flavours.
//!
//! ```text
//!   record::RecordReader   bytes of a TCP stream -> one message
//!   message::CallHeader    one message -> who calls which procedure; the arguments follow
//!   auth_sys, gss          credential -> the user; gss also checks and unwraps the arguments
//!   message::ReplyHeader   the answer's header; results follow only after `Accepted(Success)`
//! ```
//!
//! A connection of NFSv4.1 has calls in both directions (RFC 8881 2.10.3.1), so each type has
//! both directions, and [`message::MessageType::peek`] says which kind of message arrived.

pub mod auth;
pub mod auth_sys;
pub mod gss;
pub mod message;
pub mod record;
