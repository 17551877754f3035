//! pjdfstest, a third-party conformance suite: each of its cases counts. `pjdfstest/skips.txt`
//! lists the skipped cases of a cluster's mount with reasons, and `pjdfstest/union-skips.txt` those
//! of a union.

use std::{
    collections::BTreeMap,
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, bail, ensure};

use crate::cases::Counts;

const CONFIG: &str = include_str!("../pjdfstest/config.toml");
/// Of a cluster's mount.
pub const SKIPS: &str = include_str!("../pjdfstest/skips.txt");
/// Of a union.
pub const UNION_SKIPS: &str = include_str!("../pjdfstest/union-skips.txt");
/// The message when libfuse's helper of mount(8) does a remount and does not find our program.
const NOT_INSTALLED: &str = "braid: not found";
const HELPER: &str = "remount: libfuse's helper of mount(8) finds no installed braid; \
    try: ln -s PATH/braid /sbin/mount.fuse.braid";
/// Cases that remount the file system read-only, so all others must have ended before.
const REMOUNTING: &str = "erofs";
/// The suite's reason for skipping them in the first run.
const NOT_ALLOWED: &str = "allow_remount";
/// A file system in memory, for calls that must fail between two file systems.
const OTHER_FILE_SYSTEM: &str = "/dev/shm";

/// Runs it in `dir` and adds the counts. `group` begins the names of the cases; `skips` is the text
/// of a list.
pub fn run(
    program: &Path,
    dir: &Path,
    group: &str,
    skips: &str,
    counts: &mut Counts,
) -> Result<()> {
    let scratch = Scratch::new()?;
    let program =
        &program.canonicalize().with_context(|| format!("finding {}", program.display()))?;
    let first = once(program, dir, &scratch, false, &[])?;
    let second = once(program, dir, &scratch, true, &[REMOUNTING])?;
    ensure!(
        first.len() > 300 && second.len() > 5,
        "pjdfstest ran {} and {} cases",
        first.len(),
        second.len()
    );
    let skips = parse_skips(skips)?;
    for (name, ending) in
        first.into_iter().filter(|(_, ending)| !ending.contains(NOT_ALLOWED)).chain(second)
    {
        count(group, &name, &ending, &skips, counts);
    }
    Ok(())
}

/// The result of a case, and its output.
struct CaseEnd {
    word: String,
    said: String,
}

impl CaseEnd {
    fn contains(&self, text: &str) -> bool {
        self.said.contains(text)
    }
}

fn count(
    group: &str,
    name: &str,
    ending: &CaseEnd,
    skips: &BTreeMap<String, String>,
    counts: &mut Counts,
) {
    match (ending.word.as_str(), skips.get(name)) {
        ("ok", None) => counts.passed += 1,
        ("ok", Some(_)) => {
            counts.failed += 1;
            println!("FAILED {group}::{name}: it passes, but is listed as skipped");
        }
        (_, Some(reason)) => {
            counts.skipped += 1;
            println!("skipped: {group}::{name}: {reason}");
        }
        (_, None) if ending.contains(NOT_INSTALLED) => {
            counts.skipped += 1;
            println!("skipped: {group}::{name}: {HELPER}");
        }
        (word, None) => {
            counts.failed += 1;
            println!("FAILED {group}::{name}: {word}: {}", ending.said.trim());
        }
    }
}

/// `name: reason`, one a line.
fn parse_skips(text: &str) -> Result<BTreeMap<String, String>> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    let skip = |line: &str| {
        let (name, reason) =
            line.split_once(": ").with_context(|| format!("skips: no reason: {line}"))?;
        Ok((name.to_owned(), reason.to_owned()))
    };
    lines.map(skip).collect()
}

/// A directory on another file system, with the configuration.
struct Scratch(PathBuf);

impl Scratch {
    fn new() -> Result<Self> {
        let dir =
            Path::new(OTHER_FILE_SYSTEM).join(format!("braid-pjdfstest-{}", std::process::id()));
        std::fs::create_dir_all(&dir)?;
        Ok(Self(dir))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn once(
    program: &Path,
    dir: &Path,
    scratch: &Scratch,
    remount: bool,
    only: &[&str],
) -> Result<Vec<(String, CaseEnd)>> {
    let config = scratch.0.join("config.toml");
    std::fs::write(
        &config,
        CONFIG.replace("allow_remount = false", &format!("allow_remount = {remount}")),
    )?;
    // It must not be in the file system that it remounts.
    let mut command = Command::new("timeout");
    command
        .args(["--kill-after=20", "1800"])
        .arg(program)
        .arg("-c")
        .arg(&config)
        .arg("-p")
        .arg(dir);
    command
        .arg("-s")
        .arg(&scratch.0)
        .args(only)
        .current_dir("/")
        .env("NO_COLOR", "1")
        .env("RUST_BACKTRACE", "0");
    let output = command.output().with_context(|| format!("running {}", program.display()))?;
    let said = String::from_utf8_lossy(&output.stdout);
    if !said.contains("Summary: ") {
        bail!(
            "pjdfstest did not finish: {}: {}",
            output.status,
            String::from_utf8_lossy(&output.stderr).trim()
        );
    }
    Ok(endings(&said))
}

/// `name   word`, followed by its output, indented.
fn endings(said: &str) -> Vec<(String, CaseEnd)> {
    let mut cases: Vec<(String, CaseEnd)> = Vec::new();
    for line in said.lines().take_while(|line| !line.starts_with("Summary: ")) {
        let words: Vec<&str> = line.splitn(2, ' ').collect();
        match (line.starts_with(char::is_whitespace), words.as_slice(), cases.last_mut()) {
            (false, [name, word], _) if name.contains("::") => {
                cases.push((
                    (*name).to_owned(),
                    CaseEnd { word: word.trim().to_owned(), said: String::new() },
                ));
            }
            (_, _, Some((_, ending))) => ending.said += &format!("{} ", line.trim()),
            _ => {}
        }
    }
    cases
}

#[cfg(test)]
mod tests {
    use super::*;

    const SAID: &str = "chmod::a       ok\nlink::b         skipped\n\
        \tallow_remount is not set\nrename::c    FAILED\n\tassertion: \
                        left\n\nSummary: 1 failed, 1 skipped\n";

    #[test]
    fn each_case_is_read_with_what_it_said() {
        let cases = endings(SAID);
        assert_eq!(cases.len(), 3);
        assert_eq!((cases[1].0.as_str(), cases[1].1.word.as_str()), ("link::b", "skipped"));
        assert!(cases[1].1.contains(NOT_ALLOWED) && cases[2].1.contains("assertion"));
    }

    #[test]
    fn a_listed_skip_may_fail_and_must_not_pass() {
        let skips = BTreeMap::from([
            ("rename::c".to_owned(), "why".to_owned()),
            ("chmod::a".to_owned(), "why".to_owned()),
        ]);
        let mut counts = Counts::default();
        endings(SAID)
            .iter()
            .for_each(|(name, ending)| count("pjdfstest", name, ending, &skips, &mut counts));
        assert_eq!(counts, Counts { passed: 0, failed: 2, skipped: 1 });
    }

    #[test]
    fn every_skip_has_a_reason() {
        for list in [SKIPS, UNION_SKIPS] {
            assert!(parse_skips(list).unwrap().values().all(|reason| reason.len() > 10));
        }
    }
}
