//! State of the protocol: clients, sessions, opens, locks. State machines without I/O: time,
//! random numbers and the results of awaited calls are arguments.
//!
//! ```text
//!   client owner ──> client (one BraidFS session) ──> sessions ──> slots with cached replies
//!                                                └──> opens, locks, delegations, layouts
//! ```

pub mod client_state;
pub mod clients;
pub mod lock_waits;
pub mod opens;
pub mod reclaims;
pub mod sessions;

use std::time::Duration;

use bytes::Bytes;
use tokio::time::Instant;

/// A moment: milliseconds since the gateway started.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Moment(pub u64);

impl Moment {
    /// The present moment of a gateway that started at `start`.
    pub fn now(start: Instant) -> Self {
        Self(start.elapsed().as_millis() as u64)
    }

    /// The time from `earlier` to this moment; zero if it is later.
    pub fn since(self, earlier: Self) -> Duration {
        Duration::from_millis(self.0.saturating_sub(earlier.0))
    }
}

impl std::ops::Add<Duration> for Moment {
    type Output = Self;
    fn add(self, duration: Duration) -> Self {
        Self(self.0.saturating_add(duration.as_millis() as u64))
    }
}

/// The user or host that authenticated a request, as far as it owns state. RFC 8881 2.10.8.3.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Principal {
    /// AUTH_NONE.
    Nobody,
    /// AUTH_SYS: the user number. Groups and the machine name may change between two calls.
    Unix {
        /// The user.
        uid: u32,
    },
    /// RPCSEC_GSS: the exported name.
    Gss {
        /// The name, such as `host/a.example.org@EXAMPLE.ORG`.
        name: Bytes,
    },
}
