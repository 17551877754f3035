//! The tables of `docs/results/growth.md`, generated from stored results, and their plots.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{PLANS, Plan, plots, reasons};
use crate::{
    page::{PLOTS_FROM_RESULTS, Plot, StoredResults},
    report::short,
};

const MIB: f64 = 1_048_576.0;

/// The plot of each curve.
pub fn all_plots(curves: &StoredResults) -> Vec<Plot> {
    plans(curves)
        .map(|(plan, curve)| (format!("growth-{}", plan.name), plots::curve(plan, curve)))
        .collect()
}

/// The curves with stored results, in the order of a whole run.
fn plans(curves: &StoredResults) -> impl Iterator<Item = (&'static Plan, &Json)> {
    PLANS.iter().filter_map(|plan| Some((plan, curves.get(plan.name)?)))
}

pub fn render(curves: &StoredResults) -> String {
    let mut text = String::new();
    for (plan, kept) in plans(curves) {
        text += &curve(plan, kept);
        let _ = write!(
            text,
            "\n![{}]({PLOTS_FROM_RESULTS}/growth-{}.svg)\n",
            plots::title(plan),
            plan.name
        );
    }
    text + "\n"
}

/// One curve: rows of cost, of its parts and of rates for each series, rows of memory, and the
/// findings.
pub fn curve(plan: &Plan, kept: &Json) -> String {
    let all = array(&kept["series"]);
    let sizes: Vec<u64> = array(&all.first().unwrap_or(&Json::Null)["points"])
        .iter()
        .filter_map(|point| point["size"].as_u64())
        .collect();
    let head = |end: &str| {
        sizes.iter().map(|size| format!(" {} |", size_of(plan, *size))).collect::<String>() + end
    };
    let mut text = format!(
        "\n**{}**: {}  \n{}; `cargo xtask bench growth {}`\n\n| {} |  | exponent \
            |{}\n|---|---|---|{}\n",
        plan.name,
        plan.about,
        kept["machine"].as_str().unwrap_or_default(),
        plan.name,
        plan.size,
        head(""),
        "---|".repeat(sizes.len()),
    );
    all.iter().for_each(|series| text += &rows(series, &sizes));
    if let Some(first) = all.first() {
        text += &memory(first, &sizes);
    }
    all.iter().for_each(|series| text += &memory_of(series, &sizes));
    text += "\n";
    all.iter().for_each(|series| {
        text += &format!("- {}: {}\n", name(series), series["about"].as_str().unwrap_or_default())
    });
    text + &named(plan, all)
}

fn array(json: &Json) -> &[Json] {
    json.as_array().map_or(&[], Vec::as_slice)
}

fn name(series: &Json) -> &str {
    series["name"].as_str().unwrap_or_default()
}

/// A size as people write it.
pub fn size_of(plan: &Plan, size: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    if plan.size != "bytes" {
        return short_count(size);
    }
    let power = (0..units.len()).rev().find(|power| size >= 1 << (10 * power)).unwrap_or_default();
    format!("{} {}", size >> (10 * power), units[power])
}

fn short_count(size: u64) -> String {
    if size >= 1000 { short(size as f64) } else { size.to_string() }
}

fn rows(series: &Json, sizes: &[u64]) -> String {
    let number = |json: &Json| json.as_f64().map(short).unwrap_or_default();
    let parts =
        |point: &Json| ["client", "mds", "iods"].map(|kind| number(&point[kind])).join(" + ");
    let natural = series["natural"].as_f64().unwrap_or_default();
    let fits = series["exponent"]
        .as_f64()
        .map(|exponent| format!("{exponent:.2}{}", if natural > 0.0 { " (may be 1)" } else { "" }));
    let unit = |key: &str| series[key].as_str().unwrap_or_default().to_owned();
    let row = |first: &str, unit: &str, fit: &str, cell: &dyn Fn(&Json) -> String| {
        format!("| {first} | {unit} | {fit} |{}\n", cells(series, sizes, cell))
    };
    row(name(series), &unit("cpu_unit"), &fits.unwrap_or_default(), &|point| {
        number(&point["cpu"][0])
    }) + &row("", "client + mds + iods", "", &parts)
        + &if unit("rate_unit").is_empty() {
            String::new()
        } else {
            row("", &unit("rate_unit"), "", &|point| number(&point["rate"][0]))
        }
}

/// A cell for each size, empty where it was not measured.
fn cells(series: &Json, sizes: &[u64], cell: &dyn Fn(&Json) -> String) -> String {
    let at = |size: &u64| {
        array(&series["points"])
            .iter()
            .find(|point| point["size"] == *size)
            .map(cell)
            .unwrap_or_default()
    };
    sizes.iter().map(|size| format!(" {} |", at(size))).collect()
}

/// The memory of a client that is another program.
fn memory_of(series: &Json, sizes: &[u64]) -> String {
    series["memory_of"]
        .as_str()
        .map(|name| memory_row(series, sizes, "client", name))
        .unwrap_or_default()
}

fn memory_row(series: &Json, sizes: &[u64], kind: &str, name: &str) -> String {
    let cell = |point: &Json| {
        point["memory"][kind].as_f64().map(|bytes| short(bytes / MIB)).unwrap_or_default()
    };
    format!("| memory: {name} | MiB |  |{}\n", cells(series, sizes, &cell))
}

fn memory(series: &Json, sizes: &[u64]) -> String {
    let kinds = [
        ("client", "a client"),
        ("mds", "metadata server"),
        ("iod", "an I/O daemon"),
        ("iods", "all I/O daemons"),
    ];
    kinds.into_iter().map(|(kind, name)| memory_row(series, sizes, kind, name)).collect()
}

/// A line for everything that grows faster than allowed, or one line that nothing does.
fn named(plan: &Plan, all: &[Json]) -> String {
    let mut text = String::new();
    for series in all {
        for steep in array(&series["steep"]) {
            let size =
                |key: &str| steep[key].as_u64().map(|size| size_of(plan, size)).unwrap_or_default();
            let number = |key: &str| steep[key].as_f64().unwrap_or_default();
            let _ = writeln!(
                text,
                "- **{} grows faster than allowed from {} to {}**: exponent {:.2} (limit {:.1}); \
                    {}",
                name(series),
                size("from"),
                size("to"),
                number("exponent"),
                number("limit"),
                reasons::of(plan.name, name(series)),
            );
        }
    }
    if text.is_empty() { "- Nothing grows faster than allowed.\n".to_owned() } else { text }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn kept() -> Json {
        let point = |size: u64, cpu: f64| {
            json!({ "size": size, "cpu": [cpu, cpu, cpu], "rate": [9.0, 9.0, 9.0],
                    "client": cpu / 2.0, "mds": 0.0, "iods": cpu / 2.0,
                    "memory": { "client": 1 << 20, "mds": 2 << 20,
                                "iod": 3 << 20, "iods": 12 << 20 } })
        };
        json!({ "machine": "a machine", "series": [{
            "name": "read", "about": "reading", "cpu_unit": "s/GiB", "rate_unit": "MB/s",
            "natural": 0.0, "exponent": 0.5,
            "steep": [{ "from": 1, "to": 4, "exponent": 0.5, "limit": 0.1 }],
            "points": [point(1, 2.0), point(4, 4.0)] }] })
    }

    #[test]
    fn a_curve_has_cost_parts_rate_memory_and_what_is_named() {
        let text = curve(&PLANS[0], &kept());
        for line in [
            "| read | s/GiB | 0.50 | 2.00 | 4.00 |",
            "|  | client + mds + iods |  | 1.00 + 0 + 1.00 | 2.00 + 0 + 2.00 |",
            "|  | MB/s |  | 9.00 | 9.00 |",
            "| memory: metadata server | MiB |  | 2.00 | 2.00 |",
            "- **read grows faster than allowed from 1 to 4**: exponent 0.50 (limit 0.1); a call \
                of 16 MiB is a request to each daemon, \
             and each daemon a process more: below linear in the requests",
        ] {
            assert!(text.lines().any(|own| own == line), "{line} in\n{text}");
        }
    }

    #[test]
    fn sizes_are_written_as_people_do() {
        let plan = |name| PLANS.iter().find(|plan| plan.name == name).unwrap();
        assert_eq!(size_of(plan("file_sizes"), 1 << 40), "1 TiB");
        assert_eq!(size_of(plan("file_sizes"), 16 << 10), "16 KiB");
        assert_eq!(size_of(plan("directory"), 1_000_000), "1,000,000");
        assert_eq!(size_of(plan("daemons"), 64), "64");
    }
}
