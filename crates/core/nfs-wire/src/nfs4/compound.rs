//! COMPOUND: a list of operations, decoded and answered one by one. RFC 8881 16.2.
//!
//! ```text
//!   request  tag · minor version · count · (number · arguments)…
//!   reply    status · tag · count · (number · status · result)…
//! ```

use bytes::Bytes;

use super::types::MESSAGE_LIMITED;
use super::{NfsStatus, ResOp};
use crate::xdr::{Encoder, Xdr, xdr_struct};

/// RPC program number of NFS. RFC 5662, its end.
pub const NFS_PROGRAM: u32 = 100_003;
/// RPC version of NFSv4.
pub const NFS_VERSION: u32 = 4;
/// Number of the procedure NULL.
pub const PROCEDURE_NULL: u32 = 0;
/// Number of the procedure COMPOUND; CB_COMPOUND has the same.
pub const PROCEDURE_COMPOUND: u32 = 1;

xdr_struct! {
    /// Start of `COMPOUND4args`; the operations follow.
    pub struct CompoundHeader {
        /// Returned in the reply.
        pub tag: Bytes [MESSAGE_LIMITED],
        /// Minor version of all operations.
        pub minor_version: u32,
        /// Number of operations; not limited here, since the session has the limit.
        pub op_count: u32,
    }

    /// Start of `COMPOUND4res` and `CB_COMPOUND4res`; the results follow.
    pub struct CompoundReplyHeader {
        /// Status of the last result.
        pub status: NfsStatus,
        /// Tag of the request.
        pub tag: Bytes [MESSAGE_LIMITED],
        /// Number of results.
        pub op_count: u32,
    }
}

/// Writes a reply while its operations run.
///
/// ```
/// use braid_nfs_wire::nfs4::{CompoundReply, NfsStatus, ResOp};
/// use braid_nfs_wire::xdr::Encoder;
///
/// let mut to = Encoder::new();
/// let mut reply = CompoundReply::begin(b"tag", &mut to);
/// reply.push(&ResOp::PutRootFh(Ok(())), &mut to);
/// reply.push(&ResOp::LookupParent(Err(NfsStatus::NoEnt)), &mut to);
/// assert_eq!(reply.status(), NfsStatus::NoEnt);
/// reply.finish(&mut to);
/// ```
#[derive(Debug)]
#[must_use = "`finish` writes the status and the count"]
pub struct CompoundReply {
    status_at: usize,
    count_at: usize,
    status: NfsStatus,
    count: u32,
}

impl CompoundReply {
    /// Starts a reply to a request with this `tag`.
    pub fn begin(tag: &[u8], to: &mut Encoder) -> Self {
        let status_at = to.position();
        NfsStatus::Ok.encode(to);
        to.opaque(tag);
        let count_at = to.position();
        to.u32(0);
        Self { status_at, count_at, status: NfsStatus::Ok, count: 0 }
    }

    /// Appends the result of the next operation.
    pub fn push(&mut self, result: &ResOp, to: &mut Encoder) {
        result.encode(to);
        self.count_encoded(result.status());
    }

    /// Counts a result that the caller has encoded itself.
    pub fn count_encoded(&mut self, status: NfsStatus) {
        self.count += 1;
        self.status = status;
    }

    /// Number of results so far.
    pub fn op_count(&self) -> u32 {
        self.count
    }

    /// Status of the last result.
    pub fn status(&self) -> NfsStatus {
        self.status
    }

    /// Writes the status and the number of results. RFC 8881 16.2.3: the reply has the status of
    /// the last operation.
    pub fn finish(self, to: &mut Encoder) {
        let status = self.status;
        self.finish_with_status(status, to);
    }

    /// As [`CompoundReply::finish`], with a status of the whole compound, such as
    /// NFS4ERR_MINOR_VERS_MISMATCH without results.
    pub fn finish_with_status(self, status: NfsStatus, to: &mut Encoder) {
        to.patch_u32(self.status_at, status.code());
        to.patch_u32(self.count_at, self.count);
    }
}
