//! The style of the pictures of `docs/`, light and dark.
//!
//! A page shows a picture as an image, so the picture contains its style and background. It follows
//! the reader's colour scheme; a viewer without media queries shows the light one.

use std::fmt::Write;

use super::{svg::escaped, text_width::wrapped};

/// The size of all text but titles.
pub(super) const TEXT: f64 = 12.0;
/// The size of a picture's title.
pub(super) const TITLE: f64 = 15.0;
/// The margin around the picture.
pub(super) const MARGIN: f64 = 16.0;
const LINE: f64 = 17.0;

/// Colours and fonts. `s0` to `s6` are curves; each has its own dash pattern, so that colours are
/// not needed.
const STYLE: &str = "\
text { font: 12px system-ui, sans-serif; fill: #1f2328 }
.title { font-size: 15px; font-weight: bold } .head { font-weight: bold } .note { fill: #59636e }
.end { text-anchor: end } .middle { text-anchor: middle } .ground { fill: #ffffff } \
.grid { stroke: #d8dee4; fill: none }
.axis { stroke: #59636e; fill: none }
.ours { fill: #0969da } .rival { fill: #9aa4af } .reference { fill: #e6eaef; stroke: #9aa4af }
.spread { stroke: #1f2328; fill: none } .limit { stroke: #cf222e; stroke-width: 2; fill: none }
.curve { fill: none; stroke-width: 2 } .dot { stroke: none }
.s0 { stroke: #0969da } .s1 { stroke: #bc4c00; stroke-dasharray: 6 3 } \
.s2 { stroke: #1a7f37; stroke-dasharray: 2 2 }
.s3 { stroke: #8250df; stroke-dasharray: 8 3 2 3 } .s4 { stroke: #7d5e00; stroke-dasharray: 4 2 }
.s5 { stroke: #bf3989; stroke-dasharray: 1 3 } .s6 { stroke: #1b7c83; stroke-dasharray: 10 4 }
.d0 { fill: #0969da } .d1 { fill: #bc4c00 } .d2 { fill: #1a7f37 } .d3 { fill: #8250df } \
.d4 { fill: #7d5e00 }
.d5 { fill: #bf3989 } .d6 { fill: #1b7c83 }
@media (prefers-color-scheme: dark) {
text { fill: #e6edf3 } .note { fill: #9198a1 } .ground { fill: #0d1117 } \
.grid { stroke: #2f363d } .axis { stroke: #9198a1 }
.ours { fill: #2f81f7 } .rival { fill: #6e7681 } .reference { fill: #21262d; stroke: #6e7681 }
.spread { stroke: #e6edf3 } .limit { stroke: #ff7b72 }
.s0 { stroke: #58a6ff } .s1 { stroke: #f0883e } .s2 { stroke: #3fb950 } .s3 { stroke: #bc8cff } \
.s4 { stroke: #d29922 }
.s5 { stroke: #f778ba } .s6 { stroke: #39c5cf }
.d0 { fill: #58a6ff } .d1 { fill: #f0883e } .d2 { fill: #3fb950 } .d3 { fill: #bc8cff } \
.d4 { fill: #d29922 }
.d5 { fill: #f778ba } .d6 { fill: #39c5cf }
}
";

/// Number of curve styles in [`STYLE`].
pub(super) const CURVES: usize = 7;

/// The head of a picture: its title and what the numbers are.
pub(super) struct Heading {
    title: String,
    lines: Vec<String>,
}

impl Heading {
    /// `about` uses as many lines as it needs.
    pub(super) fn new(title: &str, about: &str, width: f64) -> Self {
        Self { title: title.to_owned(), lines: wrapped(about, TEXT, width - 2.0 * MARGIN) }
    }

    /// The lower edge of the heading.
    pub(super) fn bottom(&self) -> f64 {
        MARGIN + TITLE + LINE * self.lines.len() as f64 + 10.0
    }

    fn draw(&self, out: &mut String) {
        text(out, MARGIN, MARGIN + TITLE - 2.0, "title", &self.title);
        for (at, line) in self.lines.iter().enumerate() {
            text(out, MARGIN, MARGIN + TITLE + LINE * (at + 1) as f64, "note", line);
        }
    }
}

/// A complete picture: style, background, heading, and the output of `draw`.
pub(super) fn picture(
    heading: &Heading,
    width: f64,
    height: f64,
    draw: impl FnOnce(&mut String),
) -> String {
    let mut out = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width:.0} {height:.0}\" \
         width=\"{width:.0}\" \
         height=\"{height:.0}\" role=\"img\" aria-label=\"{}\">\n<style>{STYLE}</style>\n\
         <rect width=\"100%\" height=\"100%\" class=\"ground\"/>\n",
        escaped(&heading.title)
    );
    heading.draw(&mut out);
    draw(&mut out);
    out.push_str("</svg>\n");
    out
}

/// One line of text.
pub(super) fn text(out: &mut String, x: f64, y: f64, class: &str, words: &str) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        out,
        "<text x=\"{x:.1}\" y=\"{y:.1}\" class=\"{class}\">{}</text>",
        escaped(words)
    );
}

/// Draws a path of this class.
pub(super) fn path(out: &mut String, class: &str, data: &str) {
    let _ = writeln!(out, "<path d=\"{data}\" class=\"{class}\"/>");
}

/// The texts of a picture that exceed its edges, by the widths of `text_width`.
#[must_use]
pub fn clipped(picture: &str) -> Vec<String> {
    use super::text_width::{bold_width, text_width};
    let attribute = |tag: &str, name: &str| -> Option<String> {
        Some(tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0.to_owned())
    };
    let number =
        |tag: &str, name: &str| attribute(tag, name).and_then(|value| value.parse::<f64>().ok());
    let (width, height) =
        (number(picture, "width").unwrap_or(0.0), number(picture, "height").unwrap_or(0.0));
    let mut found = Vec::new();
    for part in picture.split("<text").skip(1) {
        let Some((tag, rest)) = part.split_once('>') else { continue };
        let words = rest.split_once("</text>").map_or(rest, |(words, _)| words);
        let plain = words
            .replace("&lt;", "<")
            .replace("&gt;", ">")
            .replace("&quot;", "\"")
            .replace("&#39;", "'");
        let plain = plain.replace("&amp;", "&");
        let class = attribute(tag, "class").unwrap_or_default();
        let has = |name: &str| class.split(' ').any(|own| own == name);
        let (x, y) = (number(tag, "x").unwrap_or(-1.0), number(tag, "y").unwrap_or(-1.0));
        let size = if has("title") { TITLE } else { TEXT };
        let long = if has("title") || has("head") {
            bold_width(&plain, size)
        } else {
            text_width(&plain, size)
        };
        let left = x - if has("end") || has("label") {
            long
        } else if has("middle") {
            long / 2.0
        } else {
            0.0
        };
        if left < 0.0 || left + long > width || y < size || y > height {
            found.push(plain);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(x: f64, class: &str, words: &str) -> Vec<String> {
        clipped(&picture(&Heading::new("t", "", 200.0), 200.0, 100.0, |out| {
            text(out, x, 50.0, class, words)
        }))
    }

    #[test]
    fn a_text_beyond_an_edge_is_found_whatever_its_anchor() {
        assert_eq!(with(10.0, "", "short"), [""; 0]);
        assert_eq!(with(190.0, "", "short"), ["short"]);
        assert_eq!(with(20.0, "end", "rather long"), ["rather long"]);
        assert_eq!(with(5.0, "middle", "a & b"), ["a & b"]);
        assert_eq!(with(199.0, "end", "short"), [""; 0]);
    }

    #[test]
    fn a_text_above_or_below_the_picture_is_found() {
        let at = |y| {
            clipped(&picture(&Heading::new("t", "", 99.0), 99.0, 99.0, |out| {
                text(out, 9.0, y, "", "x")
            }))
        };
        assert_eq!(
            (at(5.0), at(50.0), at(101.0)),
            (vec!["x".to_owned()], vec![], vec!["x".to_owned()])
        );
    }

    #[test]
    fn the_style_has_a_dark_scheme_and_a_class_for_every_curve() {
        let (light, dark) = STYLE.split_once("@media (prefers-color-scheme: dark)").unwrap();
        for curve in 0..CURVES {
            for class in [format!(".s{curve} "), format!(".d{curve} ")] {
                assert!(light.contains(&class) && dark.contains(&class), "{class}");
            }
        }
    }
}
