//! `-o`: general mount options, and the client's settings for /etc/fstab.

use std::path::{Path, PathBuf};

use braid_fuse::kernel::mount::MountOptions;
use braid_vfs::Options;
use clap::ValueEnum;

use super::{background::is_child, watchdog::WatchdogOptions};
use crate::{
    args::{Global, MountArgs, TlsArg},
    config::Settings,
    log,
    output::Fault,
};

/// The parameters of a mount.
pub struct MountRequest {
    /// For the kernel.
    pub mount: MountOptions,
    /// For the client.
    pub settings: Settings,
    /// How the mount behaves.
    pub options: Options,
    /// For the watchdog process.
    pub watchdog: WatchdogOptions,
}

/// Reads the command's options, then `-o`. `-o` has precedence over other options and the
/// environment.
pub fn read(args: &MountArgs, global: &Global) -> Result<MountRequest, Fault> {
    let mut global = global.clone();
    let (mut mount, mut options) = (MountOptions::new("braid", &args.point), Options::default());
    let log = log_file(args).or_else(|| default_log(args).filter(|_| is_child()));
    let mut watch = WatchdogOptions {
        log: log.and_then(|path| std::path::absolute(path).ok()),
        detach_dead: false,
    };
    let remounts = is_remount(args);
    for word in args.options.iter().filter(|word| !word.is_empty()) {
        watch.detach_dead |= word == DETACH_DEAD;
        let ours = word == DETACH_DEAD || word == REMOUNT || read_behaviour(&mut options, word)?;
        let known = ours || mount.set(word) || read_client_setting(&mut global, word)?;
        // mount(8) adds the options that the mount table shows.
        if !known && !args.sloppy && !remounts {
            return Err(Fault::usage(format!("reading -o {word}"), "no such option").hint(WORDS));
        }
    }
    let settings = Settings::load(&global)?;
    mount.source = args.source.clone().unwrap_or_else(|| settings.mds.value.join(","));
    Ok(MountRequest { mount, settings, options, watchdog: watch })
}

/// Whether an existing mount is to be changed.
pub fn is_remount(args: &MountArgs) -> bool {
    args.options.iter().any(|word| word == REMOUNT)
}

const REMOUNT: &str = "remount";

/// A close waits until the I/O daemons have the data that the process wrote.
const FLUSH_ON_CLOSE: &str = "flush_on_close";

/// The mount point of a killed mount is detached.
const DETACH_DEAD: &str = "detach_dead";

/// Maximum length of the mount point in the name of its log.
const ESCAPED_BYTES_MAX: usize = 200;
const WORDS: &str = "ro, rw, noatime, noexec, suid, dev, sync, noallow_other, remount, \
    detach_dead, flush_on_close, config=FILE, mds=ADDR, key=FILE, agent=SOCKET, timeout=TIME, \
    tls=WHEN, log=FILE, consistency=posix|close-to-open|commit, io_uring=auto|on|off";

/// Reads an option about the mount's behaviour; `false`: it is another option.
fn read_behaviour(options: &mut Options, word: &str) -> Result<bool, Fault> {
    if word == FLUSH_ON_CLOSE {
        options.flush_on_close = true;
        return Ok(true);
    }
    let Some(value) = word.strip_prefix("consistency=") else { return Ok(false) };
    let wrong = |why: String| {
        Fault::usage(format!("reading -o {word}"), why).hint("braid mount -o consistency=posix")
    };
    options.consistency = value.parse().map_err(wrong)?;
    Ok(true)
}

/// Reads a setting of the client; `false`: it is another option.
fn read_client_setting(global: &mut Global, word: &str) -> Result<bool, Fault> {
    let Some((name, value)) = word.split_once('=') else { return Ok(false) };
    let wrong = |why: String| Fault::usage(format!("reading -o {word}"), why);
    match name {
        "config" => global.config = Some(value.into()),
        "mds" => global.mds = vec![value.to_owned()],
        "key" => (global.key, global.agent) = (Some(value.into()), None),
        "agent" => (global.agent, global.key) = (Some(value.into()), None),
        "timeout" => global.timeout = Some(braid_client::settings::duration(value).map_err(wrong)?),
        "tls" => global.tls = Some(TlsArg::from_str(value, false).map_err(wrong)?),
        "log" => {}
        _ => return Ok(false),
    }
    Ok(true)
}

/// The log file: `--log`, or `-o log=`.
pub fn log_file(args: &MountArgs) -> Option<PathBuf> {
    let word =
        args.options.iter().rev().find_map(|word| word.strip_prefix("log=").map(PathBuf::from));
    word.or_else(|| args.log.clone())
}

/// The log of a background mount if no log is named and the host has no system log, one per mount
/// point: in `/var/log` for root, in `XDG_RUNTIME_DIR` for others. Both are on this host. A home
/// directory may be on a mount, which must not wait for itself.
pub fn default_log(args: &MountArgs) -> Option<PathBuf> {
    if args.foreground || log_file(args).is_some() || log::has_system_log() {
        return None;
    }
    let root = rustix::process::geteuid().is_root();
    let dir = if root { Some("/var/log".into()) } else { std::env::var_os("XDG_RUNTIME_DIR") };
    let point = std::path::absolute(&args.point).unwrap_or_else(|_| args.point.clone());
    Some(PathBuf::from(dir?).join(format!("braid-mount-{}.log", escaped(&point))))
}

/// A path as part of a file name, escaped as in systemd-escape(1). Different paths have different
/// names.
fn escaped(point: &Path) -> String {
    let mut name = String::new();
    for byte in point.as_os_str().as_encoded_bytes().iter().skip_while(|byte| **byte == b'/') {
        match byte {
            b'/' => name.push('-'),
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b':' | b'_' | b'.' => {
                name.push(char::from(*byte))
            }
            other => name += &format!("\\x{other:02x}"),
        }
    }
    // The end of a path differs more than its start. A file name has at most 255 bytes.
    let cut = name.len().saturating_sub(ESCAPED_BYTES_MAX);
    name.split_off(cut)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use braid_fuse::kernel::uring::IoUring;
    use braid_vfs::Consistency;

    use super::*;
    use crate::args::{Cli, Command};

    fn wish(words: &str) -> Result<MountRequest, Fault> {
        let cli = Cli::try_parse_from(["braid", "mount", "/mnt", "--key", "flag.key", "-o", words])
            .unwrap();
        let Command::Mount(args) = cli.command else { panic!("not a mount") };
        read(&args, &cli.global)
    }

    #[test]
    fn words_for_the_kernel_and_for_the_client_may_be_mixed() {
        let wish = wish("ro,mds=host:7700,key=word.key,_netdev,timeout=5s,detach_dead").unwrap();
        assert!(wish.mount.read_only && wish.watchdog.detach_dead);
        assert_eq!(wish.mount.source, "host:7700");
        assert_eq!(wish.settings.key.value, Some("word.key".into()));
        assert_eq!(wish.settings.timeout.value.as_secs(), 5);
    }

    #[test]
    fn the_consistency_of_a_mount_is_posix_unless_a_word_says_otherwise() {
        assert_eq!(wish("ro").unwrap().options.consistency, Consistency::Posix);
        assert_eq!(
            wish("_netdev,consistency=close-to-open").unwrap().options.consistency,
            Consistency::CloseToOpen
        );
        assert_eq!(wish("consistency=commit,ro").unwrap().options.consistency, Consistency::Commit);
        let fault = wish("consistency=eventual").err().unwrap().to_string();
        assert_eq!(
            fault,
            "reading -o consistency=eventual: \"eventual\" is none of posix, close-to-open, \
             commit; try: braid mount -o consistency=posix"
        );
    }

    #[test]
    fn each_place_has_a_log_of_its_own() {
        assert_eq!(escaped(Path::new("/mnt/data")), "mnt-data");
        assert_eq!(escaped(Path::new("/mnt-data x")), "mnt\\x2ddata\\x20x");
        assert_eq!(escaped(Path::new(&"/a".repeat(300))).len(), ESCAPED_BYTES_MAX);
    }

    #[test]
    fn requests_come_by_the_device_unless_a_word_asks_for_io_uring() {
        assert_eq!(wish("ro").unwrap().mount.io_uring, IoUring::Off);
        assert_eq!(wish("io_uring=auto").unwrap().mount.io_uring, IoUring::Auto);
        assert_eq!(wish("_netdev,io_uring=on").unwrap().mount.io_uring, IoUring::On);
        assert_eq!(wish("io_uring=on,io_uring=off").unwrap().mount.io_uring, IoUring::Off);
    }

    #[test]
    fn an_unknown_word_is_refused_with_those_that_there_are() {
        for wrong in ["writeback", "tls=maybe", "timeout=x", "io_uring=maybe"] {
            let fault = wish(wrong).err().unwrap().to_string();
            assert!(fault.contains(wrong), "{fault}");
        }
        assert!(wish("writeback").err().unwrap().to_string().contains("try: ro, rw"));
    }
}
