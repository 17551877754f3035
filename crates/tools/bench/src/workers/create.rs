//! Creates files: in a process of its own, or in a thread.

use std::io::{BufRead, stdin};

use anyhow::{Context, Result};
use braid_client::{Client, LayoutWish, TlsPolicy};

use crate::{args::CreateArgs, daemons::connect};

/// Connects, prints `ready`, waits for a line, creates, prints how many were acknowledged, waits for the end of its input.
pub fn run(args: &CreateArgs) -> Result<()> {
    let client = connect(&args.mds, &args.key, TlsPolicy::default())?;
    println!("ready");
    let mut line = String::new();
    stdin().read_line(&mut line).context("waiting for the start")?;
    create(&client, &args.directory, &args.prefix, args.count)?;
    println!("{}", args.count);
    stdin().lock().read_until(b'\n', &mut Vec::new())?;
    Ok(())
}

/// Makes `count` files in a directory, one after the other.
pub fn create(client: &Client, directory: &str, prefix: &str, count: u32) -> Result<()> {
    for number in 0..count {
        client.touch(format!("{directory}/{prefix}{number}"), 0o644, true, LayoutWish::none())?;
    }
    Ok(())
}
