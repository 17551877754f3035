//! How a guest reaches the server.
//!
//! ```text
//!  user mode   guest 10.0.2.15 ──► QEMU ──► the host's loopback, seen as 10.0.2.2
//!  tap         guest 10.77.0.2 ──► tap0 10.77.0.1, in a network namespace with the server
//! ```
//!
//! A pNFS client connects to the addresses that the metadata server names for its data servers.
//! Loopback addresses would be the guest's own, so pNFS needs the tap device. The namespace keeps
//! its addresses and ports apart from the host's.

use crate::process::Process;
use anyhow::{Context as _, Result};

/// Creates the namespace $1 with a tap device, if there is none.
const CREATE: &str = "\
    export PATH=$PATH:/usr/sbin:/sbin\n\
    [ -e /run/netns/$1 ] || ip netns add $1\n\
    ip -n $1 link set lo up\n\
    ip -n $1 link show tap0 >/dev/null 2>&1 || ip -n $1 tuntap add tap0 mode tap\n\
    ip -n $1 addr replace 10.77.0.1/24 dev tap0\n\
    ip -n $1 link set tap0 up\n";
const LOOPBACK: &str = "127.0.0.1";
/// The host's loopback as QEMU's user-mode network shows it.
const HOST_USER: &str = "10.0.2.2";
const GUEST_USER: &str = "10.0.2.15";
const HOST_TAP: &str = "10.77.0.1";
const GUEST_TAP: &str = "10.77.0.2";

/// A network for a guest, or for a client that needs none.
pub enum GuestNetwork {
    /// QEMU's user-mode network; a server is on the host's loopback.
    User,
    /// A namespace, and whether a server in it listens on loopback.
    Namespace {
        /// Its name in `ip netns`.
        name: String,
        /// Whether clients are in the namespace itself, not in a guest.
        is_loopback: bool,
        /// Whether it is removed when this is dropped.
        is_own: bool,
    },
}

impl GuestNetwork {
    /// For clients on this machine: loopback, of a namespace if one is named.
    pub fn loopback(namespace: Option<&str>) -> Self {
        match namespace {
            None => Self::User,
            Some(name) => {
                Self::Namespace { name: name.to_owned(), is_loopback: true, is_own: false }
            }
        }
    }

    /// A tap device in the namespace `name`, which is created if it is missing.
    pub fn tap(name: &str) -> Result<Self> {
        let is_own = !std::path::Path::new("/run/netns").join(name).exists();
        let network = Self::Namespace { name: name.to_owned(), is_loopback: false, is_own };
        let create = Process::new("sh").args(["-euc", CREATE, "sh", name]);
        create.run().context("creating a network namespace with a tap device")?;
        Ok(network)
    }

    /// Whether a server has all ports for itself.
    pub fn is_alone(&self) -> bool {
        matches!(self, Self::Namespace { .. })
    }

    /// Where a server of this network listens.
    pub fn host_address(&self) -> &str {
        match self {
            Self::Namespace { is_loopback: false, .. } => HOST_TAP,
            _ => LOOPBACK,
        }
    }

    /// How the guest calls a server that listens on `host`.
    pub fn seen_by_guest<'a>(&self, host: &'a str) -> &'a str {
        match self {
            Self::User if host == LOOPBACK || host == "localhost" => HOST_USER,
            _ => host,
        }
    }

    /// The guest's own address.
    pub fn guest_address(&self) -> &'static str {
        match self {
            Self::User => GUEST_USER,
            Self::Namespace { .. } => GUEST_TAP,
        }
    }

    /// Prefix of commands that must run in the network. Not `ip netns exec`, which hides mounts.
    pub fn prefix(&self) -> Vec<String> {
        match self {
            Self::User => Vec::new(),
            Self::Namespace { name, .. } => {
                vec!["nsenter".to_owned(), format!("--net=/run/netns/{name}")]
            }
        }
    }

    /// QEMU's `-netdev`.
    pub fn qemu_backend(&self) -> String {
        match self {
            Self::User => "user,id=net".to_owned(),
            Self::Namespace { .. } => "tap,id=net,ifname=tap0,script=no,downscript=no".to_owned(),
        }
    }

    /// The guest's commands that configure its interface.
    pub fn guest_commands(&self) -> String {
        let address = self.guest_address();
        let mut text =
            format!("ip link set lo up\nip addr add {address}/24 dev eth0\nip link set eth0 up\n");
        if let Self::User = self {
            text += &format!("ip route add default via {HOST_USER}\n");
        }
        text
    }
}

impl Drop for GuestNetwork {
    fn drop(&mut self) {
        if let Self::Namespace { name, is_own: true, .. } = self {
            let gone = Process::new("sh")
                .args(["-euc", "PATH=$PATH:/usr/sbin:/sbin ip netns delete $1", "sh", name])
                .run();
            gone.err().into_iter().for_each(|why| eprintln!("suite: {why:#}"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tap() -> GuestNetwork {
        GuestNetwork::Namespace { name: "bed".to_owned(), is_loopback: false, is_own: false }
    }

    #[test]
    fn loopback_of_the_host_has_another_address_in_the_guest() {
        let network = GuestNetwork::User;
        assert_eq!(network.seen_by_guest("127.0.0.1"), "10.0.2.2");
        assert_eq!(network.seen_by_guest("192.0.2.7"), "192.0.2.7");
        assert!(network.guest_commands().contains("default via 10.0.2.2"));
    }

    #[test]
    fn with_a_tap_device_server_and_qemu_run_in_the_namespace() {
        let network = tap();
        assert_eq!(network.prefix(), ["nsenter", "--net=/run/netns/bed"]);
        assert_eq!(network.seen_by_guest(network.host_address()), "10.77.0.1");
        assert!(!network.guest_commands().contains("default"));
    }
}
