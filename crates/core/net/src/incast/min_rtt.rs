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
const WINDOW: Duration = Duration::from_secs(300);
/// Maximum number of hosts in each of the two maps (I9).
const HOSTS_MAX: usize = 4096;

/// The minimum RTT of each host; see the module.
#[derive(Debug, Default)]
pub(super) struct MinRtt {
    current: HashMap<IpAddr, Duration>,
    previous: HashMap<IpAddr, Duration>,
    since: Duration,
}

impl MinRtt {
    /// Records what connections saw. Returns the minimum RTT to the farthest of their hosts; zero
    /// for none.
    pub(super) fn update(&mut self, seen: &[(IpAddr, Duration)], now: Duration) -> Duration {
        seen.iter()
            .map(|(host, round_trip)| self.update_host(*host, *round_trip, now))
            .max()
            .unwrap_or_default()
    }

    fn update_host(&mut self, host: IpAddr, seen: Duration, now: Duration) -> Duration {
        let full = self.current.len() == HOSTS_MAX && !self.current.contains_key(&host);
        if full || now.saturating_sub(self.since) >= WINDOW {
            (self.previous, self.since) = (std::mem::take(&mut self.current), now);
        }
        let lately = self.current.entry(host).or_insert(seen);
        *lately = seen.min(*lately);
        let lately = *lately;
        self.previous.get(&host).map_or(lately, |before| lately.min(*before))
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
        let mut nearest = MinRtt::default();
        assert_eq!(nearest.update(&[], ms(0)), ms(0));
        assert_eq!(nearest.update(&[(host(1), ms(1)), (host(2), ms(3))], ms(0)), ms(3));
        assert_eq!(nearest.update(&[(host(1), ms(8)), (host(2), ms(7))], ms(10)), ms(3));
        assert_eq!(nearest.update(&[(host(1), ms(8))], ms(10)), ms(1));
        assert_eq!(
            nearest.update(&[(host(3), ms(5)), (host(3), ms(2))], ms(20)),
            ms(5),
            "learnt within one call"
        );
        assert_eq!(nearest.update(&[(host(3), ms(5))], ms(30)), ms(2));
    }

    #[test]
    fn a_path_that_became_longer_is_noticed_after_a_while() {
        let mut nearest = MinRtt::default();
        nearest.update(&[(host(1), ms(1))], ms(0));
        let mut seen = |seconds| nearest.update(&[(host(1), ms(9))], Duration::from_secs(seconds));
        assert_eq!([1, 299, 300, 599].map(&mut seen), [ms(1); 4]);
        assert_eq!(seen(600), ms(9));
    }

    #[test]
    fn hosts_over_the_limit_are_forgotten() {
        let mut nearest = MinRtt::default();
        for number in 0..3 * HOSTS_MAX {
            nearest.update(&[(host(number), ms(1))], ms(0));
        }
        assert!(nearest.current.len() <= HOSTS_MAX && nearest.previous.len() <= HOSTS_MAX);
    }
}
