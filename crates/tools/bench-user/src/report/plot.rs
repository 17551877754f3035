//! Curves over logarithmic axes, as one self-contained SVG file.

use std::fmt::Write;

use super::{
    text_width::text_width,
    theme::{CURVES, Heading, MARGIN, TEXT, path, picture, text},
};

const PANEL_WIDTH: f64 = 430.0;
const PANEL_HEIGHT: f64 = 240.0;
const LEFT: f64 = 58.0;
const RIGHT: f64 = 36.0;
const HEAD: f64 = 30.0;
/// Space below the curves for the sizes and their title.
const FOOT: f64 = 50.0;
const LEGEND: f64 = 18.0;
const DIGITS: [f64; 3] = [1.0, 2.0, 5.0];

/// A curve: points above zero, by rising size.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// The name in the legend.
    pub name: String,
    /// Size and value.
    pub points: Vec<(f64, f64)>,
}

/// Curves over one pair of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// Title of the values.
    pub title: String,
    /// Title of the sizes.
    pub across: String,
    /// Its curves.
    pub lines: Vec<Line>,
}

/// Both axes of a panel.
struct Axes {
    left: f64,
    top: f64,
    sizes: (f64, f64),
    values: (f64, f64),
}

/// Draws the panels side by side; `label` formats a size.
pub fn plot(title: &str, about: &str, panels: &[Panel], label: impl Fn(f64) -> String) -> String {
    let width = PANEL_WIDTH * panels.len() as f64;
    let heading = Heading::new(title, about, width);
    let top = heading.bottom() + HEAD;
    let lines = panels.iter().map(|panel| drawn(panel).count()).max().unwrap_or_default();
    let height = top + PANEL_HEIGHT + FOOT + lines as f64 * LEGEND + MARGIN / 2.0;
    picture(&heading, width, height, |out| {
        for (at, panel) in panels.iter().enumerate() {
            if let Some(axes) = Axes::of(panel, at as f64 * PANEL_WIDTH + LEFT, top) {
                frame(out, panel, &axes, &label);
                curves(out, panel, &axes);
            }
        }
    })
}

impl Axes {
    /// `None` without points. The axes begin and end at numbers that begin with 1, 2 or 5.
    fn of(panel: &Panel, left: f64, top: f64) -> Option<Self> {
        let points = || drawn(panel).flat_map(|(_, points)| points);
        points().next()?;
        let least = |of: fn(&(f64, f64)) -> f64| {
            points().map(|point| of(&point)).fold(f64::INFINITY, f64::min)
        };
        let most =
            |of: fn(&(f64, f64)) -> f64| points().map(|point| of(&point)).fold(0.0, f64::max);
        let (low, high) = (least(|point| point.1), most(|point| point.1));
        let steps: Vec<f64> = steps(low, high).collect();
        let below =
            steps.iter().copied().filter(|step| *step <= low * 1.000_001).fold(0.0, f64::max);
        let above = steps
            .iter()
            .copied()
            .filter(|step| *step >= high && *step > below)
            .fold(f64::INFINITY, f64::min);
        Some(Self {
            left,
            top,
            sizes: (least(|point| point.0), most(|point| point.0)),
            values: (below, above),
        })
    }

    fn right(&self) -> f64 {
        self.left + PANEL_WIDTH - LEFT - RIGHT
    }

    fn bottom(&self) -> f64 {
        self.top + PANEL_HEIGHT
    }

    fn x(&self, size: f64) -> f64 {
        self.left + part(size, self.sizes) * (self.right() - self.left)
    }

    fn y(&self, value: f64) -> f64 {
        self.bottom() - part(value, self.values) * PANEL_HEIGHT
    }
}

/// The position of a value between two others, by logarithms.
fn part(value: f64, (least, most): (f64, f64)) -> f64 {
    if most > least { (value / least).ln() / (most / least).ln() } else { 0.5 }
}

/// Numbers that begin with 1, 2 or 5, from below the least to above the greatest.
fn steps(low: f64, high: f64) -> impl Iterator<Item = f64> {
    let powers = low.log10().floor() as i32 - 1..=high.log10().ceil() as i32 + 1;
    powers.flat_map(|power| DIGITS.map(|digit| digit * 10_f64.powi(power)))
}

/// The curves that have points with logarithms, and these points.
fn drawn(panel: &Panel) -> impl Iterator<Item = (&str, Vec<(f64, f64)>)> {
    let points = |line: &Line| {
        line.points.iter().copied().filter(|point| point.0 > 0.0 && point.1 > 0.0).collect()
    };
    let all = panel.lines.iter().map(move |line| (line.name.as_str(), points(line)));
    all.filter(|(_, points): &(&str, Vec<_>)| !points.is_empty())
}

fn frame(out: &mut String, panel: &Panel, axes: &Axes, label: &impl Fn(f64) -> String) {
    let (left, right, bottom) = (axes.left, axes.right(), axes.bottom());
    text(out, left, axes.top - 12.0, "head", &panel.title);
    text(out, f64::midpoint(left, right), bottom + 38.0, "middle", &panel.across);
    let many = axes.values.1 / axes.values.0 > 1000.0;
    for value in steps(axes.values.0, axes.values.1) {
        let inside = value >= axes.values.0 * 0.999 && value <= axes.values.1 * 1.001;
        if inside && (!many || value.log10().fract().abs() < 1e-6) {
            let y = axes.y(value);
            path(out, "grid", &format!("M{left:.1} {y:.1}H{right:.1}"));
            text(out, left - 8.0, y + 4.0, "end", &short(value));
        }
    }
    let mut sizes: Vec<f64> =
        drawn(panel).flat_map(|(_, points)| points).map(|point| point.0).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    let mut free = 0.0;
    for size in sizes {
        let (x, words) = (axes.x(size), label(size));
        path(out, "axis", &format!("M{x:.1} {bottom:.1}v5"));
        let half = text_width(&words, TEXT) / 2.0;
        // A label that would touch the previous one is left out; its point has a tick nevertheless.
        if x - half >= free {
            text(out, x, bottom + 19.0, "middle", &words);
            free = x + half + 6.0;
        }
    }
}

/// A number with as few digits as possible.
fn short(value: f64) -> String {
    let digits = if value >= 1.0 { 0 } else { (-value.log10()).ceil() as usize };
    format!("{value:.digits$}")
}

fn curves(out: &mut String, panel: &Panel, axes: &Axes) {
    for (at, (name, points)) in drawn(panel).enumerate() {
        let kind = at % CURVES;
        let place = |(size, value): &(f64, f64)| (axes.x(*size), axes.y(*value));
        let line: Vec<String> =
            points.iter().map(place).map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        // Writing to a String cannot fail.
        let _ = writeln!(out, "<polyline points=\"{}\" class=\"curve s{kind}\"/>", line.join(" "));
        for (x, y) in points.iter().map(place) {
            let _ = writeln!(
                out,
                "<circle cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"2.8\" class=\"dot d{kind}\"/>"
            );
        }
        let y = axes.bottom() + FOOT + at as f64 * LEGEND + 6.0;
        path(out, &format!("curve s{kind}"), &format!("M{:.1} {:.1}h26", axes.left, y - 4.0));
        text(out, axes.left + 34.0, y, "", name);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::clipped;

    fn panel(points: Vec<(f64, f64)>) -> Panel {
        let lines = vec![Line { name: "<read>".to_owned(), points }];
        Panel { title: "cost".to_owned(), across: "size".to_owned(), lines }
    }

    #[test]
    fn a_power_is_a_straight_line_between_the_corners() {
        let picture =
            plot("a curve", "", &[panel(vec![(1.0, 1.0), (10.0, 10.0), (100.0, 100.0)])], |size| {
                size.to_string()
            });
        assert!(picture.contains("points=\"58.0,311.0 226.0,191.0 394.0,71.0\""), "{picture}");
        assert!(picture.contains("&lt;read&gt;"));
    }

    #[test]
    fn nothing_to_show_is_an_empty_picture_and_one_point_is_a_dot() {
        assert!(!plot("", "", &[panel(vec![])], |size| size.to_string()).contains("polyline"));
        let one = plot("", "", &[panel(vec![(5.0, 3.0)])], |size| size.to_string());
        assert!(one.contains("<circle") && !one.contains("NaN") && !one.contains("inf"), "{one}");
    }

    #[test]
    fn what_has_no_logarithm_is_left_out() {
        let picture = plot("", "", &[panel(vec![(1.0, 0.0), (2.0, 3.0), (4.0, 3.0)])], |size| {
            size.to_string()
        });
        assert_eq!(picture.matches("<circle").count(), 2);
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }

    #[test]
    fn no_text_is_clipped_and_labels_that_would_touch_are_left_out() {
        let points: Vec<(f64, f64)> =
            (0..40).map(|size| (1.05_f64.powi(size), 1.0 + f64::from(size) / 40.0)).collect();
        let drawn =
            plot("t", "about", &[panel(points.clone()), panel(points)], |_| "1,000 MiB".to_owned());
        assert_eq!(clipped(&drawn), [""; 0], "{drawn}");
        let labels = drawn.matches("1,000 MiB").count();
        assert!((4..=14).contains(&labels), "{labels}");
        assert_eq!(drawn.matches("<circle").count(), 80);
    }

    #[test]
    fn values_are_written_with_the_digits_that_they_have() {
        let cases = [(0.05, "0.05"), (0.2, "0.2"), (1.0, "1"), (20.0, "20"), (5000.0, "5000")];
        cases.into_iter().for_each(|(value, words)| assert_eq!(short(value), words));
    }
}
