//! Attributes of a file: the mode, the time of change, an extended attribute. Each is a register.

use std::{
    fs::Permissions,
    io::{Error, Result},
    os::unix::fs::{MetadataExt, PermissionsExt},
    path::Path,
    time::SystemTime,
};

use rustix::fs::{XattrFlags, getxattr, setxattr};

use super::{linearizability::TimedCall, register::Call, test_thread::TestThread};

/// Number of registers of one file.
pub const KINDS: usize = 3;
const ATTRIBUTE: &str = "user.history";

/// The name of this file.
pub fn name(file: usize) -> String {
    format!("attributes-{file}")
}

/// The initial values of the registers.
pub fn initial(path: &Path) -> Result<[u64; KINDS]> {
    setxattr(path, ATTRIBUTE, &0u64.to_le_bytes(), XattrFlags::empty())?;
    std::fs::File::options().write(true).open(path)?.set_modified(SystemTime::UNIX_EPOCH)?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600))?;
    Ok([0o600, 0, 0])
}

/// Makes one of the calls.
pub fn play(player: &mut TestThread, file: usize, out: &mut Vec<TimedCall<Call>>) {
    let kind = player.random.below(KINDS as u64) as usize;
    if player.random.below(2) == 0 {
        set(player, file, kind, out)
    } else {
        look(player, file, kind, out)
    }
}

fn set(player: &mut TestThread, file: usize, kind: usize, out: &mut Vec<TimedCall<Call>>) {
    let path = player.dir.join(name(file));
    let value = match kind {
        0 => player.random.below(0o1000),
        // Seconds that fit into the 34 bits of ext4.
        1 => player.tag() & 0xffff_ffff | (player.thread as u64) << 24,
        _ => player.tag(),
    };
    let set = || match kind {
        0 => std::fs::set_permissions(&path, Permissions::from_mode(value as u32)),
        1 => set_modified(&path, value),
        _ => Ok(setxattr(&path, ATTRIBUTE, &value.to_le_bytes(), XattrFlags::empty())?),
    };
    let ended = player.call("set an attribute", set);
    out.push(ended.timed(player, file * KINDS + kind, Call::Write(value), ended.result.is_ok()));
    if let Err(error) = &ended.result {
        player.failed("set an attribute", error);
    }
}

/// Reads one of the registers.
pub fn look(player: &mut TestThread, file: usize, kind: usize, out: &mut Vec<TimedCall<Call>>) {
    let path = player.dir.join(name(file));
    let get = || match kind {
        0 => std::fs::metadata(&path).map(|found| u64::from(found.mode() & 0o7777)),
        1 => std::fs::metadata(&path).map(|found| found.mtime() as u64),
        _ => attribute(&path),
    };
    let ended = player.call("read an attribute", get);
    match &ended.result {
        Ok(found) => {
            let found =
                player.with_planted_fault(format!("attribute {file} {kind}"), vec![*found])[0];
            out.push(ended.timed(player, file * KINDS + kind, Call::Read(found), true));
        }
        Err(error) => player.failed("read an attribute", error),
    }
}

/// By path: one call, while open and set would be two.
fn set_modified(path: &Path, seconds: u64) -> Result<()> {
    let stamp = |seconds| rustix::fs::Timespec { tv_sec: seconds, tv_nsec: 0 };
    let times =
        rustix::fs::Timestamps { last_access: stamp(1), last_modification: stamp(seconds as i64) };
    Ok(rustix::fs::utimensat(rustix::fs::CWD, path, &times, rustix::fs::AtFlags::empty())?)
}

fn attribute(path: &Path) -> Result<u64> {
    let mut value = [0; 8];
    match getxattr(path, ATTRIBUTE, &mut value)? {
        8 => Ok(u64::from_le_bytes(value)),
        _ => Err(Error::from_raw_os_error(libc::EIO)),
    }
}
