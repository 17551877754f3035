//! The switch, the hosts on it, and partitions of hosts.

use std::{
    fmt::Write as _,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context, Result};
use braid_testbed::{cleanup::Cleanup, programs::need, shell::sh};

use crate::{
    host::Host,
    lab_cleanup::{PREFIX, REMOVE, remove_leftovers},
    requirements::{check_congestion_control, check_requirements},
    spec::Spec,
};

/// Size of a full frame as `tbf` counts it (1500 bytes and the Ethernet header), and on the wire
/// (with preamble, checksum and gap). For a link of a given rate, the rate of `tbf` is lower by
/// this ratio.
const FRAME_COUNTED: u64 = 1514;
const FRAME_ON_WIRE: u64 = 1538;
/// Maximum time on the wire of a segment that the kernel passes to an interface. Real interfaces
/// cut segments into frames, between which frames of other connections can be sent. `tbf` does not.
const SEGMENT_US_MAX: u64 = 100;
/// The smallest segment, two frames, and the largest one of IPv4.
const SEGMENT_MIN: u64 = 3028;
const SEGMENT_MAX: u64 = 65_536;
/// Minimum burst of a link, as a time: timers of a busy machine are late by this much.
const BURST_US: u64 = 250;
/// Queue of a host's interface (1000 frames, the default `txqueuelen`).
const CARD_QUEUE_BYTES: u64 = 1_514_000;
/// Networks are 10.77.INTERFACE.0/24: they are invisible outside the lab.
const MDS: usize = 1;
const IODS_FROM: usize = 10;
const CLIENTS_FROM: usize = 120;

/// Number of labs of this process.
static LABS: AtomicU32 = AtomicU32::new(0);

/// Hosts on a switch. Dropping it ends every process on them and removes them.
#[derive(Debug)]
pub struct Network {
    /// The namespace of the switch.
    switch: String,
    /// `mds`, then `iod0` and so on, then `client0` and so on.
    hosts: Vec<Host>,
    _reaper: Cleanup,
}

impl Network {
    /// Creates the hosts. `dir` is removed with them, after everything below it is unmounted.
    pub fn new(spec: &Spec, dir: &str) -> Result<Self> {
        spec.check()?;
        check_requirements()?;
        if let Some(control) = &spec.congestion {
            check_congestion_control(control)?;
        }
        remove_leftovers();
        let lab =
            format!("{PREFIX}{}-{}-", std::process::id(), LABS.fetch_add(1, Ordering::Relaxed));
        let reaper = Cleanup::new(REMOVE, &[&lab, dir])?;
        let network =
            Self { switch: format!("{lab}sw"), hosts: hosts(spec, &lab), _reaper: reaper };
        sh(&network.script(spec), &[]).context("creating the hosts of a lab")?;
        if spec.loss > 0.0 {
            network.lose(spec.loss)?;
        }
        Ok(network)
    }

    /// All hosts.
    pub fn hosts(&self) -> &[Host] {
        &self.hosts
    }

    /// The host with this name.
    pub fn host(&self, name: &str) -> Result<&Host> {
        let names =
            || self.hosts.iter().map(|host| host.name.as_str()).collect::<Vec<_>>().join(", ");
        self.hosts
            .iter()
            .find(|host| host.name == name)
            .with_context(|| format!("no host {name}; there are {}", names()))
    }

    /// Partitions a host: the switch drops all packets from and to it. No host is notified; the
    /// link stays up.
    pub fn partition(&self, host: &str) -> Result<()> {
        self.ports(host, "nomaster")
    }

    /// Ends a partition.
    pub fn heal(&self, host: &str) -> Result<()> {
        self.ports(host, "master br0")
    }

    fn ports(&self, host: &str, change: &str) -> Result<()> {
        for port in &self.host(host)?.ports {
            sh(&format!("ip -n {} link set dev {port} {change}", self.switch), &[])?;
        }
        Ok(())
    }

    /// The script that creates everything.
    fn script(&self, spec: &Spec) -> String {
        let (switch, segment) =
            (&self.switch, segment_bytes(spec.rate.min(spec.client_rate()) * spec.slowed));
        let mut text = format!(
            "ip netns add {switch}\nip -n {switch} link add br0 type bridge\n\
             ip -n {switch} link set br0 up\n"
        );
        let segment = if spec.loss > 0.0 { FRAME_COUNTED } else { segment };
        let mut line = |words: String| writeln!(text, "{words}").expect("a string takes it");
        for host in &self.hosts {
            let name = &host.namespace;
            line(format!("ip netns add {name}\nip -n {name} link set lo up"));
            // An interface answers ARP only for its own address, as interfaces on different wires
            // do.
            let own = "echo 1 >/proc/sys/net/ipv4/conf/all/arp_ignore; \
                       echo 2 >/proc/sys/net/ipv4/conf/all/arp_announce";
            line(format!("nsenter --net=/run/netns/{name} sh -ec '{own}'"));
            if let Some(control) = &spec.congestion {
                let set = format!("echo {control} >/proc/sys/net/ipv4/tcp_congestion_control");
                line(format!("nsenter --net=/run/netns/{name} sh -ec '{set}'"));
            }
            for (card, port) in host.ports.iter().enumerate() {
                let segments = format!("gso_max_size {segment}");
                line(format!(
                    "ip link add eth{card} netns {name} type veth peer name {port} netns {switch}"
                ));
                line(format!("ip -n {name} link set eth{card} {segments} up"));
                line(format!("ip -n {switch} link set {port} {segments} master br0 up"));
                let shape = tbf(host.rate, spec.slowed, segment);
                line(format!(
                    "tc -n {name} qdisc replace dev eth{card} root {shape} limit {CARD_QUEUE_BYTES}"
                ));
                line(format!(
                    "tc -n {switch} qdisc replace dev {port} root {shape} limit {}",
                    spec.queue
                ));
            }
            for (network, address) in host.addresses.iter().enumerate() {
                // A host with one interface is in every network with it.
                let card = network.min(host.ports.len() - 1);
                line(format!("ip -n {name} addr add {address}/24 dev eth{card}"));
            }
        }
        text
    }

    /// Drops packets where a host's link ends in the switch.
    fn lose(&self, loss: f64) -> Result<()> {
        need("nft", &["nftables"])?;
        let below = (loss * 1e6).round();
        let mut rules = String::from("add table netdev lab\n");
        for port in self.hosts.iter().flat_map(|host| &host.ports) {
            let chain = format!("c-{port}");
            writeln!(
                rules,
                "add chain netdev lab {chain} {{ \
                 type filter hook ingress device {port} priority 0; }}"
            )?;
            writeln!(
                rules,
                "add rule netdev lab {chain} numgen random mod 1000000 < {below} drop"
            )?;
        }
        let script =
            format!("nsenter --net=/run/netns/{} nft -f - <<'RULES'\n{rules}RULES\n", self.switch);
        sh(&script, &[]).map(drop).context("this kernel's nftables cannot drop packets")
    }
}

/// The hosts of a specification.
fn hosts(spec: &Spec, lab: &str) -> Vec<Host> {
    let host = |name: String, number: usize, cards: usize, rate: u64| Host {
        namespace: format!("{lab}{name}"),
        addresses: (0..spec.cards).map(|card| format!("10.77.{card}.{number}")).collect(),
        // Interface names are short (15 bytes).
        ports: (0..cards).map(|card| format!("v{number}-{card}")).collect(),
        name,
        rate,
    };
    let mds = host("mds".to_owned(), MDS, 1, spec.rate);
    let iods =
        (0..spec.iods).map(|iod| host(format!("iod{iod}"), IODS_FROM + iod, spec.cards, spec.rate));
    let client =
        |client| host(format!("client{client}"), CLIENTS_FROM + client, 1, spec.client_rate());
    std::iter::once(mds).chain(iods).chain((0..spec.clients).map(client)).collect()
}

/// Maximum segment, in bytes, for an interface of a link of this rate.
fn segment_bytes(rate: u64) -> u64 {
    (rate / 8 * SEGMENT_US_MAX / 1_000_000).clamp(SEGMENT_MIN, SEGMENT_MAX)
}

/// The queueing discipline of a link of this rate, which is `slowed` times slower than the modelled
/// one. Its bucket holds two segments, so that `tbf` does not have to cut any, which would be slow.
fn tbf(rate: u64, slowed: u64, segment: u64) -> String {
    let counted = rate / FRAME_ON_WIRE * FRAME_COUNTED;
    let burst = (2 * segment).max(rate * slowed / 8 * BURST_US / 1_000_000);
    format!("tbf rate {counted}bit burst {burst}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_has_the_rate_of_ethernet() {
        assert_eq!(segment_bytes(1_000_000_000), 12_500);
        assert_eq!(segment_bytes(100_000_000), SEGMENT_MIN);
        assert_eq!(segment_bytes(40_000_000_000), SEGMENT_MAX);
        assert_eq!(tbf(1_538_000, 1, 3028), "tbf rate 1514000bit burst 6056");
    }

    /// In a lab of a cluster that is ten times faster, segments and buckets have the size of that
    /// cluster.
    #[test]
    fn a_slowed_link_has_the_pieces_of_the_one_that_it_shows() {
        let words = |spec: Spec| {
            let hosts = hosts(&spec, "lab-");
            let network = Network {
                switch: "lab-sw".to_owned(),
                hosts,
                _reaper: Cleanup::new("", &[]).unwrap(),
            };
            let script = network.script(&spec);
            let of = |word: &str| {
                script.split(word).nth(1).unwrap().split_whitespace().next().unwrap().to_owned()
            };
            (of("gso_max_size "), of("burst "), of("tbf rate "))
        };
        let rate = 1_538_000_000;
        let (segment, burst, fast) = words(Spec { rate, ..Spec::default() });
        let slowed = words(Spec { rate: rate / 10, slowed: 10, ..Spec::default() });
        assert_eq!(
            (segment.as_str(), burst.as_str(), fast.as_str()),
            ("19225", "48062", "1514000000bit")
        );
        assert_eq!(slowed, (segment, burst, "151400000bit".to_owned()));
        assert_eq!(words(Spec { rate: rate / 10, ..Spec::default() }).0, SEGMENT_MIN.to_string());
    }

    #[test]
    fn hosts_have_an_address_in_every_network() {
        let spec = Spec { iods: 2, clients: 1, cards: 2, ..Spec::default() };
        let hosts = hosts(&spec, "lab-");
        let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
        assert_eq!(names, ["mds", "iod0", "iod1", "client0"]);
        assert_eq!(hosts[2].addresses, ["10.77.0.11", "10.77.1.11"]);
        assert_eq!((hosts[2].ports.len(), hosts[3].ports.len()), (2, 1));
        assert_eq!(hosts[3].addresses.len(), 2);
    }
}
