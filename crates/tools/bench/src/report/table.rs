//! The report for people: a table in Markdown, which is readable in a terminal as well.

use super::short;
use crate::measure::{Measure, Value};

const HEAD: [&str; 7] = ["measure", "unit", "plain", "bar", "TLS", "bar", "command"];

/// The machine, the notes and the table.
pub fn render(machine: &str, notes: &[String], measures: &[Measure]) -> String {
    let rows: Vec<[String; 7]> = measures.iter().map(row).collect();
    let head = HEAD.map(str::to_owned);
    let widths: [usize; 7] = std::array::from_fn(|at| {
        rows.iter().chain([&head]).map(|row| row[at].chars().count()).max().unwrap_or_default()
    });
    let rule = widths.map(|width| "-".repeat(width));
    let mut text = format!("{machine}\n");
    notes.iter().for_each(|note| text += &format!("{note}\n"));
    text += "Medians, in brackets the smallest and the largest sample.\n\n";
    [&head, &rule].into_iter().chain(&rows).for_each(|row| text += &line(row, &widths));
    text
}

fn line(row: &[String; 7], widths: &[usize; 7]) -> String {
    let cells: Vec<String> =
        row.iter().zip(widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
    format!("| {} |\n", cells.join(" | "))
}

fn row(measure: &Measure) -> [String; 7] {
    let (tls, tls_bar) =
        measure.tls.as_ref().map_or_else(Default::default, |value| (shown(value), bar(value)));
    let plain = &measure.plain;
    let command = format!("`{}`", measure.command);
    [measure.name.clone(), measure.unit.to_owned(), shown(plain), bar(plain), tls, tls_bar, command]
}

fn shown(value: &Value) -> String {
    let summary = value.summary;
    if summary.min == summary.max {
        return short(summary.median);
    }
    format!("{} [{} – {}]", short(summary.median), short(summary.min), short(summary.max))
}

fn bar(value: &Value) -> String {
    let Some(bar) = &value.target else { return String::new() };
    let verdict = if value.holds() == Some(true) { "holds" } else { "DOES NOT HOLD" };
    format!("{} {} ({}): {verdict}", bar.sign(), short(bar.limit()), bar.reason())
}

#[cfg(test)]
mod tests {
    use super::*;
    use braid_testbed::stats::Summary;

    #[test]
    fn a_row_says_value_spread_bar_verdict_and_command() {
        let slow = Measure::new("read.cpu", "s/GiB", Summary { median: 2.0, min: 1.0, max: 3.0 })
            .at_most(1.5, "1.3 x all")
            .made_by("cargo xtask bench core read");
        let text = render("a machine", &["a note".to_owned()], &[slow]);
        let row = text.lines().last().unwrap();
        for cell in [
            "read.cpu",
            "2.00 [1.00 – 3.00]",
            "<= 1.50 (1.3 x all): DOES NOT HOLD",
            "`cargo xtask bench core read`",
        ] {
            assert!(row.contains(cell), "{cell} in {row}");
        }
        assert!(text.starts_with("a machine\na note\n"));
    }

    #[test]
    fn the_column_of_tls_stands_beside_the_plain_one() {
        let measure = Measure::new("x", "s", Summary::once(1.0))
            .beside_tls_at_most(Some(Summary::once(2.0)), 2.5);
        let text = render("", &[], &[measure]);
        assert!(
            text.lines().last().unwrap().contains("| 2.00 | <= 2.50 (2.5 x plain): holds |"),
            "{text}"
        );
    }
}
