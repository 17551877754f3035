//! The identity file: to which cluster and daemon a directory belongs. A few lines of text with a
//! checksum.
//!
//! ```text
//! # BraidFS object directory. Written by the daemon; a checksum guards it.
//! format = 1
//! cluster = "30313233-3435-3637-3839-616263646566"
//! iod = 3
//! crc32c = "0badcafe"
//! ```
//!
//! `iod` is missing until the metadata server has assigned an id. The checksum covers every byte
//! before its line.

use crate::{Result, StoreError};
use braid_types::{ClusterUuid, IodId};
use std::path::Path;

/// The name of the identity file in an object directory.
pub const IDENTITY_FILE: &str = "braid-iod.toml";
/// The version of the directory's format.
pub const FORMAT_VERSION: u32 = 1;

const HEADLINE: &str = "# BraidFS object directory. Written by the daemon; a checksum guards it.\n";

/// The owner of a directory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Identity {
    /// The cluster.
    pub cluster: ClusterUuid,
    /// The I/O daemon, once the metadata server has assigned its id.
    pub iod: Option<IodId>,
}

impl Identity {
    /// The file's text.
    pub(crate) fn to_text(self) -> String {
        let mut body = format!("format = {FORMAT_VERSION}\ncluster = \"{}\"\n", self.cluster);
        if let Some(iod) = self.iod {
            body += &format!("iod = {iod}\n");
        }
        sealed(HEADLINE, &body)
    }

    /// Reads the file's text; `path` is for the error.
    pub(crate) fn from_text(text: &str, path: &Path) -> Result<Self> {
        let fields = unseal(text, path)?;
        let corrupted = |why| StoreError::Corrupted { path: path.display().to_string(), why };
        let cluster = value(&fields, "cluster")
            .and_then(|v| v.parse().ok())
            .ok_or(corrupted("no cluster UUID"))?;
        let iod = match value(&fields, "iod") {
            None => None,
            Some(id) => match id.parse() {
                Ok(id) if id != 0 => Some(IodId(id)),
                _ => return Err(corrupted("the I/O daemon's id is no number above 0")),
            },
        };
        Ok(Self { cluster, iod })
    }
}

/// `headline` and `body` with the checksum's line.
pub(crate) fn sealed(headline: &str, body: &str) -> String {
    let text = format!("{headline}{body}");
    let crc = crc32c::crc32c(text.as_bytes());
    format!("{text}crc32c = \"{crc:08x}\"\n")
}

/// The `key = value` lines of a sealed text, after its format and checksum are verified.
pub(crate) fn unseal<'a>(text: &'a str, path: &Path) -> Result<Vec<(&'a str, &'a str)>> {
    let name = || path.display().to_string();
    let corrupted = |why| StoreError::Corrupted { path: name(), why };
    let fields: Vec<_> = text.lines().filter_map(field).collect();
    // The format is checked before the checksum: a newer format may have another seal (I10).
    let found = value(&fields, "format")
        .and_then(|v| v.parse().ok())
        .ok_or(corrupted("no format version"))?;
    if found != FORMAT_VERSION {
        return Err(StoreError::UnknownFormat { path: name(), found, wanted: FORMAT_VERSION });
    }
    let at = text.rfind("crc32c = ").ok_or(corrupted("no checksum"))?;
    let want = format!("crc32c = \"{:08x}\"\n", crc32c::crc32c(&text.as_bytes()[..at]));
    if text[at..] == want {
        Ok(fields)
    } else {
        Err(corrupted("the checksum is wrong: was it edited?"))
    }
}

/// The value of a key.
pub(crate) fn value<'a>(fields: &[(&str, &'a str)], key: &str) -> Option<&'a str> {
    fields.iter().find(|(k, _)| *k == key).map(|(_, v)| *v)
}

fn field(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once('=')?;
    (!line.starts_with('#')).then(|| (key.trim(), value.trim().trim_matches('"')))
}

#[cfg(test)]
mod tests {
    use super::*;

    const IDENTITY: Identity =
        Identity { cluster: ClusterUuid(*b"0123456789abcdef"), iod: Some(IodId(3)) };

    #[test]
    fn golden_identity_file() {
        let want = "# BraidFS object directory. Written by the daemon; a checksum guards it.\n\
                    format = 1\n\
                    cluster = \"30313233-3435-3637-3839-616263646566\"\niod = 3\ncrc32c = \"";
        let text = IDENTITY.to_text();
        assert!(text.starts_with(want), "{text}");
        assert_eq!(text.len(), want.len() + 10);
        assert_eq!(Identity::from_text(&text, Path::new("x")).unwrap(), IDENTITY);
        let new = Identity { iod: None, ..IDENTITY };
        assert_eq!(Identity::from_text(&new.to_text(), Path::new("x")).unwrap(), new);
    }

    #[test]
    fn an_edited_identity_file_is_refused() {
        let edited = IDENTITY.to_text().replace("iod = 3", "iod = 4");
        assert!(matches!(
            Identity::from_text(&edited, Path::new("x")),
            Err(StoreError::Corrupted { .. })
        ));
        let cut = &IDENTITY.to_text()[..40];
        assert!(matches!(
            Identity::from_text(cut, Path::new("x")),
            Err(StoreError::Corrupted { .. })
        ));
        let newer = IDENTITY.to_text().replace("format = 1", "format = 2");
        let error = Identity::from_text(&newer, Path::new("x")).unwrap_err();
        assert!(matches!(error, StoreError::UnknownFormat { found: 2, .. }), "{error}");
    }
}
