//! The Python package as its users get it: a wheel, built, installed into a separate environment,
//! and tested there.
//!
//! ```text
//! target/python/venv ── pip: maturin, pytest, fsspec, … (again when requirements.txt changes)
//!      ├─ maturin build ──► target/python/wheels ──► pip install
//!      └─ pytest crates/bind/python/tests ── `braid up` of the debug build ──► counts
//! ```

use super::tool;
use crate::context::{Context, as_called};
use crate::report::SuiteResult;
use anyhow::{Context as _, Result, ensure};
use braid_testbed::process::Process;
use braid_testbed::programs;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

pub const ABOUT: &str =
    "the wheel in an environment of its own: files, views, asyncio, fsspec, parquet, zarr, HDF5";

const PACKAGE: &str = "braid-python";
/// A first installation over a slow link.
const LIMIT_INSTALL: Duration = Duration::from_secs(10 * 60);
const LIMIT_TESTS: Duration = Duration::from_secs(10 * 60);

pub fn subject(context: &Context) -> Result<()> {
    ensure!(
        context.metadata.members().any(|package| package.name == PACKAGE),
        "no crate `{PACKAGE}`"
    );
    Ok(())
}

pub fn run(context: &Context) -> Result<SuiteResult> {
    let home = context.root.join("target/python");
    let source = context.root.join("crates/bind/python");
    let venv = environment(&home, &source.join("tests/requirements.txt"))?;
    let command = context.build()?.program("braid")?;
    install_wheel(&venv, &home.join("wheels"), &source)?;
    let pytest = Process::new(venv.join("bin/python")).dir(&source).env("BRAID", &command);
    let pytest = pytest.env("PYTHONPATH", source.join("tests")).env("PYTHONDONTWRITEBYTECODE", "1");
    let args = ["-m", "pytest", "-q", "--no-summary", "--color=no", "-p", "xtask_report", "tests"];
    Ok(tool::counts(&pytest.args(args).limit(LIMIT_TESTS).finish()?))
}

/// A virtual environment with all packages for building and testing. A missing package fails the
/// suite, since none of its tests could run.
fn environment(home: &Path, requirements: &Path) -> Result<PathBuf> {
    let venv = home.join("venv");
    let wanted =
        fs::read_to_string(requirements).with_context(|| requirements.display().to_string())?;
    let installed = venv.join("requirements.txt");
    if fs::read_to_string(&installed).is_ok_and(|found| found == wanted) {
        return Ok(venv);
    }
    let python = programs::need("python3", &["python3-venv"])?;
    fs::create_dir_all(home).with_context(|| home.display().to_string())?;
    let made = Process::new(python)
        .args(["-m", "venv", "--clear"])
        .args([&venv])
        .limit(LIMIT_INSTALL)
        .run();
    made.context(
        "create a virtual environment; try: apt-get install python3-venv (Python 3.11 or newer)",
    )?;
    println!("     installing tests/requirements.txt of {PACKAGE}");
    let pip = Process::new(venv.join("bin/python")).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--requirement",
    ]);
    pip.args([requirements])
        .limit(LIMIT_INSTALL)
        .run()
        .context("install the packages of the suite")?;
    fs::write(&installed, wanted).with_context(|| installed.display().to_string())?;
    Ok(venv)
}

fn install_wheel(venv: &Path, wheels: &Path, source: &Path) -> Result<()> {
    // The tests must not use an older wheel.
    let _ = fs::remove_dir_all(wheels);
    let maturin =
        as_called(Process::new(venv.join("bin/maturin"))).dir(source).env("VIRTUAL_ENV", venv);
    maturin
        .args(["build", "--quiet", "--locked", "--interpreter"])
        .args([&venv.join("bin/python")])
        .args(["--out"])
        .args([wheels])
        .run()?;
    let built = fs::read_dir(wheels).with_context(|| wheels.display().to_string())?;
    let built: Vec<PathBuf> = built.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?;
    ensure!(built.len() == 1, "maturin built {} wheels in {}", built.len(), wheels.display());
    let pip = Process::new(venv.join("bin/python")).args([
        "-m",
        "pip",
        "install",
        "--quiet",
        "--no-index",
        "--no-deps",
    ]);
    pip.args(["--force-reinstall"]).args(&built).run().map(drop)
}
