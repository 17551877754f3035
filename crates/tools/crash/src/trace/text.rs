//! Parts of a line of `strace -xx`: arguments, strings, numbers.

use anyhow::{Context, Result, ensure};

/// Splits at the commas outside brackets and strings. Strings are all hex (`-xx`): they contain no
/// quote or comma.
pub(super) fn arguments(text: &[u8]) -> Vec<&[u8]> {
    let mut depth = 0_usize;
    let mut from = 0;
    let mut found = Vec::new();
    let mut at = 0;
    while at < text.len() {
        match text[at] {
            b'"' => {
                at += 1 + text[at + 1..]
                    .iter()
                    .position(|&byte| byte == b'"')
                    .unwrap_or(text.len() - at - 2)
            }
            b'[' | b'{' | b'(' => depth += 1,
            b']' | b'}' | b')' => depth = depth.saturating_sub(1),
            b',' if depth == 0 => {
                found.push(text[from..at].trim_ascii());
                from = at + 1;
            }
            _ => {}
        }
        at += 1;
    }
    if !text[from..].trim_ascii().is_empty() {
        found.push(text[from..].trim_ascii());
    }
    found
}

/// The bytes of `"\x41\x42"`. A truncated string is an error.
pub(super) fn bytes(argument: &[u8]) -> Result<Vec<u8>> {
    let inner = argument.strip_prefix(b"\"").and_then(|rest| rest.strip_suffix(b"\""));
    let inner = inner.with_context(|| format!("not a whole string: {}", excerpt(argument)))?;
    ensure!(inner.len() % 4 == 0, "not all hex: {}", excerpt(argument));
    let digits = |byte: &[u8]| Some(digit(byte[2])? << 4 | digit(byte[3])?);
    let bytes: Option<Vec<u8>> = inner.chunks_exact(4).map(digits).collect();
    bytes.with_context(|| format!("not all hex: {}", excerpt(argument)))
}

fn digit(letter: u8) -> Option<u8> {
    char::from(letter).to_digit(16).map(|digit| digit as u8)
}

/// The bytes of `[{iov_base="…", iov_len=3}, …]`, concatenated.
pub(super) fn vectors(argument: &[u8]) -> Result<Vec<u8>> {
    let inner = argument.strip_prefix(b"[").and_then(|rest| rest.strip_suffix(b"]"));
    let inner = inner.with_context(|| format!("not a list: {}", excerpt(argument)))?;
    let mut all = Vec::new();
    for vector in arguments(inner) {
        let base = vector
            .strip_prefix(b"{iov_base=")
            .with_context(|| format!("no iov_base: {}", excerpt(vector)))?;
        let string = *arguments(base).first().context("an empty vector")?;
        all.extend(bytes(string)?);
    }
    Ok(all)
}

/// A decimal or hexadecimal number, possibly followed by a remark.
pub(super) fn number(argument: &[u8]) -> Result<i64> {
    let text = std::str::from_utf8(argument).unwrap_or_default();
    let word = text.split([' ', '<']).next().unwrap_or_default();
    let parsed = match word.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok().map(|number| number as i64),
        None => word.parse().ok(),
    };
    parsed.with_context(|| format!("not a number: {}", excerpt(argument)))
}

/// Whether `A|B|C` contains a flag.
pub(super) fn has_flag(argument: &[u8], flag: &str) -> bool {
    let text = String::from_utf8_lossy(argument);
    text.split(['|', '{', '=', ',', ' ', '}']).any(|word| word == flag)
}

pub(super) fn excerpt(text: &[u8]) -> String {
    String::from_utf8_lossy(&text[..text.len().min(120)]).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_split_outside_of_brackets_and_strings() {
        let split =
            arguments(br#"3, [{iov_base="\x2c", iov_len=1}], {a=1, b=[2, 3]}, O_RDWR|O_CREAT"#);
        assert_eq!(split.len(), 4);
        assert_eq!(vectors(split[1]).unwrap(), b",");
        assert!(has_flag(split[3], "O_CREAT") && !has_flag(split[3], "O_RDW"));
        assert!(arguments(b"").is_empty());
    }

    #[test]
    fn a_string_that_was_cut_short_is_an_error() {
        assert_eq!(bytes(br#""\x00\xff""#).unwrap(), [0, 255]);
        assert!(bytes(br#""\x00\xff"..."#).is_err());
        assert!(bytes(b"0x7fff1234").is_err());
    }

    #[test]
    fn numbers_may_carry_a_remark() {
        assert_eq!(number(b"0x1 (flags FD_CLOEXEC)").unwrap(), 1);
        assert_eq!(number(b"-1").unwrap(), -1);
        assert!(number(b"?").is_err());
    }
}
