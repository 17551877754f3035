//! From the bytes of one read of `/dev/fuse` to a request. Pure; any bytes give a value or an error.
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

/// What every request begins with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Header {
    /// What is asked, as a number.
    pub opcode: u32,
    /// Names the request; the answer repeats it.
    pub unique: u64,
    /// The node it is about; for names, the directory.
    pub node: u64,
    /// File system user of who asks.
    pub uid: u32,
    /// File system group of who asks.
    pub gid: u32,
    /// Thread that asks; 0: none, or one that this pid namespace does not see.
    pub pid: u32,
}

/// One request.
#[derive(Clone, Debug, PartialEq)]
pub struct Request<'a> {
    /// Who asks about what.
    pub header: Header,
    /// What.
    pub operation: Operation<'a>,
    /// Supplementary groups that the kernel named: for what is created in a directory whose group the
    /// caller has only by them, that group (`CREATE_SUPP_GROUP`).
    pub groups: Groups<'a>,
}

/// Supplementary groups, still as bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Groups<'a>(&'a [u8]);

impl Groups<'_> {
    /// Each of them.
    pub fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.0.chunks_exact(4).map(|gid| gid.try_into().map(u32::from_ne_bytes).unwrap_or_default())
    }
}

/// What was agreed at INIT and changes how requests are read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dialect {
    /// SETXATTR has the longer arguments (`SETXATTR_EXT`).
    pub setxattr_ext: bool,
}

/// Why bytes are no request.
#[derive(Clone, Copy, Debug, Error, PartialEq, Eq)]
#[non_exhaustive]
pub enum ParseError {
    /// Not even a header: nothing can be answered.
    #[error("{0} bytes are too few for a request's header")]
    NoHeader(usize),
    /// The header and the read disagree.
    #[error("a request says that it has {said} bytes and has {have}")]
    Length {
        /// In the header.
        said: u32,
        /// Read.
        have: usize,
    },
    /// The arguments end too early.
    #[error("the arguments are too short")]
    Short,
    /// Bytes are left.
    #[error("{0} bytes stand behind the arguments")]
    Rest(usize),
    /// A name without an end, or an empty one.
    #[error("a name is empty or has no end")]
    Name,
    /// A number that has no meaning.
    #[error("{what} cannot be {value}")]
    Value {
        /// Of what.
        what: &'static str,
        /// Which.
        value: u64,
    },
    /// Extensions do not fit.
    #[error("the extensions do not fit into the request")]
    Extension,
}

impl Header {
    /// Reads the header alone, with the number of bytes that extensions take at the end. Works where
    /// the rest is broken, so that an error can be answered.
    pub fn parse(bytes: &[u8]) -> Result<(Self, usize), ParseError> {
        Self::of(bytes, bytes.len())
    }

    /// As `parse`, of a request in pieces ([`Request::parse_pieces`]).
    pub(super) fn of_pieces(pieces: [&[u8]; 3]) -> Result<(Self, usize), ParseError> {
        Self::of(pieces[0], pieces.iter().map(|piece| piece.len()).sum())
    }

    /// As `parse`, of a request that has `have` bytes in all, wherever the rest of them lies.
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
    /// Reads one request.
    pub fn parse(bytes: &'a [u8], dialect: Dialect) -> Result<Self, ParseError> {
        let (header, body) =
            bytes.split_at_checked(IN_HEADER_BYTES).ok_or(ParseError::NoHeader(bytes.len()))?;
        Self::parse_pieces([header, &[], body], dialect)
    }

    /// As `parse`, of a request in three pieces: its header, its fixed arguments, and what follows them
    /// (names, data, extensions).
    pub fn parse_pieces(
        [header, fixed, rest]: [&'a [u8]; 3],
        dialect: Dialect,
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
    dialect: Dialect,
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
