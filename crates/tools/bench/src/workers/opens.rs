//! Many clients of one process, each with files open for writing.

use anyhow::Result;
use braid_client::{Client, File, OpenOptions, TlsPolicy};

use super::process::{ready, report};
use crate::{args::OpensArgs, daemons::connect};

/// Prints `ready`; at the next line creates the files and prints their number; at the next one
/// closes them and prints how many closes failed.
pub fn run(args: &OpensArgs) -> Result<()> {
    ready()?;
    let clients: Vec<(Client, Vec<File>)> = (args.first..args.first + args.count)
        .map(|number| opened(args, number))
        .collect::<Result<_>>()?;
    report(clients.iter().map(|(_, files)| files.len() as u64).sum())?;
    let mut failed = 0;
    for (_client, files) in clients {
        failed += files.into_iter().map(File::close).filter(Result::is_err).count();
    }
    report(failed as u64)
}

/// A client with its own session, and its files in its own directory.
fn opened(args: &OpensArgs, number: u32) -> Result<(Client, Vec<File>)> {
    let client = connect(&args.mds, &args.key, TlsPolicy::default())?;
    let directory = format!("/opens{number}");
    client.mkdir(&directory, 0o755)?;
    let options = OpenOptions::new().write(true).create_new(true);
    let open = |file| Ok(client.open(format!("{directory}/f{file}"), &options)?);
    let files = (0..args.opens).map(open).collect::<Result<_>>()?;
    Ok((client, files))
}
