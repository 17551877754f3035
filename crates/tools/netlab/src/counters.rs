//! TCP counters of a namespace: the numbers that `nstat` shows.

use std::{fs, ops};

use anyhow::{Context, Result};

/// Counts since the host exists.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Counters {
    /// Segments sent again (`TcpRetransSegs`).
    pub retransmits: u64,
    /// Retransmission time-outs (`TcpExtTCPTimeouts`).
    pub timeouts: u64,
}

impl Counters {
    /// The counters in the namespace of the calling thread.
    pub fn read() -> Result<Self> {
        let read = |name: &str| {
            let path = format!("/proc/thread-self/net/{name}");
            fs::read_to_string(&path).with_context(|| format!("reading {path}"))
        };
        let (snmp, netstat) = (read("snmp")?, read("netstat")?);
        let retransmits =
            value(&snmp, "Tcp:", "RetransSegs").context("no RetransSegs in /proc/net/snmp")?;
        let timeouts = value(&netstat, "TcpExt:", "TCPTimeouts")
            .context("no TCPTimeouts in /proc/net/netstat")?;
        Ok(Self { retransmits, timeouts })
    }
}

/// A field of a table: of two lines of this kind, the first has the names, the second the values.
fn value(table: &str, kind: &str, name: &str) -> Option<u64> {
    let mut lines = table.lines().filter(|line| line.split(' ').next() == Some(kind));
    let (names, values) = (lines.next()?, lines.next()?);
    let at = names.split(' ').position(|one| one == name)?;
    values.split(' ').nth(at)?.parse().ok()
}

impl ops::Sub for Counters {
    type Output = Self;

    fn sub(self, before: Self) -> Self {
        Self {
            retransmits: self.retransmits.saturating_sub(before.retransmits),
            timeouts: self.timeouts.saturating_sub(before.timeouts),
        }
    }
}

impl ops::Add for Counters {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            retransmits: self.retransmits + other.retransmits,
            timeouts: self.timeouts + other.timeouts,
        }
    }
}

impl std::iter::Sum for Counters {
    fn sum<I: Iterator<Item = Self>>(all: I) -> Self {
        all.fold(Self::default(), ops::Add::add)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_by_its_name() {
        let table = "Ip: A B\nIp: 1 2\nTcp: RtoMin RetransSegs\nTcp: 200 7\n";
        assert_eq!(value(table, "Tcp:", "RetransSegs"), Some(7));
        assert_eq!(value(table, "Tcp:", "None"), None);
        assert!(Counters::read().is_ok());
    }
}
