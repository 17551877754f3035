//! Requests without names.

use super::ParseError;
use super::cursor::Cursor;
use crate::kernel::abi::{fattr, flag, opcode};
use crate::kernel::operation::Forgotten;
use crate::kernel::{Features, Forget, Operation, SetAttributes, SetTime, Time};

const FORGET_ONE_BYTES: usize = 16;
/// INIT's arguments before there was a `flags2`, and with it.
const INIT_SHORT_BYTES: usize = 16;

type Parsed<'a> = Result<Operation<'a>, ParseError>;

/// `node`: the header's, for a single FORGET.
pub(super) fn forget<'a>(node: u64, code: u32, c: &mut Cursor<'a>) -> Parsed<'a> {
    if code == opcode::FORGET {
        let one = Some(Forget { node, lookups: c.u64()? });
        return Ok(Operation::Forget(Forgotten { one, many: &[] }));
    }
    let count =
        usize::try_from(c.first_u32(8)?).ok().and_then(|count| count.checked_mul(FORGET_ONE_BYTES));
    Ok(Operation::Forget(Forgotten { one: None, many: c.bytes(count.ok_or(ParseError::Short)?)? }))
}

pub(super) fn attributes<'a>(code: u32, c: &mut Cursor<'a>) -> Parsed<'a> {
    if code == opcode::SETATTR {
        return set_attributes(c).map(Operation::SetAttributes);
    }
    let (flags, _reserved, handle) = (c.u32()?, c.u32()?, c.u64()?);
    let handle = (flags & flag::GETATTR_FH != 0).then_some(handle);
    Ok(match code {
        opcode::STATX => Operation::ExtendedStat { handle, flags: c.u32()?, mask: c.u32()? },
        _ => Operation::GetAttributes { handle },
    })
}

fn set_attributes(c: &mut Cursor<'_>) -> Result<SetAttributes, ParseError> {
    let (valid, _padding) = (c.u32()?, c.u32()?);
    let (handle, size, lock_owner) = (c.u64()?, c.u64()?, c.u64()?);
    let seconds = [c.i64()?, c.i64()?, c.i64()?];
    let nanoseconds = [c.u32()?, c.u32()?, c.u32()?];
    let (mode, _unused, uid, gid, _unused_too) = (c.u32()?, c.u32()?, c.u32()?, c.u32()?, c.u32()?);
    let has = |bit: u32| valid & bit != 0;
    let time = |which: usize| Time { seconds: seconds[which], nanoseconds: nanoseconds[which] };
    let set_time = |bit: u32, now: u32, which: usize| match (has(bit), has(now)) {
        (_, true) => Some(SetTime::Now),
        (true, false) => Some(SetTime::At(time(which))),
        (false, false) => None,
    };
    Ok(SetAttributes {
        mode: has(fattr::MODE).then_some(mode),
        uid: has(fattr::UID).then_some(uid),
        gid: has(fattr::GID).then_some(gid),
        size: has(fattr::SIZE).then_some(size),
        accessed: set_time(fattr::ATIME, fattr::ATIME_NOW, 0),
        modified: set_time(fattr::MTIME, fattr::MTIME_NOW, 1),
        changed: has(fattr::CTIME).then(|| time(2)),
        handle: has(fattr::FH).then_some(handle),
        lock_owner: has(fattr::LOCKOWNER).then_some(lock_owner),
        kill_suidgid: has(fattr::KILL_SUIDGID),
    })
}

pub(super) fn open<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (flags, open_flags) = (c.u32()?, c.u32()?);
    Ok(Operation::Open { flags, kill_suidgid: open_flags & flag::OPEN_KILL_SUIDGID != 0 })
}

pub(super) fn read<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, offset, size, read_flags) = (c.u64()?, c.u64()?, c.u32()?, c.u32()?);
    let (owner, flags, _padding) = (c.u64()?, c.u32()?, c.u32()?);
    let lock_owner = (read_flags & flag::READ_LOCKOWNER != 0).then_some(owner);
    Ok(Operation::Read { handle, offset, size, flags, lock_owner })
}

pub(super) fn write<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, offset, size, write_flags) = (c.u64()?, c.u64()?, c.u32()?, c.u32()?);
    let (owner, flags, _padding) = (c.u64()?, c.u32()?, c.u32()?);
    let data = c.bytes(usize::try_from(size).map_err(|_| ParseError::Short)?)?;
    Ok(Operation::Write {
        handle,
        offset,
        data,
        flags,
        lock_owner: (write_flags & flag::WRITE_LOCKOWNER != 0).then_some(owner),
        from_cache: write_flags & flag::WRITE_CACHE != 0,
        kill_suidgid: write_flags & flag::WRITE_KILL_SUIDGID != 0,
    })
}

pub(super) fn release<'a>(code: u32, c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, flags, release_flags, lock_owner) = (c.u64()?, c.u32()?, c.u32()?, c.u64()?);
    Ok(match code {
        opcode::RELEASEDIR => Operation::ReleaseDirectory { handle, flags },
        _ => Operation::Release {
            handle,
            flags,
            lock_owner,
            flush: release_flags & flag::RELEASE_FLUSH != 0,
            flock_unlock: release_flags & flag::RELEASE_FLOCK_UNLOCK != 0,
        },
    })
}

pub(super) fn sync<'a>(code: u32, c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, flags, _padding) = (c.u64()?, c.u32()?, c.u32()?);
    let data_only = flags & flag::FSYNC_FDATASYNC != 0;
    Ok(match code {
        opcode::FSYNCDIR => Operation::SyncDirectory { handle, data_only },
        _ => Operation::Sync { handle, data_only },
    })
}

pub(super) fn flush<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, _unused, lock_owner) = (c.u64()?, c.u64()?, c.u64()?);
    Ok(Operation::Flush { handle, lock_owner })
}

pub(super) fn read_directory<'a>(code: u32, c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, offset, size, _read_flags) = (c.u64()?, c.u64()?, c.u32()?, c.u32()?);
    let (_owner, _flags, _padding) = (c.u64()?, c.u32()?, c.u32()?);
    Ok(Operation::ReadDirectory { handle, offset, size, plus: code == opcode::READDIRPLUS })
}

pub(super) fn init<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let short = c.bytes(INIT_SHORT_BYTES)?;
    let mut first = Cursor::new(short);
    let (major, minor, read_ahead_bytes_max, low) =
        (first.u32()?, first.u32()?, first.u32()?, first.u32()?);
    // Fields that a newer kernel may add after `flags2` are not needed.
    let mut more = Cursor::new(c.rest());
    let high = match Features(low.into()).contains(Features::INIT_EXT) {
        true => more.u32()?,
        false => 0,
    };
    Ok(Operation::Init {
        minor,
        major,
        read_ahead_bytes_max,
        flags: u64::from(high) << 32 | u64::from(low),
    })
}

pub(super) fn block_map<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (block, block_size, _padding) = (c.u64()?, c.u32()?, c.u32()?);
    Ok(Operation::BlockMap { block, block_size })
}

pub(super) fn ioctl<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, flags, command, argument) = (c.u64()?, c.u32()?, c.u32()?, c.u64()?);
    let (in_size, out_size) = (c.u32()?, c.u32()?);
    let data = c.bytes(usize::try_from(in_size).map_err(|_| ParseError::Short)?)?;
    Ok(Operation::Ioctl { handle, flags, command, argument, data, out_size })
}

pub(super) fn poll<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    Ok(Operation::Poll { handle: c.u64()?, wake: c.u64()?, flags: c.u32()?, events: c.u32()? })
}

pub(super) fn allocate<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, offset, length, mode, _padding) =
        (c.u64()?, c.u64()?, c.u64()?, c.u32()?, c.u32()?);
    Ok(Operation::Allocate { handle, offset, length, mode })
}

pub(super) fn seek<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, offset, whence, _padding) = (c.u64()?, c.u64()?, c.u32()?, c.u32()?);
    Ok(Operation::Seek { handle, offset, whence })
}

pub(super) fn copy_range<'a>(c: &mut Cursor<'a>) -> Parsed<'a> {
    let (handle, offset) = (c.u64()?, c.u64()?);
    let (to_node, to_handle, to_offset) = (c.u64()?, c.u64()?, c.u64()?);
    let (length, flags) = (c.u64()?, c.u64()?);
    Ok(Operation::CopyRange { handle, offset, to_node, to_handle, to_offset, length, flags })
}
