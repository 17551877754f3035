//! One picture of a curve: cost against its cheapest point, and memory.

use braid_bench_user::report::plot::{Line, Panel, plot};
use serde_json::Value as Json;

use super::{Plan, tables::size_of};

const MIB: f64 = 1_048_576.0;
const ABOUT: &str = "Left: processor time of one operation or byte; 1 is the cheapest size of \
    each curve, so a level \
                     line is linear growth of the whole. Both axes are logarithmic.";

/// The title of a curve's picture, and what its sizes count.
const TITLES: &[(&str, &str, &str)] = &[
    ("daemons", "Cost as the number of data servers grows", "data servers"),
    ("stripes", "Cost as a file is striped over more data servers", "data servers of the file"),
    ("clients", "Cost as the number of clients grows", "clients"),
    ("file_sizes", "Cost as a file grows", "size of the file"),
    ("directory", "Cost as a directory grows", "entries of the directory"),
    ("pieces", "Cost as a request has more pieces", "pieces of 512 bytes in one request"),
];

/// The labels of a curve's series.
const LINES: &[(&str, &str, &str)] = &[
    ("daemons", "read", "read, calls of 16 MiB"),
    ("daemons", "rewrite", "overwrite, calls of 16 MiB"),
    ("daemons", "small_file", "create, write 4 KiB, close, remove"),
    ("daemons", "idle", "idle data server"),
    ("stripes", "read", "read, calls of 4 MiB"),
    ("stripes", "rewrite", "overwrite, calls of 4 MiB"),
    ("stripes", "small_file", "create, write 4 KiB, close, remove"),
    ("stripes", "wide_file", "one stripe to each server, per server"),
    ("stripes", "stat", "stat of a file that another client writes"),
    ("clients", "read", "read of 4 KiB, all clients together"),
    ("clients", "write", "overwrite of 4 KiB, all clients together"),
    ("clients", "stat", "stat by path, all clients together"),
    ("clients", "connect", "connect, open, read once"),
    ("clients", "idle", "idle client"),
    ("file_sizes", "stat", "stat of a sparse file"),
    ("file_sizes", "whole_file", "write all, read all, remove; per GiB"),
    ("file_sizes", "read_piece", "read 4 KiB of a hole"),
    ("file_sizes", "write_piece", "write 4 KiB somewhere"),
    ("file_sizes", "truncate", "truncate to half and extend again"),
    ("file_sizes", "remove", "create, extend, write 1 byte, remove"),
    ("directory", "create", "create, 16 threads"),
    ("directory", "stat", "stat by path"),
    ("directory", "remove", "remove"),
    ("directory", "list", "list with attributes, per entry"),
    ("directory", "mount_list", "a new mount lists it, per entry"),
    ("directory", "mount_stat", "first lstat of each name, mount"),
    ("directory", "mount_stat_again", "second lstat of each name, mount"),
    ("pieces", "read_list", "read a list of pieces"),
    ("pieces", "write_list", "write a list of pieces"),
    ("pieces", "read_view", "read a strided view"),
];

const MEMORY: [(&str, &str); 4] = [
    ("client", "one client"),
    ("mds", "metadata server"),
    ("iod", "one data server"),
    ("iods", "all data servers"),
];

/// The title of a curve's picture.
pub fn title(plan: &Plan) -> &'static str {
    TITLES.iter().find(|(curve, ..)| *curve == plan.name).map_or(plan.about, |(_, title, _)| title)
}

/// Two panels side by side.
pub fn curve(plan: &Plan, kept: &Json) -> String {
    let all = kept["series"].as_array().map_or(&[][..], Vec::as_slice);
    let across = || {
        TITLES
            .iter()
            .find(|(curve, ..)| *curve == plan.name)
            .map_or(plan.size, |(.., across)| across)
    };
    let cost = Panel {
        title: "Processor time, times the cheapest".to_owned(),
        across: across().to_owned(),
        lines: all.iter().map(|series| line(plan, series)).collect(),
    };
    let memory = |(kind, name): (&str, &str)| Line {
        name: name.to_owned(),
        points: all
            .first()
            .map(|series| {
                points(series, |point| point["memory"][kind].as_f64().map(|bytes| bytes / MIB))
            })
            .unwrap_or_default(),
    };
    let memory = Panel {
        title: "Memory, MiB".to_owned(),
        across: across().to_owned(),
        lines: MEMORY.into_iter().map(memory).collect(),
    };
    plot(title(plan), ABOUT, &[cost, memory], |size| size_of(plan, size as u64))
}

fn line(plan: &Plan, series: &Json) -> Line {
    let costs = points(series, |point| point["cpu"][0].as_f64());
    let cheapest = costs.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
    let name = series["name"].as_str().unwrap_or_default();
    let words = LINES.iter().find(|(curve, series, _)| (*curve, *series) == (plan.name, name));
    Line {
        name: words.map_or(name, |(.., words)| words).to_owned(),
        points: costs.into_iter().map(|(size, cost)| (size, cost / cheapest)).collect(),
    }
}

fn points(series: &Json, of: impl Fn(&Json) -> Option<f64>) -> Vec<(f64, f64)> {
    let points = series["points"].as_array().map_or(&[][..], Vec::as_slice);
    points.iter().filter_map(|point| Some((point["size"].as_f64()?, of(point)?))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::growth::PLANS;

    #[test]
    fn every_curve_has_a_title_and_its_lines_are_of_curves_that_are_there() {
        PLANS.iter().for_each(|plan| assert_ne!(title(plan), plan.about, "{}", plan.name));
        assert!(LINES.iter().all(|(curve, ..)| PLANS.iter().any(|plan| plan.name == *curve)));
    }
}
