//! What a mount promises of bytes that others write. For users: `docs/consistency.md`; why: ADR 0013.

use std::{fmt, str::FromStr};

/// What reads of a mount see of what was written elsewhere. Names, attributes, locks, appends and what others see of this
/// mount's writes are the same in all of them.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Consistency {
    /// Every write that returned before.
    #[default]
    Posix,
    /// What was written and closed before the file was opened; the rest perhaps.
    CloseToOpen,
    /// What was closed or synced before the file was opened, or before `fsync` of the handle that reads; the rest perhaps.
    Commit,
}

impl Consistency {
    const ALL: [Self; 3] = [Self::Posix, Self::CloseToOpen, Self::Commit];

    /// Whether bytes are kept without a lease.
    pub(crate) fn is_weak(self) -> bool {
        self != Self::Posix
    }

    fn name(self) -> &'static str {
        match self {
            Self::Posix => "posix",
            Self::CloseToOpen => "close-to-open",
            Self::Commit => "commit",
        }
    }
}

impl fmt::Display for Consistency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Consistency {
    type Err = String;

    fn from_str(word: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|one| one.name() == word);
        known.ok_or_else(|| format!("{word:?} is none of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_word_is_read_as_it_is_written() {
        for one in Consistency::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        let error = "close".parse::<Consistency>().unwrap_err();
        assert_eq!(error, "\"close\" is none of posix, close-to-open, commit");
    }
}
