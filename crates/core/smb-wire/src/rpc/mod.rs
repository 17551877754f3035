//! Remote calls through named pipes, with which clients list the shares of a server: DCE/RPC over
//! connections (C706 chapter 12, MS-RPCE) and the calls of two interfaces (MS-SRVS, MS-WKST).
//!
//! ```text
//!   write ──> fragments (pdu) ──> calls (pipe) ──> arguments (ndr) ──> srvsvc or wkssvc
//!   read  <── fragments       <── results
//! ```
//!
//! Only what clients use: little endian, the transfer syntax NDR, no security of its own (SMB
//! protects the pipe).

pub mod ndr;
pub mod pdu;
mod pipe;
pub mod srvsvc;
pub mod wkssvc;

pub use pipe::{Pipe, PipeError, PipeKind};

/// What a server says of itself.
#[derive(Clone, Debug)]
pub struct ServerInfo {
    /// The NetBIOS or host name, without backslashes.
    pub name: String,
    /// The workgroup or domain.
    pub workgroup: String,
    /// A description for people.
    pub comment: String,
    /// The shares that clients may see.
    pub shares: Vec<ShareInfo>,
}

/// A share, as lists of shares show it.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct ShareInfo {
    /// Its name.
    pub name: String,
    /// A kind such as [`STYPE_DISKTREE`], with flags such as [`STYPE_SPECIAL`].
    pub kind: u32,
    /// A description for people.
    pub remark: String,
    /// The directory that is shared, as clients may see it.
    pub path: String,
}

/// A share of files (MS-SRVS 2.2.2.4).
pub const STYPE_DISKTREE: u32 = 0;
/// The share of named pipes (MS-SRVS 2.2.2.4).
pub const STYPE_IPC: u32 = 3;
/// A flag of shares that lists do not show by default (MS-SRVS 2.2.2.4).
pub const STYPE_SPECIAL: u32 = 0x8000_0000;

/// The result of a call that succeeded (MS-ERREF 2.2).
pub const ERROR_SUCCESS: u32 = 0;
/// A call asks for a level of information that there is not (MS-ERREF 2.2).
pub const ERROR_INVALID_LEVEL: u32 = 124;
/// There is no share of the name (MS-ERREF 2.2).
pub const NERR_NET_NAME_NOT_FOUND: u32 = 2310;

/// `PLATFORM_ID_NT` (MS-SRVS 2.2.2.6).
const PLATFORM_NT: u32 = 500;
/// The version of Windows that a server pretends to be, major and minor.
const VERSION: (u32, u32) = (6, 1);
