//! `cargo xtask ci`: all that CI runs. One failed check does not hide the next: the run goes on,
//! and the closing line tells. `cargo xtask ci CHECK` runs single checks.

use crate::checks;
use crate::context::Context;
use crate::report::Totals;
use crate::suites::{self, SUITES};
use anyhow::{Result, ensure};

pub fn run(args: &[String]) -> Result<bool> {
    for name in args {
        ensure!(checks::exists(name), "ci: no check `{name}`; there are: {}", checks::names());
    }
    let context = Context::new(false)?;
    let mut totals = Totals::default();
    checks::run(&context, args, &mut totals);
    if args.is_empty() {
        suites::run(&context, &SUITES.iter().collect::<Vec<_>>(), false, &mut totals);
    }
    Ok(totals.close())
}
