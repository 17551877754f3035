//! The pictures of `bench mount`: bytes, and small files, beside other file systems.

use braid_bench_user::report::chart::{Bar, Chart, Group, Owner};
use serde_json::Value as Json;

use super::{Plot, StoredResults, measures};
use crate::{mount::subject::OURS, papers::plots::summary, report::short};

/// Subjects, from the top of a group on, and their labels.
const SUBJECTS: [(&str, &str, Owner); 7] = [
    (OURS, "BraidFS", Owner::Ours),
    ("moosefs", "MooseFS", Owner::Rival),
    ("gluster", "GlusterFS", Owner::Rival),
    ("gluster_shard", "GlusterFS, sharded", Owner::Rival),
    ("gluster_disperse", "GlusterFS, dispersed", Owner::Rival),
    ("passthrough", "FUSE, no network", Owner::Reference),
    ("ext4", "local ext4", Owner::Reference),
];
/// A local file in the page cache is beyond the scale.
const BYTES: &[&str] =
    &[OURS, "moosefs", "gluster", "gluster_shard", "gluster_disperse", "passthrough"];
const FILES: &[&str] = &[OURS, "moosefs", "gluster", "ext4"];

/// A measure, and its heading.
type Panel = (&'static str, &'static str, &'static str);

const BYTE_PANELS: &[Panel] = &[
    ("sequential", "sequential.write", "One new file, written"),
    ("sequential", "sequential.read", "One file, read"),
    ("parallel", "parallel.write", "Four files together, written"),
    ("parallel", "parallel.read", "Four files together, read"),
];
const FILE_PANELS: &[Panel] = &[
    ("names", "names.create", "Files created per second (more is better)"),
    ("random", "random.latency", "Random read of 4 KiB, µs (less is better)"),
    ("tree", "tree.copy", "cp -a of a tree, seconds (less is better)"),
    ("clone", "clone.time", "git clone, seconds (less is better)"),
];

/// Both pictures.
pub fn all(kept: &StoredResults) -> Vec<Plot> {
    let bytes = Chart {
        title: "Through a mount: bytes".to_owned(),
        about: "MB/s, more is better. One machine, four data servers, servers warm. A local ext4 \
            reads from its \
                page cache, at 15,000 MB/s and more, and is not shown."
            .to_owned(),
        limit: String::new(),
        columns: 2,
        one_scale: true,
        groups: groups(kept, BYTE_PANELS, BYTES),
    };
    let files = Chart {
        title: "Through a mount: small files".to_owned(),
        about: "One machine, four data servers. Each group has its own scale. The local ext4 \
            asks no server."
            .to_owned(),
        limit: String::new(),
        columns: 2,
        one_scale: false,
        groups: groups(kept, FILE_PANELS, FILES),
    };
    let named = [("mount-bytes", bytes), ("mount-files", files)];
    let shown = named.into_iter().filter(|(_, chart)| !chart.groups.is_empty());
    shown.map(|(name, chart)| (name.to_owned(), chart.draw())).collect()
}

fn groups(kept: &StoredResults, panels: &[Panel], subjects: &[&str]) -> Vec<Group> {
    let group = |(row, measure, title): &Panel| {
        let row = kept.get(*row)?;
        let bars: Vec<Bar> = SUBJECTS
            .iter()
            .filter(|(subject, ..)| subjects.contains(subject))
            .filter_map(|(subject, label, owner)| {
                bar(row, &format!("{measure}.{subject}"), label, *owner)
            })
            .collect();
        (!bars.is_empty()).then(|| Group { title: (*title).to_owned(), bars })
    };
    panels.iter().filter_map(group).collect()
}

fn bar(row: &Json, wanted: &str, label: &str, owner: Owner) -> Option<Bar> {
    let (_, measure) = measures(row).find(|(name, _)| *name == wanted)?;
    let summary = summary(measure)?;
    Some(Bar {
        label: label.to_owned(),
        owner,
        summary,
        limit: None,
        number: short(summary.median),
    })
}
