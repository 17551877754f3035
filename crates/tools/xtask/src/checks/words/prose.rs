//! The prose of a file as words and ends of sentences: the comments and strings of Rust code, the
//! text of a Markdown page. Code in backquotes or fences is left out.

/// One word or border of a text.
#[derive(PartialEq, Eq, Debug)]
pub enum Token {
    /// A word in lower case.
    Word { word: String, line: usize },
    /// The end of a sentence, of a paragraph or of a list item.
    End { question: bool, line: usize },
    /// Other punctuation, or code.
    Border { line: usize },
}

impl Token {
    /// The line, counted from 1.
    pub fn line(&self) -> usize {
        match self {
            Self::Word { line, .. } | Self::End { line, .. } | Self::Border { line } => *line,
        }
    }

    /// Whether it is this word.
    pub fn is_word(&self, wanted: &str) -> bool {
        matches!(self, Self::Word { word, .. } if word == wanted)
    }
}

/// The text of a page.
pub fn of_markdown(text: &str) -> Vec<Vec<Token>> {
    vec![tokens(&without_fences(text), 1)]
}

/// Each block of line comments, each block comment and each string that holds a space.
pub fn of_rust(text: &str) -> Vec<Vec<Token>> {
    let mut scanner = Scanner { text, at: 0, line: 1 };
    let mut texts: Vec<(usize, String)> = Vec::new();
    // The line after a line comment: the next one may continue it.
    let mut continues = 0;
    while let Some(piece) = scanner.next_piece() {
        match (piece.kind, texts.last_mut()) {
            (Kind::LineComment, Some((_, last))) if piece.line == continues => {
                last.push('\n');
                last.push_str(&piece.text);
            }
            (Kind::Literal, _) if !piece.text.contains(char::is_whitespace) => {}
            _ => texts.push((piece.line, piece.text)),
        }
        continues = if piece.kind == Kind::LineComment { piece.line + 1 } else { 0 };
    }
    texts.iter().map(|(line, text)| tokens(&without_fence_marks(text), *line)).collect()
}

/// Blanks fenced blocks and keeps the count of lines.
fn without_fences(text: &str) -> String {
    let mut fenced = false;
    let mut out = String::with_capacity(text.len());
    for line in text.lines() {
        let is_fence = line.trim_start().starts_with("```");
        fenced ^= is_fence;
        if !fenced && !is_fence {
            out.push_str(line);
        }
        out.push('\n');
    }
    out
}

/// Blanks the marks of fences: pictures in comments are checked like other text.
fn without_fence_marks(text: &str) -> String {
    let lines =
        text.lines().map(|line| if line.trim_start().starts_with("```") { "" } else { line });
    lines.collect::<Vec<_>>().join("\n")
}

fn tokens(text: &str, first_line: usize) -> Vec<Token> {
    let mut tokens = Vec::new();
    let (mut line, mut rest) = (first_line, text);
    while let Some(next) = rest.chars().next() {
        let taken = match next {
            '\n' => {
                line += 1;
                if begins_block(&rest[1..]) {
                    tokens.push(Token::End { question: false, line });
                }
                1
            }
            '`' => {
                tokens.push(Token::Border { line });
                let span = code_span(rest);
                line += rest[..span].matches('\n').count();
                span
            }
            _ if is_word_char(next) => {
                let end = rest.find(|c| !is_word_char(c)).unwrap_or(rest.len());
                let word = rest[..end].trim_matches(['\'', '’']).to_lowercase();
                tokens.push(Token::Word { word, line });
                end
            }
            '.' | ':' | ';' | '!' | '?' => {
                let ends = rest[1..].chars().next().is_none_or(char::is_whitespace);
                tokens.push(match ends {
                    true => Token::End { question: next == '?', line },
                    false => Token::Border { line },
                });
                1
            }
            _ if next.is_whitespace() => next.len_utf8(),
            _ => {
                tokens.push(Token::Border { line });
                next.len_utf8()
            }
        };
        rest = &rest[taken..];
    }
    tokens
}

fn is_word_char(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '\'' | '’')
}

/// Whether a line begins a paragraph, an item, a heading or a row of a table.
fn begins_block(line: &str) -> bool {
    matches!(line.trim_start_matches(' ').chars().next(), None | Some('\n' | '-' | '*' | '#' | '|'))
}

/// The length of the code span that begins here; 1 for a backquote that nothing closes in its
/// paragraph.
fn code_span(text: &str) -> usize {
    let marks = text.len() - text.trim_start_matches('`').len();
    let paragraph = text.find("\n\n").unwrap_or(text.len());
    let close = text[marks..paragraph].find(&text[..marks]);
    close.map_or(1, |at| marks + at + marks)
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    LineComment,
    BlockComment,
    Literal,
}

struct Piece {
    kind: Kind,
    line: usize,
    text: String,
}

/// Finds the comments and string literals of Rust code.
struct Scanner<'t> {
    text: &'t str,
    at: usize,
    line: usize,
}

impl Scanner<'_> {
    fn next_piece(&mut self) -> Option<Piece> {
        loop {
            let rest = &self.text[self.at..];
            let next = rest.chars().next()?;
            if rest.starts_with("//") {
                let end = rest.find('\n').unwrap_or(rest.len());
                let text = rest[2..end].trim_start_matches(['/', '!']).to_owned();
                return Some(self.piece(Kind::LineComment, end, text));
            }
            if rest.starts_with("/*") {
                let end = block_comment(rest);
                return Some(self.piece(Kind::BlockComment, end, rest[2..end].to_owned()));
            }
            if next == '"' {
                let (end, text) = string(rest);
                return Some(self.piece(Kind::Literal, end, text));
            }
            if let Some((from, to, end)) = raw_string(rest).filter(|_| !self.is_in_word()) {
                return Some(self.piece(Kind::Literal, end, rest[from..to].to_owned()));
            }
            let length = if next == '\'' { char_literal(rest) } else { next.len_utf8() };
            self.skip(length);
        }
    }

    fn piece(&mut self, kind: Kind, end: usize, text: String) -> Piece {
        let line = self.line;
        self.skip(end);
        Piece { kind, line, text }
    }

    fn skip(&mut self, length: usize) {
        self.line += self.text[self.at..self.at + length].matches('\n').count();
        self.at += length;
    }

    /// Whether the character before is one of an identifier other than the prefixes `b` and `c`.
    fn is_in_word(&self) -> bool {
        let mut before = self.text[..self.at].chars().rev();
        match before.next() {
            Some('b' | 'c') => before.next().is_some_and(is_word_char),
            other => other.is_some_and(is_word_char),
        }
    }
}

fn block_comment(text: &str) -> usize {
    let (mut depth, mut at) = (0_usize, 0);
    while at < text.len() {
        let rest = &text.as_bytes()[at..];
        if rest.starts_with(b"/*") {
            depth += 1;
        } else if rest.starts_with(b"*/") {
            depth -= 1;
        } else {
            at += 1;
            continue;
        }
        at += 2;
        if depth == 0 {
            return at;
        }
    }
    text.len()
}

/// The length of a string literal, and its text. An escaped character becomes a border, an escaped
/// end of line a space.
fn string(text: &str) -> (usize, String) {
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1);
    while let Some((at, next)) = chars.next() {
        match next {
            '"' => return (at + 1, out),
            '\\' => match chars.next() {
                Some((_, '\n')) => out.push('\n'),
                _ => out.push('\\'),
            },
            _ => out.push(next),
        }
    }
    (text.len(), out)
}

/// Where the text of a raw string begins and ends, and where the literal ends.
fn raw_string(text: &str) -> Option<(usize, usize, usize)> {
    let hashes = text.strip_prefix('r')?;
    let count = hashes.len() - hashes.trim_start_matches('#').len();
    hashes[count..].strip_prefix('"')?;
    let (from, close) = (count + 2, format!("\"{}", "#".repeat(count)));
    let to = text[from..].find(&close).map_or(text.len(), |at| from + at);
    Some((from, to, (to + close.len()).min(text.len())))
}

/// The length of a character literal; 1 for the mark of a lifetime.
fn char_literal(text: &str) -> usize {
    let mut chars = text.char_indices().skip(1);
    match (chars.next(), chars.next()) {
        (Some((_, '\\')), Some((at, _))) => {
            text[at + 1..].find('\'').map_or(1, |close| at + 1 + close + 1)
        }
        (Some(_), Some((at, '\''))) => at + 1,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(pieces: &[Vec<Token>]) -> Vec<String> {
        let one = |token: &Token| match token {
            Token::Word { word, line } => Some(format!("{line}:{word}")),
            _ => None,
        };
        pieces.iter().flatten().filter_map(one).collect()
    }

    #[test]
    fn comments_and_strings_of_rust_are_prose() {
        let text = "//! One\n//! two\nlet a = \"three four\"; // five\n/* six\nseven */\n";
        assert_eq!(
            words(&of_rust(text)),
            ["1:one", "2:two", "3:three", "3:four", "3:five", "4:six", "5:seven"]
        );
        assert_eq!(of_rust(text).len(), 4);
    }

    #[test]
    fn code_characters_lifetimes_and_single_words_are_no_prose() {
        let text = "fn f<'a>(c: char) { c == '\"' || c == '\\'' || r == \"word\" || br\"x\" }";
        assert_eq!(words(&of_rust(text)), [""; 0]);
    }

    #[test]
    fn raw_strings_and_escapes_are_read() {
        let text = "let a = r#\"one \"two\" three\"#; let b = \"four\\nfive \\\n   six\";";
        assert_eq!(
            words(&of_rust(text)),
            ["1:one", "1:two", "1:three", "1:four", "1:five", "2:six"]
        );
    }

    #[test]
    fn code_of_a_page_is_no_prose() {
        let text = "One `two` three.\n```\nfour\n```\n``five ` six`` seven ` eight\n";
        assert_eq!(words(&of_markdown(text)), ["1:one", "1:three", "5:seven", "5:eight"]);
    }

    #[test]
    fn a_sentence_ends_at_its_mark_and_at_an_item() {
        let ends = |text: &str| {
            let all = of_markdown(text);
            all[0].iter().filter(|token| matches!(token, Token::End { .. })).count()
        };
        // The end of the text is one more.
        assert_eq!(ends("One. Two 1.5 x"), 2);
        assert_eq!(ends("one\n- two\n\nthree"), 3);
    }
}
