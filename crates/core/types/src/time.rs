//! Time as recorded by the metadata server.

/// A moment: seconds since 1970-01-01 UTC (negative before) and nanoseconds `0..1_000_000_000`.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Timestamp {
    /// Whole seconds since the epoch.
    pub seconds: i64,
    /// Nanoseconds past the second.
    pub nanos: u32,
}

impl Timestamp {
    /// The wall clock now. Only the metadata server and user-facing tools may read it.
    pub fn now() -> Self {
        match std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH) {
            Ok(since) => Self { seconds: since.as_secs() as i64, nanos: since.subsec_nanos() },
            Err(before) => {
                let before = before.duration();
                match before.subsec_nanos() {
                    0 => Self { seconds: -(before.as_secs() as i64), nanos: 0 },
                    nanos => Self {
                        seconds: -(before.as_secs() as i64) - 1,
                        nanos: 1_000_000_000 - nanos,
                    },
                }
            }
        }
    }
}
