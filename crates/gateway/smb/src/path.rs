//! Paths of CREATE. MS-SMB2 3.3.5.9, MS-FSCC 2.1.5.
//!
//! A path is relative to the root of the share and has `\` between its names. A name on the wire
//! is UTF-16, in the file system it is UTF-8; both lengths are limited. A stream of the file may
//! follow: `file:stream:$DATA`.

use braid_smb_wire::NtStatus;

use crate::streams::name::{StreamName, StreamPart};

/// Most bytes of a path in UTF-8.
pub const PATH_BYTES_MAX: usize = 4096;
/// Most names of a path.
pub const PATH_NAMES_MAX: usize = 256;
/// Most bytes of a name in UTF-8, and most UTF-16 units of it (MS-FSCC 2.1.5.2).
pub const NAME_MAX: usize = 255;

/// A path below the root of a share.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SharePath {
    names: Vec<String>,
    /// Whether it ends with a backslash or `::$INDEX_ALLOCATION`: it names a directory (MS-FSA
    /// 2.1.5.1).
    pub is_directory: bool,
    /// Whether it names the bytes of a file, with `::$DATA`.
    pub is_data: bool,
    /// The named stream of the file or directory.
    pub stream: Option<StreamName>,
}

impl SharePath {
    /// Reads the path of a request; an empty one is the root of the share.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` for a path that begins with a backslash; `OBJECT_NAME_INVALID` for
    /// everything else that is no path.
    pub fn parse(path: &str) -> Result<Self, NtStatus> {
        // MS-SMB2 3.3.5.9.
        if path.starts_with('\\') {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if path.len() > PATH_BYTES_MAX {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        let mut parsed = Self::default();
        let mut file = path;
        // MS-FSCC 2.1.5: a stream is behind the last name. A colon elsewhere is in no name.
        let last = path.rfind('\\').map_or(0, |at| at + 1);
        if let Some(colon) = path[last..].find(':').map(|at| last + at) {
            file = &path[..colon];
            match StreamPart::parse(&path[colon..])? {
                StreamPart::Bytes if file.is_empty() => return Err(NtStatus::OBJECT_NAME_INVALID),
                StreamPart::Bytes => parsed.is_data = true,
                StreamPart::Directory => parsed.is_directory = true,
                StreamPart::Named(name) => parsed.stream = Some(name),
            }
        } else if let Some(directory) = path.strip_suffix('\\') {
            (file, parsed.is_directory) = (directory, true);
        }
        if file.is_empty() {
            return Ok(parsed);
        }
        if file.split('\\').count() > PATH_NAMES_MAX {
            return Err(NtStatus::OBJECT_NAME_INVALID);
        }
        parsed.names = file.split('\\').map(str::to_owned).collect();
        match parsed.names.iter().all(|name| is_name(name)) {
            true => Ok(parsed),
            false => Err(NtStatus::OBJECT_NAME_INVALID),
        }
    }

    /// The names from the root of the share on.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Whether it is the root of the share.
    pub fn is_root(&self) -> bool {
        self.names.is_empty()
    }

    /// The path with backslashes, without one at either end.
    pub fn text(&self) -> String {
        self.names.join("\\")
    }
}

/// Whether text is a name of a file. MS-FSCC 2.1.5.2.
pub fn is_name(name: &str) -> bool {
    let is_bad = |char: char| char < ' ' || "\"*/:<>?\\|".contains(char);
    // A UTF-16 text has never more units than its UTF-8 has bytes.
    !matches!(name, "" | "." | "..") && name.len() <= NAME_MAX && !name.contains(is_bad)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(path: &str) -> Vec<String> {
        SharePath::parse(path).unwrap().names().to_vec()
    }

    #[test]
    fn a_path_is_split_at_backslashes() {
        assert!(SharePath::parse("").unwrap().is_root());
        assert_eq!(names("a"), ["a"]);
        assert_eq!(names(r"a\b c\d."), ["a", "b c", "d."]);
        assert_eq!(SharePath::parse(r"ä\ß\").unwrap().text(), r"ä\ß");
    }

    #[test]
    fn a_backslash_at_the_end_means_a_directory() {
        assert!(SharePath::parse(r"a\").unwrap().is_directory);
        assert!(!SharePath::parse("a").unwrap().is_directory);
        assert_eq!(SharePath::parse(r"a\\"), Err(NtStatus::OBJECT_NAME_INVALID));
    }

    #[test]
    fn a_path_never_names_something_above_the_share() {
        for path in ["..", r"..\a", r"a\..", r"a\..\..\b", ".", r"a\.\b", "a/../b", "/a"] {
            assert_eq!(SharePath::parse(path), Err(NtStatus::OBJECT_NAME_INVALID), "{path}");
        }
        for path in [r"\", r"\a", r"\\server\share"] {
            assert_eq!(SharePath::parse(path), Err(NtStatus::INVALID_PARAMETER), "{path}");
        }
        assert_eq!(names("..."), ["..."]);
    }

    #[test]
    fn characters_that_no_name_may_have_are_refused() {
        for char in "\"*/<>?|\0\x1f\n".chars() {
            for path in [format!("a{char}"), format!("{char}\\b")] {
                assert_eq!(SharePath::parse(&path), Err(NtStatus::OBJECT_NAME_INVALID), "{path:?}");
            }
        }
        assert_eq!(names("a+,;=[]\x7f"), ["a+,;=[]\x7f"]);
    }

    #[test]
    fn a_stream_follows_the_last_name() {
        let path = SharePath::parse(r"d\a::$data").unwrap();
        assert_eq!((path.text().as_str(), path.is_data), (r"d\a", true));
        for (path, file) in [("a:b", "a"), (r"d\a:b:$Data", r"d\a"), (":b", "")] {
            let parsed = SharePath::parse(path).unwrap();
            let stream = parsed.stream.as_ref().map(StreamName::text);
            assert_eq!((parsed.text().as_str(), stream), (file, Some("b")), "{path}");
            assert!(!parsed.is_data && !parsed.is_directory);
        }
        let directory = SharePath::parse("a:$I30:$INDEX_ALLOCATION").unwrap();
        assert!(directory.is_directory && directory.stream.is_none());
        for stream in ["a:", "::$DATA", r"a\::$DATA", r"a\:b", r"a:b\c", r"a:b\", "a:b:c", "a:b/c"]
        {
            assert_eq!(SharePath::parse(stream), Err(NtStatus::OBJECT_NAME_INVALID), "{stream}");
        }
        assert_eq!(names("äöüäöü"), ["äöüäöü"], "no split inside a character");
    }

    #[test]
    fn no_text_is_read_as_a_name_with_a_separator() {
        let letters = [':', '\\', '/', '.', 'a', '$', 'ä', '\0'];
        let mut texts = vec![String::new()];
        for _ in 0..6 {
            texts = texts
                .iter()
                .flat_map(|text| letters.map(|letter| format!("{text}{letter}")))
                .collect();
            for text in &texts {
                let Ok(path) = SharePath::parse(text) else { continue };
                let stream = path.stream.as_ref().map(StreamName::text);
                let is_bad = |name: &str| name.is_empty() || name.contains(['\\', '/', ':', '\0']);
                assert!(
                    !path.names.iter().map(String::as_str).chain(stream).any(is_bad),
                    "{text:?}"
                );
            }
        }
    }

    #[test]
    fn lengths_are_limited() {
        let name = "n".repeat(NAME_MAX);
        assert_eq!(names(&name), std::slice::from_ref(&name));
        assert!(SharePath::parse(&format!("{name}n")).is_err());
        assert!(SharePath::parse(&"ä".repeat(128)).is_err(), "256 bytes");
        let deep = vec!["a"; PATH_NAMES_MAX].join("\\");
        assert_eq!(names(&deep).len(), PATH_NAMES_MAX);
        assert!(SharePath::parse(&format!("{deep}\\a")).is_err());
        let long = [name.as_str(); 17].join("\\");
        assert!(long.len() > PATH_BYTES_MAX && SharePath::parse(&long).is_err());
    }
}
