//! xfstests, the tests `generic`, on two clusters: one for its TEST directory, one for SCRATCH,
//! which it mounts and unmounts itself by mount(8) with the type `fuse.braid`.

use super::{Options, cluster::Cluster, reader::Reader};
use crate::context::Context;
use crate::process::Process;
use crate::report::SuiteResult;
use anyhow::{Context as _, Result, bail, ensure};
use std::fs;
use std::path::{Path, PathBuf};

/// The path where mount(8) looks for the helper of the type `fuse.braid`.
const HELPER: &str = "/sbin/mount.fuse.braid";
/// Its `check` requires that `df` prints the configured type, `fuse`, and not `fuse.braid`.
const DF: &str = "#!/bin/sh\ndf \"$@\" | sed 's/ fuse\\.braid / fuse /'\n";
/// A program that looks at all mounts of a machine keeps one busy for a moment. That fails a case
/// on any FUSE file system.
const UMOUNT: &str = "#!/bin/sh\n\
                      for i in 1 2 3 4 5 6 7 8 9; do\n\
                      umount \"$@\" 2>/dev/null && exit\n\
                      sleep 0.1\n\
                      done\n\
                      exec umount \"$@\"\n";
/// The cases that run by default.
const GROUP: &str = "quick";
/// Exit codes of a command that was ended at its time limit.
const ENDED: [i32; 2] = [124, 137];

pub fn run(context: &Context, options: &Options) -> Result<SuiteResult> {
    ensure!(
        options.checkout.join("check").is_file() && options.checkout.join("ltp/fsstress").is_file(),
        "suite xfstests: {} is no built checkout; try: make there",
        options.checkout.display()
    );
    ensure!(
        options.on.is_none(),
        "suite xfstests: --on is for the other suites, since xfstests mounts by itself"
    );
    let home = context.root.join("target/suite/xfstests");
    let _ = fs::remove_dir_all(&home);
    let (test, scratch) = (home.join("test"), home.join("scratch"));
    for dir in [&test, &scratch, &home.join("results")] {
        fs::create_dir_all(dir).with_context(|| dir.display().to_string())?;
    }
    let (one, two) = (Cluster::start(context, "test")?, Cluster::start(context, "scratch")?);
    let _helper = Helper::new(&context.braid()?)?;
    let second_mount = |cluster: &Cluster, name: &str| -> Result<Option<Reader>> {
        options.second_mount.then(|| Reader::start(cluster, &home.join(name))).transpose()
    };
    let _readers = (second_mount(&one, "test-second")?, second_mount(&two, "scratch-second")?);
    let config = home.join("local.config");
    script(&home.join("df"), DF)?;
    script(&home.join("umount"), UMOUNT)?;
    fs::write(&config, settings(&one.config(), &test, &two.config(), &scratch, &home))?;
    let cases = cases(options)?;
    let mut result = SuiteResult::default();
    for case in &cases {
        let (one, in_time) = run_case(options, &config, case)?;
        result.merge(one);
        if !in_time {
            unmount(&[&test, &scratch]);
        }
    }
    unmount(&[&test, &scratch]);
    Ok(result)
}

fn settings(
    test_source: &Path,
    test: &Path,
    scratch_source: &Path,
    scratch: &Path,
    home: &Path,
) -> String {
    let home = home.display();
    let (test_source, test) = (test_source.display(), test.display());
    let (scratch_source, scratch) = (scratch_source.display(), scratch.display());
    format!(
        "export FSTYP=fuse\nexport FUSE_SUBTYP=.braid\n\
         export TEST_DEV={test_source}\nexport TEST_DIR={test}\n\
         export SCRATCH_DEV={scratch_source}\nexport SCRATCH_MNT={scratch}\n\
         export RESULT_BASE={home}/results\n\
         export MOUNT_OPTIONS=\"-o suid,dev\"\nexport TEST_FS_MOUNT_OPTS=\"-o suid,dev\"\n\
         export DF_PROG=\"{home}/df -T -P\"\nexport UMOUNT_PROG={home}/umount\n"
    )
}

/// Writes an executable script.
fn script(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).with_context(|| path.display().to_string())?;
    Process::new("chmod").args(["755".as_ref(), path.as_os_str()]).run()?;
    Ok(())
}

/// The requested cases; `-g NAME` and a group's name select its cases.
fn cases(options: &Options) -> Result<Vec<String>> {
    let (named, groups): (Vec<&String>, Vec<&String>) =
        options.cases.iter().partition(|case| case.contains('/'));
    let mut cases: Vec<String> = named.into_iter().cloned().collect();
    let usual = [GROUP.to_owned()];
    let groups: Vec<&String> = if options.cases.is_empty() {
        usual.iter().collect()
    } else {
        groups.into_iter().collect()
    };
    let list = options.checkout.join("tests/generic/group.list");
    let text = fs::read_to_string(&list).with_context(|| list.display().to_string())?;
    cases.extend(groups.iter().flat_map(|group| of_group(&text, group)));
    ensure!(!cases.is_empty(), "suite xfstests: no case in {:?}", options.cases);
    Ok(cases)
}

/// Lines are `001 auto rw quick`.
fn of_group(list: &str, group: &str) -> Vec<String> {
    let lines = list.lines().filter_map(|line| line.split_once(' '));
    let of = lines.filter(|(case, groups)| {
        case.parse::<u32>().is_ok() && groups.split(' ').any(|one| one == group)
    });
    of.map(|(case, _)| format!("generic/{case}")).collect()
}

/// Unmounts what an ended case left mounted or busy: it would fail the next case.
fn unmount(points: &[&Path]) {
    for point in points {
        let gone = Process::new("umount").args([point]).finish();
        if gone.is_ok_and(|finished| !finished.status.success()) {
            let _ = Process::new("umount").args(["-l".as_ref(), point.as_os_str()]).finish();
        }
    }
}

/// Runs one case; returns its result, and whether it ended by itself.
fn run_case(options: &Options, config: &Path, case: &str) -> Result<(SuiteResult, bool)> {
    let check = Process::new("bash")
        .dir(&options.checkout)
        .env("HOST_OPTIONS", config)
        .limit(options.limit_case());
    let finished = check.args(["./check", case]).finish()?;
    let in_time = !finished.status.code().is_some_and(|code| ENDED.contains(&code));
    let result = match in_time {
        true => judge(case, &finished.stdout, finished.status.success()),
        false => SuiteResult::fail(
            case,
            format!("not done in {} s\n{}", options.limit_case().as_secs(), finished.stdout),
        ),
    };
    println!("       {:<7} {case}", result.status());
    Ok((result, in_time))
}

fn judge(case: &str, stdout: &str, succeeded: bool) -> SuiteResult {
    let reason = stdout
        .lines()
        .find_map(|line| line.strip_prefix(case)?.split_once("[not run]").map(|(_, why)| why));
    match (reason, succeeded && stdout.contains("Passed all")) {
        (Some(why), _) => SuiteResult::skip(case, why.trim()),
        (None, true) => SuiteResult { passed: 1, ..SuiteResult::default() },
        (None, false) => SuiteResult::fail(case, stdout),
    }
}

/// A symbolic link at the helper's path, for as long as the suite runs.
struct Helper(PathBuf);

impl Helper {
    fn new(braid: &Path) -> Result<Self> {
        let place = PathBuf::from(HELPER);
        if let Ok(other) = fs::read_link(&place) {
            bail!(
                "suite xfstests: {HELPER} exists already and points to {}; try: rm {HELPER}",
                other.display()
            );
        }
        link(braid, &place).with_context(|| HELPER.to_owned())?;
        Ok(Self(place))
    }
}

#[cfg(unix)]
fn link(target: &Path, place: &Path) -> std::io::Result<()> {
    std::os::unix::fs::symlink(target, place)
}

#[cfg(not(unix))]
fn link(_: &Path, _: &Path) -> std::io::Result<()> {
    Err(std::io::ErrorKind::Unsupported.into())
}

impl Drop for Helper {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cases_of_a_group_are_found_in_its_list() {
        let list =
            "# QA groups\n001 rw dir udf auto quick\n002 metadata udf auto\n013 other quick_not\n";
        assert_eq!(of_group(list, "quick"), ["generic/001"]);
        assert_eq!(of_group(list, "auto"), ["generic/001", "generic/002"]);
    }

    #[test]
    fn a_case_that_was_not_run_is_skipped_with_its_reason() {
        let result = judge(
            "generic/012",
            "generic/012       [not run] xfs_io falloc failed\nPassed all 1 tests\n",
            true,
        );
        assert_eq!(result.skipped, [("generic/012".to_owned(), "xfs_io falloc failed".to_owned())]);
        assert_eq!(judge("generic/001", "generic/001  2s\nPassed all 1 tests\n", true).passed, 1);
        assert_eq!(judge("generic/001", "Failures: generic/001\n", false).failed.len(), 1);
        assert_eq!(judge("generic/001", "", true).failed.len(), 1);
    }
}
