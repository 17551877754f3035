//! Reads and writes of one client: CPU time of all servers for each GiB, of the gateway, of Samba
//! on a mount of the same cluster, and of Samba on a local directory.

use std::net::SocketAddr;

use anyhow::{Context, Result};

use super::{
    client::{Connection, File, Protection, READ_BYTES_MAX},
    servers::{Samba, Servers},
};
use crate::{
    bench::Bench,
    daemons::cpu_of_servers,
    measure::{Measure, ratio},
};

const IODS: usize = 4;
/// Requests at a time.
const DEPTH: usize = 4;
/// Bars: multiples of Samba's CPU time on a mount, and on the local file system.
const MOUNT_FACTOR_MAX: f64 = 0.6;
const LOCAL_FACTOR_MAX: f64 = 1.3;
const GIB: f64 = (1_u64 << 30) as f64;

/// Seconds of CPU for each GiB, and MB/s.
type Sample = (f64, f64);

/// A server, and its client with an open file.
struct Subject {
    name: &'static str,
    address: SocketAddr,
    client: Connection,
    file: File,
    data: Vec<u8>,
    bytes: u64,
    passes: u64,
}

/// `data`: a file in the page cache of the servers. Writes are not flushed.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let servers = Servers::start(bench, IODS)?;
    let mut addresses = vec![("braid", servers.address)];
    let mut rivals = Vec::new();
    match Samba::missing() {
        Some(why) => bench.note(why),
        None => {
            let mount = servers.mount()?;
            let local_dir = bench.scratch.join("samba-local");
            std::fs::create_dir_all(&local_dir)?;
            let on_mount = Samba::start(bench, mount.point())?;
            let local = Samba::start(bench, &local_dir)?;
            addresses.push(("samba_mount", on_mount.address));
            addresses.push(("samba_local", local.address));
            // Dropped in this order: Samba before the mount below it.
            rivals.push((on_mount, local, mount));
        }
    }
    let mut all = Vec::new();
    for protection in Protection::ALL {
        let subject = |(name, address): &(&'static str, SocketAddr)| {
            Subject::new(bench, name, *address, protection)
                .with_context(|| format!("prepare {name}"))
        };
        let mut subjects = addresses.iter().map(subject).collect::<Result<Vec<_>>>()?;
        for is_write in [false, true] {
            let mut variants: Vec<_> =
                subjects.iter_mut().map(|subject| || subject.sample(bench, is_write)).collect();
            let mut turns: Vec<&mut dyn FnMut() -> Result<Sample>> = Vec::new();
            variants.iter_mut().for_each(|variant| turns.push(variant));
            let samples = bench.alternate::<Sample>(&mut turns)?;
            let way = if is_write { "write" } else { "read" };
            let names: Vec<&str> = addresses.iter().map(|(name, _)| *name).collect();
            let name = format!("data.{way}.{}", protection.word());
            all.extend(measures(&name, &names, &samples)?);
        }
        subjects.into_iter().try_for_each(Subject::end)?;
    }
    drop(rivals);
    Ok(all)
}

fn measures(name: &str, names: &[&str], samples: &[Vec<Sample>]) -> Result<Vec<Measure>> {
    let cpu = |at: usize| -> Vec<f64> { samples[at].iter().map(|(cpu, _)| *cpu).collect() };
    let mut all = Vec::new();
    for (at, factor) in [(1, MOUNT_FACTOR_MAX), (2, LOCAL_FACTOR_MAX)] {
        let Some(rival) = names.get(at) else { continue };
        let ratio = ratio::of_pairs(&cpu(0), &cpu(at))?;
        let reason = format!("CPU of all servers for each GiB, {rival} = 1");
        all.push(Measure::new(format!("{name}.to_{rival}"), "x", ratio).at_most(factor, reason));
    }
    for (at, subject) in names.iter().enumerate() {
        let rates = samples[at].iter().map(|(_, rate)| *rate);
        let of = format!("{name}.{subject}");
        all.push(Measure::new(format!("{of}.cpu"), "s/GiB", ratio::summary(cpu(at))?));
        all.push(Measure::new(format!("{of}.rate"), "MB/s", ratio::summary(rates)?));
    }
    Ok(all)
}

impl Subject {
    fn new(
        bench: &Bench,
        name: &'static str,
        address: SocketAddr,
        protection: Protection,
    ) -> Result<Self> {
        let (bytes, passes) = bench.size((256 << 20, 4), (32 << 20, 2));
        let mut client = Connection::new(address, 1, protection)?;
        let file = client.create(&format!("data-{name}"), false)?;
        let data = vec![0xa5; READ_BYTES_MAX];
        let mut subject = Self { name, address, client, file, data, bytes, passes };
        subject.pass(true)?;
        Ok(subject)
    }

    fn pass(&mut self, is_write: bool) -> Result<()> {
        let Self { client, file, bytes, data, .. } = self;
        match is_write {
            true => client.write_all(*file, data, *bytes, DEPTH),
            false => client.read_all(*file, *bytes, READ_BYTES_MAX, DEPTH),
        }
        .with_context(|| format!("{} at {}", self.name, self.address))
    }

    fn sample(&mut self, bench: &Bench, is_write: bool) -> Result<Sample> {
        self.pass(is_write)?;
        let start = cpu_of_servers(bench)?;
        let passes = self.passes;
        let taken = bench.take(|| (0..passes).try_for_each(|_| self.pass(is_write)))?;
        let cpu = cpu_of_servers(bench)?.saturating_sub(start);
        let bytes = passes * self.bytes;
        Ok((cpu.as_secs_f64() / (bytes as f64 / GIB), taken.mb_per_second(bytes)))
    }

    fn end(mut self) -> Result<()> {
        self.client.close(self.file)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_multiples_of_the_rivals_that_are_there() {
        let samples = [vec![(0.6, 1.0)], vec![(1.0, 1.0)], vec![(0.4, 1.0)]];
        let all = measures("data.read.plain", &["braid", "mount", "local"], &samples).unwrap();
        let holds: Vec<_> = all.iter().filter_map(|one| one.plain.holds()).collect();
        assert_eq!(holds, [true, false], "0.6 x and 1.5 x");
        let alone = measures("data.read.plain", &["braid"], &samples[..1]).unwrap();
        assert!(alone.iter().all(|one| one.plain.holds().is_none()));
    }
}
