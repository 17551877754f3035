//! The report as one page without scripts and without external files, black on white when printed.
//! It is well-formed XML too.

use std::fmt::Write;

use super::{Report, Row, Unit, bottleneck_text, limit_cells, row_cells, svg};
use svg::escaped;

const STYLE: &str = "
body { font: 15px/1.45 system-ui, sans-serif; max-width: 62rem; margin: 2rem auto; \
padding: 0 1rem; color: #1b1f23 }
h1 { font-size: 1.6rem } h2 { font-size: 1.15rem; margin-top: 2rem }
table { border-collapse: collapse; width: 100% }
th, td { text-align: left; padding: .25rem .6rem .25rem 0; border-bottom: 1px solid #ddd; \
vertical-align: top }
td.n { text-align: right; white-space: nowrap; font-variant-numeric: tabular-nums }
svg { max-width: 100%; height: auto }
.warn { border-left: 4px solid #b5342b; padding-left: .6rem }
";
const PRINTED: &str = "\
@media print { body { margin: 0; max-width: none; font-size: 10.5pt } h2 { break-after: avoid } \
tr, svg { break-inside: avoid }
  svg .bar { fill: #888; print-color-adjust: exact; -webkit-print-color-adjust: exact } }
";

/// The whole page.
#[must_use]
pub fn html(report: &Report) -> String {
    let mut out = String::new();
    out.push_str("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\"/>\n");
    let host = escaped(&report.host);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<title>braid bench on {host}</title>\n<style>{STYLE}{}{PRINTED}</style></head><body>",
        svg::STYLE
    );
    let _ = writeln!(out, "<h1>braid bench</h1>\n<p>{}</p>", escaped(&report.conditions()));
    if !report.leftovers.is_empty() {
        let _ = writeln!(
            out,
            "<p class=\"warn\">Left by earlier runs, or in use by others: {}</p>",
            escaped(&report.leftovers.join(", "))
        );
    }
    out.push_str("<h2>Results of the file system</h2>\n");
    out.push_str(
        "<p>Bar: the median. Black line: from the least to the greatest sample. \
         Red stroke: the bottleneck.</p>\n",
    );
    for unit in [Unit::BytesPerSecond, Unit::PerSecond] {
        let rows: Vec<&Row> = report.rows.iter().filter(|row| row.unit == unit).collect();
        if !rows.is_empty() {
            out.push_str(&svg::bars(&rows));
        }
    }
    let rows = report.rows.iter().map(|row| {
        let mut cells = row_cells(row);
        cells.insert(1, row.what.clone());
        cells.truncate(4);
        cells.push(row.bound.as_ref().map_or_else(String::new, bottleneck_text));
        cells
    });
    table(&mut out, &["Row", "What", "Median", "Spread", "Part of its limit"], rows);
    out.push_str("<h2>Hardware limits</h2>\n");
    let limits = report.limits.iter().map(|limit| {
        let mut cells = limit_cells(limit);
        cells.insert(1, limit.how.clone());
        cells
    });
    table(&mut out, &["Limit", "How it was measured", "Median", "Spread"], limits);
    out.push_str("</body></html>\n");
    out
}

/// The third and fourth columns are numbers.
fn table(out: &mut String, header: &[&str], rows: impl Iterator<Item = Vec<String>>) {
    out.push_str("<table><thead><tr>");
    header.iter().for_each(|name| out.push_str(&format!("<th>{}</th>", escaped(name))));
    out.push_str("</tr></thead><tbody>\n");
    for row in rows {
        out.push_str("<tr>");
        for (at, cell) in row.iter().enumerate() {
            let class = if at == 2 || at == 3 { " class=\"n\"" } else { "" };
            out.push_str(&format!("<td{class}>{}</td>", escaped(cell)));
        }
        out.push_str("</tr>\n");
    }
    out.push_str("</tbody></table>\n");
}

impl Report {
    /// The conditions of the run, in a sentence.
    #[must_use]
    pub fn conditions(&self) -> String {
        let preset = self
            .asked
            .preset
            .as_ref()
            .map_or_else(String::new, |preset| format!(", preset {preset}"));
        let left_out = match self.left_out.as_slice() {
            [] => String::new(),
            names => format!("; no time was left for {}", names.join(", ")),
        };
        format!(
            "braid {} on {} ({} processors), {} I/O daemons, {} tasks, {} samples a row, \
             files of {} MiB{preset}{}; took {:.0} s{left_out}",
            self.version,
            self.host,
            self.processors,
            self.iods.len(),
            self.asked.tasks,
            self.asked.samples,
            self.asked.bytes >> 20,
            if self.asked.quick { ", quick" } else { "" },
            self.seconds
        )
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::{
        report::{Bottleneck, Limit, LimitKind, REPORT_FORMAT, RequestedOptions, chart},
        stats::Summary,
    };

    /// Two limits and two rows, with names that must be escaped.
    pub(in crate::report) fn report() -> Report {
        let samples = vec![90.0e6, 100.0e6, 110.0e6, 105.0e6];
        let limit = |kind, name: &str, unit, by: f64| Limit {
            kind,
            iod: Some(2),
            name: name.into(),
            how: "4 MiB again & again".into(),
            unit,
            samples: samples.iter().map(|sample| sample / by).collect(),
        };
        let row = |name: &str, unit| Row {
            name: name.into(),
            what: "1 MiB requests <one task>".into(),
            unit,
            tasks: 1,
            samples: samples.clone(),
            summary: Summary::of(&samples).unwrap(),
            bound: Some(Bottleneck {
                limit: "the network to \"I/O daemon 2\" (127.0.0.1:7001)".into(),
                ceiling: 120.0e6,
                percent: 85.4,
            }),
        };
        Report {
            format: REPORT_FORMAT,
            version: "0.1.0".into(),
            began: 1_700_000_000,
            seconds: 12.5,
            host: "h<1>&".into(),
            processors: 2,
            asked: RequestedOptions {
                row_ms: 1000,
                samples: 4,
                bytes: 1 << 20,
                tasks: 2,
                quick: true,
                preset: None,
            },
            iods: vec!["I/O daemon 2 (127.0.0.1:7001)".into()],
            limits: vec![
                limit(LimitKind::Send, "the network to <2>", Unit::BytesPerSecond, 1.0),
                limit(LimitKind::RoundTrip, "the round trip to 2", Unit::Seconds, 1e8),
            ],
            rows: vec![
                row("sequential-write", Unit::BytesPerSecond),
                row("small-files", Unit::PerSecond),
            ],
            left_out: Vec::new(),
            leftovers: vec!["/.braid-bench-<1>".into()],
        }
    }

    /// Checks that tags are closed in order, attributes are quoted, and `&` is escaped; returns the
    /// names of the tags in order.
    fn well_formed(page: &str) -> Result<Vec<String>, String> {
        let mut open = Vec::new();
        let mut seen = Vec::new();
        let mut rest = page.strip_prefix("<!DOCTYPE html>").ok_or("no document type")?;
        while let Some(start) = rest.find('<') {
            check_text(&rest[..start])?;
            let end = rest[start..].find('>').ok_or("a tag without end")? + start;
            let tag = &rest[start + 1..end];
            rest = &rest[end + 1..];
            let name = tag
                .trim_start_matches('/')
                .split([' ', '/', '\n'])
                .next()
                .unwrap_or_default()
                .to_owned();
            if tag.matches('"').count() % 2 == 1 || tag.contains('<') {
                return Err(format!("<{tag}>"));
            }
            if tag.starts_with('/') {
                if open.pop() != Some(name.clone()) {
                    return Err(format!("</{name}> closes what is not open"));
                }
            } else if !tag.ends_with('/') {
                open.push(name.clone());
            }
            seen.push(name);
        }
        check_text(rest)?;
        if open.is_empty() { Ok(seen) } else { Err(format!("left open: {open:?}")) }
    }

    fn check_text(text: &str) -> Result<(), String> {
        let known = ["&amp;", "&lt;", "&gt;", "&quot;", "&#39;"];
        let bare = text
            .match_indices('&')
            .find(|(at, _)| !known.iter().any(|name| text[*at..].starts_with(name)));
        bare.map_or(Ok(()), |(at, _)| Err(format!("a bare & in {:?}", &text[at..])))
    }

    #[test]
    fn the_page_is_well_formed_and_fetches_nothing() {
        let page = html(&report());
        let tags = well_formed(&page).unwrap();
        for wanted in ["svg", "table", "style", "title"] {
            assert!(tags.iter().any(|tag| tag == wanted), "{wanted}");
        }
        for outside in ["http", "src=", "href", "url(", "@import", "<script", "<link", "<img"] {
            assert!(!page.contains(outside), "{outside}");
        }
        assert!(page.contains("@media print"));
        assert!(page.contains("h&lt;1&gt;&amp;") && page.contains("/.braid-bench-&lt;1&gt;"));
    }

    #[test]
    fn a_picture_is_well_formed_with_its_own_style_and_name_space() {
        let alone = chart::Chart {
            title: "a <title> & more".to_owned(),
            about: "MB/s".to_owned(),
            limit: String::new(),
            columns: 1,
            one_scale: true,
            groups: Vec::new(),
        }
        .draw();
        let tags = well_formed(&format!("<!DOCTYPE html>{alone}")).unwrap();
        assert_eq!((tags[0].as_str(), tags[1].as_str()), ("svg", "style"));
        assert!(alone.starts_with("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox="), "{alone}");
    }

    #[test]
    fn the_label_of_a_row_is_whole_however_long_it_is() {
        let mut report = report();
        report.rows[0].name =
            "a row whose name is much longer than the names of the rows that there are".to_owned();
        assert_eq!(
            crate::report::clipped(&svg::bars(&report.rows.iter().collect::<Vec<_>>())),
            [""; 0]
        );
    }

    #[test]
    fn the_check_finds_what_is_not_well_formed() {
        for wrong in ["<p>", "<p></b>", "<p>a & b</p>", "<p class=\"x></p>", "</p>"] {
            assert!(well_formed(&format!("<!DOCTYPE html>{wrong}")).is_err(), "{wrong}");
        }
    }

    #[test]
    fn every_row_has_its_bar_its_spread_and_its_limit() {
        let page = html(&report());
        for class in ["class=\"bar\"", "class=\"spread\"", "class=\"limit\""] {
            assert_eq!(page.matches(class).count(), 2, "{class}");
        }
        assert!(page.contains("85 % of the network to &quot;I/O daemon 2&quot;"));
    }

    #[test]
    fn json_gives_the_report_back_and_refuses_what_is_none() {
        let report = report();
        assert_eq!(Report::from_json(&report.to_json()), Ok(report.clone()));
        assert!(Report::from_json("{}").is_err());
        let later = Report { format: REPORT_FORMAT + 1, ..report };
        assert!(Report::from_json(&later.to_json()).unwrap_err().contains("format is 2"));
    }
}
