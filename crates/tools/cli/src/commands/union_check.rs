//! `braid union fsck` and `braid union dedup`: names that several disks have.

use std::{
    path::{Path, PathBuf},
    process::ExitCode,
};

use braid_union::{DuplicateReport, Finding, Reply, Request};

use super::{Done, ask, path_in_union};
use crate::{
    commands::union::linux::shown,
    output::{Exit, Printer, human_bytes},
};

/// Compares what the disks have.
///
/// # Errors
/// The pool cannot be read. What is found is the exit code.
pub fn check(meta: &Path, repair: bool, out: Printer) -> Done<ExitCode> {
    let Reply::Checked(report) = ask(meta, &Request::Check { repair }, out)? else {
        return Ok(ExitCode::from(Exit::Failed as u8));
    };
    if out.json {
        out.value(&report);
    } else {
        report.findings.iter().for_each(|finding| out.line(finding.to_string()));
        let all = report.left + report.repaired;
        if all > report.findings.len() as u64 {
            out.hint(format!("{all} findings in all"));
        }
        let findings = if all == 1 { "finding" } else { "findings" };
        out.hint(format!(
            "{} names of several disks compared, {all} {findings}, {} repaired",
            report.compared, report.repaired
        ));
        let has = |kind: fn(&Finding) -> bool| report.findings.iter().any(kind);
        let differs = has(|finding| matches!(finding, Finding::Directory { repaired: false, .. }));
        let hidden = has(|finding| matches!(finding, Finding::Hidden { .. }));
        out.next(match (differs && !repair, hidden) {
            (true, _) => format!("braid union fsck --repair {}", shown(meta)),
            (false, true) => format!("braid union dedup --dry-run {}", shown(meta)),
            (false, false) => format!("braid union status {}", shown(meta)),
        });
    }
    Ok(if report.left == 0 { ExitCode::SUCCESS } else { ExitCode::from(Exit::Problems as u8) })
}

/// Removes hidden files with the same bytes as the one that is shown.
///
/// # Errors
/// There is no such path.
pub fn deduplicate(meta: &Path, paths: &[PathBuf], dry_run: bool, out: Printer) -> Done<ExitCode> {
    let root = [PathBuf::new()];
    let paths = if paths.is_empty() { &root } else { paths };
    let mut sum = DuplicateReport::default();
    for path in paths {
        let wanted = Request::Deduplicate { path: path_in_union(path)?, remove: !dry_run };
        if let Reply::Deduplicated(report) = ask(meta, &wanted, out)? {
            sum.same += report.same;
            sum.bytes += report.bytes;
            sum.stay += report.stay;
            sum.reasons.extend(report.reasons);
        }
    }
    if out.json {
        out.value(&sum);
    } else {
        let rows: Vec<Vec<String>> =
            sum.reasons.iter().map(|(path, why)| vec![path.clone(), why.clone()]).collect();
        if !rows.is_empty() {
            out.table(&["stays", "because"], &rows);
        }
        let done = if dry_run { "would be removed" } else { "removed" };
        let (same, bytes) = (sum.same, human_bytes(sum.bytes));
        let files = if same == 1 { "file" } else { "files" };
        out.hint(format!("{same} hidden {files} {done}, {bytes}; {} stay", sum.stay));
        out.next(match dry_run && sum.same > 0 {
            true => format!("braid union dedup {}", shown(meta)),
            false => format!("braid union fsck {}", shown(meta)),
        });
    }
    Ok(ExitCode::SUCCESS)
}
