//! Parses a request from the bytes of one read of `/dev/fuse`. No I/O; any bytes give a value or an
//! error.
//!
//! ```text
//!   | header 40 | arguments of the opcode: numbers, names with NUL, data | extensions |
//!   |<------------------------------ header.len ------------------------------------->|
//!                                                                        total_extlen*8
//! ```

mod cursor;
mod data;
mod extension;
mod names;
#[cfg(test)]
mod tests;

use super::abi::{IN_HEADER_BYTES, opcode};
use super::{Lock, LockKind, Operation};
use cursor::Cursor;
use thiserror::Error;

/// The header of every request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// The number of the operation.
    pub opcode: u32,
    /// The number of the request; the reply repeats it.
    pub unique: u64,
    /// The node it is about; for names, the directory.
    pub node: u64,
    /// File system user id of the caller.
    pub uid: u32,
    /// File system group id of the caller.
    pub gid: u32,
    /// Thread of the caller; 0: none, or not visible in this pid namespace.
    pub pid: u32,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// The caller and the node.
    pub header: Header,
    /// The operation and its arguments.
    pub operation: Operation<'a>,
    /// Supplementary groups in the request (`CREATE_SUPP_GROUP`): where a file is created in a
    /// directory whose group is one of the caller's supplementary groups, that group.
    pub groups: Groups<'a>,
}

/// Supplementary groups, not decoded yet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups<'a>(&'a [u8]);

impl Groups<'_> {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.chunks_exact(4).map(|gid| gid.try_into().map(u32::from_ne_bytes).unwrap_or_default())
    }
}

/// Results of INIT that change how requests are parsed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ProtocolOptions {
    /// SETXATTR has the longer arguments (`SETXATTR_EXT`).
    pub setxattr_ext: bool,
}

/// Why bytes are not a request.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// There is no header, so no reply is possible.
    #[error("{0} bytes are too few for a request's header")]
    NoHeader(usize),
    /// The header and the read disagree.
    #[error("the header says {said} bytes, and the request has {have}")]
    Length {
        /// In the header.
        said: u32,
        /// Read.
        have: usize,
    },
    /// The arguments end too early.
    #[error("the arguments are too short")]
    Short,
    /// There are bytes after the arguments.
    #[error("{0} bytes follow the arguments")]
    Rest(usize),
    /// A name without an end, or an empty one.
    #[error("a name is empty or has no end")]
    Name,
    /// A number that is not valid.
    #[error("{what} cannot be {value}")]
    Value {
        /// The field.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// Extensions do not fit.
    #[error("the extensions do not fit into the request")]
    Extension,
}

impl Header {
    /// Parses only the header, and returns the length of the extensions at the end, too. Works
    /// where the rest is malformed, so that a reply with an error is possible.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        Self::of(bytes, bytes.len())
    }

    /// As `parse`, of a request in pieces ([`Request::parse_pieces`]).
    pub(super) fn of_pieces(pieces: [&[u8]; 3]) -> Result<(Self, usize), ParseError> {
        Self::of(pieces[0], pieces.iter().map(|piece| piece.len()).sum())
    }

    /// As `parse`, of a request of `have` bytes in total.
    fn of(bytes: &[u8], have: usize) -> Result<(Self, usize), ParseError> {
        let no_header = ParseError::NoHeader(bytes.len());
        let mut cursor = Cursor::new(bytes.get(..IN_HEADER_BYTES).ok_or(no_header)?);
        let said = cursor.u32()?;
        let opcode = cursor.u32()?;
        let (unique, node) = (cursor.u64()?, cursor.u64()?);
        let (uid, gid, pid) = (cursor.u32()?, cursor.u32()?, cursor.u32()?);
        let extension_bytes = usize::from(cursor.u16()?) * 8;
        if usize::try_from(said) != Ok(have) {
            return Err(ParseError::Length { said, have });
        }
        Ok((Self { opcode, unique, node, uid, gid, pid }, extension_bytes))
    }
}

impl<'a> Request<'a> {
    /// Parses one request.
    pub fn parse(bytes: &'a [u8], dialect: ProtocolOptions) -> Result<Self, ParseError> {
        let (header, body) =
            bytes.split_at_checked(IN_HEADER_BYTES).ok_or(ParseError::NoHeader(bytes.len()))?;
        Self::parse_pieces([header, &[], body], dialect)
    }

    /// As `parse`, of a request in three pieces: its header, its fixed arguments, and what follows
    /// them (names, data, extensions).
    pub fn parse_pieces(
        [header, fixed, rest]: [&'a [u8]; 3],
        dialect: ProtocolOptions,
    ) -> Result<Self, ParseError> {
        let (header, extension_bytes) =
            Header::of(header, header.len() + fixed.len() + rest.len())?;
        let split = rest.len().checked_sub(extension_bytes).ok_or(ParseError::Extension)?;
        let (rest, extensions) = rest.split_at(split);
        let mut cursor = Cursor::pieces(fixed, rest);
        let operation = operation(&header, &mut cursor, dialect)?;
        if operation != Operation::Unknown {
            cursor.end()?;
        }
        Ok(Self { header, operation, groups: Groups(extension::groups(extensions)?) })
    }
}

/// The arguments of an opcode.
fn operation<'a>(
    header: &Header,
    c: &mut Cursor<'a>,
    dialect: ProtocolOptions,
) -> Result<Operation<'a>, ParseError> {
    let Header { opcode: code, node, .. } = *header;
    Ok(match code {
        opcode::LOOKUP => Operation::Lookup { name: c.name()? },
        opcode::FORGET | opcode::BATCH_FORGET => return data::forget(node, code, c),
        opcode::GETATTR | opcode::SETATTR | opcode::STATX => return data::attributes(code, c),
        opcode::READLINK => Operation::ReadLink,
        opcode::SYMLINK..=opcode::LINK | opcode::RENAME2 | opcode::CREATE | opcode::TMPFILE => {
            return names::parse(code, c);
        }
        opcode::OPEN => data::open(c)?,
        opcode::READ => data::read(c)?,
        opcode::WRITE => data::write(c)?,
        opcode::STATFS => Operation::StatFs,
        opcode::RELEASE | opcode::RELEASEDIR => data::release(code, c)?,
        opcode::FSYNC | opcode::FSYNCDIR => data::sync(code, c)?,
        opcode::SETXATTR..=opcode::REMOVEXATTR => return names::xattr(code, c, dialect),
        opcode::FLUSH => data::flush(c)?,
        opcode::OPENDIR => Operation::OpenDirectory { flags: c.first_u32(8)? },
        opcode::READDIR | opcode::READDIRPLUS => data::read_directory(code, c)?,
        opcode::GETLK..=opcode::SETLKW => lock(code, c)?,
        opcode::ACCESS => Operation::Access { mask: c.first_u32(8)? },
        opcode::INIT => data::init(c)?,
        opcode::INTERRUPT => Operation::Interrupt { unique: c.u64()? },
        opcode::DESTROY => Operation::Destroy,
        opcode::BMAP => data::block_map(c)?,
        opcode::IOCTL => data::ioctl(c)?,
        opcode::POLL => data::poll(c)?,
        opcode::FALLOCATE => data::allocate(c)?,
        opcode::LSEEK => data::seek(c)?,
        opcode::COPY_FILE_RANGE | opcode::COPY_FILE_RANGE_64 => data::copy_range(c)?,
        opcode::SYNCFS => c.u64().map(|_padding| Operation::SyncFs)?,
        _ => Operation::Unknown,
    })
}

/// GETLK, SETLK, SETLKW.
fn lock<'a>(code: u32, c: &mut Cursor<'a>) -> Result<Operation<'a>, ParseError> {
    let (handle, owner, start, end) = (c.u64()?, c.u64()?, c.u64()?, c.u64()?);
    let kind = lock_kind(c.u32()?)?;
    let (pid, flags, _padding) = (c.u32()?, c.u32()?, c.u32()?);
    let flock = flags & super::abi::flag::LK_FLOCK != 0;
    let lock = Lock { handle, owner, start, end, kind, pid, flock };
    Ok(match code {
        opcode::GETLK => Operation::TestLock(lock),
        _ => Operation::SetLock { lock, wait: code == opcode::SETLKW },
    })
}

/// `F_RDLCK`, `F_WRLCK`, `F_UNLCK` of Linux.
fn lock_kind(number: u32) -> Result<LockKind, ParseError> {
    match number {
        0 => Ok(LockKind::Read),
        1 => Ok(LockKind::Write),
        2 => Ok(LockKind::Unlock),
        _ => Err(ParseError::Value { what: "the kind of a lock", value: number.into() }),
    }
}
