//! Names without regard to case: the form under which an index of a directory has them.
//!
//! Each character of a name is replaced by its upper case, one character by one, as the table
//! `$UpCase` of NTFS does it. So `ß`, whose upper case has two letters, stays, and `ı` and `ſ`
//! stay as on Windows: nothing outside of ASCII becomes a letter of ASCII. Characters over U+FFFF
//! stay, too: Windows compares units of UTF-16.
//!
//! Folded names are stored. So the table is part of the format of the metadata store: it is that of
//! Unicode 17 and stays as it is, whatever a later version of Unicode or of the compiler adds.
//! Characters of later versions fold to themselves: names that differ only in their case are
//! different names. A larger table would need new indexes: with it a name would be looked up, and
//! removed, under another key than that of its index entry.

mod table;

use std::borrow::Cow;

use table::UPPER;

/// A row of the table: characters from `first` to `last`, `step` apart, and what is added to each.
type Row = (u32, u32, u32, i32);

/// The folded form of a name. Bytes that are not UTF-8 fold to themselves, as a whole name. It has
/// at most 3 bytes for each 2 of the name.
///
/// ```
/// assert_eq!(*braid_types::fold("Grüße.txt".as_bytes()), *"GRÜßE.TXT".as_bytes());
/// assert_eq!(*braid_types::fold(b"a\xff"), *b"a\xff");
/// ```
pub fn fold(name: &[u8]) -> Cow<'_, [u8]> {
    if name.is_ascii() {
        return match name.iter().any(u8::is_ascii_lowercase) {
            true => Cow::Owned(name.to_ascii_uppercase()),
            false => Cow::Borrowed(name),
        };
    }
    match str::from_utf8(name) {
        Ok(text) => Cow::Owned(text.chars().map(upper).collect::<String>().into_bytes()),
        Err(_) => Cow::Borrowed(name),
    }
}

fn upper(char: char) -> char {
    if char.is_ascii() {
        return char.to_ascii_uppercase();
    }
    let code = char as u32;
    let at = UPPER.partition_point(|(first, ..)| *first <= code);
    // Rows with a step of 2 may lie within each other: the characters between are upper case, or
    // have a row of their own, which begins later.
    let rows = UPPER[..at].iter().rev().take(2);
    rows.filter(|(first, last, step, _)| code <= *last && (code - first).is_multiple_of(*step))
        .find_map(|(.., delta)| char::from_u32(code.checked_add_signed(*delta)?))
        .unwrap_or(char)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(name: &str) -> String {
        String::from_utf8(fold(name.as_bytes()).into_owned()).unwrap()
    }

    #[test]
    fn names_fold_to_upper_case_one_character_to_one() {
        for (name, wanted) in [
            ("", ""),
            ("README.md", "README.MD"),
            ("ALREADY 1_~", "ALREADY 1_~"),
            ("straße", "STRAßE"),
            ("äöü ÄÖÜ", "ÄÖÜ ÄÖÜ"),
            ("ǆ ǅ Ǆ", "Ǆ Ǆ Ǆ"),
            ("ςσΣ", "ΣΣΣ"),
            ("ıſ\u{212a}", "ıſ\u{212a}"),
            ("я ё ҁ", "Я Ё Ҁ"),
            ("ā Ă ÿ", "Ā Ă Ÿ"),
            ("日本語", "日本語"),
            ("\u{10428}", "\u{10428}"),
        ] {
            assert_eq!(folded(name), wanted, "{name}");
        }
    }

    #[test]
    fn bytes_that_are_not_text_fold_to_themselves() {
        for name in [&b"a\xff"[..], b"\xc3", b"ok\xed\xa0\x80"] {
            assert_eq!(*fold(name), *name);
        }
    }

    #[test]
    fn the_table_is_that_of_unicode_17() {
        // A newer compiler may know further pairs. It never changes one (Unicode's stability
        // policy).
        let (mut pairs, mut sum) = (0, 0u64);
        for char in '\0'..=char::MAX {
            let upper = upper(char);
            if upper != char {
                pairs += 1;
                sum = sum.wrapping_mul(31).wrapping_add(u64::from(char) << 32 | u64::from(upper));
                assert!(char.to_uppercase().eq([upper]), "{char:?}");
            }
        }
        assert_eq!((pairs, sum), (26 + 1143, SUM), "the table is part of the format");
    }

    #[test]
    fn a_folded_name_folds_to_itself_and_is_not_much_longer() {
        for char in '\0'..=char::MAX {
            let upper = upper(char);
            assert_eq!(super::upper(upper), upper);
            assert!(2 * upper.len_utf8() <= 3 * char.len_utf8(), "{char:?}");
        }
    }

    const SUM: u64 = 11803481266127342554;
}
