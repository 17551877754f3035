//! This program again as other processes: locks of a process are met only from another one.
//!
//! An actor reads a command a line and answers with a line, `ok …` or the name of an error. The one who started it may
//! send a command that waits, go on with another actor, and take the answer later.

pub mod handle;
mod play;

use std::io::{BufRead, Write};

use anyhow::Result;

/// The hidden subcommand: plays until its input ends.
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
