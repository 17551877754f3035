//! LTP's lists `fs` and `syscalls` from an installation: each program runs alone, with its scratch
//! directory on the mount.

use super::{Options, cluster::Cluster, reader::Reader};
use crate::context::Context;
use crate::process::Process;
use crate::report::SuiteResult;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::path::Path;
use std::time::Duration;

/// Lists of `runtest/` that run by default. `fs` has the long ones.
const LISTS: [&str; 2] = ["syscalls", "fs"];
/// Parts of names of system calls that concern files, directories and mappings. Other programs of
/// `syscalls` never touch the mount.
const FILES: &[&str] = &[
    "access",
    "chdir",
    "chmod",
    "chown",
    "chroot",
    "close",
    "copy_file",
    "creat",
    "dup",
    "exec",
    "faccessat",
    "fallocate",
    "fanotify",
    "fchdir",
    "fchmod",
    "fchown",
    "fcntl",
    "fdatasync",
    "fgetxattr",
    "file_attr",
    "flistxattr",
    "flock",
    "fpathconf",
    "fremovexattr",
    "fsetxattr",
    "fstat",
    "fsync",
    "ftruncate",
    "futimes",
    "getcwd",
    "getdents",
    "getxattr",
    "inotify",
    "io_submit",
    "io_uring",
    "ioctl_fi",
    "lchown",
    "lgetxattr",
    "link",
    "listxattr",
    "llistxattr",
    "llseek",
    "lremovexattr",
    "lseek",
    "lstat",
    "mincore",
    "mkdir",
    "mknod",
    "mmap",
    "msync",
    "munmap",
    "name_to_handle",
    "nftw",
    "open",
    "pathconf",
    "posix_fadvise",
    "pread",
    "prot_hsymlinks",
    "pwrite",
    "read",
    "realpath",
    "removexattr",
    "rename",
    "rmdir",
    "sendfile",
    "setxattr",
    "splice",
    "stat",
    "symlink",
    "sync",
    "tee",
    "truncate",
    "umask",
    "unlink",
    "utime",
    "vmsplice",
    "write",
];
/// Cases of `fs` that read `/proc`, `/dev` and `/sys`, or make other file systems: none touches the
/// mount.
const NOT_FILES: &[&str] = &[
    "proc01",
    "read_all_dev",
    "read_all_proc",
    "read_all_sys",
    "binfmt_misc01",
    "binfmt_misc02",
    "isofs",
    "squashfs01",
    "quota_remount_test01",
];
/// LTP's own limit of 30 s a program is for an idle machine; our limit of a case ends programs that
/// hang.
const TIMES_LIMIT: &str = "8";
/// Cases that mount a file system from a file on the mount try every type that the kernel has,
/// unless one is named.
const ONE_FILE_SYSTEM: &str = "ext4";
/// Exit codes of LTP: a bit for each outcome.
const TCONF: i32 = 32;
/// The shell's exit code for a missing program.
const NOT_FOUND: i32 = 127;

pub fn run(context: &Context, options: &Options) -> Result<SuiteResult> {
    let programs = options.checkout.join("testcases/bin");
    ensure!(
        programs.is_dir(),
        "suite ltp: {} is no installation of LTP; try: make install, then name its prefix",
        options.checkout.display()
    );
    let cases = cases(options)?;
    if let Some(dir) = &options.on {
        return run_in(&programs, dir, options.limit_case(), &cases);
    }
    let cluster = Cluster::start(context, "ltp")?;
    let home = context.root.join("target/suite/ltp");
    let mount = cluster.mount(&home.join("mount"), "suid,dev")?;
    // Like a directory for temporary files: some programs make theirs as `nobody`.
    Process::new("chmod").args(["1777".as_ref(), mount.point.as_os_str()]).run()?;
    let _reader =
        options.second_mount.then(|| Reader::start(&cluster, &home.join("second"))).transpose()?;
    run_in(&programs, &mount.point, options.limit_case(), &cases)
}

/// The name and command line of each case.
fn cases(options: &Options) -> Result<Vec<(String, String)>> {
    let mut cases = Vec::new();
    for list in LISTS {
        let path = options.checkout.join("runtest").join(list);
        let text = fs::read_to_string(&path).with_context(|| path.display().to_string())?;
        let wanted = |name: &str| match options.cases.as_slice() {
            [] if list == "fs" => !NOT_FILES.contains(&name),
            [] => about_files(name),
            named => named.iter().any(|one| one == name || one == list),
        };
        cases.extend(of_list(&text).into_iter().filter(|(name, _)| wanted(name)));
    }
    ensure!(!cases.is_empty(), "suite ltp: no case in {:?}", options.cases);
    Ok(cases)
}

/// Lines are `name command…`; comments begin with `#`.
fn of_list(text: &str) -> Vec<(String, String)> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .filter_map(|line| line.split_once(char::is_whitespace))
        .map(|(a, b)| (a.into(), b.trim().into()))
        .collect()
}

fn about_files(name: &str) -> bool {
    let call = name.trim_end_matches(|letter: char| letter.is_ascii_digit() || letter == '_');
    FILES.iter().any(|word| call.starts_with(word))
}

fn run_in(
    programs: &Path,
    dir: &Path,
    limit: Duration,
    cases: &[(String, String)],
) -> Result<SuiteResult> {
    let mut result = SuiteResult::default();
    for (name, command) in cases {
        let path = format!("{}:{}", programs.display(), std::env::var("PATH").unwrap_or_default());
        let root = programs.ancestors().nth(2).unwrap_or(programs);
        let run = Process::new("sh").args(["-c", command]).limit(limit).dir(dir);
        let run = run.env("PATH", path).env("TMPDIR", dir).env("LTPROOT", root);
        let run =
            run.env("LTP_TIMEOUT_MUL", TIMES_LIMIT).env("LTP_SINGLE_FS_TYPE", ONE_FILE_SYSTEM);
        let finished = run.finish()?;
        let output = finished.output();
        let one = judge(name, finished.status.code(), &output);
        println!("       {:<7} {name}", one.status());
        result.merge(one);
    }
    Ok(result)
}

fn judge(name: &str, code: Option<i32>, output: &str) -> SuiteResult {
    match code {
        Some(0) => SuiteResult { passed: 1, ..SuiteResult::default() },
        Some(TCONF) => {
            let why = output
                .lines()
                .rev()
                .find(|line| line.contains("TCONF"))
                .unwrap_or("TCONF without a reason");
            SuiteResult::skip(name, why)
        }
        Some(NOT_FOUND) => SuiteResult::skip(name, "this installation does not have it"),
        _ => SuiteResult::fail(name, output),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_has_names_and_commands() {
        let list = "# comment\nopen01 open01\n\ngf01 growfiles -W gf01 -b\n";
        let cases = of_list(list);
        assert_eq!(cases[0], ("open01".to_owned(), "open01".to_owned()));
        assert_eq!(cases[1], ("gf01".to_owned(), "growfiles -W gf01 -b".to_owned()));
    }

    #[test]
    fn programs_that_never_touch_a_file_are_left_out() {
        assert!(about_files("open01") && about_files("pwrite02_64") && about_files("statx10"));
        assert!(!about_files("kill05") && !about_files("bpf_map01"));
    }

    #[test]
    fn an_outcome_is_read_from_the_exit_code() {
        assert_eq!(judge("a", Some(0), "").passed, 1);
        assert_eq!(
            judge("a", Some(32), "a.c:1: TCONF: no kernel").skipped[0].1,
            "a.c:1: TCONF: no kernel"
        );
        assert_eq!(judge("a", Some(127), "").skipped.len(), 1);
        assert_eq!(judge("a", Some(33), "").failed.len(), 1);
        assert_eq!(judge("a", None, "").failed.len(), 1);
    }
}
