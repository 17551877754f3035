//! Servers that answer late, whatever they are: what others send to a port of theirs goes round by a relay on their host.

use std::time::Duration;

use anyhow::{Context, Result};

use crate::{able::need, host::Host, relay::Relay, shell::sh};

/// A relay's port is its server's and this.
const RELAY_PORTS_FROM: u16 = 20_000;
/// Only connections that begin are sent round: those that stand would break.
const RULES: &str = r#"
nsenter --net="/run/netns/$1" nft -f - <<RULES
add table ip detour
add chain ip detour entry { type nat hook prerouting priority -100; }
$2
RULES
"#;

/// New connections to some ports of a host are late. The delay ends for those that come after it is dropped.
#[derive(Debug)]
pub struct Detour {
    host: Host,
    _relays: Vec<Relay>,
}

impl Detour {
    /// Each byte to and from these ports (below 40,000) comes so much later, and by what a relay's threads need to wake up.
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

impl Drop for Detour {
    fn drop(&mut self) {
        // The namespace may be gone, and with it the table.
        let _ = sh(
            "nsenter --net=\"/run/netns/$1\" nft delete table ip detour",
            &[&self.host.namespace],
        );
    }
}
