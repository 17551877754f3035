//! Data of files.

use crate::nfs4::Bitmap;
use crate::nfs4::types::{MESSAGE_LIMITED, Payload, StableHow, Verifier};
use crate::xdr::{xdr_struct, xdr_union};

/// Maximum contents of a READ_PLUS: a data and a hole for each block of 4 KiB in 16 MiB.
pub const CONTENTS_MAX: usize = 8192;

xdr_struct! {
    /// `READ4resok`. RFC 8881 18.22.2.
    pub struct ReadResult {
        /// Whether the data ends at the end of the file.
        pub eof: bool,
        /// The data; not copied.
        pub data: Payload [MESSAGE_LIMITED],
    }

    /// `WRITE4resok`. RFC 8881 18.32.2.
    #[derive(Copy)]
    pub struct WriteResult {
        /// Bytes written.
        pub count: u32,
        /// What survives a crash of the server.
        pub committed: StableHow,
        /// Changes when unstable data may be lost.
        pub verifier: Verifier,
    }

    /// `COMMIT4resok`. RFC 8881 18.3.2.
    #[derive(Copy)]
    pub struct CommitResult {
        /// As in WRITE.
        pub verifier: Verifier,
    }

    /// `read_plus_res4`. RFC 7862 15.10.2.
    pub struct ReadPlusResult {
        /// Whether the contents end at the end of the file.
        pub eof: bool,
        /// Data and holes.
        pub contents: Vec<ReadPlusContent> [CONTENTS_MAX],
    }

    /// `data4`.
    pub struct DataContent {
        /// First byte.
        pub offset: u64,
        /// The data; not copied.
        pub data: Payload [MESSAGE_LIMITED],
    }

    /// `data_info4`.
    #[derive(Copy)]
    pub struct HoleContent {
        /// First byte.
        pub offset: u64,
        /// Number of bytes.
        pub length: u64,
    }

    /// `seek_res4`. RFC 7862 15.11.2.
    #[derive(Copy)]
    pub struct SeekResult {
        /// Whether nothing was found before the end of the file.
        pub eof: bool,
        /// Where it was found.
        pub offset: u64,
    }

    /// `IO_ADVISE4resok`. RFC 7862 15.5.2.
    #[derive(Copy)]
    pub struct IoAdviseResult {
        /// Hints that the server follows.
        pub hints: Bitmap,
    }
}

xdr_union! {
    /// `read_plus_content`. RFC 7862 15.10.2.
    pub enum ReadPlusContent {
        /// Data.
        Data(DataContent) = 0,
        /// A hole.
        Hole(HoleContent) = 1,
    }
}
