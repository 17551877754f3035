//! pNFS in a lab: hosts with links of a known rate, a gateway on the metadata server's host, and
//! clients that read and write at the data servers.
//!
//! The limit of a row is what TCP carries over the links ([`line()`]). Measured writes are
//! overwrites and end with COMMIT. Where the machine is too small for the rates, all links have a
//! part of them ([`SLOWED`]); the limit is then a part as well, and the reason of the bar names it.

use std::{net::SocketAddr, sync::Barrier, thread, time::Instant};

use anyhow::{Context, Result, anyhow};
use braid_netlab::{Lab, Spec};
use braid_testbed::braid::{Braid, Daemon};

use super::client::{
    mount::{Layout, Mount, OpenFile},
    session::Session,
    transfer::{Piece, StripedFile, Way, data_sessions, sequential, transfer},
};
use crate::{
    bench::Bench,
    daemons::release_binary,
    measure::{Measure, ratio},
    papers::line,
};

const GIGABIT: u64 = 1_000_000_000;
const FAST_ETHERNET: u64 = 100_000_000;
/// The part of the rates for lines of 1 Gbit/s: four of them and TCP's work at both ends need more
/// than two processors.
const SLOWED: u64 = 4;
/// The bar: a part of the lines.
const LINES_MIN: f64 = 0.95;
/// Requests of 1 MiB at a time at each data server, as the read-ahead of Linux makes; and small
/// ones.
const DEPTH: usize = 4;
const SMALL_DEPTH: usize = 16;
/// Requests of the paper: 2 to 4 MiB, which are cut into 1 MiB; and 8 KiB.
const LARGE_BYTES: u64 = 2 << 20;
const SMALL_BYTES: u64 = 8 << 10;

/// `fast_client`: a client of 4 Gbit/s and 1 to 4 data servers of 1 Gbit/s.
pub fn fast_client(bench: &Bench) -> Result<Vec<Measure>> {
    const SERVERS: usize = 4;
    let mut all = Vec::new();
    for servers in 1..=SERVERS {
        let spec = Spec {
            iods: servers,
            rate: GIGABIT / SLOWED,
            client_rate: Some(SERVERS as u64 * GIGABIT / SLOWED),
            slowed: SLOWED,
            ..Spec::default()
        };
        let stage = Stage::start(bench, spec)?;
        let lines = servers as f64 * line(stage.lab.spec().rate);
        // The same number of stripes for each server.
        let stripes = servers as u64 * LARGE_BYTES / 2;
        let bytes = (stage.bytes(bench, lines, 1) / stripes).max(1) * stripes;
        let mut clients = vec![Client::new(&stage, 0, "fast", true)?];
        let work = [vec![(0, bytes)]];
        let note = format!("{servers} lines, at 1/{SLOWED} of the rates");
        let name = format!("fast_client.{servers}");
        all.extend(beside_lines(bench, &stage, &mut clients, &work, &name, lines, &note)?);
        if servers == SERVERS {
            let mut clients = vec![Client::new(&stage, 0, "gateway", false)?];
            // The gateway's host has one line in each direction, to clients and to servers.
            let limit = line(stage.lab.spec().rate);
            let work = [vec![(0, bytes / SERVERS as u64)]];
            let name = "fast_client.gateway";
            all.extend(shown(bench, &stage, &mut clients, &work, name, limit)?);
        }
    }
    Ok(all)
}

/// `slow_lines`: 8 clients and 6 data servers of 100 Mbit/s, separate files and one file, large and
/// small requests: figures 6 and 7 of the Direct-pNFS paper.
pub fn slow_lines(bench: &Bench) -> Result<Vec<Measure>> {
    const SERVERS: usize = 6;
    const CLIENTS: usize = 8;
    let spec = Spec { iods: SERVERS, clients: CLIENTS, rate: FAST_ETHERNET, ..Spec::default() };
    let stage = Stage::start(bench, spec)?;
    let lines = SERVERS as f64 * line(FAST_ETHERNET);
    // Whole stripes of each server, so that all have the same number of bytes.
    let unit = SERVERS as u64 * LARGE_BYTES;
    let each = (stage.bytes(bench, lines, CLIENTS as u64) / unit).max(1) * unit;
    let mut all = Vec::new();
    for shared in [false, true] {
        let kind = if shared { "one_file" } else { "separate" };
        let client = |number: usize| {
            let file = if shared { kind.to_owned() } else { format!("{kind}{number}") };
            Client::new(&stage, number, &file, true)
        };
        let mut clients = (0..CLIENTS).map(client).collect::<Result<Vec<_>>>()?;
        let start = |number: usize| if shared { number as u64 * each } else { 0 };
        let work: Vec<Vec<(u64, u64)>> =
            (0..CLIENTS).map(|number| vec![(start(number), each)]).collect();
        for (size, call) in [("large", LARGE_BYTES), ("small", SMALL_BYTES)] {
            clients.iter_mut().for_each(|client| client.call = call);
            let note = format!("{SERVERS} lines of 100 Mbit/s");
            let name = format!("slow_lines.{kind}.{size}");
            all.extend(beside_lines(bench, &stage, &mut clients, &work, &name, lines, &note)?);
        }
    }
    Ok(all)
}

/// A lab with a gateway. The gateway ends first.
struct Stage {
    gateway: SocketAddr,
    _daemon: Daemon,
    lab: Lab,
}

impl Stage {
    fn start(bench: &Bench, spec: Spec) -> Result<Self> {
        braid_netlab::check_requirements()?;
        let binary = bench.braid().map_or_else(release_binary, |given| Ok(given.to_path_buf()))?;
        // In memory, so that no disk is measured.
        let spec = Spec { nfs: true, dir: Some("/dev/shm".into()), ..spec };
        let lab = Lab::start(&Braid::at(binary), &spec)?;
        let (address, daemon) = lab.start_nfs_gateway()?;
        Ok(Self { gateway: address.parse()?, _daemon: daemon, lab })
    }

    /// Bytes that these lines carry in a sample for each of `clients`, in whole MiB.
    fn bytes(&self, bench: &Bench, mb_per_second: f64, clients: u64) -> u64 {
        let seconds = bench.size(2.0, 0.5);
        (((mb_per_second * 1e6 * seconds) as u64 / clients) >> 20).max(1) << 20
    }
}

/// A client on its host, with an open file.
struct Client {
    host: usize,
    call: u64,
    mount: Mount,
    opened: OpenFile,
    layout: Option<Layout>,
    data: Vec<Session>,
}

impl Client {
    /// With a layout, or all through the gateway.
    fn new(stage: &Stage, host: usize, file: &str, pnfs: bool) -> Result<Self> {
        stage.lab.client_host(host)?.inside(|| {
            let owner = format!("bench {host} {file}");
            let mut mount = Mount::new(stage.gateway, &owner, "")?;
            let root = mount.root();
            let opened = mount.open(&root, file, true)?;
            let layout = pnfs.then(|| mount.layout(&opened)).transpose()?;
            let servers = layout.as_ref().map(|layout| &layout.servers[..]).unwrap_or_default();
            let data = data_sessions(servers, &owner, SMALL_DEPTH as u32)?;
            Ok(Self { host, call: LARGE_BYTES, mount, opened, layout, data })
        })
    }

    /// The requests to each server for ranges of the file.
    fn split(&self, ranges: &[(u64, u64)]) -> Vec<Vec<Piece>> {
        let pieces = ranges.iter().flat_map(|(start, bytes)| sequential(*start, *bytes, self.call));
        match &self.layout {
            Some(layout) => layout.file.split(pieces),
            None => StripedFile::whole(&self.opened).split(pieces),
        }
    }

    fn run(&mut self, split: &[Vec<Piece>], way: Way) -> Result<()> {
        let depth = if self.call < LARGE_BYTES { SMALL_DEPTH } else { DEPTH };
        match &self.layout {
            Some(layout) => transfer(&mut self.data, &layout.file, split, way, depth),
            None => {
                let sessions = std::slice::from_mut(&mut self.mount.session);
                transfer(sessions, &StripedFile::whole(&self.opened), split, way, depth)
            }
        }
    }

    /// Reports the size of what was written.
    fn commit(&mut self, end: u64) -> Result<()> {
        match &self.layout {
            Some(layout) => self.mount.layout_commit(&self.opened, layout, end),
            None => Ok(()),
        }
    }
}

/// Writes the files once; then MB/s of reads and writes in turns.
fn sampled(
    bench: &Bench,
    stage: &Stage,
    clients: &mut [Client],
    work: &[Vec<(u64, u64)>],
) -> Result<Vec<Vec<f64>>> {
    let splits: Vec<_> =
        clients.iter().zip(work).map(|(client, ranges)| client.split(ranges)).collect();
    let call = clients.first().map_or(LARGE_BYTES, |client| client.call);
    // New bytes are written in large requests.
    clients.iter_mut().for_each(|client| client.call = LARGE_BYTES);
    let large: Vec<_> =
        clients.iter().zip(work).map(|(client, ranges)| client.split(ranges)).collect();
    together(stage, clients, &large, Way::Write)?;
    for (client, ranges) in clients.iter_mut().zip(work) {
        let end = ranges.iter().map(|(start, bytes)| start + bytes).max().unwrap_or_default();
        client.commit(end)?;
        client.call = call;
    }
    let clients = std::cell::RefCell::new(clients);
    let (mut read, mut write) = (
        || together(stage, &mut clients.borrow_mut(), &splits, Way::Read),
        || together(stage, &mut clients.borrow_mut(), &splits, Way::Write),
    );
    bench.alternate::<f64>(&mut [&mut read, &mut write])
}

/// MB/s of all clients, from when all are ready to when the last is done.
fn together(
    stage: &Stage,
    clients: &mut [Client],
    splits: &[Vec<Vec<Piece>>],
    way: Way,
) -> Result<f64> {
    let bytes: usize = splits.iter().flatten().flatten().map(|(_, length)| length).sum();
    let start = Barrier::new(clients.len() + 1);
    let start = &start;
    let seconds = thread::scope(|scope| {
        let threads: Vec<_> = clients
            .iter_mut()
            .zip(splits)
            .map(|(client, split)| {
                scope.spawn(move || {
                    start.wait();
                    client.run(split, way).with_context(|| format!("client{}", client.host))
                })
            })
            .collect();
        start.wait();
        let clock = Instant::now();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        anyhow::Ok(clock.elapsed().as_secs_f64())
    });
    let seconds = seconds.with_context(|| format!("{} in {}", way.word(), stage.gateway))?;
    Ok(bytes as f64 / 1e6 / seconds)
}

/// The measures of reads and writes, with the bar.
fn beside_lines(
    bench: &Bench,
    stage: &Stage,
    clients: &mut [Client],
    work: &[Vec<(u64, u64)>],
    name: &str,
    lines: f64,
    note: &str,
) -> Result<Vec<Measure>> {
    eprintln!("bench: {name}");
    let samples = sampled(bench, stage, clients, work)?;
    let mut all = Vec::new();
    for (way, samples) in Way::ALL.into_iter().zip(&samples) {
        let name = format!("{name}.{}", way.word());
        let part = ratio::summary(samples.iter().map(|rate| rate / lines))?;
        let reason = format!("of {lines:.1} MB/s: {note}");
        all.push(Measure::new(name.clone(), "of the lines", part).at_least(LINES_MIN, reason));
        let rate = ratio::summary(samples.iter().copied())?;
        all.push(Measure::new(format!("{name}.rate"), "MB/s", rate));
    }
    Ok(all)
}

/// The same without a bar.
fn shown(
    bench: &Bench,
    stage: &Stage,
    clients: &mut [Client],
    work: &[Vec<(u64, u64)>],
    name: &str,
    limit: f64,
) -> Result<Vec<Measure>> {
    let measures = beside_lines(bench, stage, clients, work, name, limit, "")?;
    Ok(measures
        .into_iter()
        .map(|mut measure| {
            measure.plain.target = None;
            measure
        })
        .collect())
}
