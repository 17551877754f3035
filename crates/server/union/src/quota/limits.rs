//! The limits, in `quotas.toml` of the metadata directory.

use std::{collections::BTreeMap, fs::File, io::Read, path::Path};

use serde::{Deserialize, Serialize};

use crate::{PoolError, error::During, pool::write_durably};

/// The file in the metadata directory.
pub(super) const FILE: &str = "quotas.toml";
/// Owners with a limit.
pub(super) const OWNERS_MAX: usize = 10_000;
/// No valid file is longer.
const BYTES_MAX: u64 = 2 << 20;

/// Whose files are limited.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum QuotaOwner {
    /// A user, by number.
    User(u32),
    /// A group, by number.
    Group(u32),
}

/// How much an owner may have.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct QuotaLimits {
    /// The lengths of all files together.
    pub bytes: Option<u64>,
    /// Files.
    pub inodes: Option<u64>,
}

/// The content of the file.
#[derive(Default, Debug)]
pub(super) struct LimitFile {
    pub(super) limits: BTreeMap<QuotaOwner, QuotaLimits>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    format: u32,
    #[serde(default, rename = "limit")]
    limits: Vec<WrittenLimit>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenLimit {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    user: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    group: Option<u32>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    bytes: Option<u64>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    inodes: Option<u64>,
}

impl WrittenLimit {
    fn new((owner, limits): (&QuotaOwner, &QuotaLimits)) -> Self {
        let (user, group) = match *owner {
            QuotaOwner::User(user) => (Some(user), None),
            QuotaOwner::Group(group) => (None, Some(group)),
        };
        Self { user, group, bytes: limits.bytes, inodes: limits.inodes }
    }

    fn read(self) -> Result<(QuotaOwner, QuotaLimits), String> {
        let owner = match (self.user, self.group) {
            (Some(user), None) => QuotaOwner::User(user),
            (None, Some(group)) => QuotaOwner::Group(group),
            _ => return Err("a limit is of one user or of one group".to_owned()),
        };
        Ok((owner, QuotaLimits { bytes: self.bytes, inodes: self.inodes }))
    }
}

impl LimitFile {
    /// # Errors
    /// It cannot be read, or is damaged. A missing one has no limits.
    pub(super) fn read(path: &Path) -> Result<Self, PoolError> {
        let file = match File::open(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            file => file.during(|| format!("opening {}", path.display()))?,
        };
        let mut text = String::new();
        let read = file.take(BYTES_MAX).read_to_string(&mut text);
        read.during(|| format!("reading {}", path.display()))?;
        let damaged = |why: String| PoolError::Config { path: path.to_owned(), why };
        let written: Written =
            toml::from_str(&text).map_err(|error| damaged(error.message().to_owned()))?;
        if written.format != 1 {
            return Err(damaged(format!("its format is {}; this version knows 1", written.format)));
        }
        if written.limits.len() > OWNERS_MAX {
            return Err(damaged(format!("it has more than {OWNERS_MAX} owners")));
        }
        let limits: Result<_, String> =
            written.limits.into_iter().map(WrittenLimit::read).collect();
        Ok(Self { limits: limits.map_err(damaged)? })
    }

    /// # Errors
    /// It cannot be written: then the old one is still there.
    pub(super) fn write(
        path: &Path,
        limits: &BTreeMap<QuotaOwner, QuotaLimits>,
    ) -> Result<(), PoolError> {
        let limits = limits.iter().map(WrittenLimit::new);
        let text = toml::to_string(&Written { format: 1, limits: limits.collect() });
        let text = text
            .map_err(|error| PoolError::Config { path: path.to_owned(), why: error.to_string() })?;
        write_durably(path, &text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_are_read_as_they_were_written_and_damage_is_an_error() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join(FILE);
        assert!(LimitFile::read(&path).unwrap().limits.is_empty());
        let limits = BTreeMap::from([
            (QuotaOwner::User(1000), QuotaLimits { bytes: Some(1 << 40), inodes: None }),
            (QuotaOwner::User(1001), QuotaLimits { bytes: None, inodes: Some(7) }),
            (QuotaOwner::Group(1000), QuotaLimits { bytes: Some(0), inodes: Some(u64::MAX >> 1) }),
        ]);
        LimitFile::write(&path, &limits).unwrap();
        assert_eq!(LimitFile::read(&path).unwrap().limits, limits);
        let text = std::fs::read_to_string(&path).unwrap();
        for damaged in [
            text.replace("format = 1", "format = 2"),
            text.replace("user = 1000", "user = -1"),
            text.replace("bytes", "byts"),
            text.replace("user = 1000", "user = 1000\ngroup = 2"),
            text.replace("user = 1000", ""),
            text.replace("format = 1", ""),
            "nonsense".to_owned(),
        ] {
            std::fs::write(&path, &damaged).unwrap();
            assert!(LimitFile::read(&path).is_err(), "{damaged}");
        }
    }
}
