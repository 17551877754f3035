//! Reads and writes through one server without pNFS: CPU time of all servers for each GiB, of the
//! gateway and of nfs-ganesha on a mount of the same cluster.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use super::{
    client::{
        mount::{Mount, OpenFile},
        transfer::{StripedFile, Way, sequential, transfer},
    },
    servers::{GANESHA_EXPORT, Ganesha, Servers},
};
use crate::{
    bench::Bench,
    daemons::cpu_of_servers,
    measure::{Measure, ratio},
};

const IODS: usize = 4;
/// Bytes of a request.
const CALL_BYTES: u64 = 1 << 20;
/// Requests at a time, as the read-ahead of Linux makes.
const DEPTH: usize = 4;
/// The bar: a multiple of nfs-ganesha's.
const FACTOR_MAX: f64 = 0.6;
const GIB: f64 = (1_u64 << 30) as f64;

/// Seconds of CPU for each GiB, and MB/s.
type Sample = (f64, f64);

/// A server's client with a file.
struct Subject {
    name: &'static str,
    mount: Mount,
    opened: OpenFile,
    bytes: u64,
    passes: u64,
}

/// `proxied`: a file in the page cache of the I/O daemons, one client.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let servers = Servers::start(bench, IODS)?;
    let mut subjects = vec![Subject::new(bench, "braid", servers.address, "")?];
    let mut rivals = Vec::new();
    match Ganesha::missing() {
        Some(why) => bench.note(why),
        None => {
            let mount = servers.mount()?;
            let ganesha = Ganesha::start(bench, mount.point())?;
            subjects.push(Subject::new(bench, "ganesha", ganesha.address, GANESHA_EXPORT)?);
            rivals.push((ganesha, mount));
        }
    }
    let mut all = Vec::new();
    for way in Way::ALL {
        let mut variants: Vec<_> =
            subjects.iter_mut().map(|subject| || subject.sample(bench, way)).collect();
        let mut turns: Vec<&mut dyn FnMut() -> Result<Sample>> = Vec::new();
        variants.iter_mut().for_each(|variant| turns.push(variant));
        let samples = bench.alternate::<Sample>(&mut turns)?;
        let name = format!("proxied.{}", way.word());
        let cpu = |at: usize| -> Vec<f64> { samples[at].iter().map(|(cpu, _)| *cpu).collect() };
        if subjects.len() > 1 {
            let ratio = ratio::of_pairs(&cpu(0), &cpu(1))?;
            all.push(Measure::new(format!("{name}.to_ganesha"), "x", ratio).at_most(
                FACTOR_MAX,
                "CPU of all servers for each GiB, nfs-ganesha on a mount = 1",
            ));
        }
        for (at, subject) in subjects.iter().enumerate() {
            let of = format!("{name}.{}", subject.name);
            let rates = samples[at].iter().map(|(_, rate)| *rate);
            all.push(Measure::new(format!("{of}.cpu"), "s/GiB", ratio::summary(cpu(at))?));
            all.push(Measure::new(format!("{of}.rate"), "MB/s", ratio::summary(rates)?));
        }
    }
    drop(subjects);
    drop(rivals);
    Ok(all)
}

impl Subject {
    fn new(bench: &Bench, name: &'static str, server: SocketAddr, path: &str) -> Result<Self> {
        let (bytes, passes) = bench.size((256 << 20, 4), (64 << 20, 2));
        let mut mount = Mount::new(server, &format!("bench {name}"), path)?;
        let root = mount.root();
        let opened = mount.open(&root, &format!("proxied-{name}"), true)?;
        let mut subject = Self { name, mount, opened, bytes, passes };
        subject.pass(Way::Write).with_context(|| format!("fill the file of {name}"))?;
        Ok(subject)
    }

    fn pass(&mut self, way: Way) -> Result<()> {
        let file = StripedFile::whole(&self.opened);
        let split = file.split(sequential(0, self.bytes, CALL_BYTES));
        let sessions = std::slice::from_mut(&mut self.mount.session);
        transfer(sessions, &file, &split, way, DEPTH)
    }

    fn sample(&mut self, bench: &Bench, way: Way) -> Result<Sample> {
        self.pass(way)?;
        let start = cpu_of_servers(bench)?;
        let passes = self.passes;
        let taken = bench.take(|| (0..passes).try_for_each(|_| self.pass(way)))?;
        let cpu = cpu_of_servers(bench)?.saturating_sub(start);
        let bytes = passes * self.bytes;
        Ok((cpu.as_secs_f64() / (bytes as f64 / GIB), taken.mb_per_second(bytes)))
    }
}
