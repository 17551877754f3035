//! Copies trees: `put` (local to cluster), `get` (cluster to local), `cp` (inside the cluster).
//!
//! One engine works between two kinds of [`CopySide`]:
//!
//! ```text
//!   plan: walk the source, create directories, queue files                     (one thread)
//!   copy: workers take files from a bounded queue, in chunks of CHUNK_BYTES    (`--jobs` threads)
//!   end:  modes and times of directories, deepest first; sync if asked
//! ```
//!
//! Invariants:
//! 1. A file gets its time only when it is complete. So `--resume` can distinguish a complete file
//!    (size and time agree) from a partial one.
//! 2. The first error of a file does not stop the others. The command fails at the end and reports
//!    how many failed.
//! 3. Memory is `jobs * CHUNK_BYTES`, twice that to resume, and a bounded queue, whatever the size
//!    of the tree (I9).
//!
//! They follow from the order of the steps and from the constants; no state exists to assert them
//! on.

mod copy;
mod copy_side;
mod local;
mod progress;
mod remote;

/// Paths as bytes, for other commands.
pub mod path {
    pub use super::copy_side::{above, file_name, join, show};
}

use braid_client::{Client, FileKind};

use crate::{
    args::{LayoutArgs, TransferArgs},
    config::Settings,
    connect,
    output::{Exit, Fault, Printer, human_bytes, quoted},
    transfer::{
        copy::{Options, Summary, copy_trees},
        copy_side::CopySide,
        local::Local,
        remote::Remote,
    },
};

/// Advice after an interrupted copy.
const RESUME: &str = "the same command with --resume";
/// Advice for `braid cp`, which has no `--resume`.
const AGAIN: &str = "the same command again";

/// `braid put LOCAL… REMOTE`.
pub fn put(args: &TransferArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let remote = Remote::new(client.clone(), connect::layout_hint(&args.layout, &client)?);
    run(&Local, &remote, args, RESUME, out)?;
    next_in_cluster(&client, args, out);
    Ok(())
}

/// `braid get REMOTE… LOCAL`.
pub fn get(args: &TransferArgs, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    run(
        &Remote::new(client.clone(), connect::layout_hint(&args.layout, &client)?),
        &Local,
        args,
        RESUME,
        out,
    )?;
    if let Some(destination) = args.paths.last() {
        out.next(format!("ls -l {}", quoted(destination)));
    }
    Ok(())
}

/// `braid cp SOURCE… DESTINATION`.
pub fn cp(
    paths: &[String],
    recursive: bool,
    layout: &LayoutArgs,
    settings: &Settings,
    out: Printer,
) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    let remote = Remote::new(client.clone(), connect::layout_hint(layout, &client)?);
    let args = TransferArgs {
        paths: paths.to_vec(),
        recursive,
        jobs: 4,
        resume: false,
        owner: false,
        sync: false,
        layout: LayoutArgs::default(),
    };
    run(&remote, &remote, &args, AGAIN, out)?;
    next_in_cluster(&client, &args, out);
    Ok(())
}

/// Suggests the layout after one file, the listing after several.
fn next_in_cluster(client: &Client, args: &TransferArgs, out: Printer) {
    let Some((destination, sources)) = args.paths.split_last().filter(|_| out.hints()) else {
        return;
    };
    let into = client.stat(destination).is_ok_and(|found| found.kind == FileKind::Directory);
    let one = sources.len() == 1 && !args.recursive;
    let path = match into && one {
        true => path::join(destination.as_bytes(), path::file_name(sources[0].as_bytes())),
        false => destination.as_bytes().to_vec(),
    };
    let what = if one { "layout show" } else { "ls -l" };
    out.next(format!("braid {what} {}", quoted(&path::show(&path))));
}

fn run(
    from: &impl CopySide,
    to: &impl CopySide,
    args: &TransferArgs,
    retry: &str,
    out: Printer,
) -> Result<(), Fault> {
    let options = Options {
        recursive: args.recursive,
        jobs: usize::from(args.jobs),
        resume: args.resume,
        owner: args.owner,
        sync: args.sync,
    };
    let progress = progress::Progress::new(out);
    let (destination, sources) = args.paths.split_last().expect("clap requires at least two paths");
    let summary = copy_trees(from, sources, to, destination, &options, &progress)?;
    progress.finish();
    report(&summary, out);
    if summary.failed == 0 {
        return Ok(());
    }
    let first =
        summary.first_failure.clone().unwrap_or_else(|| Fault::failed("copying", "unknown"));
    Err(Fault::new(
        first.exit,
        format!("copying {} of {} files", summary.failed, summary.failed + summary.files),
        format!("{}: {}", first.what, first.why),
    )
    .hint(match (first.exit, first.hint) {
        // Repeating does not help if a path is wrong or permission is missing.
        (Exit::NotFound | Exit::Usage | Exit::Refused, Some(hint)) => hint,
        (Exit::NotFound | Exit::Usage | Exit::Refused, None) => "another destination".to_owned(),
        (Exit::Failed, _) if is_name_conflict(&first.why) => "another destination".to_owned(),
        (Exit::Unreachable, _) => format!("braid status, then {retry}"),
        (Exit::NoSpace, Some(hint)) if hint.contains("quota") => {
            format!("{hint}; when there is space, {retry}")
        }
        (Exit::NoSpace, _) => format!("braid df; when there is space, {retry}"),
        _ => retry.to_owned(),
    }))
}

/// Whether an entry of another type has the name.
fn is_name_conflict(why: &str) -> bool {
    let why = why.to_lowercase();
    ["already exists", "file exists", "not a directory", "is a directory"]
        .iter()
        .any(|words| why.contains(words))
}

fn report(summary: &Summary, out: Printer) {
    if out.json {
        return out.value(summary);
    }
    if summary.failed > 0 && summary.files + summary.directories + summary.already_there == 0 {
        // The error is reported next; a rate would be meaningless.
        return;
    }
    let rate = summary.bytes as f64 / summary.seconds.max(1e-9);
    out.hint(format!(
        "{}, {}, {} in {:.1} s ({}/s){}{}",
        counted(summary.files, "file", "files"),
        counted(summary.directories, "directory", "directories"),
        human_bytes(summary.bytes),
        summary.seconds,
        human_bytes(rate as u64),
        if summary.already_there > 0 {
            format!(", {} already there", summary.already_there)
        } else {
            String::new()
        },
        if summary.skipped.is_empty() {
            String::new()
        } else {
            format!(", {} skipped", summary.skipped.len())
        },
    ));
    for skipped in summary.skipped.iter().take(5) {
        out.hint(format!("skipped {skipped}"));
    }
}

/// `1 file`, `2 files`.
fn counted(n: u64, one: &str, many: &str) -> String {
    format!("{n} {}", if n == 1 { one } else { many })
}
