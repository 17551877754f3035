//! MPICH's source package, from the mirror that apt uses. The machine's own source lists do not
//! change: apt gets separate lists and a separate state.

use anyhow::{Context as _, Result, ensure};
use braid_testbed::process::Process;
use braid_testbed::programs;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// 32 MB over a slow link; the suite is skipped without network.
const LIMIT: Duration = Duration::from_secs(120);
/// The parts of it that the suite needs.
const PARTS: &[&str] =
    &["*/test/mpi/io/*", "*/test/mpi/include/*", "*/test/mpi/util/*", "*/romio/test/*"];

/// The unpacked sources, downloaded unless they are there already.
pub fn of_mpich(home: &Path) -> Result<PathBuf> {
    let source = home.join("source");
    if source.join("test/mpi/io").is_dir() {
        return Ok(source);
    }
    ensure!(programs::find("apt-get").is_some(), "there is no apt-get");
    let apt = home.join("apt");
    let _ = fs::remove_dir_all(&apt);
    fs::create_dir_all(apt.join("lists/partial")).with_context(|| apt.display().to_string())?;
    fs::create_dir_all(apt.join("archives/partial")).with_context(|| apt.display().to_string())?;
    fs::write(apt.join("source.list"), deb_src()?)?;
    println!("     fetching the source package of mpich");
    apt_get(&apt).args(["update"]).run().context("apt-get update")?;
    apt_get(&apt).args(["source", "--download-only", "mpich"]).run().context("apt-get source")?;
    let original = fs::read_dir(&apt)?.filter_map(|entry| Some(entry.ok()?.path()));
    let original =
        original.into_iter().find(|path| path.display().to_string().contains(".orig.tar"));
    let original = original.context("apt-get source left no .orig.tar")?;
    // Has another name until it is complete.
    let partial = home.join("source.partial");
    let _ = fs::remove_dir_all(&partial);
    fs::create_dir_all(&partial)?;
    let tar = Process::new("tar")
        .args(["--strip-components=1", "--wildcards", "-C"])
        .args([&partial])
        .args(["-xf"]);
    tar.args([&original]).args(PARTS).limit(LIMIT).run()?;
    fs::rename(&partial, &source)?;
    let _ = fs::remove_dir_all(&apt);
    Ok(source)
}

/// The mirrors and releases of the binary packages.
fn deb_src() -> Result<String> {
    let format = "$(ORIGIN)|$(COMPONENT)|$(SIGNED_BY)|$(REPO_URI)|$(RELEASE)";
    let listed = Process::new("apt-get")
        .args(["indextargets", "--format", format, "Identifier: Packages"])
        .run()?
        .stdout;
    let mut lines: Vec<String> = listed.lines().filter_map(deb_src_line).collect();
    lines.sort();
    lines.dedup();
    ensure!(!lines.is_empty(), "apt knows no mirror of Debian or Ubuntu");
    Ok(lines.concat())
}

fn deb_src_line(target: &str) -> Option<String> {
    let [origin, component, key, mirror, release] =
        target.split('|').collect::<Vec<_>>().try_into().ok()?;
    let of_distribution =
        matches!(origin, "Debian" | "Ubuntu") && matches!(component, "main" | "universe");
    // apt prints unknown fields unchanged.
    let key = if key.is_empty() || key.starts_with('$') {
        String::new()
    } else {
        format!("[signed-by={key}] ")
    };
    of_distribution.then(|| format!("deb-src {key}{mirror} {release} {component}\n"))
}

fn apt_get(home: &Path) -> Process {
    let set = |key: &str, value: PathBuf| format!("-o{key}={}", value.display());
    Process::new("apt-get").dir(home).limit(LIMIT).args(["-q"]).args([
        set("Dir::Etc::SourceList", home.join("source.list")),
        "-oDir::Etc::SourceParts=-".to_owned(),
        set("Dir::State::Lists", home.join("lists")),
        set("Dir::Cache", home.to_path_buf()),
        // We own the files, and apt's own user may not enter the directory.
        "-oAPT::Sandbox::User=root".to_owned(),
        "-oAcquire::Retries=2".to_owned(),
    ])
}

#[cfg(test)]
mod tests {
    use super::deb_src_line;

    #[test]
    fn only_the_distributions_own_lines_become_sources() {
        let line = deb_src_line("Debian|main|$(SIGNED_BY)|http://mirror/debian/|bookworm").unwrap();
        assert_eq!(line, "deb-src http://mirror/debian/ bookworm main\n");
        let line =
            deb_src_line("Ubuntu|universe|/usr/share/keyrings/u.gpg|http://mirror/|noble").unwrap();
        assert_eq!(
            line,
            "deb-src [signed-by=/usr/share/keyrings/u.gpg] http://mirror/ noble universe\n"
        );
        assert_eq!(deb_src_line("Vendor|main||http://vendor/|stable"), None);
        assert_eq!(deb_src_line("Debian|contrib||http://mirror/debian/|bookworm"), None);
        assert_eq!(deb_src_line("nonsense"), None);
    }
}
