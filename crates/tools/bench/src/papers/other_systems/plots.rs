//! The pictures of the comparison: bytes and random reads, and names.

use braid_bench_user::report::chart::{Bar, Chart, Group, Owner};
use serde_json::Value as Json;

use super::{NAMES, OURS};
use crate::{
    page::{self, Plot},
    papers::{plots::summary, tables::companion},
    report::short,
};

/// In the order of [`NAMES`].
pub const DISPLAY_NAMES: [&str; NAMES.len()] =
    ["BraidFS", "GlusterFS", "GlusterFS, sharded", "GlusterFS, dispersed", "MooseFS"];

/// A measure, and its heading.
const BYTES: &[(&str, &str)] = &[
    ("one_client.write", "Client of 1 Gbit/s writes, MB/s"),
    ("one_client.read", "Client of 1 Gbit/s reads, MB/s"),
    ("fast_client.write", "Client of 4 Gbit/s writes, MB/s *"),
    ("fast_client.read", "Client of 4 Gbit/s reads, MB/s *"),
    ("random.mean", "Random read of 4 KiB, mean µs"),
    ("random.p99", "Random read, slowest of 100, µs"),
];
const NAME_PANELS: &[(&str, &str)] = &[
    ("names_near.create", "Near: files created per second"),
    ("names_far.create", "Far: files created per second"),
    ("names_near.stat", "Near: stat per second"),
    ("names_far.stat", "Far: stat per second"),
    ("names_near.unlink", "Near: files removed per second"),
    ("names_far.unlink", "Far: files removed per second"),
];

/// The pictures' names and titles.
pub const TITLES: [(&str, &str); 2] =
    [("rivals", "On a network: bytes"), ("rivals-names", "On a network: names")];

/// Both pictures, of what was measured.
pub fn all(row: &Json) -> Vec<Plot> {
    let chart = |title: &str, about: &str, panels: &[(&str, &str)]| Chart {
        title: title.to_owned(),
        about: about.to_owned(),
        limit: "what the links carry".to_owned(),
        columns: 2,
        one_scale: false,
        groups: panels.iter().filter_map(|panel| group(row, panel)).collect(),
    };
    let bytes = chart(
        TITLES[0].1,
        "Through a mount; 4 data servers of 1 Gbit/s. More MB/s are better, fewer µs are better. \
         * All links at a tenth of their rates, so that the processors are not the limit.",
        BYTES,
    );
    let names = chart(
        TITLES[1].1,
        "Through a mount; more is better. Far: each message takes 0.1 ms longer in each direction.",
        NAME_PANELS,
    );
    let named = TITLES.map(|(name, _)| name).into_iter().zip([bytes, names]);
    let shown = named.filter(|(_, chart)| !chart.groups.is_empty());
    shown.map(|(name, chart)| (name.to_owned(), chart.draw())).collect()
}

fn group(row: &Json, (measure, title): &(&str, &str)) -> Option<Group> {
    let bars = NAMES.iter().zip(DISPLAY_NAMES).filter_map(|(subject, label)| {
        let wanted = format!("rivals.{measure}.{subject}");
        let (_, measure) = page::measures(row).find(|(name, _)| *name == wanted)?;
        let limit = companion(row, &wanted, "limit").and_then(|limit| limit["value"].as_f64());
        let owner = if *subject == OURS { Owner::Ours } else { Owner::Rival };
        let summary = summary(measure)?;
        Some(Bar { label: label.to_owned(), owner, summary, limit, number: short(summary.median) })
    });
    let bars: Vec<Bar> = bars.collect();
    (!bars.is_empty()).then(|| Group { title: (*title).to_owned(), bars })
}
