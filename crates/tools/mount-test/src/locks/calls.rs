//! Locks of bytes (by a process or an open file) and of whole files, as system calls.

use std::{
    fs::File,
    io::{Error, Result},
    os::fd::AsRawFd,
    str::FromStr,
};

use anyhow::bail;

/// The owner and kind of a lock.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Space {
    /// Bytes, by a process (`F_SETLK`).
    Process,
    /// Bytes, by an open file (`F_OFD_SETLK`).
    Open,
    /// The whole file, by an open file (`flock`).
    Flock,
}

/// The requested mode.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    /// Others may have it shared.
    Shared,
    /// Nobody else has it.
    Alone,
    /// No lock.
    Unlock,
}

impl FromStr for Space {
    type Err = anyhow::Error;
    fn from_str(word: &str) -> anyhow::Result<Self> {
        Ok(match word {
            "process" => Self::Process,
            "open" => Self::Open,
            "flock" => Self::Flock,
            _ => bail!("no locks `{word}`; try: process, open, flock"),
        })
    }
}

impl Space {
    /// The word that `from_str` parses.
    pub fn word(self) -> &'static str {
        match self {
            Self::Process => "process",
            Self::Open => "open",
            Self::Flock => "flock",
        }
    }
}

/// Sets or releases a lock of `[start, start + length)`, or of the whole file if `space` has no
/// ranges.
pub fn lock(
    file: &File,
    space: Space,
    mode: Mode,
    wait: bool,
    start: i64,
    length: i64,
) -> Result<()> {
    let command = match (space, wait) {
        (Space::Flock, _) => return flock(file, mode, wait),
        (Space::Process, false) => libc::F_SETLK,
        (Space::Process, true) => libc::F_SETLKW,
        (Space::Open, false) => libc::F_OFD_SETLK,
        (Space::Open, true) => libc::F_OFD_SETLKW,
    };
    let wanted = record(mode, start, length);
    // SAFETY: the descriptor is open while `file` lives, and the kernel only reads `wanted`.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), command, &wanted) })
}

/// The process whose lock conflicts with this one, if any.
pub fn conflicting_lock(file: &File, mode: Mode, start: i64, length: i64) -> Result<Option<i32>> {
    let mut asked = record(mode, start, length);
    // SAFETY: the descriptor is open while `file` lives, and the kernel may fill the record
    // `asked`.
    checked(unsafe { libc::fcntl(file.as_raw_fd(), libc::F_GETLK, &mut asked) })?;
    Ok((asked.l_type != libc::F_UNLCK as i16).then_some(asked.l_pid))
}

fn record(mode: Mode, start: i64, length: i64) -> libc::flock {
    let kind = match mode {
        Mode::Shared => libc::F_RDLCK,
        Mode::Alone => libc::F_WRLCK,
        Mode::Unlock => libc::F_UNLCK,
    };
    libc::flock {
        l_type: kind as i16,
        l_whence: libc::SEEK_SET as i16,
        l_start: start,
        l_len: length,
        l_pid: 0,
    }
}

fn flock(file: &File, mode: Mode, wait: bool) -> Result<()> {
    let kind = match mode {
        Mode::Shared => libc::LOCK_SH,
        Mode::Alone => libc::LOCK_EX,
        Mode::Unlock => libc::LOCK_UN,
    };
    let how = if wait { kind } else { kind | libc::LOCK_NB };
    // SAFETY: the descriptor is open while `file` lives.
    checked(unsafe { libc::flock(file.as_raw_fd(), how) })
}

fn checked(outcome: i32) -> Result<()> {
    if outcome < 0 { Err(Error::last_os_error()) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn locks_of_two_open_files_meet_where_their_bytes_do() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let (one, other) = (file.reopen().unwrap(), file.reopen().unwrap());
        lock(&one, Space::Open, Mode::Alone, false, 0, 10).unwrap();
        assert!(lock(&other, Space::Open, Mode::Shared, false, 9, 1).is_err());
        lock(&other, Space::Open, Mode::Shared, false, 10, 1).unwrap();
        lock(&one, Space::Open, Mode::Unlock, false, 0, 10).unwrap();
        lock(&other, Space::Open, Mode::Shared, false, 9, 1).unwrap();
        lock(&one, Space::Flock, Mode::Alone, false, 0, 0).unwrap();
        assert!(lock(&other, Space::Flock, Mode::Shared, false, 0, 0).is_err());
    }
}
