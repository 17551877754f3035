//! This program again as other processes: locks of a process conflict only with those of another
//! one.
//!
//! An actor reads one command a line and answers with a line, `ok …` or the name of an error. Its
//! starter may send a command that waits, use another actor meanwhile, and read the answer later.

pub mod handle;
mod play;

use std::io::{BufRead, Write};

use anyhow::Result;

/// The hidden subcommand: executes commands until its input ends.
pub fn play() -> Result<()> {
    play::answer_signals()?;
    let mut actor = play::Actor::default();
    let mut out = std::io::stdout();
    for line in std::io::stdin().lock().lines() {
        let answer = actor.act(&line?);
        writeln!(out, "{answer}")?;
        out.flush()?;
    }
    Ok(())
}
