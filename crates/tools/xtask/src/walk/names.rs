//! The name of a function, read from the source: this needs no demangler, and gives the name that
//! a reader sees.

/// How many lines below the first one the word `fn` may stand.
const HEAD_LINES: usize = 4;

/// The name of the function that begins on this line (from 1), after the name of its `impl` or
/// `trait`.
pub fn at(text: &str, line: u64) -> String {
    let lines: Vec<&str> = text.lines().collect();
    let first = usize::try_from(line).map_or(0, |line| line.saturating_sub(1)).min(lines.len());
    let mut head = lines[first..].iter().take(HEAD_LINES);
    let Some(name) = head.find_map(|line| name_in(line)) else {
        return "(not a function)".to_owned();
    };
    let depth = lines.get(first).map_or(0, |line| indent(line));
    let around = lines[..first].iter().rev().filter(|line| indent(line) < depth);
    match around.filter_map(|line| container(line)).next() {
        Some(container) => format!("{container}::{name}"),
        None => name.to_owned(),
    }
}

/// Whether the body of the function that begins on this line has one line at most, such as that of
/// an accessor or of a call that only forwards. The source is formatted: the end of a longer body
/// is as far in as its function.
pub fn is_short(text: &str, line: u64) -> bool {
    let first = usize::try_from(line).map_or(0, |line| line.saturating_sub(1));
    let mut lines = text.lines().skip(first);
    let depth = text.lines().nth(first).map_or(0, indent);
    let is_long = lines.find(|line| line.ends_with(['{', '}'])).is_some_and(|l| l.ends_with('{'));
    !is_long || lines.take_while(|line| indent(line) != depth).count() <= 1
}

fn indent(line: &str) -> usize {
    if line.trim().is_empty() { usize::MAX } else { line.len() - line.trim_start().len() }
}

fn name_in(line: &str) -> Option<&str> {
    let code = line.split("//").next()?;
    let later = || code.split_once(" fn ").map(|(_, after)| after);
    identifier(code.strip_prefix("fn ").or_else(later)?)
}

/// The type of an `impl` line, or the name of a `trait`.
fn container(line: &str) -> Option<&str> {
    let line = line.trim_start();
    if let Some(after) = line.strip_prefix("impl").filter(|rest| rest.starts_with([' ', '<'])) {
        let after = if after.starts_with('<') { &after[generics_end(after)..] } else { after };
        let named = after.rsplit_once(" for ").map_or(after, |(_, named)| named);
        let path = named.trim().trim_start_matches(['&', '(']).split(['<', ' ', '{']).next()?;
        return path.rsplit("::").next().filter(|name| !name.is_empty());
    }
    let words = line.split_once("trait ").filter(|(before, _)| {
        before.is_empty() || before.starts_with("pub") || before.starts_with("unsafe")
    });
    words.and_then(|(_, after)| identifier(after))
}

/// Behind the `>` that closes the first `<`.
fn generics_end(text: &str) -> usize {
    let mut depth = 0;
    let mut before = ' ';
    for (at, letter) in text.char_indices() {
        match letter {
            '<' => depth += 1,
            '>' if before != '-' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + letter.len_utf8();
        }
        before = letter;
    }
    text.len()
}

fn identifier(text: &str) -> Option<&str> {
    let end = text.find(|letter: char| !letter.is_alphanumeric() && letter != '_');
    Some(&text[..end.unwrap_or(text.len())]).filter(|name| !name.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "\
fn free() {}

impl<F: Fn() -> u8, T> Sink for Buffer<T> {
    fn first(&self) {}
}

pub trait Store: Send {
    fn force(&self) {
        let closure = || 1;
    }
}
impl net::Pool {
    pub(super) const fn size(&self) {} // fn other
}
";

    #[test]
    fn a_name_has_that_of_its_impl_or_trait_before_it() {
        let names = [1, 4, 8, 13].map(|line| at(TEXT, line));
        assert_eq!(names, ["free", "Buffer::first", "Store::force", "Pool::size"]);
    }

    #[test]
    fn a_body_of_one_line_is_short() {
        let long = "fn a(\n    b: u8,\n) -> u8 {\n    let c = b;\n\n    c + 1\n}\nfn d() {}\n";
        assert_eq!([1, 4, 8, 13].map(|line| is_short(TEXT, line)), [true; 4]);
        assert_eq!([1, 8].map(|line| is_short(long, line)), [false, true]);
    }

    #[test]
    fn a_line_without_a_function_says_so() {
        assert_eq!(at(TEXT, 14), "(not a function)");
        assert_eq!(at(TEXT, 1000), "(not a function)");
    }
}
