//! The NFS server that a suite tests: the gateway of an embedded cluster that the suite starts, or
//! one that the caller named.

use super::{Options, cluster::Cluster};
use crate::context::Context;
use crate::guest::GuestNetwork;
use anyhow::{Context as _, Result};
use std::net::{Ipv4Addr, TcpListener};

/// Port of a gateway that is alone in its network namespace (RFC 8881 2.9.1: 2049).
const PORT: u16 = 2049;

/// A running server. The cluster of its own stops when this is dropped.
pub struct NfsServer {
    /// Its address on this machine, or in the network namespace of the run.
    pub host: String,
    /// Its TCP port.
    pub port: u16,
    /// Whether it is a cluster of our own, which must serve pNFS.
    pub is_own: bool,
    _cluster: Option<Cluster>,
}

impl NfsServer {
    /// The server that `--server` names; without it, starts a cluster with a gateway on
    /// `network`.
    pub fn start(context: &Context, options: &Options, network: &GuestNetwork) -> Result<Self> {
        if let Some(server) = &options.server {
            let (host, port) = server.clone();
            return Ok(Self { host, port, is_own: false, _cluster: None });
        }
        let host = network.host_address().to_owned();
        let port = if network.is_alone() { PORT } else { free_port()? };
        let cluster =
            Cluster::start_with_nfs(context, "nfs", &format!("{host}:{port}"), &network.prefix())?;
        Ok(Self { host, port, is_own: true, _cluster: Some(cluster) })
    }
}

/// A port that was free a moment ago.
fn free_port() -> Result<u16> {
    let listener =
        TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).context("finding a free port on loopback")?;
    Ok(listener.local_addr()?.port())
}

/// Parses `HOST:PORT`; an IPv6 address stands in brackets.
pub fn parse_address(text: &str) -> Option<(String, u16)> {
    let (host, port) = text.rsplit_once(':')?;
    let host = host.trim_start_matches('[').trim_end_matches(']');
    (!host.is_empty()).then_some((host.to_owned(), port.parse().ok().filter(|port| *port > 0)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_has_a_host_and_a_port() {
        assert_eq!(parse_address("127.0.0.1:2049"), Some(("127.0.0.1".to_owned(), 2049)));
        assert_eq!(parse_address("[::1]:2049"), Some(("::1".to_owned(), 2049)));
        assert_eq!(
            (parse_address("host"), parse_address(":1"), parse_address("h:0")),
            (None, None, None)
        );
    }
}
