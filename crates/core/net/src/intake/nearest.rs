//! The minimum RTT to each host, over all connections to it.
//!
//! A connection that is made while the link is busy never sees the link idle, and takes the
//! queueing delay for a part of the path. By its own round trip, more bytes could be in flight,
//! which would lengthen the queue. Another connection to the same host, or an earlier one, has seen
//! the link idle.
//!
//! A value is forgotten after one to two times [`WINDOW`], since the path to a host may change.

use std::{collections::HashMap, net::IpAddr, time::Duration};

/// The same as Linux's window for `tcpi_min_rtt` of one connection (`net.ipv4.tcp_min_rtt_wlen`).
const REMEMBERED: Duration = Duration::from_secs(300);
/// Maximum number of hosts in each of the two maps (I9).
const HOSTS_MAX: usize = 4096;

/// The minimum RTT of each host; see the module.
#[derive(Debug, Default)]
pub(super) struct Nearest {
    lately: HashMap<IpAddr, Duration>,
    before: HashMap<IpAddr, Duration>,
    since: Duration,
}

impl Nearest {
    /// Records what connections saw. Returns the minimum RTT to the farthest of their hosts; zero
    /// for none.
    pub(super) fn farthest(&mut self, seen: &[(IpAddr, Duration)], now: Duration) -> Duration {
        seen.iter()
            .map(|(host, round_trip)| self.nearest(*host, *round_trip, now))
            .max()
            .unwrap_or_default()
    }

    fn nearest(&mut self, host: IpAddr, seen: Duration, now: Duration) -> Duration {
        let full = self.lately.len() == HOSTS_MAX && !self.lately.contains_key(&host);
        if full || now.saturating_sub(self.since) >= REMEMBERED {
            (self.before, self.since) = (std::mem::take(&mut self.lately), now);
        }
        let lately = self.lately.entry(host).or_insert(seen);
        *lately = seen.min(*lately);
        let lately = *lately;
        self.before.get(&host).map_or(lately, |before| lately.min(*before))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn host(number: usize) -> IpAddr {
        IpAddr::from([10, 0, (number >> 8) as u8, number as u8])
    }

    #[test]
    fn a_connection_on_a_busy_link_uses_the_min_rtt_of_an_earlier_one() {
        let mut nearest = Nearest::default();
        assert_eq!(nearest.farthest(&[], ms(0)), ms(0));
        assert_eq!(nearest.farthest(&[(host(1), ms(1)), (host(2), ms(3))], ms(0)), ms(3));
        assert_eq!(nearest.farthest(&[(host(1), ms(8)), (host(2), ms(7))], ms(10)), ms(3));
        assert_eq!(nearest.farthest(&[(host(1), ms(8))], ms(10)), ms(1));
        assert_eq!(
            nearest.farthest(&[(host(3), ms(5)), (host(3), ms(2))], ms(20)),
            ms(5),
            "learnt within one call"
        );
        assert_eq!(nearest.farthest(&[(host(3), ms(5))], ms(30)), ms(2));
    }

    #[test]
    fn a_path_that_became_longer_is_noticed_after_a_while() {
        let mut nearest = Nearest::default();
        nearest.farthest(&[(host(1), ms(1))], ms(0));
        let mut seen =
            |seconds| nearest.farthest(&[(host(1), ms(9))], Duration::from_secs(seconds));
        assert_eq!([1, 299, 300, 599].map(&mut seen), [ms(1); 4]);
        assert_eq!(seen(600), ms(9));
    }

    #[test]
    fn hosts_over_the_limit_are_forgotten() {
        let mut nearest = Nearest::default();
        for number in 0..3 * HOSTS_MAX {
            nearest.farthest(&[(host(number), ms(1))], ms(0));
        }
        assert!(nearest.lately.len() <= HOSTS_MAX && nearest.before.len() <= HOSTS_MAX);
    }
}
