//! `cargo xtask ci`: all that CI runs. One failed check does not hide the next: the run goes on,
//! and the closing line tells.

use crate::checks;
use crate::context::Context;
use crate::report::Totals;
use crate::suites::{self, SUITES};
use anyhow::{Result, bail};

pub fn run(args: &[String]) -> Result<bool> {
    if let Some(arg) = args.first() {
        bail!("ci: takes no argument, got `{arg}`; for single suites try: cargo xtask test --only unit");
    }
    let context = Context::new(false)?;
    let mut totals = Totals::default();
    checks::run(&context, &mut totals);
    suites::run(&context, &SUITES.iter().collect::<Vec<_>>(), false, &mut totals);
    Ok(totals.close())
}
