//! `cargo xtask ci`: all that CI runs, the checks in parallel with the suites.
//!
//! A failed check does not stop the next one; the closing line counts all failures.
//! `cargo xtask ci CHECK` runs single checks; `--summary` lets the check `words` count its findings
//! by directory.

use crate::checks;
use crate::context::Context;
use crate::progress;
use crate::report::Totals;
use crate::suites::{self, SUITES};
use anyhow::{Result, ensure};

pub fn run(args: &[String]) -> Result<bool> {
    let (flags, names): (Vec<_>, Vec<_>) =
        args.iter().cloned().partition(|argument| argument.starts_with("--"));
    for flag in &flags {
        ensure!(flag == "--summary", "ci: no option `{flag}`; try: cargo xtask ci --summary words");
    }
    for name in &names {
        ensure!(checks::exists(name), "ci: no check `{name}`; try one of: {}", checks::names());
    }
    let mut context = Context::new(false)?;
    context.summary = !flags.is_empty();
    progress::print_every_minute();
    let totals = Totals::default();
    if !names.is_empty() {
        return Ok(checks::run(&context, &names, totals).print_and_judge());
    }
    let before = |sink: &suites::SharedTotals| checks::run_into(&context, sink);
    let all = SUITES.iter().collect::<Vec<_>>();
    Ok(suites::run(&context, &all, false, totals, before).print_and_judge())
}
