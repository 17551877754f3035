//! Trees of small files: cp, tar, git.

use anyhow::Result;
use braid_testbed::shell::sh;

use super::{Sample, subject::Subject};
use crate::bench::Bench;

/// A tree that every machine with a C compiler has.
const TREE: &str = "/usr/include";

fn seconds(bench: &Bench, name: &'static str, script: &str, arguments: &[&str]) -> Result<Sample> {
    let taken = bench.take(|| sh(script, arguments).map(drop))?;
    Ok(Sample { name, unit: "s", value: taken.time.as_secs_f64() })
}

/// Copied in, and packed twice: the second time everything is cached.
pub fn tree(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let copy = subject.path("tree");
    // The source is cached for every subject.
    sh("rm -rf \"$2\"; find \"$1\" -type f -exec cat {} + > /dev/null", &[TREE, &copy])?;
    let copied = seconds(bench, "tree.copy", "cp -r \"$1\" \"$2\"", &[TREE, &copy])?;
    let pack = "tar cf - -C \"$1\" . | cat > /dev/null";
    let first = seconds(bench, "tree.tar_first", pack, &[&copy])?;
    let again = seconds(bench, "tree.tar", pack, &[&copy])?;
    sh("rm -rf \"$1\"", &[&copy])?;
    Ok(vec![copied, first, again])
}

const REPOSITORY: &str = r#"
test -d "$1" && exit 0
git init -q -b main "$1.new"; cd "$1.new"
i=0
while [ $i -lt "$2" ]; do
  mkdir -p dir$((i / 100))
  echo "the contents of file $i, a line or two" > dir$((i / 100))/file$i.txt
  i=$((i + 1))
done
git add -A; git -c user.email=bench@example.invalid -c user.name=bench -c gc.auto=0 commit -q -m all
git gc -q; mv "$1.new" "$1"
"#;

/// A packed repository of 20,000 files on the local disk, made at the first call.
pub fn repository(bench: &Bench) -> Result<String> {
    let repository = bench.scratch.join("repository").display().to_string();
    sh(REPOSITORY, &[&repository, &bench.size(20_000, 2_000).to_string()])?;
    Ok(repository)
}

/// From a packed repository on the local disk.
pub fn clone(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let repository = repository(bench)?;
    let clone = subject.path("clone");
    let script = "git clone -q --no-hardlinks \"$1\" \"$2\"";
    let time = seconds(bench, "clone.time", script, &[&repository, &clone])?;
    sh("rm -rf \"$1\"", &[&clone])?;
    Ok(vec![time])
}
