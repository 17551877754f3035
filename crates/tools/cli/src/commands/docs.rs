//! `braid completions`, `braid man`: made from the clap tree, so that they cannot differ from it.

use std::{io, path::Path};

use clap::CommandFactory;

use crate::{
    args::Cli,
    output::{Fault, Printer, quoted},
};

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) {
    clap_complete::generate(shell, &mut Cli::command(), "braid", &mut io::stdout());
}

/// Prints the page of `braid`, or writes a page per command into `dir`.
pub fn man(dir: Option<&Path>, out: Printer) -> Result<(), Fault> {
    let fault = |e: io::Error| Fault::failed("writing man pages", e);
    let Some(dir) = dir else {
        return clap_mangen::Man::new(Cli::command()).render(&mut io::stdout()).map_err(fault);
    };
    std::fs::create_dir_all(dir).map_err(fault)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(fault)?;
    out.next(format!("man -l {}", quoted(&dir.join("braid-up.1").display().to_string())));
    Ok(())
}
