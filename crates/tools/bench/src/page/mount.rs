//! The tables of `bench mount`: a column for each file system.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{StoredResults, measures, spread, target_cell};
use crate::mount::{
    GROUPS,
    subject::{OURS, OURS_URING, PASSTHROUGH_URING},
};

/// Columns, and their headings.
const COLUMNS: [(&str, &str); 10] = [
    (OURS, "BraidFS"),
    (OURS_URING, "BraidFS, io_uring"),
    ("ext4", "ext4"),
    ("gluster", "GlusterFS"),
    ("gluster_disperse", "GlusterFS, dispersed"),
    ("gluster_shard", "GlusterFS, sharded"),
    ("moosefs", "MooseFS"),
    ("passthrough", "passthrough"),
    ("passthrough_ll", "passthrough_ll"),
    (PASSTHROUGH_URING, "passthrough, io_uring"),
];

/// A table of each group, in the order of a whole run.
pub fn render(kept: &StoredResults) -> String {
    let mut text = String::new();
    for group in GROUPS {
        let Some(one) = kept.get(group.name) else { continue };
        let machine = one["machine"].as_str().unwrap_or_default();
        let (name, about) = (group.name, group.about);
        let _ = write!(
            text,
            "\n**{name}**: {about}  \n{machine}; `cargo xtask bench mount {name}`\n\n"
        );
        text += &table(one);
    }
    text + "\n"
}

fn table(group: &Json) -> String {
    let parts =
        || measures(group).filter_map(|(name, measure)| Some((name.rsplit_once('.')?, measure)));
    let columns: Vec<(&str, &str)> = COLUMNS
        .into_iter()
        .filter(|column| parts().any(|((_, subject), _)| subject == column.0))
        .collect();
    let heads: String = columns.iter().map(|(_, head)| format!(" {head} |")).collect();
    let mut text =
        format!("| measure | unit |{heads} bar |\n|---|---|{}---|\n", "---|".repeat(columns.len()));
    let mut seen = Vec::new();
    for ((name, _), measure) in parts() {
        if seen.contains(&name) {
            continue;
        }
        seen.push(name);
        let of = |subject: &str| {
            parts().find(|(of, _)| *of == (name, subject)).map(|(_, measure)| measure)
        };
        let cells: String = columns
            .iter()
            .map(|(subject, _)| format!(" {} |", of(subject).map(spread).unwrap_or_default()))
            .collect();
        let unit = measure["unit"].as_str().unwrap_or_default();
        let _ = writeln!(
            text,
            "| {name} | {unit} |{cells} {} |",
            target_rows(of(OURS), of(OURS_URING))
        );
    }
    text
}

/// The targets of both our mounts; that of io_uring is marked.
fn target_rows(device: Option<&Json>, uring: Option<&Json>) -> String {
    let uring =
        uring.map(target_cell).filter(|bar| !bar.is_empty()).map(|bar| format!("io_uring {bar}"));
    let device = device.map(target_cell).filter(|bar| !bar.is_empty());
    [device, uring].into_iter().flatten().collect::<Vec<_>>().join("; ")
}
