//! `braid layout show|set`.

use braid_client::Client;
use braid_layout::{Component, Distribution};
use braid_types::{FileOffset, IodId, PartIndex};
use braid_wire::message::{
    mds::LayoutShowReply,
    types::{DistributionHint, IodState, LayoutHint, Placement},
};
use serde_json::{Value, json};

use crate::{
    args::LayoutCommand,
    config::Settings,
    connect,
    output::{Fault, Printer, human_bytes, quoted},
};

/// Runs one of the commands.
pub fn run(command: &LayoutCommand, settings: &Settings, out: Printer) -> Result<(), Fault> {
    let client = connect::client(settings)?;
    match command {
        LayoutCommand::Set { path, layout } => {
            client.set_layout(path, connect::layout_hint(layout, &client)?)?;
            out.next(format!("braid layout show {}", quoted(path)));
            Ok(())
        }
        LayoutCommand::Show { paths } => {
            let facts =
                paths.iter().map(|path| show(&client, path, out)).collect::<Result<Vec<_>, _>>()?;
            if out.json {
                out.value(&facts);
            } else if let (Some(path), Some(last)) = (paths.last(), facts.last()) {
                next(path, last["components"].is_null(), out);
            }
            Ok(())
        }
    }
}

fn next(path: &str, is_directory: bool, out: Printer) {
    let path = quoted(path);
    match is_directory {
        true => out.next(format!(
            "braid layout set {path} --stripe-size 64K --iod-count 2    (for its new files)"
        )),
        false => out
            .next(format!("braid cp --stripe-size 64K {path} NEW    (a copy with another layout)")),
    }
}

fn show(client: &Client, path: &str, out: Printer) -> Result<Value, Fault> {
    let found = client.layout(path)?;
    if !out.json {
        match &found.layout {
            Some(_) => {
                // The size may be at a daemon that is down.
                let bytes = client.stat(path).ok().map(|found| found.bytes.0);
                let removed = client
                    .cluster_map()?
                    .iods
                    .into_iter()
                    .filter(|iod| iod.state == IodState::Removed);
                show_file(
                    path,
                    &found,
                    (bytes, &removed.map(|iod| iod.id).collect::<Vec<_>>()),
                    out,
                );
            }
            None => {
                out.line(format!("{path}: default of new files: {}", wish_text(&found.layout_hint)))
            }
        }
    }
    Ok(facts(path, &found))
}

fn show_file(
    path: &str,
    found: &LayoutShowReply,
    (bytes, removed): (Option<u64>, &[IodId]),
    out: Printer,
) {
    let Some(layout) = &found.layout else { return };
    out.line(format!("{path}: layout version {}", layout.version));
    let mut part = 0;
    for component in &layout.components {
        let end = if component.end == FileOffset::MAX {
            "end".to_owned()
        } else {
            component.end.to_string()
        };
        let (start, what) = (component.start, distribution_text(&component.distribution));
        out.line(format!(
            "  bytes {start} to {end}: {what}, {} parts, first part {}",
            component.parts.len(),
            component.first_part
        ));
        for placement in &component.parts {
            let iods: Vec<_> = placement.iods.iter().map(ToString::to_string).collect();
            let ends_before = |bytes| {
                layout.object_bytes(bytes, PartIndex(part as u16)).is_ok_and(|bytes| bytes == 0)
            };
            let state = match bytes {
                _ if recorded(found, part)
                    && placement.iods.iter().all(|iod| removed.contains(iod)) =>
                {
                    "lost: its daemon was removed"
                }
                _ if recorded(found, part) => "written",
                Some(bytes) if ends_before(bytes) => "empty: past the end of the file",
                Some(_) => "a hole, or written a few seconds ago",
                None => "not recorded",
            };
            out.line(format!("    part {part}: I/O daemon {} ({state})", iods.join(" ")));
            part += 1;
        }
    }
}

fn recorded(found: &LayoutShowReply, part: usize) -> bool {
    found.existing_parts.get(part / 8).is_some_and(|byte| byte >> (part % 8) & 1 == 1)
}

fn distribution_text(distribution: &Distribution) -> String {
    match distribution {
        Distribution::SimpleStripe { stripe_size } => {
            format!("stripes of {}", human_bytes(*stripe_size))
        }
        Distribution::Single => "one part".into(),
        Distribution::VarStrip { strips } => {
            let strips: Vec<_> =
                strips.iter().map(|s| format!("{}:{}", s.part, human_bytes(s.bytes))).collect();
            format!("strips {}", strips.join(" "))
        }
        Distribution::Grouped { stripe_size, group_width, group_depth } => {
            format!(
                "stripes of {} in groups of {group_width}, {group_depth} rows each",
                human_bytes(*stripe_size)
            )
        }
        _ => "an unknown distribution of a newer version".into(),
    }
}

/// The keywords of `--distribution`.
fn distribution_word(kind: DistributionHint) -> &'static str {
    match kind {
        DistributionHint::SimpleStripe => "simple-stripe",
        DistributionHint::Single => "single",
        DistributionHint::VarStrip => "varstrip",
        DistributionHint::Grouped => "grouped",
        _ => "an unknown distribution of a newer version",
    }
}

/// The keywords of `--placement`.
fn placement_word(kind: Placement) -> &'static str {
    match kind {
        Placement::RoundRobin => "round-robin",
        Placement::FreeSpace => "free-space",
        Placement::Owner => "owner",
        _ => "an unknown rule of a newer version",
    }
}

fn distribution_facts(distribution: &Distribution) -> Value {
    match distribution {
        Distribution::SimpleStripe { stripe_size } => {
            json!({ "kind": "simple-stripe", "stripe_size": stripe_size })
        }
        Distribution::Single => json!({ "kind": "single" }),
        Distribution::VarStrip { strips } => {
            let strips: Vec<Value> =
                strips.iter().map(|s| json!({ "part": s.part, "bytes": s.bytes })).collect();
            json!({ "kind": "varstrip", "strips": strips })
        }
        Distribution::Grouped { stripe_size, group_width, group_depth } => {
            json!({ "kind": "grouped", "stripe_size": stripe_size, "group_width": group_width,
                "group_depth": group_depth })
        }
        _ => json!({ "kind": "unknown" }),
    }
}

fn wish_text(wish: &LayoutHint) -> String {
    let mut words: Vec<String> = Vec::new();
    words.extend(wish.distribution.map(|kind| distribution_word(kind).to_owned()));
    words.extend(wish.stripe_bytes.map(|bytes| format!("stripes of {}", human_bytes(bytes))));
    words.extend(wish.parts.map(|parts| format!("{parts} parts")));
    words.extend(wish.first_iod.map(|iod| format!("from daemon {iod} of the list")));
    words.extend(wish.placement.map(|kind| format!("placed by {}", placement_word(kind))));
    if !wish.labels.is_empty() {
        words.push(format!("only on {}", wish.labels.join(" ")));
    }
    if words.is_empty() { "the default of the file system".into() } else { words.join(", ") }
}

fn facts(path: &str, found: &LayoutShowReply) -> Value {
    let component = |c: &Component| {
        let iods: Vec<Vec<u32>> =
            c.parts.iter().map(|p| p.iods.iter().map(|iod| iod.0).collect()).collect();
        json!({ "start": c.start.0, "end": (c.end != FileOffset::MAX).then_some(c.end.0),
            "distribution": distribution_facts(&c.distribution), "first_part": c.first_part,
            "iods_of_parts": iods })
    };
    let parts: usize = found.layout.iter().flat_map(|l| &l.components).map(|c| c.parts.len()).sum();
    let components =
        found.layout.as_ref().map(|l| l.components.iter().map(component).collect::<Vec<_>>());
    json!({
        "path": path,
        "components": components,
        "written_parts": (0..parts).filter(|part| recorded(found, *part)).collect::<Vec<_>>(),
        "default": wish_text(&found.layout_hint),
    })
}
