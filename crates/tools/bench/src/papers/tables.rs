//! The tables of `docs/results/papers.md`, generated from stored results.

use std::fmt::Write as _;

use serde_json::Value as Json;

use super::{ROWS, other_systems, plots, rates};
use crate::{
    page::{self, PLOTS_FROM_RESULTS, StoredResults},
    report::short,
};

const HEAD: &str = "\
| measure | MB/s | of the limit | limit | bar | TLS | CPU, s/GiB: plain, TLS (times) | TCP: sent \
again, time-outs | in the paper |
|---|---|---|---|---|---|---|---|---|
";

/// The papers' numbers, by the beginning of a measure's name; the longest match counts.
const THEIRS: &[(&str, &str)] = &[
    ("one_client.write", "0.88 of the line (2008)"),
    ("one_client.read", "0.60 of the line (2008)"),
    ("mount.one_client", "below the local disk (2008)"),
    ("incast", "read fell from 93 to 75 MB/s at 4 daemons (2008)"),
    ("clients.separate.read", "509 of 750 MB/s (Direct-pNFS 2007)"),
    ("clients.one_file.read", "509 of 750 MB/s (Direct-pNFS 2007)"),
    ("clients.separate.write", "119.2 MB/s, bound by its disks (Direct-pNFS 2007)"),
    ("clients.one_file.write", "110 MB/s, bound by its disks (Direct-pNFS 2007)"),
    ("cards.write", "505.9 MB/s, 0.69 of its measured NIC rate (CIFS 2007)"),
    ("cards.read", "431.8 MB/s, 0.56 of its measured NIC rate (CIFS 2007)"),
    ("streams.1x1.write", "85.9 MB/s (CIFS 2007, table 4)"),
    ("streams.1x1.read", "48.9 MB/s (CIFS 2007, table 4)"),
    ("streams.4x1.write", "336.8 MB/s (CIFS 2007, table 10)"),
    ("streams.4x1.read", "183.5 MB/s (CIFS 2007, table 10)"),
    ("streams.8x1.write", "512.7 MB/s (CIFS 2007, table 10)"),
    ("streams.8x1.read", "271.0 MB/s (CIFS 2007, table 10)"),
    ("streams.16x1.write", "535.7 MB/s (CIFS 2007, table 10)"),
    ("streams.16x1.read", "332.0 MB/s (CIFS 2007, table 10)"),
    ("streams.1x4.write", "118.9 MB/s (CIFS 2007, table 8)"),
    ("streams.1x4.read", "67.8 MB/s (CIFS 2007, table 8)"),
    ("streams.2x4.write", "238.6 MB/s (CIFS 2007, table 8)"),
    ("streams.2x4.read", "123.2 MB/s (CIFS 2007, table 8)"),
    ("streams.4x4.write", "465.0 MB/s (CIFS 2007, table 8)"),
    ("streams.4x4.read", "206.7 MB/s (CIFS 2007, table 8)"),
    ("streams.8x4.write", "573.1 MB/s (CIFS 2007, table 8)"),
    ("streams.8x4.read", "314.7 MB/s (CIFS 2007, table 8)"),
    ("late", "at the pace of the slowest"),
    ("mpi", "about the library's (2008)"),
    ("small_calls.separate.write.8KiB", "PVFS2 39.4 MB/s at most (Direct-pNFS 2007)"),
    ("small_calls.one_file.write.8KiB", "PVFS2 39.4 MB/s at most (Direct-pNFS 2007)"),
    ("small_calls.separate.read.8KiB", "PVFS2 51 MB/s at most (Direct-pNFS 2007)"),
    ("small_calls.one_file.read.8KiB", "PVFS2 51 MB/s at most (Direct-pNFS 2007)"),
    ("patterns.atlas", "102.5 MB/s, 8 clients, disks (Direct-pNFS 2007)"),
    ("patterns.btio", "PVFS2's time to 5 % (Direct-pNFS 2007)"),
    ("patterns.postmark", "up to 36 times PVFS2's, disks (Direct-pNFS 2007)"),
    ("slow_lines.separate.8.write", "PVFS2's, twice pNFS-2tier's: a plot (Direct-pNFS 2007)"),
    ("patterns.oltp", "26 MB/s, PVFS2 6 MB/s, 8 clients, disks (Direct-pNFS 2007)"),
    ("request_size.512KiB", "a drop, unexplained (1996)"),
    ("daemon_count.1.", "bound by its disk (1996)"),
    ("daemon_count.2.", "bound by its disks (1996)"),
    ("daemon_count", "bound by the network, but for small requests (1996)"),
    ("stripe_size", "larger stripes somewhat better (1996)"),
    ("partition.4KiB_in_4KiB", "bound by the disk of each (1996)"),
    ("partition.16KiB_in_16KiB", "bound by the disk of each (1996)"),
    ("partition.64KiB_in_64KiB", "bound by the disk of each (1996)"),
    ("partition", "drops significantly (1996)"),
    ("fast_client.1.write", "OrangeFS 113 MB/s, by hand"),
    ("fast_client.2.write", "OrangeFS 213 MB/s, by hand"),
    ("fast_client.3.write", "OrangeFS 311 MB/s, by hand"),
    ("fast_client.4.write", "OrangeFS 300 MB/s, by hand"),
    ("fast_client.1.read", "OrangeFS 117 MB/s, by hand"),
    ("fast_client.2.read", "OrangeFS 229 MB/s, by hand"),
    ("fast_client.3.read", "OrangeFS 330 MB/s, by hand"),
    ("fast_client.4.read", "OrangeFS 382 MB/s, by hand"),
];

/// The measures that have their own line or bar in a plot.
pub fn lines(row: &Json) -> impl Iterator<Item = (&str, &Json)> {
    page::measures(row).filter(|(name, measure)| {
        let has_line = measure["unit"]
            .as_str()
            .is_some_and(|unit| !["s/GiB", "segments", "times", rates::UNIT].contains(&unit));
        has_line && !name.ends_with(".limit") && !name.ends_with(".tls")
    })
}

/// A stored measure that is shown next to this one.
pub fn companion<'a>(row: &'a Json, name: &str, what: &str) -> Option<&'a Json> {
    row["measures"]
        .as_array()?
        .iter()
        .find(|other| other["name"] == format!("{name}.{what}").as_str())
}

/// A table of each row, in the order of a whole run.
pub fn render(rows: &StoredResults) -> String {
    let mut text = String::new();
    for row in ROWS {
        let Some(kept) = rows.get(row.name) else { continue };
        let machine = kept["machine"].as_str().unwrap_or_default();
        let _ = write!(
            text,
            "\n**{}**: {}  \n{machine}; plain connections{}; `cargo xtask bench papers {}`\n\n",
            row.name,
            row.about,
            if has_tls(kept) { ", and TLS in its column" } else { ", TLS was not measured" },
            row.name
        );
        if let Some(needs) = needs(kept) {
            let _ = writeln!(
                text,
                "iperf3 with the same traffic, and local writes, need of the machine (at most 70 \
                    % is allowed): \
                 {needs}.\n"
            );
        }
        for (plot, title) in plots::shown(row.name, kept) {
            let _ = writeln!(text, "![{title}]({PLOTS_FROM_RESULTS}/{plot}.svg)\n");
        }
        if row.name == "rivals" {
            text += &other_systems::table::render(kept);
            continue;
        }
        text += HEAD;
        lines(kept).for_each(|(name, measure)| text += &line(name, measure, kept));
    }
    text + "\n"
}

/// Whether the row was measured with encrypted connections too.
fn has_tls(row: &Json) -> bool {
    page::measures(row).any(|(name, _)| name.ends_with(".tls"))
}

/// `84 % at 1/1, 22 % at 1/4`; the next lab follows after a semicolon.
fn needs(row: &Json) -> Option<String> {
    let mut labs: Vec<(&str, Vec<String>)> = Vec::new();
    for measure in
        row["measures"].as_array()?.iter().filter(|measure| measure["unit"] == rates::UNIT)
    {
        let (lab, divide) = measure["name"].as_str()?.rsplit_once(".at")?;
        let said = format!("{:.0} % at 1/{divide}", measure["value"].as_f64()? * 100.0);
        match labs.last_mut().filter(|(last, _)| *last == lab) {
            Some((_, all)) => all.push(said),
            None => labs.push((lab, vec![said])),
        }
    }
    let labs: Vec<String> = labs.iter().map(|(_, said)| said.join(", ")).collect();
    (!labs.is_empty()).then(|| labs.join("; "))
}

fn line(name: &str, measure: &Json, row: &Json) -> String {
    let beside = |what: &str| companion(row, name, what);
    let unit = measure["unit"]
        .as_str()
        .filter(|unit| *unit != "MB/s")
        .map(|unit| format!(" {unit}"))
        .unwrap_or_default();
    let spread = format!(
        "{}{unit} [{} – {}]",
        number(&measure["value"]),
        number(&measure["spread"][0]),
        number(&measure["spread"][1])
    );
    let limit = beside("limit").and_then(|limit| limit["value"].as_f64());
    let part = limit
        .zip(measure["value"].as_f64())
        .map(|(limit, value)| format!("{:.3}", value / limit))
        .unwrap_or_default();
    let bar = &measure["bar"];
    let verdict = match measure["holds"].as_bool() {
        Some(true) => "holds",
        Some(false) => "DOES NOT HOLD",
        None => "",
    };
    let reason =
        bar["reason"].as_str().map(|reason| format!("{reason}: {verdict}")).unwrap_or_default();
    let again = beside("retransmits").zip(beside("timeouts"));
    let again = again
        .map(|(sent, late)| format!("{}, {}", number(&sent["value"]), number(&late["value"])))
        .unwrap_or_default();
    let theirs = if bar.is_null() && limit.is_none() { "" } else { theirs(name) };
    let tls = beside("tls").map(|tls| number(&tls["value"])).unwrap_or_default();
    format!(
        "| {name} | {spread} | {part} | {} | {reason} | {tls} | {} | {again} | {theirs} |\n",
        limit.map(short).unwrap_or_default(),
        cpu(beside("cpu"), beside("cpu.tls"))
    )
}

fn number(json: &Json) -> String {
    json.as_f64().map(short).unwrap_or_default()
}

/// `2.00, 4.00 (2.0)`, and whether that misses the target.
fn cpu(plain: Option<&Json>, tls: Option<&Json>) -> String {
    let Some(plain) = plain else { return String::new() };
    let alone = number(&plain["value"]);
    let Some(tls) = tls else { return alone };
    let times = tls["value"]
        .as_f64()
        .zip(plain["value"].as_f64())
        .map(|(tls, plain)| format!(" ({:.1})", tls / plain));
    let verdict = if tls["holds"] == false { " DOES NOT HOLD" } else { "" };
    format!("{alone}, {}{}{verdict}", number(&tls["value"]), times.unwrap_or_default())
}

fn theirs(name: &str) -> &'static str {
    let known = THEIRS.iter().filter(|(begin, _)| name.starts_with(begin));
    known.max_by_key(|(begin, _)| begin.len()).map_or("", |(_, what)| what)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        measure::Measure,
        papers::{Sample, with_target},
    };
    use braid_testbed::stats::Summary;

    #[test]
    fn a_line_has_ours_beside_the_limit_and_theirs() {
        let sample =
            Sample { mb_per_second: 99.0, cpu_per_gib: 2.0, retransmits: 7.0, timeouts: 1.0 };
        let over_tls = Sample { mb_per_second: 88.0, cpu_per_gib: 6.0, ..sample };
        let [plain, tls] = [sample, over_tls].map(|sample| {
            with_target("one_client.read", &[sample], 0.97, 100.0, "one iperf3 stream, ")
        });
        let mut measures: Vec<Measure> = crate::papers::over_tls::beside(plain, &tls);
        let need = |name: &str, part| Measure::new(name, rates::UNIT, Summary::once(part));
        measures.extend([
            need("one_client.needs.lab1.at1", 0.84),
            need("one_client.needs.lab1.at4", 0.22),
        ]);
        measures.push(need("one_client.needs.lab2.at1", 0.1));
        let report: Json =
            serde_json::from_str(&crate::report::json::render("a machine", &[], &measures))
                .unwrap();
        let mut rows = StoredResults::new();
        rows.insert("one_client".to_owned(), report);
        let text = render(&rows);
        let wanted = "| one_client.read | 99.0 [99.0 – 99.0] | 0.990 | 100 | 0.97 x one iperf3 \
            stream, 100.0: holds | 88.0 | \
                      2.00, 6.00 (3.0) DOES NOT HOLD | 7.00, 1.00 | 0.60 of the line (2008) |";
        assert!(text.contains(wanted), "{text}");
        assert!(
            text.contains(
                "need of the machine (at most 70 % is allowed): 84 % at 1/1, 22 % at \
                1/4; 10 % at 1/1.\n\n|"
            ),
            "{text}"
        );
        assert!(!text.contains("| one_client.needs"), "{text}");
        assert!(text.contains("a machine; plain connections, and TLS in its column; "), "{text}");
        assert!(!text.contains("plots/"), "one point is no plot: {text}");
    }

    #[test]
    fn a_row_without_tls_says_so() {
        let sample =
            Sample { mb_per_second: 99.0, cpu_per_gib: 2.0, retransmits: 7.0, timeouts: 1.0 };
        let plain = with_target("late.with", &[sample], 0.97, 100.0, "");
        let report: Json =
            serde_json::from_str(&crate::report::json::render("a machine", &[], &plain)).unwrap();
        let text = render(&StoredResults::from_iter([("late".to_owned(), report)]));
        assert!(text.contains("a machine; plain connections, TLS was not measured; "), "{text}");
    }
}
