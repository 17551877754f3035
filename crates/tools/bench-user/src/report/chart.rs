//! Bar charts in groups, as one self-contained SVG file.
//!
//! ```text
//!   title
//!   what the numbers are
//!   group            group            <- as many columns as asked for
//!     label ████▌ 12   label ██ 7
//!   │ limit  ├─┤ smallest and largest sample
//! ```

use super::{
    svg::escaped,
    text_width::{bold_width, text_width},
    theme::{Heading, MARGIN, TEXT, path, picture, text},
};
use crate::stats::Summary;
use std::fmt::Write;

const WIDTH: f64 = 860.0;
const BAR: f64 = 14.0;
const ROW: f64 = 20.0;
const HEAD: f64 = 24.0;
const GAP: f64 = 14.0;
const LEGEND: f64 = 24.0;

/// The owner of a bar: BraidFS has a colour of its own.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Owner {
    /// BraidFS.
    Ours,
    /// Another networked file system.
    Rival,
    /// An upper limit for networked file systems: a local disk, a raw TCP stream.
    Reference,
}

impl Owner {
    fn class(self) -> &'static str {
        match self {
            Self::Ours => "ours",
            Self::Rival => "rival",
            Self::Reference => "reference",
        }
    }
}

/// One bar.
#[derive(Clone, PartialEq, Debug)]
pub struct Bar {
    /// The label.
    pub label: String,
    /// The owner.
    pub owner: Owner,
    /// The bar is the median, and the line its spread.
    pub summary: Summary,
    /// The hardware limit.
    pub limit: Option<f64>,
    /// The median as text.
    pub number: String,
}

/// Bars below one heading.
#[derive(Clone, PartialEq, Debug)]
pub struct Group {
    /// The heading, with the unit unless all groups have the same.
    pub title: String,
    /// From top to bottom.
    pub bars: Vec<Bar>,
}

/// A picture of bars.
#[derive(Clone, PartialEq, Debug)]
pub struct Chart {
    /// The title.
    pub title: String,
    /// What the numbers are, and whether more or less is better.
    pub about: String,
    /// What the red strokes mean.
    pub limit: String,
    /// Groups side by side.
    pub columns: usize,
    /// Whether all groups share one scale; if not, each has its own.
    pub one_scale: bool,
    /// In reading order: from left to right, then down.
    pub groups: Vec<Group>,
}

/// The position of a group's bars.
struct BarPosition {
    left: f64,
    top: f64,
    labels: f64,
    scale: f64,
}

impl Chart {
    /// Draws the chart as SVG.
    #[must_use]
    pub fn draw(&self) -> String {
        let heading = Heading::new(&self.title, &self.about, WIDTH);
        let columns = self.columns_that_fit();
        let column = column_width(columns);
        let all = || self.groups.iter().flat_map(|group| &group.bars);
        let labels = widest(all().map(|bar| &bar.label)) + 8.0;
        let room = column - labels - widest(all().map(|bar| &bar.number)) - 10.0;
        let most = all().map(far).fold(0.0, f64::max);
        let mut top = heading.bottom();
        let mut places = Vec::new();
        for line in self.groups.chunks(columns) {
            for (at, group) in line.iter().enumerate() {
                let own = if self.one_scale {
                    most
                } else {
                    group.bars.iter().map(far).fold(0.0, f64::max)
                };
                let scale = if own > 0.0 { room / own } else { 0.0 };
                places.push(BarPosition {
                    left: MARGIN + at as f64 * (column + GAP),
                    top,
                    labels,
                    scale,
                });
            }
            let tallest = line.iter().map(|group| group.bars.len()).max().unwrap_or_default();
            top += HEAD + tallest as f64 * ROW + 8.0;
        }
        let legend = self.has_limit() || self.has_spread();
        let height = top + if legend { LEGEND } else { 0.0 } + MARGIN / 2.0;
        picture(&heading, WIDTH, height, |out| {
            self.groups.iter().zip(&places).for_each(|(group, place)| place.draw(out, group));
            if legend {
                self.legend(out, top + 6.0);
            }
        })
    }

    /// One column where a group's heading is wider than a column.
    fn columns_that_fit(&self) -> usize {
        let wanted = self.columns.max(1);
        let fits = |group: &Group| bold_width(&group.title, TEXT) <= column_width(wanted);
        if self.groups.iter().all(fits) { wanted } else { 1 }
    }

    fn has_limit(&self) -> bool {
        self.groups.iter().flat_map(|group| &group.bars).any(|bar| bar.limit.is_some())
    }

    fn has_spread(&self) -> bool {
        self.groups
            .iter()
            .flat_map(|group| &group.bars)
            .any(|bar| bar.summary.low < bar.summary.high)
    }

    fn legend(&self, out: &mut String, top: f64) {
        let mut x = MARGIN;
        if self.has_limit() {
            path(out, "limit key", &format!("M{:.1} {top:.1}v{BAR:.1}", x + 3.0));
            text(out, x + 12.0, top + 11.0, "note", &self.limit);
            x += 12.0 + text_width(&self.limit, TEXT) + 24.0;
        }
        if self.has_spread() {
            let middle = top + BAR / 2.0;
            path(out, "spread key", &format!("M{x:.1} {middle:.1}h16m-16 -4v8m16 -8v8"));
            text(out, x + 24.0, top + 11.0, "note", "smallest to largest sample");
        }
    }
}

impl BarPosition {
    fn draw(&self, out: &mut String, group: &Group) {
        text(out, self.left, self.top + TEXT, "head", &group.title);
        for (at, bar) in group.bars.iter().enumerate() {
            self.bar(out, bar, self.top + HEAD + at as f64 * ROW);
        }
    }

    fn bar(&self, out: &mut String, bar: &Bar, top: f64) {
        let start = self.left + self.labels;
        let x = |value: f64| start + value * self.scale;
        let (middle, line) = (top + BAR / 2.0, top + BAR - 3.0);
        text(out, start - 8.0, line, "end", &bar.label);
        // Writing to a String cannot fail.
        let _ = writeln!(
            out,
            "<rect x=\"{start:.1}\" y=\"{top:.1}\" width=\"{:.1}\" height=\"{BAR}\" \
             class=\"bar {}\">\
             <title>{}: {}</title></rect>",
            (x(bar.summary.median) - start).max(0.5),
            bar.owner.class(),
            escaped(&bar.label),
            escaped(&bar.number)
        );
        let (low, high) = (x(bar.summary.low), x(bar.summary.high));
        if bar.summary.low < bar.summary.high {
            path(
                out,
                "spread",
                &format!(
                    "M{low:.1} {middle:.1}H{high:.1}M{low:.1} {0:.1}v8M{high:.1} {0:.1}v8",
                    middle - 4.0
                ),
            );
        }
        if let Some(limit) = bar.limit {
            path(out, "limit", &format!("M{:.1} {:.1}v{:.1}", x(limit), top - 2.0, BAR + 4.0));
        }
        text(out, x(far(bar)) + 6.0, line, "", &bar.number);
    }
}

fn column_width(columns: usize) -> f64 {
    (WIDTH - 2.0 * MARGIN - GAP * (columns - 1) as f64) / columns as f64
}

/// The rightmost point of the bar and its marks.
fn far(bar: &Bar) -> f64 {
    bar.limit.unwrap_or(0.0).max(bar.summary.high).max(bar.summary.median)
}

fn widest<'a>(texts: impl Iterator<Item = &'a String>) -> f64 {
    texts.map(|words| text_width(words, TEXT)).fold(0.0, f64::max)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::clipped;

    fn bar(label: &str, value: f64, limit: Option<f64>) -> Bar {
        let summary = Summary { median: value, low: value * 0.9, high: value * 1.1 };
        Bar {
            label: label.to_owned(),
            owner: Owner::Ours,
            summary,
            limit,
            number: format!("{value}"),
        }
    }

    fn chart(label: &str, columns: usize) -> Chart {
        let group = Group {
            title: "read".to_owned(),
            bars: vec![bar(label, 10.0, Some(20.0)), bar("b", 0.0, None)],
        };
        Chart {
            title: "a <title>".to_owned(),
            about: "MB/s, more is better".to_owned(),
            limit: "the link".to_owned(),
            columns,
            one_scale: true,
            groups: vec![group.clone(), group.clone(), group],
        }
    }

    #[test]
    fn labels_of_any_length_are_whole() {
        for columns in [1, 2] {
            for label in ["a", "a label that is much longer than most of them"] {
                let drawn = chart(label, columns).draw();
                assert_eq!(clipped(&drawn), [""; 0], "{drawn}");
            }
        }
    }

    #[test]
    fn a_bar_has_its_owner_its_spread_and_its_limit() {
        let drawn = chart("a", 2).draw();
        assert_eq!(drawn.matches("class=\"bar ours\"").count(), 6);
        assert_eq!(
            (drawn.matches("class=\"spread\"").count(), drawn.matches("class=\"limit\"").count()),
            (3, 3)
        );
        assert!(
            drawn.contains(">the link<") && drawn.contains(">smallest to largest sample<"),
            "{drawn}"
        );
        assert!(drawn.contains("a &lt;title&gt;") && !drawn.contains("NaN"), "{drawn}");
    }

    #[test]
    fn without_spread_and_limit_there_is_no_legend() {
        let mut chart = chart("a", 1);
        chart.groups.iter_mut().flat_map(|group| &mut group.bars).for_each(|bar| {
            bar.limit = None;
            bar.summary.low = bar.summary.high;
        });
        assert!(!chart.draw().contains("key"));
    }
}
