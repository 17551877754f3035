//! `cargo xtask requirements`: which requirements are shown, and which are open.

use crate::context::Context;
use crate::requirements::{Requirements, check};
use anyhow::{Result, bail};

pub fn run(args: &[String]) -> Result<bool> {
    let context = Context::new(false)?;
    let requirements = Requirements::load(&context)?;
    match args {
        [] => Ok(print(&requirements)),
        [flag] if flag == "--check" => {
            Ok(print(&requirements) && print_problems(&check(&context)?))
        }
        _ => {
            bail!("requirements: unknown arguments {args:?}; try: cargo xtask requirements --check")
        }
    }
}

fn print(requirements: &Requirements) -> bool {
    for requirement in requirements.open() {
        println!("open   {:<34} {}", requirement.id, requirement.text);
    }
    for (issue, shown, open) in requirements.counts() {
        println!("issue {issue}: {shown} shown, {open} open");
    }
    true
}

fn print_problems(problems: &[String]) -> bool {
    problems.iter().for_each(|problem| println!("{problem}"));
    problems.is_empty()
}
