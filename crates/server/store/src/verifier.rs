//! The write verifier (I6): a number that changes when unflushed data may have been lost.
//!
//! ```text
//!   stored in the file `verifier`:   host = boot id, device, mount     verifier = 64 random bits
//!
//!   open, same host line       -> the stored number: the daemon restarted, the page cache lived on
//!   open, another host line    -> a new number:      boot, remount, or another machine
//!   failed fsync or write-back -> a new number
//! ```
//!
//! Invariants:
//! 1. A number is in the file before a client gets it, so that a restart keeps it.
//! 2. A missing or damaged file counts as another host: a new number. An unneeded change only costs
//!    clients a resend; a missing one loses data.
//! 3. If the disk does not accept the number, it changes for this process only. The next process
//!    finds that the disk does not accept the stored number either, and makes a new one.
//!
//! No assertion checks these: they are about restarts and damaged files, which tests cause.

use crate::identity::{FORMAT_VERSION, sealed, unseal, value};
use braid_types::WriteVerifier;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

/// The name of the verifier's file in an object directory.
pub(crate) const VERIFIER_FILE: &str = "verifier";

const HEADLINE: &str = "# BraidFS write verifier. Written by the daemon.\n";

/// The file's text for `verifier` and `host`.
pub(crate) fn to_text(host: &str, verifier: WriteVerifier) -> String {
    sealed(
        HEADLINE,
        &format!(
            "format = {FORMAT_VERSION}\nhost = \"{host}\"\nverifier = \"{:016x}\"\n",
            verifier.0
        ),
    )
}

/// The verifier in `text` for `host`; `None` for another host's or any other text.
pub(crate) fn from_text(text: &str, host: &str) -> Option<WriteVerifier> {
    let fields = unseal(text, Path::new(VERIFIER_FILE)).ok()?;
    if value(&fields, "host")? != host {
        return None;
    }
    u64::from_str_radix(value(&fields, "verifier")?, 16).ok().map(WriteVerifier)
}

/// A new verifier. Never 0, which can mean "none yet".
pub(crate) fn fresh() -> WriteVerifier {
    // The standard library seeds this hasher with the system's random bytes. A verifier must
    // differ, not be secret.
    let mut hasher = std::hash::RandomState::new().build_hasher();
    hasher.write_u32(std::process::id());
    WriteVerifier(hasher.finish().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_verifier_is_kept_for_its_host_alone() {
        let text = to_text("boot device mount", WriteVerifier(0xabc));
        assert_eq!(from_text(&text, "boot device mount"), Some(WriteVerifier(0xabc)));
        assert_eq!(from_text(&text, "boot2 device mount"), None);
        assert_eq!(from_text(&text.replace("abc", "abd"), "boot device mount"), None);
        assert_eq!(from_text("", "boot device mount"), None);
        assert_ne!(fresh(), fresh());
    }
}
