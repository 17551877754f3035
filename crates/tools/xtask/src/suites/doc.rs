//! The examples in the documentation of libraries.

use crate::context::Context;
use crate::libtest;
use crate::metadata::Package;
use crate::report::SuiteResult;
use anyhow::{Result, ensure};
use std::path::Path;

pub const ABOUT: &str = "the examples in the documentation";

pub fn subject(context: &Context) -> Result<()> {
    ensure!(
        context.metadata.members().any(has_examples),
        "no example in any library's documentation"
    );
    Ok(())
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    // The whole workspace: with single packages cargo would choose other features and compile the
    // dependencies again.
    let finished =
        context.cargo(["test", "--workspace", "--locked", "--doc", "--no-fail-fast"]).finish()?;
    let mut result = libtest::parse_run(&finished.stdout, finished.status.success());
    result.failed.iter_mut().for_each(|(_, why)| why.push_str(&finished.stderr));
    Ok(result)
}

/// Only libraries have doc tests.
fn has_examples(package: &Package) -> bool {
    let library = package.targets.iter().any(|target| target.kind.iter().any(|kind| kind == "lib"));
    library && package.manifest_path.parent().is_some_and(|dir| has_fence(&dir.join("src")))
}

fn has_fence(dir: &Path) -> bool {
    let entries = std::fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .map(|entry| entry.path())
        .any(|path| if path.is_dir() { has_fence(&path) } else { file_has_fence(&path) })
}

fn file_has_fence(file: &Path) -> bool {
    has_example(&std::fs::read_to_string(file).unwrap_or_default())
}

/// Whether a fence opens Rust code: a fence without a language, or with rustdoc's words. Other
/// fences are pictures. Every second fence closes.
fn has_example(text: &str) -> bool {
    let fences = text.lines().filter_map(|line| {
        let line = line.trim_start();
        line.strip_prefix("///")
            .or_else(|| line.strip_prefix("//!"))?
            .trim_start()
            .strip_prefix("```")
    });
    fences.step_by(2).any(is_rust)
}

fn is_rust(words: &str) -> bool {
    words
        .split(',')
        .all(|word| matches!(word.trim(), "" | "rust" | "no_run" | "should_panic" | "compile_fail"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_not_an_example() {
        assert!(has_example("/// ```text\n/// a\n/// ```\n/// ```\n/// let x = 1;\n/// ```"));
        assert!(has_example("//! ```rust,no_run\n//! ```"));
        assert!(!has_example("/// ```text\n/// a\n/// ```\n// ```") && !has_example("let x = 1;"));
    }
}
