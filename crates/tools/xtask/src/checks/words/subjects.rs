//! Subjects of commits over 72 characters, since the rule exists.

use super::Finding;
use anyhow::Result;
use braid_testbed::process::Process;
use std::path::Path;

const CHARACTERS: usize = 72;

/// The last commit whose subject is not checked: before the rule, or of branches that were merged.
const BEFORE: &str = "78aaf0d2";

/// The findings, or the reason why the history cannot be read.
pub fn findings(root: &Path) -> Result<Result<Vec<Finding>, String>> {
    if git(root, &["rev-parse", "--is-shallow-repository"])?.as_deref() == Some("true\n") {
        return Ok(Err("the clone is shallow; try: git fetch --unshallow".to_owned()));
    }
    let range = format!("{BEFORE}..HEAD");
    Ok(match git(root, &["log", "--no-merges", "--format=%h %s", &range])? {
        Some(log) => Ok(of_log(&log)),
        None => Err(format!("the history has no commit {BEFORE}; try: git fetch --all")),
    })
}

/// What the command prints; `None` when it fails.
fn git(root: &Path, args: &[&str]) -> Result<Option<String>> {
    let finished = Process::new("git").dir(root).args(args).finish()?;
    Ok(finished.status.success().then_some(finished.stdout))
}

/// Lines of a hash and a subject.
fn of_log(log: &str) -> Vec<Finding> {
    let commits = log.lines().filter_map(|line| line.split_once(' '));
    let long = commits.filter(|(_, subject)| subject.chars().count() > CHARACTERS);
    long.map(|(hash, subject)| Finding {
        place: format!("commit {hash}"),
        line: 0,
        problem: format!(
            "the subject has {} characters, at most {CHARACTERS}: {subject}",
            subject.chars().count()
        ),
    })
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_may_have_72_characters_and_no_more() {
        let log = format!("abc {}\ndef {}\n", "x".repeat(72), "\u{e4}".repeat(73));
        let found = of_log(&log);
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].place, "commit def");
        assert!(found[0].problem.starts_with("the subject has 73 characters"));
    }

    #[test]
    fn a_shallow_clone_is_skipped_with_a_reason() {
        let dir = std::env::temp_dir().join(format!("braid-xtask-subjects-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        assert!(git(&dir, &["init", "--quiet"]).unwrap().is_some());
        std::fs::write(dir.join(".git/shallow"), format!("{}\n", "1".repeat(40))).unwrap();
        let reason = findings(&dir).unwrap().unwrap_err();
        assert!(reason.contains("shallow"), "{reason}");
        std::fs::remove_file(dir.join(".git/shallow")).unwrap();
        let reason = findings(&dir).unwrap().unwrap_err();
        assert!(reason.contains("no commit"), "{reason}");
        std::fs::remove_dir_all(&dir).unwrap();
    }
}
