//! Paths of DFS: those of CREATE, and those that clients ask referrals for. MS-DFSC 2.2.1.

use braid_smb_wire::NtStatus;

/// Longest name of a server in UTF-16 units.
const SERVER_UNITS_MAX: usize = 255;

/// The path below the share of a path that begins with a server and a share. MS-SMB2 3.3.5.9,
/// MS-DFSC 3.2.4.1.
///
/// As in Windows, both may have any name: the tree says which share it is. Both may be missing,
/// which means the root of the share.
///
/// # Errors
/// `INVALID_PARAMETER` for an empty server, `OBJECT_NAME_INVALID` for a share with a colon.
pub fn below_share(path: &str) -> Result<&str, NtStatus> {
    // Clients for SMB 1 paths put one in front.
    let path = path.strip_prefix('\\').unwrap_or(path);
    let (server, rest) = path.split_once('\\').unwrap_or((path, ""));
    if server.is_empty() {
        return Err(NtStatus::INVALID_PARAMETER);
    }
    let (share, below) = rest.split_once('\\').unwrap_or((rest, ""));
    if share.contains(':') {
        return Err(NtStatus::OBJECT_NAME_INVALID);
    }
    Ok(below)
}

/// A path that a referral is asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ReferralPath<'a> {
    /// `\server\share`.
    pub root: &'a str,
    /// The share.
    pub share: &'a str,
}

impl<'a> ReferralPath<'a> {
    /// Reads `\server\share`, with more behind it or not.
    ///
    /// # Errors
    /// `INVALID_PARAMETER` if it is no such path. `NOT_FOUND` for a path without a share, which
    /// asks for domains or domain controllers (MS-DFSC 2.2.2): there are none.
    pub fn parse(path: &'a str) -> Result<Self, NtStatus> {
        if path.is_empty() {
            return Err(NtStatus::NOT_FOUND);
        }
        let names = path.strip_prefix('\\').ok_or(NtStatus::INVALID_PARAMETER)?;
        let (server, rest) = names.split_once('\\').unwrap_or((names, ""));
        let share = rest.split('\\').next().unwrap_or_default();
        if server.is_empty() || server.encode_utf16().count() > SERVER_UNITS_MAX {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        if share.is_empty() {
            return Err(NtStatus::NOT_FOUND);
        }
        Ok(Self { root: &path[..2 + server.len() + share.len()], share })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_and_share_are_taken_off_the_path_of_an_open() {
        for (path, below) in [
            (r"n\s", ""),
            (r"n\s\", ""),
            (r"n\s\a\b", r"a\b"),
            (r"\n\s\a", "a"),
            ("n", ""),
            (r"n\", ""),
            (r"::\s", ""),
            (r"n\s\\a", r"\a"),
            (r"n\s\..\a", r"..\a"),
        ] {
            assert_eq!(below_share(path), Ok(below), "{path}");
        }
        for path in ["", r"\", r"\\n\s\a"] {
            assert_eq!(below_share(path), Err(NtStatus::INVALID_PARAMETER), "{path}");
        }
        assert_eq!(below_share(r"n\s:x\a"), Err(NtStatus::OBJECT_NAME_INVALID));
    }

    #[test]
    fn a_referral_is_for_a_server_and_a_share() {
        for path in [r"\n\s", r"\n\s\", r"\n\s\a\b"] {
            let root = r"\n\s";
            assert_eq!(ReferralPath::parse(path), Ok(ReferralPath { root, share: "s" }), "{path}");
        }
        assert_eq!(ReferralPath::parse(r"\ä\ß\x").unwrap().root, r"\ä\ß");
        for path in ["", r"\n", r"\n\", r"\n\\a"] {
            assert_eq!(ReferralPath::parse(path), Err(NtStatus::NOT_FOUND), "{path}");
        }
        let long = format!(r"\{}\s", "x".repeat(256));
        for path in ["n", r"n\s", r"\", r"\\n\s", r"\\", &long] {
            assert_eq!(ReferralPath::parse(path), Err(NtStatus::INVALID_PARAMETER), "{path}");
        }
    }
}
