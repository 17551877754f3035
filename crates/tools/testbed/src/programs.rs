//! Programs that tests and tools need. A missing program is installed where we may, and each
//! installation is printed.

use std::{
    path::{Path, PathBuf},
    sync::{Mutex, OnceLock, PoisonError},
};

use anyhow::{Context, Result, bail};

use crate::process::Process;

/// The path of a program, if the search path has it.
pub fn find(program: &str) -> Option<PathBuf> {
    let path = std::env::var_os("PATH")?;
    // Programs of the administrator are in directories that not every PATH has.
    let more = ["/usr/sbin", "/sbin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(more)
        .map(|dir| dir.join(program))
        .find(|file| file.is_file())
}

/// Makes sure that a program, or the file with this absolute path, exists. Installs these Debian
/// packages if it is missing and we are root.
///
/// # Errors
/// With the command that installs it, if it is missing and cannot be installed.
pub fn need(program: &str, packages: &[&str]) -> Result<PathBuf> {
    if let Some(found) = find_file(program) {
        return Ok(found);
    }
    let packages_text = packages.join(" ");
    let hint = format!("`{program}` is missing; try: sudo apt-get install {packages_text}");
    if !is_root() || find("apt-get").is_none() {
        bail!("{hint}");
    }
    eprintln!("     installing {packages_text} (for `{program}`)");
    install(packages).context(hint)?;
    find_file(program).with_context(|| {
        format!("`{program}` is still missing after the installation of {packages_text}")
    })
}

/// `find` of a name; a path that exists is returned as it is.
fn find_file(program: &str) -> Option<PathBuf> {
    let path = Path::new(program);
    if path.is_absolute() { path.exists().then(|| path.to_owned()) } else { find(program) }
}

/// One installation at a time: the package manager has one lock.
static INSTALLING: Mutex<()> = Mutex::new(());

fn install(packages: &[&str]) -> Result<()> {
    let _alone = INSTALLING.lock().unwrap_or_else(PoisonError::into_inner);
    let apt = || Process::new("apt-get").env("DEBIAN_FRONTEND", "noninteractive");
    apt().args(["update", "-q"]).run()?;
    let install = apt().args(["install", "-q", "-y", "--no-install-recommends"]);
    install.args(packages).run()?;
    Ok(())
}

/// Whether we run as root.
pub fn is_root() -> bool {
    static IS_ROOT: OnceLock<bool> = OnceLock::new();
    *IS_ROOT.get_or_init(|| {
        let id = Process::new("id").args(["-u"]).finish();
        id.is_ok_and(|finished| finished.stdout.trim() == "0")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn programs_are_found_by_name_and_files_by_path() {
        assert!(find("sh").is_some_and(|path| path.ends_with("sh")));
        assert_eq!(find("no-such-program-of-braid"), None);
        assert_eq!(need("/dev/null", &[]).unwrap(), Path::new("/dev/null"));
    }
}
