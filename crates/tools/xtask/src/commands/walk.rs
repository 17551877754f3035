//! `cargo xtask walk`: how many functions and source files one operation crosses, counted.

use std::{fs, path::Path};

use anyhow::{Context as _, Result, bail};

use crate::{
    context::Context,
    walk::{Counted, SIDES, Source, coverage::Tools},
};

/// The program that runs the operations.
const PACKAGE: &str = "braid-walk";

/// Builds the program with counters, runs it, and prints the table.
pub fn run(args: &[String]) -> Result<bool> {
    let list = match args {
        [] => false,
        [flag] if flag == "--list" => true,
        _ => bail!("walk: unknown arguments {args:?}; try: cargo xtask walk --list"),
    };
    let context = Context::new(false)?;
    let tools = Tools::find(&context)?;
    let target = context.metadata.target_directory.join("walk");
    let program = build(&context, &tools, &target)?;
    let captures = target.join("captures");
    if captures.exists() {
        fs::remove_dir_all(&captures)?;
    }
    fs::create_dir_all(&captures)?;
    braid_testbed::process::Process::new(&program)
        .env("LLVM_PROFILE_FILE", captures.join("start.%p.profraw"))
        .args(["capture".as_ref(), captures.as_os_str()])
        .run()
        .context("running the operations (root and /dev/fuse are needed)")?;
    let source = Source::read(&context, &tools, &program, &captures)?;
    let counted: Vec<Counted> =
        SIDES.iter().map(|side| source.count(&tools, &captures, side)).collect::<Result<_>>()?;
    print!("{}", table(&counted));
    if list {
        counted.iter().for_each(print_list);
    }
    Ok(true)
}

/// The program with counters, in a directory of its own: its flags are not those of other builds.
///
/// With `--target`, so that build scripts and macros have no counters.
fn build(context: &Context, tools: &Tools, target: &Path) -> Result<std::path::PathBuf> {
    context
        .cargo(["build", "--locked", "--quiet", "--package", PACKAGE, "--target", &tools.host])
        .env("CARGO_TARGET_DIR", target)
        .env("RUSTFLAGS", "-C instrument-coverage")
        .env_remove("CARGO_ENCODED_RUSTFLAGS")
        .show_errors()
        .run()?;
    let program = target.join(&tools.host).join("debug").join(PACKAGE);
    anyhow::ensure!(program.is_file(), "{} was built and is not there", program.display());
    Ok(program)
}

/// In the form of the documents.
fn table(counted: &[Counted]) -> String {
    let head = "| operation | side | functions | of one line | files |\n|---|---|---:|---:|---:|\n";
    counted.iter().fold(head.to_owned(), |text, row| {
        let (functions, short, files) = (row.functions.len(), row.short(), row.files());
        let (what, part) = (row.side.what, row.side.part);
        text + &format!("| {what} | {part} | {functions} | {short} | {files} |\n")
    })
}

fn print_list(counted: &Counted) {
    println!("\n{}, {}:", counted.side.what, counted.side.part);
    for function in &counted.functions {
        let (place, name) = (format!("{}:{}", function.file, function.line), &function.name);
        println!("  {place:<64} {name}{}", if function.short { " (one line)" } else { "" });
    }
}
