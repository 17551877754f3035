//! `cargo xtask test`: runs the suites and prints a table and the closing line.

use crate::context::Context;
use crate::progress;
use crate::report::Totals;
use crate::suites::{self, SUITES, Suite};
use anyhow::{Result, bail};

pub fn run(args: &[String]) -> Result<bool> {
    let (only, flags) = parse(args)?;
    let context = Context::new(flags.full)?;
    if flags.list {
        suites::list(&context);
        return Ok(true);
    }
    progress::print_every_minute();
    let totals =
        suites::run(&context, &chosen(&only)?, !only.is_empty(), Totals::default(), |_| ());
    Ok(totals.print_and_judge())
}

#[derive(Default)]
struct Flags {
    full: bool,
    list: bool,
}

fn parse(args: &[String]) -> Result<(Vec<String>, Flags)> {
    let (mut only, mut flags) = (Vec::new(), Flags::default());
    let mut rest = args.iter();
    while let Some(arg) = rest.next() {
        match (arg.as_str(), arg.strip_prefix("--only=")) {
            ("--full", _) => flags.full = true,
            ("--list", _) => flags.list = true,
            ("--only", _) => only.extend(rest.next().cloned()),
            (_, Some(name)) => only.push(name.to_owned()),
            _ => bail!("test: unknown argument `{arg}`; try: cargo xtask help"),
        }
    }
    Ok((only, flags))
}

fn chosen(only: &[String]) -> Result<Vec<&'static Suite>> {
    if only.is_empty() {
        return Ok(SUITES.iter().collect());
    }
    only.iter().map(|name| suites::by_name(name)).collect()
}
