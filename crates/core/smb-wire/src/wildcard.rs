//! Names and the patterns of a directory search. MS-FSA 2.1.4.4.
//!
//! | in a pattern | matches |
//! |---|---|
//! | `*` | any characters |
//! | `?` | one character |
//! | `<` (DOS_STAR) | any characters but the last period of the name |
//! | `>` (DOS_QM) | one character but a period; or none before a period and at the end |
//! | `"` (DOS_DOT) | a period; or none at the end |
//!
//! A search keeps the set of places in the pattern that the name has reached, so that a character
//! of the name costs at most the length of the pattern.

/// A pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Pattern {
    /// Characters, in upper case.
    characters: Vec<char>,
}

impl Pattern {
    /// A pattern.
    pub fn new(text: &str) -> Self {
        Self { characters: text.chars().map(upper_case).collect() }
    }

    /// Whether it matches all names.
    pub fn matches_all(&self) -> bool {
        self.characters == ['*']
    }

    /// The only name that can match, in upper case, if the pattern has no wildcard.
    pub fn only_name(&self) -> Option<String> {
        let is_name = !self.characters.iter().any(|c| is_wildcard(*c));
        is_name.then(|| self.characters.iter().collect())
    }

    /// Whether it matches a name.
    pub fn matches(&self, name: &str) -> bool {
        if self.matches_all() {
            return true;
        }
        let name: Vec<char> = name.chars().map(upper_case).collect();
        let last_period = name.iter().rposition(|c| *c == '.');
        // `reached[i]`: the name so far matches the first `i` characters of the pattern.
        let mut reached = vec![false; self.characters.len() + 1];
        reached[0] = true;
        for (position, c) in name.iter().enumerate() {
            self.pass_empty(&mut reached, Some(*c));
            let may_pass_star = *c != '.' || last_period != Some(position);
            if !self.pass_character(&mut reached, *c, may_pass_star) {
                return false;
            }
        }
        self.pass_empty(&mut reached, None);
        reached[self.characters.len()]
    }

    /// Adds the places that are reached without a character; `next` is the next one of the name.
    fn pass_empty(&self, reached: &mut [bool], next: Option<char>) {
        for (i, c) in self.characters.iter().enumerate() {
            let may_be_empty = match c {
                '*' | '<' => true,
                '>' => matches!(next, None | Some('.')),
                '"' => next.is_none(),
                _ => false,
            };
            reached[i + 1] |= reached[i] && may_be_empty;
        }
    }

    /// Moves the places over one character of the name. Returns whether any is left.
    fn pass_character(&self, reached: &mut [bool], next: char, may_pass_star: bool) -> bool {
        let mut any = false;
        // From the end, so that each place moves once.
        reached[self.characters.len()] = false;
        for (i, c) in self.characters.iter().enumerate().rev() {
            let (here, stays, moves) = match c {
                '*' => (reached[i], true, false),
                '<' => (reached[i], may_pass_star, false),
                '?' => (reached[i], false, true),
                '>' => (reached[i], false, next != '.'),
                '"' => (reached[i], false, next == '.'),
                c => (reached[i], false, *c == next),
            };
            reached[i] = here && stays;
            reached[i + 1] |= here && moves;
            any |= here && (stays || moves);
        }
        any
    }
}

/// Whether a character of a pattern is a wildcard; none of them may be in the name of a file.
pub const fn is_wildcard(c: char) -> bool {
    matches!(c, '*' | '?' | '<' | '>' | '"')
}

/// The upper case of a character where that is one character, and itself otherwise. MS-UCODEREF
/// 3.1.5.3: each unit of UTF-16 has one upper case, so characters over U+FFFF have none.
pub fn upper_case(c: char) -> char {
    let mut upper = c.to_uppercase();
    match (upper.next(), upper.next()) {
        (Some(upper), None) if (c as u32) < 0x1_0000 && (upper as u32) < 0x1_0000 => upper,
        _ => c,
    }
}

/// Whether two names are the same but for their case.
pub fn same_name(one: &str, other: &str) -> bool {
    one.chars().map(upper_case).eq(other.chars().map(upper_case))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::new(pattern).matches(name)
    }

    #[test]
    fn stars_and_question_marks_match_as_in_a_shell() {
        for (pattern, name) in [
            ("*", ""),
            ("*", "a.b"),
            ("*.txt", "a.b.TXT"),
            ("a?c", "aBc"),
            ("A*c*", "abcd"),
            ("", ""),
            ("grün.TXT", "GRÜN.txt"),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in
            [("*.*", "a"), ("a?", "a"), ("?", ""), ("abc", "ab"), ("ab", "abc"), ("", "a")]
        {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn the_wildcards_of_dos_mind_periods_and_the_end() {
        for (pattern, name) in [
            ("<.txt", "a.b.txt"),
            ("<", "name"),
            ("<\"*", "name"),
            ("<\"*", "name.c"),
            (">>>>>>>>\">>>", "a.c"),
            (">>>>>>>>\">>>", "name"),
            ("a>", "a"),
            ("a>>.c", "ab.c"),
            ("a\"", "a"),
            ("a\"", "a."),
        ] {
            assert!(matches(pattern, name), "{pattern} {name}");
        }
        for (pattern, name) in [
            ("<", "a.b"),
            ("<.txt", "a.txt.c"),
            (">>>>>>>>\">>>", "name.text"),
            (">", "."),
            ("\"a", "a"),
            ("a\"b", "ab"),
        ] {
            assert!(!matches(pattern, name), "{pattern} {name}");
        }
    }

    #[test]
    fn a_pattern_of_many_stars_ends_soon() {
        let pattern = "*a".repeat(2000) + "b";
        assert!(!matches(&pattern, &"a".repeat(255)));
        assert!(matches(&"*<".repeat(2000), &"a.".repeat(127)));
    }

    #[test]
    fn upper_case_is_one_character_for_one() {
        for (c, upper) in [('a', 'A'), ('ß', 'ß'), ('ÿ', 'Ÿ'), ('\u{10428}', '\u{10428}')] {
            assert_eq!(upper_case(c), upper);
        }
        assert!(same_name("Ärger", "äRGER"));
        assert!(!same_name("a", "ab"));
        assert_eq!(Pattern::new("a.c").only_name().as_deref(), Some("A.C"));
        assert_eq!(Pattern::new("a>c").only_name(), None);
    }

    /// The rules word by word, with backtracking.
    fn naive(pattern: &[char], name: &[char]) -> bool {
        let Some((first, rest)) = pattern.split_first() else { return name.is_empty() };
        let next = name.first().copied();
        let after = || &name[1..];
        match first {
            '*' => naive(rest, name) || next.is_some() && naive(pattern, after()),
            '<' => {
                let last_period = next == Some('.') && !name[1..].contains(&'.');
                naive(rest, name) || next.is_some() && !last_period && naive(pattern, after())
            }
            '?' => next.is_some() && naive(rest, after()),
            '>' => match next {
                None | Some('.') => naive(rest, name),
                Some(_) => naive(rest, after()),
            },
            '"' => match next {
                None => naive(rest, name),
                Some(c) => c == '.' && naive(rest, after()),
            },
            c => next == Some(*c) && naive(rest, after()),
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(4000))]
        #[test]
        fn a_match_is_what_the_rules_say(pattern in "[aB.*?<>\"]{0,7}", name in "[aAb.]{0,8}") {
            let folded = |text: &str| text.chars().map(upper_case).collect::<Vec<_>>();
            prop_assert_eq!(matches(&pattern, &name), naive(&folded(&pattern), &folded(&name)));
        }
    }
}
