//! Trees of files: a C project is built, an archive unpacked and packed, a tree copied by rsync.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use braid_testbed::scratch::scratch;

use super::{missing, sh, workplace};
use crate::cases::{Outcome, TestDirs};

/// Headers that a machine with a C compiler has: a real tree.
const TREE: &str = "/usr/include/linux";
const TREE_FULL: &str = "/usr/include";

const MAKE_PROJECT: &str = r#"
mkdir -p src; i=0
{
  printf 'cmake_minimum_required(VERSION 3.10)\nproject(many C)\n'
  printf 'configure_file(config.h.in config.h)\ninclude_directories(${CMAKE_BINARY_DIR})\n'
  printf 'file(GLOB SOURCES src/*.c)\nadd_executable(many ${SOURCES})\n'
} > CMakeLists.txt
echo '#define COUNT @COUNT@' > config.h.in
printf '#include <stdio.h>\n#include "config.h"\n' > src/main.c
while [ $i -lt 25 ]; do
  printf '#include "config.h"\nint f%s(void) { return %s + 0 * COUNT; }\n' $i $i > src/f$i.c
  echo "int f$i(void);" >> src/main.c; i=$((i + 1))
done
echo 'int main(void) { int s = 0;' >> src/main.c
i=0; while [ $i -lt 25 ]; do echo "s += f$i();" >> src/main.c; i=$((i + 1)); done
printf '%s\n' 'printf("%d\n", s); return 0; }' >> src/main.c
"#;

/// Configures and builds. A second build has nothing to do, and one after a change builds only what
/// changed.
const BUILD: &str = r#"
cmake -S . -B build -DCOUNT=3 -DCMAKE_BUILD_TYPE=Debug > log 2>&1 || { tail -5 log; exit 1; }
make -C build -j2 >> log 2>&1 || { tail -5 log; exit 1; }
test "$(./build/many)" = 300
make -C build > second 2>&1
if grep -q Building second; then echo "the second build built:"; grep Building second; exit 1; fi
sed -i 's/return 24/return 25/' src/f24.c
make -C build > third 2>&1
test "$(grep -c Building third)" = 1
test "$(./build/many)" = 301
"#;

pub fn built(ground: &TestDirs) -> Result<Outcome> {
    for (program, package) in [("cc", "gcc"), ("cmake", "cmake"), ("make", "make")] {
        if let Some(skipped) = missing(program, package) {
            return Ok(skipped);
        }
    }
    let (here, there) = workplace(ground, "project")?;
    sh(&here, MAKE_PROJECT, &[])?;
    sh(&here, BUILD, &[])?;
    let said = sh(&there, "./build/many", &[])?;
    ensure!(said.trim() == "301", "run from the other mount: {said}");
    Outcome::passed()
}

/// Sets times with fractions of a second, as files have that were created and not unpacked. The
/// tree's own times differ between machines.
const COPY: &str = r#"
cp -a "$1" tree; cd tree
touch -d '2001-02-03 04:05:06.123456789' "$(find . -type f | head -1)"
touch -d '2001-02-03 04:05:06.000000001' "$(find . -mindepth 1 -type d | head -1)" .
"#;

fn tree(ground: &TestDirs) -> Option<&'static str> {
    let tree = ground.size(TREE, TREE_FULL);
    Path::new(tree).is_dir().then_some(tree)
}

/// An archive unpacked on the mount and packed again through both mounts is the same: names,
/// contents, modes, owners, times.
pub fn tar(ground: &TestDirs) -> Result<Outcome> {
    let Some(tree) = tree(ground) else {
        return Ok(Outcome::Skipped(format!("there is no {TREE}")));
    };
    let (here, there) = workplace(ground, "tar")?;
    let local = tempfile::tempdir_in(scratch())?;
    sh(local.path(), COPY, &[tree])?;
    let tree = local.path().join("tree").display().to_string();
    let tree = tree.as_str();
    // The default format stores whole seconds only.
    sh(&here, "tar cf - --format=posix -C \"$1\" . | tar xpf -", &[tree])?;
    let pack = "tar cf - --format=posix --sort=name --numeric-owner \
                --pax-option=delete=atime,delete=ctime,exthdr.name=%d/%f \
                -C \"$1\" . | sha256sum";
    let sum = |dir: &Path| sh(Path::new("/"), pack, &[dir.to_str().unwrap_or_default()]);
    let wanted = sum(Path::new(tree))?;
    for dir in [&here, &there] {
        let found = sum(dir)?;
        if found != wanted {
            sh(
                Path::new("/"),
                "diff -r --no-dereference \"$1\" \"$2\"",
                &[tree, &dir.display().to_string()],
            )?;
            anyhow::bail!(
                "the archive of {} differs in modes, owners or times; the contents are the same",
                dir.display()
            );
        }
    }
    let count = sh(&there, "find . | wc -l", &[]).context("count the files")?;
    Ok(Outcome::Passed(format!("{} entries", count.trim())))
}

/// Copies everything; afterwards rsync finds no difference through either mount.
pub fn rsync(ground: &TestDirs) -> Result<Outcome> {
    if let Some(skipped) = missing("rsync", "rsync") {
        return Ok(skipped);
    }
    let Some(tree) = tree(ground) else {
        return Ok(Outcome::Skipped(format!("there is no {TREE}")));
    };
    let (here, there) = workplace(ground, "rsync")?;
    let from = format!("{tree}/");
    sh(Path::new("/"), "rsync -aHX \"$1\" \"$2\"", &[&from, &here.display().to_string()])?;
    for dir in [&here, &there] {
        let again = "rsync -aHXc --delete --itemize-changes \"$1\" \"$2\"";
        let said = sh(Path::new("/"), again, &[&from, &dir.display().to_string()])?;
        ensure!(
            said.trim().is_empty(),
            "the second time, to {}: {}",
            dir.display(),
            said.lines().next().unwrap_or("")
        );
    }
    // Changed files are copied partly, by writing into a new file and renaming it.
    sh(&here, "for f in $(find . -type f | head -20); do echo changed >> $f; done", &[])?;
    sh(
        Path::new("/"),
        "rsync -aHX --no-whole-file \"$1\" \"$2\"",
        &[&from, &here.display().to_string()],
    )?;
    sh(
        Path::new("/"),
        "diff -r --no-dereference \"$1\" \"$2\"",
        &[&from, &there.display().to_string()],
    )?;
    Outcome::passed()
}
