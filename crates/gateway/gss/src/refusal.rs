//! Messages about clients that were refused, for the operator of the server.

use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use crate::error::GssError;

/// Least time between two warnings: a client without an account can be refused as often as it
/// likes, and must not fill the log. The others are logged for debugging.
const WARNING_INTERVAL: Duration = Duration::from_secs(10);

/// Logs refusals.
#[derive(Debug, Default)]
pub struct RefusalLog(Mutex<Option<Instant>>);

impl RefusalLog {
    /// Logs that a client was refused.
    pub fn refused(&self, error: &GssError) {
        let text = error.to_string();
        let advice = advice(&text);
        if self.is_due(Instant::now()) {
            tracing::warn!("a Kerberos client was refused: {text}{advice}");
        } else {
            tracing::debug!("a Kerberos client was refused: {text}{advice}");
        }
    }

    fn is_due(&self, now: Instant) -> bool {
        let mut last = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let due = last.is_none_or(|last| now.duration_since(last) >= WARNING_INTERVAL);
        if due {
            *last = Some(now);
        }
        due
    }
}

/// What an operator can do about a text of the library. The library's texts are not translated:
/// this process does not call setlocale(3).
fn advice(text: &str) -> &'static str {
    const ADVICE: [(&str, &str); 6] = [
        (
            "Clock skew",
            "; the clocks of the client and of this host differ by more than 5 minutes: compare \
             `date` on both, and run chrony or systemd-timesyncd",
        ),
        // Texts for a missing key of this name, of this version, and of this kind.
        (
            "keytab is likely out of date",
            "; export the key again, at this host: kadmin -q 'ktadd -k KEYTAB nfs/HOST'",
        ),
        (
            "not found in keytab",
            "; clients must mount by a host name that the keytab has: klist -k KEYTAB",
        ),
        (
            "Cannot find key",
            "; export the key again, at this host: kadmin -q 'ktadd -k KEYTAB nfs/HOST'",
        ),
        (
            "Decrypt integrity check failed",
            "; the key of the KDC is not that of the keytab: export it again with ktadd",
        ),
        ("Ticket expired", "; the user runs kinit again"),
    ];
    ADVICE.iter().find(|(part, _)| text.contains(part)).map_or("", |(_, advice)| advice)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_warning_is_due_in_each_interval() {
        let log = RefusalLog::default();
        let start = Instant::now();
        assert!(log.is_due(start));
        assert!(!log.is_due(start + WARNING_INTERVAL - Duration::from_millis(1)));
        assert!(log.is_due(start + WARNING_INTERVAL));
    }

    #[test]
    fn advice_follows_the_texts_of_the_library() {
        assert!(advice("gss_accept_sec_context: Clock skew too great").contains("date"));
        let missing = "Request ticket server nfs/a@R not found in keytab (ticket kvno 2)";
        assert!(advice(missing).contains("klist"));
        let old = "nfs/a@R kvno 3 not found in keytab; keytab is likely out of date";
        assert!(advice(old).contains("ktadd"));
        assert_eq!(advice("Request is a replay"), "");
    }
}
