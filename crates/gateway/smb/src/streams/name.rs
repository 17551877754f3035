//! Names of streams. MS-FSCC 2.1.5.3, 2.1.5.4.

use braid_share::NAME_BYTES_MAX;
use braid_smb_wire::NtStatus;

/// What names of the extended attributes begin with.
const PREFIX: &str = "user.DosStream.";
/// The type of a stream of bytes, and what the names of the extended attributes end with.
const DATA_TYPE: &str = ":$DATA";
/// The name and the type of the stream that is a directory's list of names.
const DIRECTORY_NAME: &str = "$I30";
const DIRECTORY_TYPE: &str = "$INDEX_ALLOCATION";
/// Most bytes of a name in UTF-8: those that a name of an extended attribute leaves.
pub const STREAM_NAME_BYTES_MAX: usize = NAME_BYTES_MAX - PREFIX.len() - DATA_TYPE.len();

/// The name of a named stream, without its type.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StreamName(String);

impl StreamName {
    /// A name that follows the rules.
    ///
    /// # Errors
    /// `OBJECT_NAME_INVALID`.
    pub fn new(name: &str) -> Result<Self, NtStatus> {
        // MS-FSCC 2.1.5.3: all other characters are allowed, those below 0x20 as well.
        let is_bad = |char: char| "\\/:\0".contains(char);
        match (1..=STREAM_NAME_BYTES_MAX).contains(&name.len()) && !name.contains(is_bad) {
            true => Ok(Self(name.to_owned())),
            false => Err(NtStatus::OBJECT_NAME_INVALID),
        }
    }

    /// The stream that an extended attribute has; `None` for another attribute.
    pub fn of_attribute(name: &[u8]) -> Option<Self> {
        let name = std::str::from_utf8(name).ok()?.strip_prefix(PREFIX)?;
        let (name, kind) = name.split_at_checked(name.len().checked_sub(DATA_TYPE.len())?)?;
        kind.eq_ignore_ascii_case(DATA_TYPE).then(|| Self::new(name).ok())?
    }

    /// The name of the extended attribute.
    pub fn attribute(&self) -> Vec<u8> {
        [PREFIX, &self.0, DATA_TYPE].concat().into_bytes()
    }

    /// The name.
    pub fn text(&self) -> &str {
        &self.0
    }

    /// The name with its type, as lists have it: `:name:$DATA`.
    pub fn with_type(&self) -> String {
        format!(":{}{DATA_TYPE}", self.0)
    }

    /// What names of the same stream have in common: they have no case.
    pub fn folded(&self) -> Vec<u8> {
        braid_share::fold(self.0.as_bytes()).into_owned()
    }
}

/// What a path has behind the name of a file, from the first colon on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum StreamPart {
    /// `::$DATA`: the bytes of the file.
    Bytes,
    /// `::$INDEX_ALLOCATION`: the directory itself.
    Directory,
    /// A named stream.
    Named(StreamName),
}

impl StreamPart {
    /// Reads `:name`, `:name:type` or `::type`. Types have no case.
    ///
    /// # Errors
    /// `OBJECT_NAME_INVALID`, as Windows answers for all that is wrong in a stream's name.
    pub fn parse(text: &str) -> Result<Self, NtStatus> {
        let invalid = NtStatus::OBJECT_NAME_INVALID;
        let mut parts = text.strip_prefix(':').ok_or(invalid)?.split(':');
        let (name, kind) = (parts.next().unwrap_or_default(), parts.next());
        if parts.next().is_some() {
            return Err(invalid);
        }
        let is_data = |kind: &str| kind.eq_ignore_ascii_case(&DATA_TYPE[1..]);
        match (name, kind) {
            ("", Some(kind)) if is_data(kind) => Ok(Self::Bytes),
            (name, Some(kind)) if kind.eq_ignore_ascii_case(DIRECTORY_TYPE) => {
                match name.is_empty() || name.eq_ignore_ascii_case(DIRECTORY_NAME) {
                    true => Ok(Self::Directory),
                    false => Err(invalid),
                }
            }
            (name, Some(kind)) if is_data(kind) => StreamName::new(name).map(Self::Named),
            (_, Some(_)) => Err(invalid),
            (name, None) => StreamName::new(name).map(Self::Named),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_of_streams_have_no_case_and_others_are_refused() {
        let named = |text: &str| match StreamPart::parse(text) {
            Ok(StreamPart::Named(name)) => name.text().to_owned(),
            other => panic!("{text}: {other:?}"),
        };
        assert_eq!(named(":a"), "a");
        assert_eq!(named(":A b:$dAtA"), "A b");
        assert_eq!(named(":\u{5}\n?*\"<>|"), "\u{5}\n?*\"<>|");
        assert_eq!(StreamPart::parse("::$DATA"), Ok(StreamPart::Bytes));
        for directory in ["::$INDEX_ALLOCATION", ":$i30:$index_allocation"] {
            assert_eq!(StreamPart::parse(directory), Ok(StreamPart::Directory));
        }
        for wrong in
            [":", "::", ":a:", ":a:$FOO", ":a:$DATA:", ":a:$INDEX_ALLOCATION", "::$BITMAP", ":a/b"]
        {
            assert_eq!(StreamPart::parse(wrong), Err(NtStatus::OBJECT_NAME_INVALID), "{wrong}");
        }
    }

    #[test]
    fn a_stream_is_the_extended_attribute_that_samba_uses() {
        let name = StreamName::new("Zone.Identifier").unwrap();
        assert_eq!(name.attribute(), b"user.DosStream.Zone.Identifier:$DATA");
        assert_eq!(StreamName::of_attribute(&name.attribute()), Some(name.clone()));
        assert_eq!(name.folded(), StreamName::new("zone.identifieR").unwrap().folded());
        let others = [&b"user.a"[..], b"user.DosStream.a", b"user.DosStream.:$DATA", b"\xff:$DATA"];
        for other in others {
            assert_eq!(StreamName::of_attribute(other), None, "{other:?}");
        }
    }

    #[test]
    fn a_name_fits_in_the_name_of_an_extended_attribute() {
        let longest = "n".repeat(STREAM_NAME_BYTES_MAX);
        let name = StreamName::new(&longest).unwrap();
        assert_eq!(name.attribute().len(), NAME_BYTES_MAX);
        assert!(StreamName::new(&format!("{longest}n")).is_err());
    }
}
