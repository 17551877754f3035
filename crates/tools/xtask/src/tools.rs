//! Programs that the suites need. A missing program is installed where we may, and each
//! installation is printed.

use crate::context::Context;
use crate::process::Process;
use anyhow::{Context as _, Result, bail};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// The path of a program, if the search path has it.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    std::env::split_paths(&path).map(|dir| dir.join(program)).find(|file| file.is_file())
}

/// Makes sure that a program exists; installs the Debian package if it is missing and we are root.
pub fn need(program: &str, debian_package: &str) -> Result<PathBuf> {
    if let Some(found) = find(program) {
        return Ok(found);
    }
    if !is_root() || find("apt-get").is_none() {
        bail!("`{program}` is missing; try: sudo apt-get install {debian_package}");
    }
    println!("     installing {debian_package} (for `{program}`)");
    install(debian_package)?;
    find(program).ok_or_else(|| {
        anyhow::anyhow!("`{program}` is still missing after the installation of {debian_package}")
    })
}

/// One installation at a time: the package manager has one lock.
static INSTALLING: Mutex<()> = Mutex::new(());

fn install(debian_package: &str) -> Result<()> {
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let apt = || Process::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive");
    apt().args(["update", "-q"]).run()?;
    apt().args(["install", "-q", "-y", "--no-install-recommends", debian_package]).run()?;
    Ok(())
}

/// A program of this version from the crate registry, installed below `target` only.
pub fn need_crate(context: &Context, name: &str, version: &str) -> Result<PathBuf> {
    let root = context.root.join("target/tools").join(format!("{name}-{version}"));
    let program = root.join("bin").join(name);
    if !program.is_file() {
        println!("     installing {name} {version} from the registry");
        let install =
            context.cargo(["install", "--quiet", "--locked", name, "--version", version, "--root"]);
        install
            .args([&root])
            .env("CARGO_TARGET_DIR", context.root.join("target/tools/build"))
            .run()?;
    }
    program
        .is_file()
        .then_some(program)
        .with_context(|| format!("{name} {version} is missing after its installation"))
}

/// Whether we run as root.
pub fn is_root() -> bool {
    let id = Process::new("id").args(["-u"]).finish();
    id.is_ok_and(|finished| finished.stdout.trim() == "0")
}

/// `cargo` of the nightly toolchain, or why there is none.
pub fn nightly_cargo() -> Result<Process, String> {
    let cargo = || {
        Process::new("rustup")
            .env_remove("CARGO")
            .env_remove("RUSTUP_TOOLCHAIN")
            .args(["run", "nightly", "cargo"])
    };
    match cargo().args(["--version"]).finish() {
        Ok(finished) if finished.status.success() => Ok(cargo()),
        _ => Err("no nightly toolchain; try: rustup toolchain install nightly".to_owned()),
    }
}
