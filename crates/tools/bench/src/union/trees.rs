//! Trees of many small files.

use std::{
    fs::{self, File},
    path::Path,
    process::{Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};

use super::{Sample, subject::Subject};
use crate::{bench::Bench, mount::trees::repository};
use braid_testbed::shell::sh;

/// The kernel's answers of both programs' default settings are old after a second.
const PAUSE: Duration = Duration::from_millis(1500);
const DIRECTORIES: u64 = 200;

/// `git clone` from a packed repository on another disk.
pub fn clone(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let from = repository(bench)?;
    let to = subject.dir().join("clone").display().to_string();
    sh("sync", &[])?;
    let script = "git clone -q --no-hardlinks \"$1\" \"$2\"";
    let taken = bench.take(|| sh(script, &[&from, &to]).map(drop))?;
    sh("rm -rf \"$1\"", &[&to])?;
    Ok(vec![Sample { what: "clone", unit: "s", value: taken.time.as_secs_f64() }])
}

/// `find` of a tree that was walked before, and with the size of each file.
pub fn walk(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let tree = subject.dir().join("tree");
    let files = bench.size(20_000, 2_000);
    if !tree.exists() {
        plant(&tree, files)?;
    }
    let mut samples = Vec::new();
    for (what, print) in [("find", "%p\\n"), ("stat", "%s %p\\n")] {
        find(&tree, print, files)?;
        thread::sleep(PAUSE);
        let taken = bench.take(|| find(&tree, print, files))?;
        samples.push(Sample { what, unit: "s", value: taken.time.as_secs_f64() });
    }
    Ok(samples)
}

fn plant(tree: &Path, files: u64) -> Result<()> {
    fs::create_dir(tree)?;
    (0..DIRECTORIES).try_for_each(|number| fs::create_dir(tree.join(format!("dir{number}"))))?;
    let path = |number| tree.join(format!("dir{}/file{number}", number % DIRECTORIES));
    Ok((0..files).try_for_each(|number| File::create_new(path(number)).map(drop))?)
}

/// Runs find(1) and checks that it found all files.
fn find(tree: &Path, print: &str, files: u64) -> Result<()> {
    let mut find = Command::new("find");
    find.arg(tree).args(["-type", "f", "-printf", print]).stderr(Stdio::inherit());
    let output = find.output().context("running find")?;
    let found = output.stdout.iter().filter(|byte| **byte == b'\n').count() as u64;
    ensure!(output.status.success() && found == files, "find found {found} of {files} files");
    Ok(())
}
