//! Formats attributes, as text and as JSON.

use braid_types::Timestamp;
use braid_wire::message::{
    FileKind,
    types::{Attributes, IodInfo, IodState},
};
use serde_json::{Value, json};

use crate::output::human_bytes;

/// The file type as one letter, as in `ls -l`.
pub fn kind_letter(kind: FileKind) -> char {
    match kind {
        FileKind::Directory => 'd',
        FileKind::Symlink => 'l',
        FileKind::Fifo => 'p',
        FileKind::Socket => 's',
        FileKind::CharDevice => 'c',
        FileKind::BlockDevice => 'b',
        _ => '-',
    }
}

/// The file type in words.
pub fn kind_word(kind: FileKind) -> &'static str {
    match kind {
        FileKind::Directory => "directory",
        FileKind::Symlink => "symbolic link",
        FileKind::Fifo => "fifo",
        FileKind::Socket => "socket",
        FileKind::CharDevice => "character device",
        FileKind::BlockDevice => "block device",
        _ => "file",
    }
}

/// The state of an I/O daemon, as one word.
pub fn state_word(state: IodState) -> &'static str {
    match state {
        IodState::Up => "up",
        IodState::Down => "down",
        IodState::Draining => "draining",
        IodState::Removed => "removed",
        _ => "unknown to this version",
    }
}

/// The disk with the least free space, in percent, and whether new files avoid it.
pub fn fullest(iods: &[IodInfo]) -> Option<String> {
    let there = iods.iter().filter(|iod| iod.state != IodState::Removed && iod.space.total.0 > 0);
    // In 1/1024 of the space that an ordinary user may write: exact for every size.
    let used = |iod: &&IodInfo| {
        let (free, available) = (iod.space.free.0, iod.space.available.0);
        let used = u128::from(iod.space.total.0.saturating_sub(free));
        used * 1024 / (used + u128::from(available)).max(1)
    };
    let iod = there.max_by_key(used)?;
    let left_out = if iod.space.is_nearly_full() {
        "; new files avoid it while other disks have space"
    } else {
        ""
    };
    Some(format!(
        "fullest: I/O daemon {} at {}, {} % used, {} free{left_out}",
        iod.id,
        iod.addresses.first().map_or("no address", String::as_str),
        used(&iod) * 100 / 1024,
        human_bytes(iod.space.available.0),
    ))
}

/// Type and permissions, such as `drwxr-sr-t`.
pub fn mode_text(kind: FileKind, mode: u32) -> String {
    let mut text = String::from(kind_letter(kind));
    for (shift, special, letter) in [(6, 0o4000, 's'), (3, 0o2000, 's'), (0, 0o1000, 't')] {
        let bits = mode >> shift;
        text.push(if bits & 4 != 0 { 'r' } else { '-' });
        text.push(if bits & 2 != 0 { 'w' } else { '-' });
        text.push(match (bits & 1 != 0, mode & special != 0) {
            (true, true) => letter,
            (false, true) => letter.to_ascii_uppercase(),
            (true, false) => 'x',
            (false, false) => '-',
        });
    }
    text
}

/// A time, such as `2026-11-21 21:50:03Z`.
pub fn time_text(time: Timestamp) -> String {
    let days = time.seconds.div_euclid(86_400);
    let seconds = time.seconds.rem_euclid(86_400);
    let (year, month, day) = civil(days);
    format!(
        "{year:04}-{month:02}-{day:02} {:02}:{:02}:{:02}Z",
        seconds / 3600,
        seconds / 60 % 60,
        seconds % 60
    )
}

/// Year, month and day of a day number since 1970-01-01 in the proleptic Gregorian calendar
/// (400-year eras from March).
fn civil(days: i64) -> (i64, i64, i64) {
    let z = days + 719_468;
    let era = z.div_euclid(146_097);
    let day_of_era = z.rem_euclid(146_097);
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    (year_of_era + era * 400 + i64::from(month <= 2), month, day)
}

/// All attributes as JSON.
pub fn attributes_json(path: &[u8], found: &Attributes) -> Value {
    let time = |t: Timestamp| json!({ "seconds": t.seconds, "nanos": t.nanos });
    json!({
        "path": String::from_utf8_lossy(path),
        "file": found.file.to_string(),
        "kind": kind_word(found.kind),
        "mode": format!("{:04o}", found.mode),
        "links": found.links,
        "uid": found.uid,
        "gid": found.gid,
        "bytes": found.bytes.0,
        "bytes_used": found.bytes_used.0,
        "atime": time(found.atime),
        "mtime": time(found.mtime),
        "ctime": time(found.ctime),
        "btime": time(found.btime),
        "change": found.change,
        "size_generation": found.size_generation.0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_as_dates() {
        let text = |seconds| time_text(Timestamp { seconds, nanos: 0 });
        assert_eq!(text(0), "1970-01-01 00:00:00Z");
        assert_eq!(text(951_782_400), "2000-02-29 00:00:00Z");
        assert_eq!(text(-1), "1969-12-31 23:59:59Z");
        assert_eq!(text(1_795_298_400), "2026-11-21 22:00:00Z");
    }

    #[test]
    fn modes_read_as_ls_prints_them() {
        assert_eq!(mode_text(FileKind::Directory, 0o1777), "drwxrwxrwt");
        assert_eq!(mode_text(FileKind::File, 0o4644), "-rwSr--r--");
    }
}
