//! Every fuzz target of `fuzz/`, for seconds in CI and minutes with `--full`.
//!
//! The targets are built with cargo-fuzz's flags but without cargo-fuzz, which would need an
//! installation on every new machine. By hand `cargo fuzz run NAME` works as well.

use crate::context::Context;
use crate::report::SuiteResult;
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use braid_testbed::process::Process;
use braid_testbed::programs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const ABOUT: &str = "every fuzz target: 4 s each (--full: 300 s)";

const SECONDS: u64 = 4;
const SECONDS_FULL: u64 = 300;
/// Loading, the last input and the report add to the time that libFuzzer counts.
const SECONDS_MORE: u64 = 60;

/// SanitizerCoverage as libFuzzer needs it (cargo-fuzz's own flags), and AddressSanitizer.
const RUSTFLAGS: &str = "-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
    -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
    -Cllvm-args=-sanitizer-coverage-trace-compares -Ccodegen-units=1 -Cdebug-assertions \
    -Zsanitizer=address --cfg fuzzing";

pub fn subject(context: &Context) -> Result<()> {
    ensure!(manifest(context).is_file(), "no fuzz/Cargo.toml");
    Ok(())
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    if !cfg!(target_os = "linux") {
        return Ok(SuiteResult::skip("all", "fuzzing is set up for Linux only"));
    }
    if let Err(why) = tools::nightly_cargo() {
        return Ok(SuiteResult::skip("all", why));
    }
    programs::need("c++", &["g++"])?;
    let mut result = SuiteResult::default();
    for target in build(context)? {
        result.merge(fuzz(context, &target)?);
    }
    Ok(result)
}

fn manifest(context: &Context) -> PathBuf {
    context.root.join("fuzz/Cargo.toml")
}

/// Builds all targets and returns their executables.
fn build(context: &Context) -> Result<Vec<PathBuf>> {
    // Naming the platform keeps the flags away from build scripts.
    let platform = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
    let cargo = tools::nightly_cargo()
        .map_err(anyhow::Error::msg)?
        .dir(&context.root)
        .env("RUSTFLAGS", RUSTFLAGS);
    let build = [
        "build",
        "--release",
        "--bins",
        "--message-format=json-render-diagnostics",
        "--target",
        &platform,
    ];
    let finished = cargo
        .args(build)
        .args(["--manifest-path"])
        .args([manifest(context)])
        .run()
        .context("building fuzz/")?;
    let executables: Vec<PathBuf> = finished.stdout.lines().filter_map(executable).collect();
    ensure!(!executables.is_empty(), "fuzz/ has no target");
    Ok(executables)
}

fn executable(message: &str) -> Option<PathBuf> {
    let message: serde_json::Value = serde_json::from_str(message).ok()?;
    message["executable"].as_str().map(PathBuf::from)
}

/// Runs one target from the seeds in the repository; new inputs are stored in `fuzz/corpus`.
fn fuzz(context: &Context, target: &Path) -> Result<SuiteResult> {
    let name = target.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let (corpus, artifacts) =
        (folder(context, "corpus", &name)?, folder(context, "artifacts", &name)?);
    let seeds = context.root.join("fuzz/seeds").join(&name);
    let seconds = if context.full { SECONDS_FULL } else { SECONDS };
    let run = Process::new(target).limit(Duration::from_secs(seconds + SECONDS_MORE)).args([
        format!("-max_total_time={seconds}"),
        "-rss_limit_mb=2048".to_owned(),
        format!("-artifact_prefix={}/", artifacts.display()),
    ]);
    let finished = run.args([corpus]).args(seeds.is_dir().then_some(seeds)).finish()?;
    match finished.status.success() {
        true => Ok(SuiteResult { passed: 1, ..SuiteResult::default() }),
        false => Ok(SuiteResult::fail(&name, last_lines(&finished.stderr))),
    }
}

fn folder(context: &Context, kind: &str, name: &str) -> Result<PathBuf> {
    let dir = context.root.join("fuzz").join(kind).join(name);
    std::fs::create_dir_all(&dir).with_context(|| dir.display().to_string())?;
    Ok(dir)
}

/// The error and the name of the file with the input, without the stack frames between them: the
/// input reproduces those.
fn last_lines(stderr: &str) -> String {
    let lines: Vec<&str> =
        stderr.lines().filter(|line| !line.trim_start().starts_with('#')).collect();
    lines[lines.len().saturating_sub(30)..].join("\n")
}
