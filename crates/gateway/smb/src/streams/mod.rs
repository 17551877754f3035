//! Named streams of files and directories, as extended attributes (ADR 0054). MS-FSCC 2.1.5, MS-FSA
//! 2.1.1.5.
//!
//! ```text
//!   file:Zone.Identifier:$DATA  <─>  extended attribute user.DosStream.Zone.Identifier:$DATA
//!                                    value: the bytes of the stream, and one byte 0
//! ```
//!
//! That is how Samba's `streams_xattr` stores them, so that files move between both. Where Samba
//! spreads a stream over several attributes, the last byte is their number. Such a stream is
//! listed, but cannot be opened.
//!
//! Invariants:
//! 1. All opens of a stream at this gateway share one [`shared::SharedStream`]. Its lock is held
//!    from reading the attribute to writing it, so that no write of this gateway loses another.
//!    Of two gateways that write one stream in the same moment, the last one wins.
//! 2. Rights are those of the file, and are checked once, at the CREATE. The open then acts with
//!    the rights that it was granted, as an open file does, whatever becomes of the mode
//!    ([`shared::StreamFile`]).

pub mod data;
pub mod list;
pub mod name;
pub mod shared;
