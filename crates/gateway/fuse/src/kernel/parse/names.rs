//! Requests with names in them.

use super::cursor::Cursor;
use super::{ParseError, ProtocolOptions};
use crate::kernel::Operation;
use crate::kernel::abi::{flag, opcode};

pub(super) fn parse<'a>(code: u32, c: &mut Cursor<'a>) -> Result<Operation<'a>, ParseError> {
    Ok(match code {
        // Linux refuses an empty target by itself (symlink(2): ENOENT).
        opcode::SYMLINK => Operation::Symlink { name: c.name()?, target: c.name()? },
        opcode::MKNOD => make_node(c)?,
        opcode::MKDIR => {
            let (mode, umask) = (c.u32()?, c.u32()?);
            Operation::MakeDirectory { name: c.name()?, mode, umask }
        }
        opcode::UNLINK => Operation::Unlink { name: c.name()? },
        opcode::RMDIR => Operation::RemoveDirectory { name: c.name()? },
        opcode::RENAME | opcode::RENAME2 => rename(code, c)?,
        opcode::LINK => {
            let node = c.u64()?;
            Operation::Link { node, new_name: c.name()? }
        }
        opcode::CREATE | opcode::TMPFILE => create(code, c)?,
        _ => Operation::Unknown,
    })
}

fn make_node<'a>(c: &mut Cursor<'a>) -> Result<Operation<'a>, ParseError> {
    let (mode, device, umask, _padding) = (c.u32()?, c.u32()?, c.u32()?, c.u32()?);
    Ok(Operation::MakeNode { name: c.name()?, mode, umask, device })
}

fn rename<'a>(code: u32, c: &mut Cursor<'a>) -> Result<Operation<'a>, ParseError> {
    let new_parent = c.u64()?;
    let flags = match code {
        opcode::RENAME2 => c.first_u32(8)?,
        _ => 0,
    };
    Ok(Operation::Rename { name: c.name()?, new_parent, new_name: c.name()?, flags })
}

fn create<'a>(code: u32, c: &mut Cursor<'a>) -> Result<Operation<'a>, ParseError> {
    let (flags, mode, umask, open_flags) = (c.u32()?, c.u32()?, c.u32()?, c.u32()?);
    let name = c.text()?;
    Ok(match (code, name) {
        // The name in the request has no meaning.
        (opcode::TMPFILE, _) => Operation::TemporaryFile { flags, mode, umask },
        (_, []) => return Err(ParseError::Name),
        (_, name) => {
            let kill_suidgid = open_flags & flag::OPEN_KILL_SUIDGID != 0;
            Operation::Create { name, flags, mode, umask, kill_suidgid }
        }
    })
}

pub(super) fn xattr<'a>(
    code: u32,
    c: &mut Cursor<'a>,
    dialect: ProtocolOptions,
) -> Result<Operation<'a>, ParseError> {
    Ok(match code {
        opcode::SETXATTR => set_xattr(c, dialect)?,
        opcode::GETXATTR => {
            let size = c.first_u32(8)?;
            Operation::GetXattr { name: c.name()?, size }
        }
        opcode::LISTXATTR => Operation::ListXattr { size: c.first_u32(8)? },
        _ => Operation::RemoveXattr { name: c.name()? },
    })
}

fn set_xattr<'a>(
    c: &mut Cursor<'a>,
    dialect: ProtocolOptions,
) -> Result<Operation<'a>, ParseError> {
    let (size, flags) = (c.u32()?, c.u32()?);
    let more = if dialect.setxattr_ext { c.first_u32(8)? } else { 0 };
    let name = c.name()?;
    let size = usize::try_from(size).map_err(|_| ParseError::Short)?;
    let acl_kill_sgid = more & flag::SETXATTR_ACL_KILL_SGID != 0;
    Ok(Operation::SetXattr { name, value: c.bytes(size)?, flags, acl_kill_sgid })
}
