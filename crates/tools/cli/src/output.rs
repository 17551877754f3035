//! Output of commands: text for people, JSON for programs, errors as `what failed: why; try:
//! command`.

use std::{fmt, io::Write, process::ExitCode};

use serde::Serialize;

/// Exit codes, as the help text lists them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// Any other failure.
    Failed = 1,
    /// Wrong usage or configuration.
    Usage = 2,
    /// No such file.
    NotFound = 3,
    /// Refused: permission or key.
    Refused = 4,
    /// A server is not reachable.
    Unreachable = 5,
    /// No free space, or a quota is exhausted.
    NoSpace = 6,
    /// fsck found problems.
    Problems = 7,
}

/// Why a command failed.
#[derive(Clone, Debug)]
pub struct Fault {
    /// Exit code.
    pub exit: Exit,
    /// What failed.
    pub what: String,
    /// Why it failed.
    pub why: String,
    /// What to try.
    pub hint: Option<String>,
}

impl Fault {
    /// A failure.
    pub fn new(exit: Exit, what: impl Into<String>, why: impl Into<String>) -> Self {
        Self { exit, what: what.into(), why: why.into(), hint: None }
    }

    /// Wrong usage or configuration.
    pub fn usage(what: impl Into<String>, why: impl Into<String>) -> Self {
        Self::new(Exit::Usage, what, why)
    }

    /// Any other failure on this machine.
    pub fn failed(what: impl Into<String>, why: impl fmt::Display) -> Self {
        Self::new(Exit::Failed, what, why.to_string())
    }

    /// Adds what to try.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Prints it on standard error, as JSON with `--json`.
    pub fn report(&self, json: bool) -> ExitCode {
        if json {
            let value = serde_json::json!({
                "error": {
                    "what": self.what, "why": self.why, "try": self.hint,
                    "exit": self.exit as u8,
                }
            });
            error_line(&value);
        } else {
            error_line(&format_args!("braid: {self}"));
        }
        ExitCode::from(self.exit as u8)
    }
}

/// Prints one line on standard error. `eprintln!` would panic where that fails, for example in a
/// log on a full disk.
fn error_line(text: &dyn fmt::Display) {
    let _ = writeln!(std::io::stderr().lock(), "{text}");
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.what, self.why)?;
        self.hint.as_ref().map_or(Ok(()), |hint| write!(f, "; try: {hint}"))
    }
}

impl std::error::Error for Fault {}

/// Prints text or JSON. A closed pipe ends the output without an error.
#[derive(Clone, Copy, Debug)]
pub struct Printer {
    /// Print JSON instead of text.
    pub json: bool,
    /// Print no hints and no progress.
    pub quiet: bool,
}

impl Printer {
    /// Prints one line of text.
    pub fn line(&self, text: impl fmt::Display) {
        let _ = writeln!(std::io::stdout().lock(), "{text}");
    }

    /// Prints a hint on standard error, unless `--quiet` or `--json`.
    pub fn hint(&self, text: impl fmt::Display) {
        if self.hints() {
            error_line(&text);
        }
    }

    /// Prints the next command to run on standard error, unless `--quiet` or `--json`.
    pub fn next(&self, command: impl fmt::Display) {
        self.hint(format!("next: {command}"));
    }

    /// Whether hints are printed. A hint may cost a call, which this saves.
    pub fn hints(&self) -> bool {
        !self.quiet && !self.json
    }

    /// Prints one JSON document.
    pub fn value(&self, value: &impl Serialize) {
        let text = serde_json::to_string_pretty(value).expect("facts are plain data");
        self.line(text);
    }

    /// Prints a table with a header. Each column is as wide as its widest cell; numbers are
    /// right-aligned.
    pub fn table(&self, header: &[&str], rows: &[Vec<String>]) {
        let width = |i: usize| {
            rows.iter()
                .map(|row| row[i].chars().count())
                .chain([header[i].len()])
                .max()
                .unwrap_or(0)
        };
        let widths: Vec<usize> = (0..header.len()).map(width).collect();
        let print = |cells: &mut dyn Iterator<Item = &str>| {
            let mut line = String::new();
            for (cell, width) in cells.zip(&widths) {
                let numeric = cell.starts_with(|c: char| c.is_ascii_digit());
                let pad = " ".repeat(width - cell.chars().count().min(*width));
                line += &if numeric { format!("{pad}{cell}  ") } else { format!("{cell}{pad}  ") };
            }
            self.line(line.trim_end());
        };
        print(&mut header.iter().copied());
        for row in rows {
            print(&mut row.iter().map(String::as_str));
        }
    }
}

/// A path for a shell command, quoted if necessary.
pub fn quoted(path: &str) -> String {
    let plain = |c: char| c.is_alphanumeric() || "_./:=@%+,-".contains(c);
    if !path.is_empty() && path.chars().all(plain) && !path.starts_with('-') {
        return path.to_owned();
    }
    let inside = path.replace('\'', "'\\''");
    // A leading dash would start an option, even in quotes.
    if path.starts_with('-') { format!("'./{inside}'") } else { format!("'{inside}'") }
}

/// A human-readable byte count: `0 B`, `1.5 KiB`, `3.0 GiB`.
pub fn human_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
    if bytes < 1024 {
        return format!("{bytes} B");
    }
    let power = (bytes.ilog2() / 10).min(6);
    format!("{:.1} {}", bytes as f64 / (1u64 << (10 * power)) as f64, UNITS[power as usize - 1])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn byte_counts_read_well() {
        assert_eq!(human_bytes(1023), "1023 B");
        assert_eq!(human_bytes(1536), "1.5 KiB");
        assert_eq!(human_bytes(u64::MAX), "16.0 EiB");
    }

    #[test]
    fn paths_are_quoted_where_a_shell_would_take_them_apart() {
        assert_eq!(quoted("/a/b-c.d"), "/a/b-c.d");
        assert_eq!(quoted("/täst"), "/täst");
        assert_eq!(quoted("/a b"), "'/a b'");
        assert_eq!(quoted("/it's; rm"), r"'/it'\''s; rm'");
        assert_eq!(quoted(""), "''");
    }

    #[test]
    fn the_help_lists_every_exit_code() {
        let help = crate::args::AFTER_HELP;
        let codes = [
            Exit::Failed,
            Exit::Usage,
            Exit::NotFound,
            Exit::Refused,
            Exit::Unreachable,
            Exit::NoSpace,
            Exit::Problems,
        ];
        for (at, code) in codes.into_iter().enumerate() {
            assert_eq!(code as usize, at + 1, "numbered without a gap");
            assert!(help.contains(&format!(" {} ", code as u8)), "{code:?} is in the help");
        }
    }

    #[test]
    fn a_fault_says_what_why_and_what_to_try() {
        let fault = Fault::usage("reading x", "no such file").hint("braid init DIR");
        assert_eq!(fault.to_string(), "reading x: no such file; try: braid init DIR");
    }
}
