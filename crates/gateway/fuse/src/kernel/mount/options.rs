//! Options of a mount (`-o`).

use super::SUBTYPE;
use crate::kernel::uring::IoUring;
use rustix::mount::MountFlags;
use std::path::PathBuf;

/// What to mount, where, and how.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The directory.
    pub point: PathBuf,
    /// The source in the table of mounts.
    pub source: String,
    /// The type after `fuse.`.
    pub subtype: String,
    /// The mount is read-only.
    pub read_only: bool,
    /// Users other than the one who mounted may use it. An unprivileged user needs
    /// `user_allow_other` in `/etc/fuse.conf`.
    pub allow_other: bool,
    /// The kernel checks permissions.
    pub default_permissions: bool,
    /// Set-user-id and set-group-id bits take effect.
    pub suid: bool,
    /// Device nodes give access to devices.
    pub dev: bool,
    /// Programs may be run.
    pub exec: bool,
    /// Reading does not change access times.
    pub no_atime: bool,
    /// Reading directories does not change their access times.
    pub no_dir_atime: bool,
    /// Each read changes the access time: shown in the table of mounts only. The cluster decides
    /// about times.
    pub strict_atime: bool,
    /// Times are written lazily: shown in the table of mounts only.
    pub lazy_time: bool,
    /// The largest READ of the kernel, in bytes, a multiple of the page size.
    pub read_bytes_max: u32,
    /// Every write is synchronous.
    pub sync: bool,
    /// Every change of a directory is synchronous.
    pub dir_sync: bool,
    /// Whether requests come over io_uring.
    pub io_uring: IoUring,
}

/// Half the capacity of a pipe, so that the fragments from a socket fit into its buffers
/// (docs/adr/0017).
const READ_BYTES_MAX: u32 = 512 << 10;

/// Options of `/etc/fstab` and mount(8) that have no meaning for the kernel or this file system.
const OF_FSTAB: &[&str] = &[
    "defaults",
    "auto",
    "noauto",
    "user",
    "users",
    "nouser",
    "nousers",
    "owner",
    "noowner",
    "group",
    "nogroup",
    "nofail",
    "_netdev",
    "silent",
    "loud",
    "mand",
    "nomand",
    "iversion",
    "noiversion",
];

/// The option for the transport of requests.
const IO_URING: &str = "io_uring=";

impl MountOptions {
    /// The defaults for a cluster's file system: all users may use it (if root mounts it), the
    /// kernel checks permissions, and set-user-id programs and devices of other machines have no
    /// effect.
    pub fn new(source: impl Into<String>, point: impl Into<PathBuf>) -> Self {
        Self {
            point: point.into(),
            source: source.into(),
            subtype: SUBTYPE.to_owned(),
            read_only: false,
            allow_other: rustix::process::geteuid().is_root(),
            default_permissions: true,
            suid: false,
            dev: false,
            exec: true,
            no_atime: false,
            no_dir_atime: false,
            strict_atime: false,
            lazy_time: false,
            read_bytes_max: READ_BYTES_MAX,
            sync: false,
            dir_sync: false,
            io_uring: IoUring::default(),
        }
    }

    /// Sets one option of `-o`. `false`: it is not an option of mounts in general.
    pub fn set(&mut self, word: &str) -> bool {
        match word {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "suid" | "nosuid" => self.suid = word == "suid",
            "dev" | "nodev" => self.dev = word == "dev",
            "exec" | "noexec" => self.exec = word == "exec",
            "atime" | "noatime" => self.no_atime = word == "noatime",
            "diratime" | "nodiratime" => self.no_dir_atime = word == "nodiratime",
            // The kernel refuses both together; the last one counts.
            "strictatime" => (self.strict_atime, self.no_atime) = (true, false),
            "nostrictatime" | "relatime" | "norelatime" => self.strict_atime = false,
            "lazytime" | "nolazytime" => self.lazy_time = word == "lazytime",
            "sync" | "async" => self.sync = word == "sync",
            "dirsync" => self.dir_sync = true,
            "allow_other" => self.allow_other = true,
            "noallow_other" => self.allow_other = false,
            "default_permissions" => self.default_permissions = true,
            _ if word.starts_with(IO_URING) => match word[IO_URING.len()..].parse() {
                Ok(how) => self.io_uring = how,
                Err(_) => return false,
            },
            _ => {
                return OF_FSTAB.contains(&word)
                    || word.starts_with("x-")
                    || word.starts_with("comment=");
            }
        }
        true
    }

    pub(super) fn flags(&self) -> MountFlags {
        let flags = [
            (self.read_only, MountFlags::RDONLY),
            (!self.suid, MountFlags::NOSUID),
            (!self.dev, MountFlags::NODEV),
            (!self.exec, MountFlags::NOEXEC),
            (self.no_atime, MountFlags::NOATIME),
            (self.no_dir_atime, MountFlags::NODIRATIME),
            (self.strict_atime, MountFlags::STRICTATIME),
            (self.lazy_time, MountFlags::LAZYTIME),
            (self.sync, MountFlags::SYNCHRONOUS),
            (self.dir_sync, MountFlags::DIRSYNC),
        ];
        flags
            .into_iter()
            .filter(|(is, _)| *is)
            .fold(MountFlags::empty(), |all, (_, flag)| all | flag)
    }

    /// The options for `fusermount3 -o`, which adds `nosuid` and `nodev` for unprivileged users by
    /// itself.
    pub(super) fn words(&self) -> String {
        let words = [
            (self.read_only, "ro"),
            (!self.exec, "noexec"),
            (self.no_atime, "noatime"),
            (self.sync, "sync"),
            (self.dir_sync, "dirsync"),
            (self.allow_other, "allow_other"),
            (self.default_permissions, "default_permissions"),
        ];
        let mut words: Vec<String> =
            words.into_iter().filter(|(is, _)| *is).map(|(_, word)| word.to_owned()).collect();
        words.push(format!("max_read={}", self.read_bytes_max));
        words.push(format!("fsname={}", escape(&self.source)));
        words.push(format!("subtype={}", escape(&self.subtype)));
        words.join(",")
    }
}

/// Escapes commas, which would end the option.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_fstab_are_accepted_and_unknown_ones_are_not() {
        let mut options = MountOptions::new("braid", "/mnt");
        for word in "defaults,_netdev,noauto,x-systemd.automount,ro,noatime,suid".split(',') {
            assert!(options.set(word), "{word}");
        }
        assert!(options.read_only && options.no_atime && options.suid && !options.dev);
        assert!(!options.set("writeback"));
        assert!(!options.set(""));
    }

    #[test]
    fn every_option_for_access_times_is_accepted() {
        let mut options = MountOptions::new("braid", "/mnt");
        let own = options.flags();
        for (word, flag) in [
            ("nodiratime", MountFlags::NODIRATIME),
            ("strictatime", MountFlags::STRICTATIME),
            ("lazytime", MountFlags::LAZYTIME),
            ("noatime", MountFlags::NOATIME),
        ] {
            assert!(options.set(word), "{word}");
            assert!(options.flags().contains(flag), "{word}");
        }
        for word in ["diratime", "nostrictatime", "nolazytime", "atime", "relatime", "norelatime"] {
            assert!(options.set(word), "{word}");
        }
        assert_eq!(options.flags(), own);
        assert!(options.set("noatime") && options.set("strictatime"));
        assert!(!options.flags().contains(MountFlags::NOATIME), "the kernel refuses both");
    }

    #[test]
    fn the_last_option_counts() {
        let mut options = MountOptions::new("braid", "/mnt");
        assert!(
            options.set("ro") && options.set("rw") && options.set("noexec") && options.set("exec")
        );
        assert_eq!(options.flags(), MountFlags::NOSUID | MountFlags::NODEV);
    }

    #[test]
    fn a_comma_in_a_source_does_not_end_its_option() {
        let options = MountOptions::new("a,b\\c", "/mnt");
        assert!(
            options.words().ends_with("fsname=a\\,b\\\\c,subtype=braid"),
            "{}",
            options.words()
        );
    }
}
