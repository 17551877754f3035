//! Delays all traffic of a server: its host redirects connections to the server's port to a relay.

use std::time::Duration;

use anyhow::{Context, Result};
use braid_testbed::{programs::need, shell::sh};

use crate::{host::Host, relay::Relay};

/// The port of a relay is the server's port plus this.
const RELAY_PORTS_FROM: u16 = 20_000;
/// Only new connections are redirected: redirecting an established one would break it.
const RULES: &str = r#"
nsenter --net="/run/netns/$1" nft -f - <<RULES
add table ip detour
add chain ip detour entry { type nat hook prerouting priority -100; }
$2
RULES
"#;

/// Delays new connections to some ports of a host. Connections after its drop have no delay.
#[derive(Debug)]
pub struct ServerRelay {
    host: Host,
    _relays: Vec<Relay>,
}

impl ServerRelay {
    /// Delays each byte to and from these ports (below 40,000) by this time, plus the wake-up time
    /// of the relay's threads.
    pub fn start(host: &Host, ports: &[u16], each_way: Duration) -> Result<Self> {
        need("nft", &["nftables"])?;
        let relay = |port: u16| {
            let [near, far] =
                [RELAY_PORTS_FROM + port, port].map(|port| format!("{}:{port}", host.address()));
            Relay::start(host, &near, &far, each_way)
        };
        let relays = ports.iter().map(|port| relay(*port)).collect::<Result<_>>()?;
        let rule = |port: &u16| {
            let begins = format!("tcp flags & (syn | ack) == syn tcp dport {port}");
            format!("add rule ip detour entry {begins} redirect to :{}\n", RELAY_PORTS_FROM + port)
        };
        let detour = Self { host: host.clone(), _relays: relays };
        sh(RULES, &[&host.namespace, &ports.iter().map(rule).collect::<String>()])
            .context("this kernel's nftables cannot redirect")?;
        Ok(detour)
    }
}

impl Drop for ServerRelay {
    fn drop(&mut self) {
        // The namespace may be gone, and the table with it.
        let _ = sh(
            "nsenter --net=\"/run/netns/$1\" nft delete table ip detour",
            &[&self.host.namespace],
        );
    }
}
