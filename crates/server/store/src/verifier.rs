//! The write verifier (I6): a number that changes when unflushed data may have been lost.
//!
//! ```text
//!   kept in the file `verifier`:   host = boot id, device, mount     verifier = 64 random bits
//!
//!   open, same host line       -> the kept number: the daemon restarted, the page cache lived
//!   open, another host line    -> a new number:    boot, remount, or another machine
//!   a failed fsync, write-back -> a new number
//! ```
//!
//! 1. A number is written to the file before it is given out, so a restart keeps it.
//! 2. A file that is missing or damaged is as another host: a new number. More changes than needed only cost
//!    clients a resend; one too few loses data.
//! 3. When the disk does not take the number, it changes for this process alone, and the next process finds that the
//!    disk does not take the kept one either, and makes a new one.

use crate::identity::{FORMAT_VERSION, sealed, unseal, value};
use braid_types::WriteVerifier;
use std::hash::{BuildHasher, Hasher};
use std::path::Path;

/// The name of the verifier's file in an object directory.
pub(crate) const VERIFIER_FILE: &str = "verifier";

const HEADLINE: &str = "# BraidFS write verifier. Written by the daemon.\n";

/// The text that keeps `verifier` for `host`.
pub(crate) fn to_text(host: &str, verifier: WriteVerifier) -> String {
    sealed(
        HEADLINE,
        &format!(
            "format = {FORMAT_VERSION}\nhost = \"{host}\"\nverifier = \"{:016x}\"\n",
            verifier.0
        ),
    )
}

/// The verifier that `text` keeps for `host`; `None` when it is another host's, or no such text.
pub(crate) fn from_text(text: &str, host: &str) -> Option<WriteVerifier> {
    let fields = unseal(text, Path::new(VERIFIER_FILE)).ok()?;
    if value(&fields, "host")? != host {
        return None;
    }
    u64::from_str_radix(value(&fields, "verifier")?, 16).ok().map(WriteVerifier)
}

/// A verifier that was not there before. Never 0, so that 0 can mean "none yet".
pub(crate) fn fresh() -> WriteVerifier {
    // The standard library seeds this hasher from the system's random bytes; a verifier has to differ, not to be secret.
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
