//! Consistency between clients. For users: `docs/consistency.md`; the reasons: ADR 0013.

use std::{fmt, str::FromStr};

/// The cache mode of a mount: what its reads see of other clients' writes. Names, attributes,
/// locks, appends and what other clients see of this mount's writes are the same in all modes.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub enum Consistency {
    /// Every write that has returned.
    #[default]
    Posix,
    /// What was written and closed before the file was opened; later writes perhaps.
    CloseToOpen,
    /// What was closed or synced before the file was opened, or before an `fsync` of the reading
    /// handle; other writes perhaps.
    Commit,
}

impl Consistency {
    const ALL: [Self; 3] = [Self::Posix, Self::CloseToOpen, Self::Commit];

    /// Whether pages may be cached without a lease.
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

    fn from_str(text: &str) -> Result<Self, String> {
        let known = Self::ALL.into_iter().find(|one| one.name() == text);
        known.ok_or_else(|| format!("{text:?} is none of {}", Self::ALL.map(Self::name).join(", ")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_mode_is_parsed_as_it_is_printed() {
        for one in Consistency::ALL {
            assert_eq!(one.to_string().parse(), Ok(one));
        }
        let error = "close".parse::<Consistency>().unwrap_err();
        assert_eq!(error, "\"close\" is none of posix, close-to-open, commit");
    }
}
