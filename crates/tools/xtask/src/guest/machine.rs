//! One boot of the guest: it runs a script and powers itself off.

use super::{GuestNetwork, Image};
use crate::process::Process;
use crate::tools;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::Path;
use std::time::Duration;

const QEMU: &str = "qemu-system-x86_64";
/// MiB of memory. The temporary file systems are in it: pattern files of 64 MiB, and an ext4 in a
/// file of 512 MiB that a comparison uses.
const MEMORY: &str = "1536";
/// A second processor only slows emulation down on hosts with two.
const PROCESSORS: &str = "1";
/// A panic ends QEMU (`-no-reboot`). The host's random numbers are trusted: a guest without input
/// devices would wait for its own.
const KERNEL_ARGUMENTS: &str =
    "console=ttyS0 quiet panic=-1 mitigations=off nokaslr random.trust_cpu=on";
/// Lines of the console in the report of a guest that gave no status.
const CONSOLE_LINES_MAX: usize = 30;

/// A guest that can be booted any number of times.
pub struct Guest<'a> {
    /// What it boots.
    pub image: Image,
    /// Where it is attached.
    pub network: &'a GuestNetwork,
}

/// The result of one script.
pub struct GuestOutput {
    /// Its exit status; `None` if the guest did not end by itself.
    pub status: Option<i32>,
    /// What it printed, and the end of the kernel's console if there is no status.
    pub text: String,
}

impl Guest<'_> {
    /// Boots, runs `script` with these variables, and waits for the end. The guest sees `share` as
    /// `/run/share`, with these files (name and content); files that the script leaves there are on
    /// the host afterwards.
    pub fn run(
        &self,
        share: &Path,
        script: &str,
        files: &[(&str, &str)],
        variables: &[(&str, String)],
        limit: Duration,
    ) -> Result<GuestOutput> {
        tools::need(QEMU, "qemu-system-x86")?;
        let _ = fs::remove_dir_all(share);
        fs::create_dir_all(share).with_context(|| share.display().to_string())?;
        fs::write(share.join("script"), script)?;
        files.iter().try_for_each(|(name, content)| fs::write(share.join(name), content))?;
        fs::write(share.join("variables"), assignments(variables))?;
        fs::write(share.join("network"), self.network.guest_commands())?;
        let console = share.join("console");
        let qemu = Process::under(&self.network.prefix(), QEMU).limit(limit);
        let qemu = qemu.args(["-M", "q35", "-accel", "tcg,thread=multi", "-cpu", "max"]);
        let qemu = qemu.args(["-smp", PROCESSORS, "-m", MEMORY, "-nodefaults", "-no-user-config"]);
        let qemu = qemu.args(["-display", "none", "-no-reboot", "-append", KERNEL_ARGUMENTS]);
        let qemu = qemu.args(["-kernel".as_ref(), self.image.kernel.as_os_str()]);
        let qemu = qemu.args(["-initrd".as_ref(), self.image.initramfs.as_os_str()]);
        let qemu = qemu.args(["-serial", &format!("file:{}", console.display())]);
        let qemu = qemu.args(["-netdev", &self.network.qemu_backend()]);
        let qemu = qemu.args(["-device", "virtio-net-pci,romfile=,netdev=net"]);
        let qemu = directory(qemu, "host", Path::new("/"), ",readonly=on");
        let finished = directory(qemu, "share", share, "").finish()?;
        let text = |name: &str| {
            let bytes = fs::read(share.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        };
        let status = text("status").trim().parse().ok();
        let mut output = text("output");
        if status.is_none() {
            let console = text("console");
            let lines: Vec<&str> = console.lines().collect();
            let last = lines[lines.len().saturating_sub(CONSOLE_LINES_MAX)..].join("\n");
            output += &format!("{}\nQEMU: {}\n{last}\n", finished.stderr, finished.status);
        }
        Ok(GuestOutput { status, text: output })
    }
}

/// Adds a directory of the host as a 9p file system with the tag `tag`.
fn directory(qemu: Process, tag: &str, path: &Path, flags: &str) -> Process {
    let path = path.display();
    let backend = format!("local,id={tag},path={path},security_model=none,multidevs=remap{flags}");
    let device = format!("virtio-9p-pci,fsdev={tag},mount_tag={tag}");
    qemu.args(["-fsdev", &backend, "-device", &device])
}

/// Assignments for a shell.
fn assignments(variables: &[(&str, String)]) -> String {
    let quoted = |value: &str| format!("'{}'", value.replace('\'', "'\\''"));
    variables.iter().map(|(name, value)| format!("{name}={}\n", quoted(value))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_keep_quotes_and_spaces_in_the_shell() {
        let text = assignments(&[("a", "x y".to_owned()), ("b", "it's $HOME".to_owned())]);
        assert_eq!(text, "a='x y'\nb='it'\\''s $HOME'\n");
    }
}
