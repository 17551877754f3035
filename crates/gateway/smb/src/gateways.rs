//! The gateways that serve the same shares, and which of them a client is sent to (ADR 0057).
//!
//! ```text
//!   smb.gateways ─> a task for each: probe ─> lost or not ─┐
//!   client's address ─────────────> order ─────────────────┴─> targets of a referral
//! ```
//!
//! Invariants:
//! 1. All gateways put the same names into the same order for a client, whatever the order in
//!    their configurations is.
//! 2. A gateway that is lost is in no referral, and takes no place in the order of the others.
//! 3. There is one probe of a gateway at a time, and one look-up of its name.

mod probe;

use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::time::Duration;

use braid_share::Share;
use siphasher::sip::SipHasher13;
use tokio::task::JoinSet;

use crate::server::SmbServer;

/// Most gateways of a list. Their names fit in a referral (64 KiB).
pub const GATEWAYS_MAX: usize = 64;
/// Longest name of a gateway: that of DNS.
pub const NAME_BYTES_MAX: usize = 253;
/// The port of a gateway whose entry has none.
const PORT_DEFAULT: u16 = 445;
/// Probes without an answer, one after the other, after which a gateway is lost.
const FAILURES_MAX: u32 = 2;

/// The gateways of the configuration; none if there is only this one.
#[derive(Debug, Default)]
pub struct Gateways {
    all: Vec<Arc<Gateway>>,
    probing: AtomicBool,
    /// Gateways that have been probed.
    probed: AtomicUsize,
}

/// A gateway, as clients name it.
#[derive(Debug)]
struct Gateway {
    name: String,
    port: u16,
    /// Whether it is this gateway: its answer has this server's number.
    is_own: AtomicBool,
    /// Whether it does not answer.
    is_lost: AtomicBool,
    /// Probes without an answer, one after the other.
    failures: AtomicU32,
}

/// The name and the port of an entry `HOST` or `HOST:PORT`; `None` if it is neither.
pub fn parse(entry: &str) -> Option<(&str, u16)> {
    let (name, port) = match entry.split_once(':') {
        Some((name, port)) => (name, port.parse().ok().filter(|port| *port != 0)?),
        None => (entry, PORT_DEFAULT),
    };
    let is_label = |label: &str| {
        !label.is_empty()
            && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
    };
    // An address of IPv6 has colons, which no UNC path can have.
    let is_name = name.len() <= NAME_BYTES_MAX && name.split('.').all(is_label);
    is_name.then_some((name, port))
}

impl Gateways {
    /// The gateways of a checked configuration. Each one counts as there until it was probed.
    pub fn new(entries: &[String]) -> Self {
        let gateway = |(name, port): (&str, u16)| Gateway {
            name: name.to_owned(),
            port,
            is_own: AtomicBool::new(false),
            is_lost: AtomicBool::new(false),
            failures: AtomicU32::new(0),
        };
        let entries = entries.iter().filter_map(|entry| parse(entry));
        Self { all: entries.map(gateway).map(Arc::new).collect(), ..Self::default() }
    }

    /// Whether there is a list: then the shares are in DFS.
    pub fn is_dfs(&self) -> bool {
        !self.all.is_empty()
    }

    /// The names of those that are there, the one for this client first.
    ///
    /// Each client has an order of its own, by a hash of its address and the gateway's name. So
    /// clients spread evenly, a client stays where it is, and the clients of a gateway that is lost
    /// spread over all others.
    pub fn order(&self, client: IpAddr) -> Vec<&str> {
        let there = self.all.iter().filter(|gateway| !gateway.is_lost.load(Ordering::Relaxed));
        let mut ranked: Vec<_> =
            there.map(|gateway| (rank(client, &gateway.name), gateway.name.as_str())).collect();
        ranked.sort_unstable();
        ranked.into_iter().map(|(_, name)| name).collect()
    }

    fn own(&self) -> bool {
        self.all.iter().any(|gateway| gateway.is_own.load(Ordering::Relaxed))
    }
}

/// The place of a gateway in the order of a client. It must be the same at all gateways of any
/// version.
fn rank(client: IpAddr, name: &str) -> u64 {
    let mut text = client.to_canonical().to_string();
    text.push('/');
    text.push_str(&name.to_ascii_lowercase());
    SipHasher13::new().hash(text.as_bytes())
}

impl Gateway {
    /// Takes the outcome of a probe, and reports a change.
    fn record(&self, outcome: Result<[u8; 16], probe::ProbeError>, own: &[u8; 16]) {
        let name = &self.name;
        match outcome {
            Ok(guid) => {
                self.failures.store(0, Ordering::Relaxed);
                if self.is_lost.swap(false, Ordering::Relaxed) {
                    tracing::info!(gateway = name, "a gateway answers again");
                }
                if guid == *own && !self.is_own.swap(true, Ordering::Relaxed) {
                    tracing::debug!(gateway = name, "clients know this gateway by this name");
                }
            }
            Err(error) => {
                let failures = self.failures.fetch_add(1, Ordering::Relaxed).saturating_add(1);
                let is_lost = failures >= FAILURES_MAX;
                if is_lost && !self.is_lost.swap(true, Ordering::Relaxed) {
                    tracing::warn!(
                        gateway = name,
                        %error,
                        "a gateway does not answer: clients are not sent to it"
                    );
                }
            }
        }
    }
}

/// Probes the gateways of a server, until the future is dropped. Of several calls the first one
/// does so; without a list none.
pub async fn watch<S: Share>(server: Arc<SmbServer<S>>) {
    if !server.gateways.is_dfs() || server.gateways.probing.swap(true, Ordering::AcqRel) {
        return;
    }
    let interval = server.config.limits.probe_interval;
    let mut tasks = JoinSet::new();
    for gateway in &server.gateways.all {
        tasks.spawn(watch_one(Arc::clone(&server), Arc::clone(gateway), interval));
    }
    while tasks.join_next().await.is_some() {}
}

/// Probes a gateway until it is known to be this one.
async fn watch_one<S: Share>(server: Arc<SmbServer<S>>, gateway: Arc<Gateway>, interval: Duration) {
    let mut probe = probe::Probe::new(&gateway.name, gateway.port, server.guid);
    let mut is_first = true;
    loop {
        gateway.record(probe.run().await, &server.guid);
        if std::mem::take(&mut is_first) {
            let gateways = &server.gateways;
            let probed = gateways.probed.fetch_add(1, Ordering::AcqRel) + 1;
            if probed == gateways.all.len() && !gateways.own() {
                tracing::warn!("no entry of smb.gateways is this gateway: clients may leave it");
            }
        }
        if gateway.is_own.load(Ordering::Relaxed) {
            return;
        }
        tokio::time::sleep(interval).await;
    }
}

#[cfg(test)]
mod tests;
