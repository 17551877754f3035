//! `cargo xtask ci`: all that CI runs, the checks beside the suites. One failed check does not hide the next: the run goes on,
//! and the closing line tells. `cargo xtask ci CHECK` runs single checks.

use crate::checks;
use crate::context::Context;
use crate::progress;
use crate::report::Totals;
use crate::suites::{self, SUITES};
use anyhow::{Result, ensure};

pub fn run(args: &[String]) -> Result<bool> {
    for name in args {
        ensure!(checks::exists(name), "ci: no check `{name}`; there are: {}", checks::names());
    }
    let context = Context::new(false)?;
    progress::print_every_minute();
    let totals = Totals::default();
    if !args.is_empty() {
        return Ok(checks::run(&context, args, totals).close());
    }
    let before = |sink: &suites::Sink| checks::run_into(&context, sink);
    let all = SUITES.iter().collect::<Vec<_>>();
    Ok(suites::run(&context, &all, false, totals, before).close())
}
