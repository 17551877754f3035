//! Ports for daemons that start later, and again after a kill.
//!
//! ```text
//!   FIRST                                        32768: what Linux gives to connections on its own
//!   | anchor, 31 ports | anchor, 31 ports | …             |
//! ```
//!
//! Free ports chosen by the system would not do: it gives them to connections, too, and a daemon
//! that starts a moment later would find its port taken.

use std::net::{TcpListener, TcpStream};

use anyhow::{Context, Result};

const FIRST: u16 = 12_000;
const BLOCK: u16 = 32;
const BLOCKS: u16 = 600;

/// Ports of 127.0.0.1 that no other instance gets while this one lives.
#[derive(Debug)]
pub struct Ports {
    _anchor: TcpListener,
    ports: Vec<u16>,
}

impl Ports {
    /// Takes `count` ports, at most 31, on which nobody listens now.
    ///
    /// # Errors
    /// There is no such block.
    pub fn take(count: usize) -> Result<Self> {
        let begin = (std::process::id() % u32::from(BLOCKS)) as u16;
        let blocks = (0..BLOCKS).map(|at| FIRST + (begin + at) % BLOCKS * BLOCK);
        let taken = blocks.filter_map(|anchor| Self::of_block(anchor, count)).next();
        taken.with_context(|| format!("no {count} free ports together between {FIRST} and 31199"))
    }

    fn of_block(anchor: u16, count: usize) -> Option<Self> {
        let _anchor = TcpListener::bind(("127.0.0.1", anchor)).ok()?;
        let ports: Vec<u16> = (anchor + 1..anchor + BLOCK).take(count).collect();
        let free = ports.len() == count && !ports.iter().any(|port| is_listened_on(*port));
        free.then_some(Self { _anchor, ports })
    }

    /// The ports; all differ.
    pub fn all(&self) -> &[u16] {
        &self.ports
    }
}

/// Whether somebody listens there. A listener of our own would show that, too, but a program that
/// another thread starts holds a copy of it from its fork to its exec: on a busy machine a daemon
/// then finds its port in use.
fn is_listened_on(port: u16) -> bool {
    TcpStream::connect(("127.0.0.1", port)).is_ok()
}

/// An address on loopback, `127.0.0.1:PORT`, on which nobody listens now. Another process may take
/// it before the caller listens there; a daemon that restarts needs [`Ports`].
///
/// # Errors
/// There is no free port.
pub fn free_address() -> Result<String> {
    let listener = TcpListener::bind("127.0.0.1:0").context("find a free port")?;
    Ok(listener.local_addr()?.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn two_port_blocks_never_overlap_nor_use_ephemeral_ports() {
        let (one, other) = (Ports::take(5).unwrap(), Ports::take(5).unwrap());
        assert_eq!((one.all().len(), other.all().len()), (5, 5));
        assert!(one.all().iter().all(|port| !other.all().contains(port) && *port < 32_768));
        let held = TcpListener::bind(("127.0.0.1", one.all()[4])).unwrap();
        let anchor = one.all()[0] - 1;
        drop(one);
        assert!(Ports::of_block(anchor, 5).is_none(), "somebody listens on one of them");
        drop(held);
    }

    #[test]
    fn a_free_address_can_be_listened_on() {
        let address = free_address().unwrap();
        assert!(address.starts_with("127.0.0.1:"));
        // A program that another test starts may hold a copy of the listener until its exec.
        crate::wait::wait_for("the free address", || TcpListener::bind(&address).is_ok());
    }

    #[test]
    fn more_ports_than_a_block_are_refused() {
        assert!(Ports::take(usize::from(BLOCK)).is_err());
    }
}
