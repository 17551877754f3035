//! Names of test functions over 70 characters: a name is a clear sentence, not a paragraph.

use super::Finding;

const CHARACTERS: usize = 70;

pub fn findings(path: &str, text: &str) -> Vec<Finding> {
    let names = match path.rsplit_once('.') {
        Some((_, "rs")) => of_rust(text),
        Some((_, "py")) => of_python(text),
        _ => Vec::new(),
    };
    let long = names.iter().filter(|(_, name)| name.chars().count() > CHARACTERS);
    long.map(|(line, name)| Finding {
        place: path.to_owned(),
        line: *line,
        problem: format!(
            "`{name}` has {} characters: a test's name has at most {CHARACTERS}",
            name.chars().count()
        ),
    })
    .collect()
}

/// Functions below an attribute `#[test]`, `#[tokio::test]` or with arguments.
fn of_rust(text: &str) -> Vec<(usize, &str)> {
    let (mut names, mut is_test) = (Vec::new(), false);
    for (at, line) in text.lines().enumerate() {
        let line = line.trim_start();
        if let Some(attribute) = line.strip_prefix("#[") {
            let name = attribute.split([']', '(']).next().unwrap_or_default();
            is_test |= name.rsplit("::").next() == Some("test");
        } else if !line.starts_with("//") {
            names.extend(function(line, "fn ").filter(|_| is_test).map(|name| (at + 1, name)));
            is_test = false;
        }
    }
    names
}

fn of_python(text: &str) -> Vec<(usize, &str)> {
    let names = text
        .lines()
        .enumerate()
        .filter_map(|(at, line)| function(line.trim_start(), "def ").map(|name| (at + 1, name)));
    names.filter(|(_, name)| name.starts_with("test")).collect()
}

/// The name of the function that a line defines.
fn function<'l>(line: &'l str, keyword: &str) -> Option<&'l str> {
    let (before, after) = line.split_once(keyword)?;
    let is_definition = before.split_whitespace().all(|word| word.starts_with(char::is_alphabetic));
    let name = after.split(['(', '<']).next()?;
    is_definition.then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        findings(path, text).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn a_test_may_have_seventy_characters_and_no_more() {
        let (good, bad) = ("a".repeat(70), "a".repeat(71));
        let text = format!("#[test]\nfn {good}() {{}}\n#[test]\n    fn {bad}() {{}}\n");
        assert_eq!(lines("a.rs", &text), [4]);
        assert_eq!(lines("a.py", &format!("def test_{}():\ndef test_a():\n", good)), [1]);
    }

    #[test]
    fn attributes_of_frameworks_count_and_other_functions_do_not() {
        let name = "a".repeat(80);
        let text = format!("#[tokio::test(x)]\n#[ignore]\nasync fn {name}() {{}}\n");
        assert_eq!(lines("a.rs", &text), [3]);
        assert_eq!(lines("a.rs", &format!("#[inline]\nfn {name}() {{}}\n")), [0; 0]);
        assert_eq!(lines("a.py", &format!("def {name}():\n")), [0; 0]);
    }
}
