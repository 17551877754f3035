//! The guest's kernel and its initial file system, built once from packages of the distribution.
//! The packages are downloaded and unpacked below `target/guest`, never installed.

use crate::context::Context;
use crate::process::Process;
use crate::tools;
use anyhow::{Context as _, Result};
use std::fs;
use std::path::PathBuf;

const BUILD: &str = include_str!("../../guest/build.sh");
const INIT: &str = include_str!("../../guest/init.sh");
/// The package that depends on the distribution's current kernel.
const KERNEL: &str = "linux-image-amd64";
/// The devices of QEMU, the host's directories, the NFS client with both layout drivers, and what a
/// local file system in a file needs, for comparisons.
const MODULES: [&str; 9] = [
    "virtio_pci",
    "virtio_net",
    "9pnet_virtio",
    "9p",
    "nfsv4",
    "nfs_layout_nfsv41_files",
    "nfs_layout_flexfiles",
    "loop",
    "ext4",
];
/// Programs that the build needs, and their packages.
const PROGRAMS: [(&str, &str); 5] = [
    ("dpkg-deb", "dpkg"),
    ("apt-get", "apt"),
    ("cpio", "cpio"),
    ("modprobe", "kmod"),
    ("xz", "xz-utils"),
];

/// What QEMU boots.
pub struct Image {
    /// An uncompressed kernel.
    pub kernel: PathBuf,
    /// Busybox, modules and the first process.
    pub initramfs: PathBuf,
}

impl Image {
    /// The image below `target/guest`; builds it if it is missing or out of date.
    pub fn build(context: &Context) -> Result<Self> {
        let home = context.root.join("target/guest");
        let image = Self { kernel: home.join("vmlinux"), initramfs: home.join("initramfs") };
        let package = kernel_package()?;
        let version = format!("{package}\n{}\n{BUILD}\n{INIT}", MODULES.join(" "));
        let stamp = home.join("built-from");
        if fs::read_to_string(&stamp).is_ok_and(|built| built == version) {
            return Ok(image);
        }
        for (program, package) in PROGRAMS {
            tools::need(program, package)?;
        }
        println!("       building the guest from {package}");
        fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
        let _ = fs::remove_file(&stamp);
        let init = home.join("init.sh");
        fs::write(&init, INIT)?;
        let build = Process::new("sh").args(["-euc", BUILD, "sh"]).args([&home]);
        build
            .args([&package])
            .args([&init])
            .args(MODULES)
            .run()
            .context("building the guest from the distribution's packages")?;
        fs::write(&stamp, version)?;
        Ok(image)
    }
}

/// The package of the current kernel, by the dependencies of [`KERNEL`].
fn kernel_package() -> Result<String> {
    let listed = Process::new("apt-cache").args(["depends", KERNEL]).run();
    let listed = listed.context("the guest's kernel is a Debian package")?.stdout;
    of_dependencies(&listed)
        .with_context(|| format!("no kernel in the package index; try: apt-get update\n{listed}"))
}

/// A line is `  Depends: linux-image-6.1.0-42-amd64`; alternatives begin with `|`.
fn of_dependencies(listed: &str) -> Option<String> {
    let names = listed.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
    names.map(str::trim).find(|name| name.starts_with("linux-image-")).map(str::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_a_dependency_of_the_distributions_package() {
        let listed = "linux-image-amd64\n  Depends: linux-image-6.1.0-42-amd64\n  Replaces: <x>\n";
        assert_eq!(of_dependencies(listed).unwrap(), "linux-image-6.1.0-42-amd64");
        assert_eq!(of_dependencies("linux-image-amd64\n"), None);
    }
}
