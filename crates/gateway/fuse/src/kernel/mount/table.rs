//! The table of mounts, `/proc/self/mountinfo`: read without touching any mount, so that it works
//! while servers are dead.

use super::SUBTYPE;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// One entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountEntry {
    /// The kernel's number, which it reuses after the end of the mount.
    pub id: u64,
    /// The root of the mount within the file system: `/`, unless it is a bind mount of a directory.
    pub root: PathBuf,
    /// The mount point.
    pub point: PathBuf,
    /// Type of file system, `fuse.braid` for ours.
    pub kind: String,
    /// The source.
    pub source: String,
    /// `major:minor` of its device.
    pub device: String,
}

impl MountEntry {
    /// Whether it is a mount of BraidFS.
    pub fn is_ours(&self) -> bool {
        self.kind.strip_prefix("fuse.") == Some(SUBTYPE)
    }

    /// The number of its connection, where it is a FUSE mount: the minor of its device.
    pub(super) fn connection(&self) -> Option<u32> {
        let minor = self.device.strip_prefix("0:").filter(|_| self.kind.starts_with("fuse."))?;
        minor.parse().ok()
    }

    /// `36 35 98:0 /root /point options tags... - kind source superoptions`
    fn parse(line: &[u8]) -> Option<Self> {
        let fields: Vec<&[u8]> = line.split(|byte| *byte == b' ').collect();
        let dash = fields.iter().skip(6).position(|field| *field == b"-")? + 6;
        let text = |bytes: &[u8]| String::from_utf8_lossy(&unescape(bytes)).into_owned();
        let path = |bytes: &[u8]| PathBuf::from(OsString::from_vec(unescape(bytes)));
        Some(Self {
            id: std::str::from_utf8(fields.first()?).ok()?.parse().ok()?,
            root: path(fields.get(3)?),
            point: path(fields.get(4)?),
            kind: text(fields.get(dash + 1)?),
            source: text(fields.get(dash + 2)?),
            device: text(fields.get(2)?),
        })
    }
}

/// Every mount of this namespace, the newest last.
pub fn entries() -> io::Result<Vec<MountEntry>> {
    let table = std::fs::read("/proc/self/mountinfo")?;
    Ok(table.split(|byte| *byte == b'\n').filter_map(MountEntry::parse).collect())
}

/// What is mounted on a directory: the topmost mount, where there are several. The path is
/// absolute, without symbolic links.
pub fn entry_at(point: &Path) -> io::Result<Option<MountEntry>> {
    Ok(entries()?.into_iter().rfind(|entry| entry.point == point))
}

/// A path as in the table. Only its parent is resolved, so that the mount itself is not touched.
pub(super) fn resolve(point: &Path) -> io::Result<PathBuf> {
    let point = std::path::absolute(point)?;
    match (point.parent(), point.file_name()) {
        (Some(parent), Some(name)) => Ok(parent.canonicalize()?.join(name)),
        // The root, or a path that ends in `..`.
        _ => point.canonicalize(),
    }
}

/// `\040` and the like: three octal digits.
fn unescape(field: &[u8]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(field.len());
    let mut rest = field;
    while let [first, tail @ ..] = rest {
        let digits = tail.get(..3).and_then(|digits| std::str::from_utf8(digits).ok());
        let code = digits
            .filter(|_| *first == b'\\')
            .and_then(|digits| u8::from_str_radix(digits, 8).ok());
        bytes.push(code.unwrap_or(*first));
        rest = if code.is_some() { &tail[3..] } else { tail };
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_read_with_and_without_tags_and_with_blanks_in_its_names() {
        let line = b"46 28 0:41 / /mnt/a\\040b rw,nosuid shared:9 master:1 - fuse.braid a\\134b \
                     rw,user_id=0";
        let entry = MountEntry::parse(line).unwrap();
        assert_eq!((entry.point.as_path(), entry.source.as_str()), (Path::new("/mnt/a b"), "a\\b"));
        assert_eq!(entry.root, Path::new("/"));
        assert_eq!((entry.id, entry.device.as_str(), entry.is_ours()), (46, "0:41", true));
        assert_eq!(entry.connection(), Some(41));
        let plain = MountEntry::parse(b"22 1 8:1 / / rw - ext4 /dev/sda1 rw").unwrap();
        assert_eq!(
            (plain.kind.as_str(), plain.is_ours(), plain.connection()),
            ("ext4", false, None)
        );
    }

    #[test]
    fn a_broken_line_is_passed_over() {
        for line in [
            "",
            "1 2 3",
            "22 1 8:1 / / rw ext4 x rw",
            "22 1 8:1 / / rw -",
            "a 1 8:1 / / rw - ext4 x rw",
        ] {
            assert_eq!(MountEntry::parse(line.as_bytes()), None, "{line}");
        }
    }

    #[test]
    fn proc_is_found_in_the_table_of_this_machine() {
        assert_eq!(
            entry_at(Path::new("/proc")).unwrap().map(|entry| entry.kind),
            Some("proc".to_owned())
        );
    }
}
