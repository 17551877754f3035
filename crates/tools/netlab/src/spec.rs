//! The specification of a lab.

use std::{path::PathBuf, time::Duration};

use anyhow::{Context, Result, bail, ensure};

/// The delay of one I/O daemon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Delay {
    /// Its number.
    pub iod: usize,
    /// Delay of each byte, in each direction.
    pub each_way: Duration,
}

/// The specification of a lab.
#[derive(Clone, PartialEq, Debug)]
pub struct Spec {
    /// Number of I/O daemons, each on its own host.
    pub iods: usize,
    /// Number of client hosts.
    pub clients: usize,
    /// Line rate of every interface, in bits per second as Ethernet counts them: with preamble, gap
    /// and checksum.
    pub rate: u64,
    /// Line rate of the clients' interfaces, if it differs.
    pub client_rate: Option<u64>,
    /// The rates above are this fraction of the rates of the modelled cluster (10: a tenth).
    /// Segments and bursts have as many bytes as at the full rates. So everything is the same, but
    /// slower.
    pub slowed: u64,
    /// Queue of each switch port to its host, in bytes.
    pub queue: u64,
    /// Number of interfaces of each I/O daemon's host; each has an address of its own.
    pub cards: usize,
    /// Delays of I/O daemons.
    pub delays: Vec<Delay>,
    /// Fraction of packets that the switch drops, 0.0 to 1.0.
    pub loss: f64,
    /// TCP congestion control of the hosts; `None`: that of the machine.
    pub congestion: Option<String>,
    /// Encrypt connections.
    pub tls: bool,
    /// I/O daemons are NFS data servers, too.
    pub nfs: bool,
    /// Directory for the daemons' data, removed at the end.
    pub dir: Option<PathBuf>,
}

impl Default for Spec {
    fn default() -> Self {
        Self {
            iods: 4,
            clients: 1,
            rate: 1_000_000_000,
            client_rate: None,
            slowed: 1,
            queue: 128 << 10,
            cards: 1,
            delays: Vec::new(),
            loss: 0.0,
            congestion: None,
            tls: false,
            nfs: false,
            dir: None,
        }
    }
}

/// Maximum number of hosts of one kind: their number is the last byte of an address.
const HOSTS_MAX: usize = 100;
/// Maximum number of interfaces of a host.
const CARDS_MAX: usize = 8;
/// The slowest link: a frame takes 12 ms on it.
const RATE_MIN: u64 = 1_000_000;
/// The fastest link: the rate of `tc` is a 32-bit count of bytes by default.
const RATE_MAX: u64 = 32_000_000_000;
/// Maximum factor by which rates are slower than those of the modelled cluster.
const SLOWED_MAX: u64 = 100;
/// The smallest queue: two full frames.
const QUEUE_MIN: u64 = 3028;

impl Spec {
    /// Fails if the specification is impossible.
    pub fn check(&self) -> Result<()> {
        ensure!(
            (1..=HOSTS_MAX).contains(&self.iods),
            "a lab has 1 to {HOSTS_MAX} I/O daemons, not {}",
            self.iods
        );
        ensure!(
            (1..=HOSTS_MAX).contains(&self.clients),
            "a lab has 1 to {HOSTS_MAX} clients, not {}",
            self.clients
        );
        ensure!(
            (1..=CARDS_MAX).contains(&self.cards),
            "a host has 1 to {CARDS_MAX} interfaces, not {}",
            self.cards
        );
        for rate in [self.rate, self.client_rate()] {
            ensure!(
                (RATE_MIN..=RATE_MAX).contains(&rate),
                "a link has 1 Mbit/s to 32 Gbit/s, not {rate} bit/s"
            );
        }
        ensure!(
            (1..=SLOWED_MAX).contains(&self.slowed),
            "a lab is 1 to {SLOWED_MAX} times slower, not {}",
            self.slowed
        );
        ensure!(
            self.queue >= QUEUE_MIN,
            "a queue of {} bytes does not hold two frames; try: 64KiB",
            self.queue
        );
        ensure!(
            (0.0..1.0).contains(&self.loss),
            "a loss of {} is not in the range from 0 to 1",
            self.loss
        );
        for delay in &self.delays {
            ensure!(
                delay.iod < self.iods,
                "there is no iod{}; the last one is iod{}",
                delay.iod,
                self.iods - 1
            );
            ensure!(self.cards == 1, "a delay needs hosts with one interface");
        }
        Ok(())
    }

    /// Line rate of the clients' interfaces.
    pub fn client_rate(&self) -> u64 {
        self.client_rate.unwrap_or(self.rate)
    }

    /// The delay of an I/O daemon.
    pub fn delay_of(&self, iod: usize) -> Option<Duration> {
        self.delays.iter().find(|delay| delay.iod == iod).map(|delay| delay.each_way)
    }
}

/// Parses a rate in bits per second: `1gbit`, `100mbit`, `2.5gbit`.
pub fn parse_rate(text: &str) -> Result<u64> {
    parse(text, &[("gbit", 1e9), ("mbit", 1e6), ("kbit", 1e3)], "a rate such as 1gbit or 100mbit")
}

/// Parses a size in bytes: `128KiB`, `1MiB`, `4096`.
pub fn parse_bytes(text: &str) -> Result<u64> {
    parse(
        text,
        &[("kib", 1024.0), ("mib", 1_048_576.0), ("b", 1.0), ("", 1.0)],
        "a size such as 128KiB",
    )
}

/// Parses a time: `5ms`, `200us`, `1s`.
pub fn parse_duration(text: &str) -> Result<Duration> {
    let nanos = parse(text, &[("ms", 1e6), ("us", 1e3), ("s", 1e9)], "a time such as 5ms")?;
    Ok(Duration::from_nanos(nanos))
}

fn parse(text: &str, units: &[(&str, f64)], wanted: &str) -> Result<u64> {
    let at = text.find(|digit: char| !digit.is_ascii_digit() && digit != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(at);
    let number: f64 = number.parse().ok().with_context(|| format!("`{text}` is not {wanted}"))?;
    let unit = unit.to_ascii_lowercase();
    let Some((_, factor)) = units.iter().find(|(name, _)| *name == unit) else {
        bail!("`{text}` is not {wanted}")
    };
    Ok((number * factor).round() as u64)
}

impl std::str::FromStr for Delay {
    type Err = anyhow::Error;

    /// Parses a delay: `iod2=5ms`.
    fn from_str(text: &str) -> Result<Self> {
        let wrong = || format!("`{text}` is not a delay such as iod2=5ms");
        let (host, time) = text.split_once('=').with_context(wrong)?;
        let iod =
            host.strip_prefix("iod").and_then(|number| number.parse().ok()).with_context(wrong)?;
        Ok(Self { iod, each_way: parse_duration(time)? })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_sizes_and_times_are_read() {
        assert_eq!(parse_rate("1gbit").unwrap(), 1_000_000_000);
        assert_eq!(parse_rate("2.5Gbit").unwrap(), 2_500_000_000);
        assert_eq!(parse_bytes("128KiB").unwrap(), 131_072);
        assert_eq!(parse_bytes("4096").unwrap(), 4096);
        assert_eq!(parse_duration("5ms").unwrap(), Duration::from_millis(5));
        assert_eq!(
            "iod2=200us".parse::<Delay>().unwrap(),
            Delay { iod: 2, each_way: Duration::from_micros(200) }
        );
        for wrong in ["", "fast", "1", "1gb", "-1gbit", "."] {
            assert!(parse_rate(wrong).is_err(), "{wrong}");
        }
        assert!("iod2".parse::<Delay>().is_err() && "mds=5ms".parse::<Delay>().is_err());
    }

    #[test]
    fn what_cannot_be_is_refused() {
        let refused = |change: fn(&mut Spec)| {
            let mut spec = Spec::default();
            change(&mut spec);
            spec.check().unwrap_err().to_string()
        };
        Spec::default().check().unwrap();
        assert!(refused(|spec| spec.iods = 0).contains("1 to 100 I/O daemons"));
        assert!(refused(|spec| spec.iods = 101).contains("not 101"));
        assert!(refused(|spec| spec.rate = 999_999).contains("1 Mbit/s"));
        assert!(refused(|spec| spec.slowed = 0).contains("1 to 100 times slower"));
        assert!(refused(|spec| spec.queue = 1500).contains("two frames"));
        assert!(refused(|spec| spec.loss = 1.0).contains("loss"));
        let late = |spec: &mut Spec| spec.delays = vec![Delay { iod: 4, each_way: Duration::ZERO }];
        assert!(refused(late).contains("there is no iod4"));
    }
}
