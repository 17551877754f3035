//! `.braid-branch`: to which pool a directory belongs, and as which branch. Text, so that its owner
//! can read it.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

/// The file in the root of a branch. It is not shown in the union.
pub const BRANCH_FILE: &str = ".braid-branch";
/// The version of the file's format.
const FORMAT: u32 = 1;
/// No valid file is longer.
pub(crate) const BRANCH_FILE_BYTES_MAX: usize = 4096;

const HEADLINE: &str = "# A branch of a BraidFS union. The files here are plain files: they can be \
                        read without BraidFS.\n";

/// The identity of a pool: 128 random bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct PoolUuid(pub [u8; 16]);

impl PoolUuid {
    /// A new one.
    ///
    /// # Errors
    /// The system has no random bytes.
    pub fn random() -> std::io::Result<Self> {
        let mut bytes = [0; 16];
        getrandom::fill(&mut bytes).map_err(std::io::Error::other)?;
        Ok(Self(bytes))
    }
}

impl fmt::Display for PoolUuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl FromStr for PoolUuid {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "a pool's identity has 32 hexadecimal digits";
        let digits = text.as_bytes();
        if digits.len() != 32 || !digits.iter().all(u8::is_ascii_hexdigit) {
            return Err(WRONG);
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| WRONG)?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| WRONG)?;
        }
        Ok(Self(bytes))
    }
}

impl TryFrom<String> for PoolUuid {
    type Error = &'static str;
    fn try_from(text: String) -> Result<Self, Self::Error> {
        text.parse()
    }
}

impl From<PoolUuid> for String {
    fn from(uuid: PoolUuid) -> Self {
        uuid.to_string()
    }
}

/// The content of [`BRANCH_FILE`].
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BranchIdentity {
    format: u32,
    /// The pool.
    pub pool: PoolUuid,
    /// The branch's number in the pool; never given to another branch.
    pub number: u8,
}

impl BranchIdentity {
    pub(crate) fn new(pool: PoolUuid, number: u8) -> Self {
        Self { format: FORMAT, pool, number }
    }

    pub(crate) fn to_text(self) -> String {
        let body = toml::to_string(&self).unwrap_or_default();
        format!("{HEADLINE}{body}")
    }

    /// Reads the file's text.
    ///
    /// # Errors
    /// It is no such file, or one of a newer version.
    pub(crate) fn from_text(text: &str) -> Result<Self, String> {
        let read: Self = toml::from_str(text).map_err(|error| error.message().to_owned())?;
        match read.format {
            FORMAT => Ok(read),
            other => Err(format!("its format is {other}; this version of BraidFS knows {FORMAT}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_file_is_read_as_it_was_written() {
        let identity = BranchIdentity::new(PoolUuid([0xa5; 16]), 7);
        assert_eq!(BranchIdentity::from_text(&identity.to_text()), Ok(identity));
    }

    #[test]
    fn a_newer_format_and_damaged_bytes_are_refused() {
        let text = BranchIdentity::new(PoolUuid([1; 16]), 7).to_text();
        let newer = text.replace("format = 1", "format = 2");
        assert!(BranchIdentity::from_text(&newer).unwrap_err().contains("format is 2"));
        for (old, new) in [("01", "0g"), ("number", "nummer"), ("= 7", "= 700"), ("\"01", "\"é")] {
            let damaged = text.replacen(old, new, 1);
            assert_ne!(damaged, text);
            assert!(BranchIdentity::from_text(&damaged).is_err(), "{damaged}");
        }
    }
}
