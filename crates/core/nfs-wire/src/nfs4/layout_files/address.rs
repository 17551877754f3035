//! Universal addresses: an IP address and a port as text, `192.0.2.1.8.1` for port 2049.
//! RFC 5665 5.2.3.3 and 5.2.3.4.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;

use crate::nfs4::types::NetAddress;

/// Maximum bytes of a universal address: an IPv6 address with an IPv4 part, and two numbers.
pub const UADDR_BYTES_MAX: usize = 45 + 8;

/// Why a `netaddr4` is no address of a TCP server.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
pub enum AddressError {
    /// The network is neither `tcp` nor `tcp6`.
    #[error("the network is neither tcp nor tcp6")]
    Network,
    /// The address is not a universal address of its network.
    #[error("not a universal address")]
    Address,
}

impl From<SocketAddr> for NetAddress {
    fn from(address: SocketAddr) -> Self {
        let network: &'static [u8] = if address.is_ipv4() { b"tcp" } else { b"tcp6" };
        let mut text = String::with_capacity(UADDR_BYTES_MAX);
        let [high, low] = address.port().to_be_bytes();
        write!(text, "{}.{high}.{low}", address.ip()).expect("a string has no write errors");
        Self { network_id: Bytes::from_static(network), address: Bytes::from(text) }
    }
}

impl TryFrom<&NetAddress> for SocketAddr {
    type Error = AddressError;

    fn try_from(address: &NetAddress) -> Result<Self, AddressError> {
        let ip: fn(&str) -> Option<IpAddr> = match &address.network_id[..] {
            b"tcp" => |text| text.parse::<Ipv4Addr>().ok().map(IpAddr::V4),
            b"tcp6" => |text| text.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
            _ => return Err(AddressError::Network),
        };
        if address.address.len() > UADDR_BYTES_MAX {
            return Err(AddressError::Address);
        }
        let parse = || {
            let text = std::str::from_utf8(&address.address).ok()?;
            let (rest, low) = text.rsplit_once('.')?;
            let (host, high) = rest.rsplit_once('.')?;
            let port = u16::from_be_bytes([octet(high)?, octet(low)?]);
            Some(SocketAddr::new(ip(host)?, port))
        };
        parse().ok_or(AddressError::Address)
    }
}

/// A number from 0 to 255 in decimal digits.
fn octet(text: &str) -> Option<u8> {
    text.bytes().all(|byte| byte.is_ascii_digit()).then(|| text.parse().ok()).flatten()
}
