//! A new repository: commits, branches, a merge, clones on both mounts, packs, and git's own check.

use anyhow::{Result, ensure};

use super::{missing, sh, workplace};
use crate::cases::{Outcome, TestDirs};

const MAKE: &str = r#"
git init -q -b main repo
cd repo
git config user.email test@example.invalid; git config user.name test; git config gc.auto 0
i=0
while [ $i -lt "$1" ]; do
  d=dir$((i % 7))/sub$((i % 3)); mkdir -p $d
  j=0; while [ $j -lt 20 ]; do echo "file $j of commit $i" >> $d/file$j.txt; j=$((j + 1)); done
  git add -A; git commit -q -m "commit $i"
  i=$((i + 1))
done
git checkout -q -b other HEAD~3; echo other > other.txt; git add -A; git commit -q -m other
git checkout -q main; git merge -q -m merged other
ln -s other.txt link; chmod +x other.txt; git add -A; git commit -q -m modes
"#;

/// In the clone of the other mount: `git` must report the same for both, before and after packing.
const CHECK: &str = r#"
git clone -q "$1/repo" clone
cd "$1/repo"; git gc -q --aggressive --prune=now; git fsck --full --strict
cd "$2/clone"; git fsck --full --strict; git gc -q; git fsck --full --strict
test -z "$(git status --porcelain)"
test -z "$(git -C "$1/repo" status --porcelain)"
test "$(git rev-parse HEAD)" = "$(git -C "$1/repo" rev-parse HEAD)"
cd "$2/clone"; echo more >> other.txt
git -c user.email=t@example.invalid -c user.name=t commit -q -am more
git push -q origin HEAD:pushed
git -C "$1/repo" log --oneline pushed | wc -l
"#;

pub fn run(ground: &TestDirs) -> Result<Outcome> {
    if let Some(skipped) = missing("git", "git") {
        return Ok(skipped);
    }
    let commits = ground.size(12, 100);
    let (here, there) = workplace(ground, "git")?;
    sh(&here, MAKE, &[&commits.to_string()])?;
    let (one, other) = (here.display().to_string(), there.display().to_string());
    let said = sh(&there, CHECK, &[&one, &other])?;
    let seen = said.lines().last().unwrap_or_default().trim();
    // The commits, the branch, the merge, the modes, and the pushed commit.
    ensure!(seen == (commits + 4).to_string(), "{seen} commits after the push, of {}", commits + 4);
    Ok(Outcome::Passed(format!("{commits} commits")))
}
