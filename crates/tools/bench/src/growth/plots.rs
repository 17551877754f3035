//! One picture of a curve: cost against its cheapest point, and memory.

use braid_bench_user::report::plot::{Line, Panel, plot};
use serde_json::Value as Json;

use super::{Plan, tables::size_of};

const MIB: f64 = 1_048_576.0;

/// Two panels side by side.
pub fn curve(plan: &Plan, kept: &Json) -> String {
    let all = kept["series"].as_array().map_or(&[][..], Vec::as_slice);
    let cost = Panel {
        title: "CPU for a unit, times the cheapest".to_owned(),
        across: plan.size.to_owned(),
        lines: all.iter().map(line).collect(),
    };
    let memory = |(kind, name): (&str, &str)| Line {
        name: name.to_owned(),
        points: all
            .first()
            .map(|series| points(series, |point| point["memory"][kind].as_f64().map(|bytes| bytes / MIB)))
            .unwrap_or_default(),
    };
    let kinds =
        [("client", "a client"), ("mds", "metadata server"), ("iod", "an I/O daemon"), ("iods", "all I/O daemons")];
    let memory = Panel {
        title: "memory, MiB".to_owned(),
        across: plan.size.to_owned(),
        lines: kinds.into_iter().map(memory).collect(),
    };
    plot(plan.about, &[cost, memory], |size| size_of(plan, size as u64))
}

fn line(series: &Json) -> Line {
    let costs = points(series, |point| point["cpu"][0].as_f64());
    let cheapest = costs.iter().map(|(_, cost)| *cost).fold(f64::INFINITY, f64::min);
    let name = series["name"].as_str().unwrap_or_default().to_owned();
    Line { name, points: costs.into_iter().map(|(size, cost)| (size, cost / cheapest)).collect() }
}

fn points(series: &Json, of: impl Fn(&Json) -> Option<f64>) -> Vec<(f64, f64)> {
    let points = series["points"].as_array().map_or(&[][..], Vec::as_slice);
    points.iter().filter_map(|point| Some((point["size"].as_f64()?, of(point)?))).collect()
}
