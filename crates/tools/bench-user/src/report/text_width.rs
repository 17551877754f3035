//! The width of a text, so that a picture has space for it.
//!
//! The reader's font is unknown. DejaVu Sans is the widest font that browsers commonly use for
//! `sans-serif`: text that fits in it also fits in Arial, Helvetica, Segoe UI and Liberation Sans.

/// Widths of the ASCII characters from the space on, in thousandths of the font size: DejaVu Sans.
const REGULAR: [u16; 95] = [
    318, 401, 460, 838, 636, 950, 780, 275, 390, 390, 500, 838, 318, 361, 318, 337, 636, 636, 636,
    636, 636, 636, 636, 636, 636, 636, 337, 337, 838, 838, 838, 531, 1000, 684, 686, 698, 770, 632,
    575, 775, 752, 295, 295, 656, 557, 863, 748, 787, 603, 787, 695, 635, 611, 732, 684, 989, 685,
    611, 685, 390, 337, 390, 838, 500, 500, 613, 635, 550, 635, 615, 352, 635, 634, 278, 278, 579,
    278, 974, 634, 612, 635, 635, 411, 521, 392, 634, 592, 818, 592, 592, 525, 636, 337, 636, 838,
];
/// Width of any other character.
const OTHER: u16 = 840;
/// Maximum ratio of the widths in DejaVu Sans Bold and DejaVu Sans.
const BOLD: f64 = 1.17;

/// The width of `text` in a font of this size.
#[must_use]
pub fn text_width(text: &str, size: f64) -> f64 {
    let width = |character: char| {
        let at = (character as usize).checked_sub(usize::from(b' '));
        f64::from(at.and_then(|at| REGULAR.get(at)).copied().unwrap_or(OTHER))
    };
    text.chars().map(width).sum::<f64>() * size / 1000.0
}

/// The width of `text` in bold letters.
#[must_use]
pub fn bold_width(text: &str, size: f64) -> f64 {
    text_width(text, size) * BOLD
}

/// Splits `text` into lines that are no wider than `room`; a wider word gets a line of its own.
pub(super) fn wrapped(text: &str, size: f64, room: f64) -> Vec<String> {
    let mut lines: Vec<String> = Vec::new();
    for word in text.split_whitespace() {
        match lines.last_mut() {
            Some(line)
                if text_width(line, size) + text_width(word, size) + text_width(" ", size)
                    <= room =>
            {
                line.push(' ');
                line.push_str(word);
            }
            _ => lines.push(word.to_owned()),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn widths_add_up() {
        assert!((text_width("ab", 10.0) - (6.13 + 6.35)).abs() < 1e-9);
        assert!((text_width("µ", 10.0) - 8.4).abs() < 1e-9);
        assert!(bold_width("ab", 10.0) > text_width("ab", 10.0));
    }

    #[test]
    fn lines_break_at_words_and_are_no_wider_than_the_room() {
        let lines = wrapped("one two three four", 10.0, 45.0);
        assert_eq!(lines, ["one two", "three", "four"]);
        assert!(lines.iter().all(|line| text_width(line, 10.0) <= 45.0));
        assert_eq!(wrapped("unbreakable", 10.0, 5.0), ["unbreakable"]);
    }
}
