//! `braid completions`, `braid man`: generated from the clap definitions, so that they always
//! agree.

use std::{
    io::{self, Write},
    path::Path,
};

use clap::CommandFactory;

use crate::{
    args::Cli,
    output::{Fault, Printer, quoted},
};

/// Prints completions.
pub fn completions(shell: clap_complete::Shell) -> Result<(), Fault> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "braid", &mut text);
    print(&text)
}

/// Prints text. A closed pipe ends it without an error: the reader wanted only the start.
fn print(text: &[u8]) -> Result<(), Fault> {
    let mut out = io::stdout().lock();
    match out.write_all(text).and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            Err(Fault::failed("writing to standard output", error))
        }
        _ => Ok(()),
    }
}

/// Prints the man page of `braid`, or writes a page per command into `dir`.
pub fn man(dir: Option<&Path>, out: Printer) -> Result<(), Fault> {
    let fault = |e: io::Error| Fault::failed("writing man pages", e);
    let Some(dir) = dir else {
        let mut text = Vec::new();
        clap_mangen::Man::new(Cli::command()).render(&mut text).map_err(fault)?;
        return print(&text);
    };
    std::fs::create_dir_all(dir).map_err(fault)?;
    clap_mangen::generate_to(Cli::command(), dir).map_err(fault)?;
    out.next(format!("man -l {}", quoted(&dir.join("braid-up.1").display().to_string())));
    Ok(())
}
