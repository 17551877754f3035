//! How a mount is made: `-o` in parts.

use super::SUBTYPE;
use crate::kernel::uring::IoUring;
use rustix::mount::MountFlags;
use std::path::PathBuf;

/// What to mount where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MountOptions {
    /// The directory.
    pub point: PathBuf,
    /// What the table of mounts shows as the source.
    pub source: String,
    /// Type behind `fuse.`.
    pub subtype: String,
    /// Nothing can be changed.
    pub read_only: bool,
    /// Other users than the one who mounted may use it. An ordinary user needs `user_allow_other` in
    /// `/etc/fuse.conf`.
    pub allow_other: bool,
    /// The kernel checks permissions.
    pub default_permissions: bool,
    /// Set-user-id and set-group-id bits count.
    pub suid: bool,
    /// Device nodes are devices.
    pub dev: bool,
    /// Programs may be run.
    pub exec: bool,
    /// Reading changes no times.
    pub no_atime: bool,
    /// Of directories.
    pub no_dir_atime: bool,
    /// Each read changes the time, as the table of mounts shows it. What times are is the cluster's affair.
    pub strict_atime: bool,
    /// Times are written late, as the table of mounts shows it.
    pub lazy_time: bool,
    /// What the kernel asks for at a time, in bytes, a multiple of the page.
    pub read_bytes_max: u32,
    /// Every write is synchronous.
    pub sync: bool,
    /// Every change of a directory is synchronous.
    pub dir_sync: bool,
    /// Whether requests come over io_uring.
    pub io_uring: IoUring,
}

/// Half of what a pipe holds at best, so that the pieces of a socket have places in it (docs/adr/0017).
const READ_BYTES_MAX: u32 = 512 << 10;

/// What `/etc/fstab` and mount(8) know and the kernel, or a file system like this, has no use for.
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

/// How requests come, as a word of `-o`.
const IO_URING: &str = "io_uring=";

impl MountOptions {
    /// As a cluster's file system should be mounted: everyone may use it (where root mounts it), the kernel
    /// checks permissions, and no other machine's set-user-id program or device counts here.
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

    /// Takes one word of `-o`; `false`: not a word of mounts in general.
    pub fn set(&mut self, word: &str) -> bool {
        match word {
            "ro" => self.read_only = true,
            "rw" => self.read_only = false,
            "suid" | "nosuid" => self.suid = word == "suid",
            "dev" | "nodev" => self.dev = word == "dev",
            "exec" | "noexec" => self.exec = word == "exec",
            "atime" | "noatime" => self.no_atime = word == "noatime",
            "diratime" | "nodiratime" => self.no_dir_atime = word == "nodiratime",
            // The kernel takes the one of them, and the last word counts.
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

    /// The words for `fusermount3 -o`. It adds `nosuid` and `nodev` for ordinary users by itself.
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

/// A comma would end the word.
fn escape(text: &str) -> String {
    text.replace('\\', "\\\\").replace(',', "\\,")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_of_fstab_are_taken_and_unknown_ones_are_not() {
        let mut options = MountOptions::new("braid", "/mnt");
        for word in "defaults,_netdev,noauto,x-systemd.automount,ro,noatime,suid".split(',') {
            assert!(options.set(word), "{word}");
        }
        assert!(options.read_only && options.no_atime && options.suid && !options.dev);
        assert!(!options.set("writeback"));
        assert!(!options.set(""));
    }

    #[test]
    fn every_word_of_times_of_access_is_taken() {
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
    fn the_last_word_counts() {
        let mut options = MountOptions::new("braid", "/mnt");
        assert!(
            options.set("ro") && options.set("rw") && options.set("noexec") && options.set("exec")
        );
        assert_eq!(options.flags(), MountFlags::NOSUID | MountFlags::NODEV);
    }

    #[test]
    fn a_comma_in_a_source_does_not_end_its_word() {
        let options = MountOptions::new("a,b\\c", "/mnt");
        assert!(
            options.words().ends_with("fsname=a\\,b\\\\c,subtype=braid"),
            "{}",
            options.words()
        );
    }
}
