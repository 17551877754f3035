//! Bars with their spread and their limit, as inline SVG without scripts; the page has the style
//! sheet.

use std::fmt::Write;

use super::{Row, amount, text_width::text_width, theme::TEXT};

const WIDTH: f64 = 900.0;
/// Minimum width of the labels; the longest label may need more.
const LABELS_LEAST: f64 = 178.0;
const NUMBER_WIDTH: f64 = 110.0;
const BAR_HEIGHT: f64 = 16.0;
const ROW_HEIGHT: f64 = 28.0;

/// The style of a plot.
pub(super) const STYLE: &str = "svg text { font: 12px system-ui, sans-serif; fill: #1b1f23 }
svg .label { text-anchor: end } svg .bar { fill: #3b7ea1 }
svg .spread { stroke: #1b1f23; fill: none } \
svg .limit { stroke: #b5342b; stroke-width: 2; fill: none }
";

/// Escapes `text` for text or a quoted attribute.
pub(super) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for character in text.chars() {
        match character {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            '\'' => out.push_str("&#39;"),
            // Not allowed in XML, in any form.
            control if control.is_control() && !"\n\t".contains(control) => out.push('\u{fffd}'),
            other => out.push(other),
        }
    }
    out
}

/// A bar for each row: the median; a line from the least to the greatest sample; a stroke at the
/// limit. All rows have the same unit.
pub(super) fn bars(rows: &[&Row]) -> String {
    let labels =
        rows.iter().map(|row| text_width(&row.name, TEXT)).fold(LABELS_LEAST, f64::max) + 12.0;
    let far =
        |row: &&Row| row.bound.as_ref().map_or(0.0, |bound| bound.ceiling).max(row.summary.high);
    let most = rows.iter().map(far).fold(0.0, f64::max);
    let scale = if most > 0.0 { (WIDTH - labels - NUMBER_WIDTH).max(0.0) / most } else { 0.0 };
    let height = ROW_HEIGHT * rows.len() as f64;
    let mut out = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" width=\"{WIDTH}\" height=\"{height}\" role=\"img\" \
         aria-label=\"each row beside its limit\">\n"
    );
    for (at, row) in rows.iter().enumerate() {
        bar(&mut out, row, at as f64 * ROW_HEIGHT, labels, scale);
    }
    out.push_str("</svg>\n");
    out
}

fn bar(out: &mut String, row: &Row, top: f64, labels: f64, scale: f64) {
    let x = |value: f64| labels + value * scale;
    let (middle, bar_top) = (top + ROW_HEIGHT / 2.0, top + (ROW_HEIGHT - BAR_HEIGHT) / 2.0);
    let (low, high, median) = (x(row.summary.low), x(row.summary.high), x(row.summary.median));
    let text = middle + 4.0;
    let mut end = median.max(high);
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<text x=\"{:.1}\" y=\"{text:.1}\" class=\"label\">{}</text>",
        labels - 8.0,
        escaped(&row.name)
    );
    let width = (median - labels).max(0.5);
    let _ = writeln!(
        out,
        "<rect x=\"{labels:.1}\" y=\"{bar_top:.1}\" width=\"{width:.1}\" \
             height=\"{BAR_HEIGHT}\" class=\"bar\"/>"
    );
    let _ = writeln!(
        out,
        "<path d=\"M{low:.1} {middle:.1}H{high:.1}M{low:.1} {:.1}v8M{high:.1} {:.1}v8\" \
             class=\"spread\"/>",
        middle - 4.0,
        middle - 4.0
    );
    if let Some(bound) = &row.bound {
        let limit = x(bound.ceiling);
        end = end.max(limit);
        let _ = writeln!(
            out,
            "<path d=\"M{limit:.1} {:.1}v{:.1}\" class=\"limit\"><title>{}</title></path>",
            bar_top - 3.0,
            BAR_HEIGHT + 6.0,
            escaped(&bound.limit)
        );
    }
    let number = amount(row.summary.median, row.unit);
    let _ =
        writeln!(out, "<text x=\"{:.1}\" y=\"{text:.1}\">{}</text>", end + 6.0, escaped(&number));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_xml_reads_as_its_own_is_escaped() {
        assert_eq!(
            escaped("<a href='x'>&\"\u{1}"),
            "&lt;a href=&#39;x&#39;&gt;&amp;&quot;\u{fffd}"
        );
        assert_eq!(escaped("größer – 1 µs"), "größer – 1 µs");
    }
}
