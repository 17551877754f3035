//! Phrases that are not plain English, from `docs/words.toml`.
//!
//! A phrase matches whole words, in any case, also across the end of a line, and never across
//! punctuation. `first = true` limits it to the beginning of a sentence that is no question.

use super::Finding;
use super::prose::{self, Token};
use anyhow::{Context as _, Result, ensure};
use serde::Deserialize;
use std::path::Path;

/// The list of phrases, relative to the repository root.
const FILE: &str = "docs/words.toml";

/// The page that quotes the old words in order to replace them.
const EXEMPT: [&str; 1] = ["docs/glossary.md"];

/// The list of phrases.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Phrases {
    phrase: Vec<Phrase>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Phrase {
    /// One word or several, in lower case, without punctuation.
    words: String,
    /// What to write instead.
    better: String,
    /// Why the phrase is unclear.
    reason: String,
    /// Whether it is wrong only as the first words of a sentence.
    #[serde(default)]
    first: bool,
}

impl Phrases {
    /// Reads the list of the repository.
    pub fn load(root: &Path) -> Result<Self> {
        let text = std::fs::read_to_string(root.join(FILE)).context(FILE)?;
        Self::parse(&text).context(FILE)
    }

    fn parse(text: &str) -> Result<Self> {
        let phrases: Self = toml::from_str(text)?;
        for Phrase { words, better, reason, .. } in &phrases.phrase {
            let plain = words.split(' ').all(|word| {
                !word.is_empty() && word.chars().all(|c| c.is_alphabetic() && !c.is_uppercase())
            });
            ensure!(plain, "`{words}`: a phrase is lower-case words with one space between them");
            ensure!(!better.is_empty() && !reason.is_empty(), "`{words}` lacks a word or a reason");
        }
        Ok(phrases)
    }

    /// Each phrase in the comments, strings or text of one file.
    pub fn findings(&self, path: &str, text: &str) -> Vec<Finding> {
        let prose = match path {
            _ if EXEMPT.contains(&path) => return Vec::new(),
            _ if path.starts_with("crates/") && path.ends_with(".rs") => prose::of_rust(text),
            "README.md" | "CHANGELOG.md" => prose::of_markdown(text),
            _ if is_document(path) => prose::of_markdown(text),
            _ => return Vec::new(),
        };
        prose.iter().flat_map(|tokens| self.in_tokens(path, tokens)).collect()
    }

    fn in_tokens(&self, path: &str, tokens: &[Token]) -> Vec<Finding> {
        let mut findings = Vec::new();
        for at in 0..tokens.len() {
            let matching = self.phrase.iter().filter(|phrase| phrase.matches(tokens, at));
            findings.extend(matching.map(|phrase| Finding {
                place: path.to_owned(),
                line: tokens[at].line(),
                problem: phrase.problem(),
            }));
        }
        findings
    }
}

impl Phrase {
    fn matches(&self, tokens: &[Token], at: usize) -> bool {
        let mut rest = tokens[at..].iter();
        let same = self.words.split(' ').all(|word| rest.next().is_some_and(|t| t.is_word(word)));
        same && (!self.first || (begins_sentence(tokens, at) && !ends_as_question(&tokens[at..])))
    }

    fn problem(&self) -> String {
        let position = if self.first { " at the beginning of a sentence" } else { "" };
        let Self { words, better, reason, .. } = self;
        format!("\"{words}\"{position}: write \"{better}\" ({reason})")
    }
}

/// Pages directly below `docs/`. Decision records and results are of their time.
fn is_document(path: &str) -> bool {
    path.strip_prefix("docs/").is_some_and(|name| name.ends_with(".md") && !name.contains('/'))
}

fn begins_sentence(tokens: &[Token], at: usize) -> bool {
    at == 0 || matches!(tokens[at - 1], Token::End { .. })
}

fn ends_as_question(tokens: &[Token]) -> bool {
    let end = tokens.iter().find(|token| matches!(token, Token::End { .. }));
    matches!(end, Some(Token::End { question: true, .. }))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A list of its own, so that these tests hold no phrase of the real one.
    const LIST: &str = r#"
        [[phrase]]
        words = "zig zag"
        better = "alternate"
        reason = "unclear"

        [[phrase]]
        words = "zog"
        better = "the caller"
        reason = "no subject"
        first = true
    "#;

    fn lines(path: &str, text: &str) -> Vec<usize> {
        let findings = Phrases::parse(LIST).unwrap().findings(path, text);
        findings.iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn the_list_of_the_repository_is_valid() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../..");
        assert!(Phrases::load(&root).unwrap().phrase.len() >= 20);
    }

    #[test]
    fn a_finding_names_the_phrase_and_the_better_word() {
        let found = Phrases::parse(LIST).unwrap().findings("README.md", "\nIt may Zig zag.\n");
        assert_eq!(found[0].to_string(), "README.md:2: \"zig zag\": write \"alternate\" (unclear)");
    }

    #[test]
    fn comments_and_strings_are_searched_and_code_is_not() {
        assert_eq!(lines("crates/a.rs", "// zig zag\nlet s = \"to zig\\\n   zag\";\n"), [1, 2]);
        assert_eq!(lines("crates/a.rs", "let a = zig zag;\n"), [0; 0]);
        assert_eq!(lines("crates/a.rs", "/// A zig\n/// zag.\n"), [1]);
    }

    #[test]
    fn a_phrase_ends_at_word_borders_and_at_punctuation() {
        assert_eq!(lines("docs/a.md", "zig zags, a zig, zag, `zig zag`, zig_zag zag"), [0; 0]);
        assert_eq!(lines("docs/a.md", "a (zig zag)"), [1]);
    }

    #[test]
    fn a_first_word_counts_only_where_a_sentence_begins() {
        assert_eq!(lines("docs/a.md", "Zog waits.\n\nOne zog waits. Zog\nwaits."), [1, 3]);
        assert_eq!(lines("docs/a.md", "Zog waits?"), [0; 0]);
    }

    #[test]
    fn pages_that_quote_old_words_and_other_files_are_exempt() {
        for path in ["docs/glossary.md", "docs/adr/0001-a.md", "a.toml"] {
            assert_eq!(lines(path, "zig zag"), [0; 0], "{path}");
        }
    }

    #[test]
    fn a_phrase_without_a_better_word_or_with_capitals_is_refused() {
        let entry = |words: &str, better: &str| {
            format!("[[phrase]]\nwords = \"{words}\"\nbetter = \"{better}\"\nreason = \"r\"\n")
        };
        assert!(Phrases::parse(&entry("good one", "b")).is_ok());
        assert!(Phrases::parse(&entry("Bad", "b")).is_err());
        assert!(Phrases::parse(&entry("two  spaces", "b")).is_err());
        assert!(Phrases::parse(&entry("good", "")).is_err());
    }
}
