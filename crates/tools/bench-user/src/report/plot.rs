//! Curves over logarithmic axes, as one SVG file that needs no other.

use std::fmt::Write;

use super::svg::escaped;

const PANEL_WIDTH: f64 = 450.0;
const HEIGHT: f64 = 340.0;
const LEFT: f64 = 52.0;
const RIGHT: f64 = 120.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 54.0;
/// Told apart also without colours: each has a dash of its own.
const STROKES: [(&str, &str); 7] = [
    ("#1f5fa8", ""),
    ("#b5461f", "6 3"),
    ("#2e7d4f", "2 2"),
    ("#7a4aa0", "8 3 2 3"),
    ("#8a6d00", "4 2"),
    ("#a02860", "1 3"),
    ("#3a7f8c", "10 4"),
];

/// A curve: points above zero, by rising size.
#[derive(Clone, PartialEq, Debug)]
pub struct Line {
    /// In the legend.
    pub name: String,
    /// Size and value.
    pub points: Vec<(f64, f64)>,
}

/// Curves over one pair of axes.
#[derive(Clone, PartialEq, Debug)]
pub struct Panel {
    /// What the values are.
    pub title: String,
    /// What the sizes are.
    pub across: String,
    /// Its curves.
    pub lines: Vec<Line>,
}

/// Both axes of a panel.
struct Axes {
    left: f64,
    sizes: (f64, f64),
    values: (i32, i32),
}

/// The panels side by side; `label` writes a size as people do.
pub fn plot(about: &str, panels: &[Panel], label: impl Fn(f64) -> String) -> String {
    let width = PANEL_WIDTH * panels.len() as f64;
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {HEIGHT}\" width=\"{width}\" height=\"{HEIGHT}\" \
         font-family=\"sans-serif\" font-size=\"11\" role=\"img\" aria-label=\"{}\">\n\
         <rect width=\"100%\" height=\"100%\" fill=\"#fff\"/>\n",
        escaped(about)
    );
    for (at, panel) in panels.iter().enumerate() {
        if let Some(axes) = Axes::of(panel, at as f64 * PANEL_WIDTH) {
            frame(&mut out, panel, &axes, &label);
            curves(&mut out, panel, &axes);
        }
    }
    out.push_str("</svg>\n");
    out
}

impl Axes {
    /// `None` of no points. Values between whole powers of ten.
    fn of(panel: &Panel, left: f64) -> Option<Self> {
        let points = || panel.lines.iter().flat_map(|line| &line.points).filter(|point| point.0 > 0.0 && point.1 > 0.0);
        points().next()?;
        let least = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(f64::INFINITY, f64::min);
        let most = |of: fn(&(f64, f64)) -> f64| points().map(of).fold(0.0, f64::max);
        let low = least(|point| point.1).log10().floor() as i32;
        let high = (most(|point| point.1).log10().ceil() as i32).max(low + 1);
        Some(Self { left: left + LEFT, sizes: (least(|point| point.0), most(|point| point.0)), values: (low, high) })
    }

    fn x(&self, size: f64) -> f64 {
        let (least, most) = (self.sizes.0.ln(), self.sizes.1.ln());
        let part = if most > least { (size.ln() - least) / (most - least) } else { 0.5 };
        self.left + part * (PANEL_WIDTH - LEFT - RIGHT)
    }

    fn y(&self, value: f64) -> f64 {
        let (low, high) = (f64::from(self.values.0), f64::from(self.values.1));
        HEIGHT - BOTTOM - (value.log10() - low) / (high - low) * (HEIGHT - TOP - BOTTOM)
    }
}

fn frame(out: &mut String, panel: &Panel, axes: &Axes, label: &impl Fn(f64) -> String) {
    let (left, right) = (axes.left, axes.left + PANEL_WIDTH - LEFT - RIGHT);
    let middle = f64::midpoint(left, right);
    // A String takes everything.
    let _ = writeln!(out, "<text x=\"{left:.1}\" y=\"18\" font-weight=\"bold\">{}</text>", escaped(&panel.title));
    let _ = writeln!(
        out,
        "<text x=\"{middle:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text>",
        HEIGHT - 12.0,
        escaped(&panel.across)
    );
    for power in axes.values.0..=axes.values.1 {
        let value = 10_f64.powi(power);
        let y = axes.y(value);
        let _ = writeln!(out, "<path d=\"M{left:.1} {y:.1}H{right:.1}\" stroke=\"#ddd\"/>");
        let _ = writeln!(out, "<text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"end\">{value}</text>", left - 6.0, y + 4.0);
    }
    let mut sizes: Vec<f64> = panel.lines.iter().flat_map(|line| line.points.iter().map(|point| point.0)).collect();
    sizes.sort_by(f64::total_cmp);
    sizes.dedup();
    for size in sizes {
        let (x, bottom) = (axes.x(size), HEIGHT - BOTTOM);
        let _ = writeln!(out, "<path d=\"M{x:.1} {bottom:.1}v4\" stroke=\"#555\"/>");
        let _ = writeln!(
            out,
            "<text x=\"{x:.1}\" y=\"{:.1}\" text-anchor=\"middle\" font-size=\"9\">{}</text>",
            bottom + 15.0,
            escaped(&label(size))
        );
    }
}

fn curves(out: &mut String, panel: &Panel, axes: &Axes) {
    let right = axes.left + PANEL_WIDTH - LEFT - RIGHT;
    for (at, line) in panel.lines.iter().enumerate() {
        let (colour, dash) = STROKES[at % STROKES.len()];
        let points: Vec<(f64, f64)> =
            line.points.iter().copied().filter(|point| point.0 > 0.0 && point.1 > 0.0).collect();
        let path: String =
            points.iter().map(|(size, value)| format!("{:.1},{:.1} ", axes.x(*size), axes.y(*value))).collect();
        let _ = writeln!(
            out,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-dasharray=\"{dash}\"/>",
            path.trim_end()
        );
        for (size, value) in &points {
            let _ = writeln!(
                out,
                "<circle cx=\"{:.1}\" cy=\"{:.1}\" r=\"2.2\" fill=\"{colour}\"/>",
                axes.x(*size),
                axes.y(*value)
            );
        }
        let y = TOP + 8.0 + at as f64 * 16.0;
        let (start, end) = (right + 10.0, right + 30.0);
        let _ = writeln!(
            out,
            "<path d=\"M{start:.1} {y:.1}H{end:.1}\" stroke=\"{colour}\" stroke-width=\"1.6\" stroke-dasharray=\"{dash}\"/>"
        );
        let _ = writeln!(
            out,
            "<text x=\"{:.1}\" y=\"{:.1}\" font-size=\"10\">{}</text>",
            end + 4.0,
            y + 4.0,
            escaped(&line.name)
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn panel(points: Vec<(f64, f64)>) -> Panel {
        let lines = vec![Line { name: "<read>".to_owned(), points }];
        Panel { title: "cost".to_owned(), across: "size".to_owned(), lines }
    }

    #[test]
    fn a_power_is_a_straight_line_between_the_corners() {
        let picture =
            plot("a curve", &[panel(vec![(1.0, 1.0), (10.0, 10.0), (100.0, 100.0)])], |size| size.to_string());
        assert!(picture.contains("points=\"52.0,286.0 191.0,160.0 330.0,34.0\""), "{picture}");
        assert!(picture.contains("&lt;read&gt;"));
    }

    #[test]
    fn nothing_to_show_is_an_empty_picture_and_one_point_is_a_dot() {
        assert!(!plot("", &[panel(vec![])], |size| size.to_string()).contains("polyline"));
        let one = plot("", &[panel(vec![(5.0, 3.0)])], |size| size.to_string());
        assert!(one.contains("<circle") && !one.contains("NaN") && !one.contains("inf"), "{one}");
    }

    #[test]
    fn what_has_no_logarithm_is_left_out() {
        let picture = plot("", &[panel(vec![(1.0, 0.0), (2.0, 3.0), (4.0, 3.0)])], |size| size.to_string());
        assert_eq!(picture.matches("<circle").count(), 2);
        assert!(!picture.contains("NaN") && !picture.contains("inf"));
    }
}
