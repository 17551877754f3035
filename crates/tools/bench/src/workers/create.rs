//! Creates files: in a process of its own, or in a thread.

use anyhow::Result;
use braid_client::{Client, LayoutHint, TlsPolicy};

use super::process::{ready, report};
use crate::{args::CreateArgs, daemons::connect};

/// Connects, prints `ready`, waits for a line, creates files, prints how many were acknowledged,
/// and waits for the end of its input.
pub fn run(args: &CreateArgs) -> Result<()> {
    let client = connect(&args.mds, &args.key, TlsPolicy::default())?;
    ready()?;
    create(&client, &args.directory, &args.prefix, args.count)?;
    report(args.count.into())
}

/// Creates `count` files in a directory, one after the other.
pub fn create(client: &Client, directory: &str, prefix: &str, count: u32) -> Result<()> {
    for number in 0..count {
        client.touch(format!("{directory}/{prefix}{number}"), 0o644, true, LayoutHint::none())?;
    }
    Ok(())
}
