//! Names over one server by 16 clients: the gateway, nfs-ganesha on a mount of the same cluster,
//! and nfs-ganesha on the local file system.

use std::{
    net::SocketAddr,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};
use braid_nfs_wire::nfs4::FileHandle;

use super::{
    client::mount::Mount,
    servers::{GANESHA_EXPORT, Ganesha, Servers},
};
use crate::{
    bench::Bench,
    daemons::cpu_of_servers,
    measure::{Measure, ratio},
};

const CLIENTS: usize = 16;
/// Files of a client that are looked up.
const FILES: u64 = 64;
const IODS: usize = 4;
/// Bars: multiples of nfs-ganesha's rate on a mount, and on the local file system.
const MOUNT_FACTOR_MIN: f64 = 2.0;
const LOCAL_FACTOR_MIN: f64 = 1.2;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Work {
    /// PUTFH, LOOKUP, GETFH, GETATTR.
    Lookup,
    /// OPEN of a new file with GETFH and GETATTR; CLOSE.
    Create,
}

impl Work {
    fn name(self) -> &'static str {
        if self == Self::Lookup { "lookup_getattr" } else { "create_close" }
    }
}

/// A client and its directory.
struct One {
    mount: Mount,
    directory: FileHandle,
    made: u64,
}

/// A server with its clients.
struct Subject {
    name: &'static str,
    clients: Vec<One>,
}

/// Operations per second, and microseconds of the servers' CPU for each.
type Sample = (f64, f64);

/// `metadata`: operations per second, one at a time for each client.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let servers = Servers::start(bench, IODS)?;
    let mut subjects = vec![Subject::new("braid", servers.address, "")?];
    let mut rivals = Vec::new();
    match Ganesha::missing() {
        Some(why) => bench.note(why),
        None => {
            let mount = servers.mount()?;
            let on_mount = Ganesha::start(bench, mount.point())?;
            let local_dir = bench.scratch.join("ganesha-local");
            std::fs::create_dir_all(&local_dir)?;
            let local = Ganesha::start(bench, &local_dir)?;
            subjects.push(Subject::new("ganesha_mount", on_mount.address, GANESHA_EXPORT)?);
            subjects.push(Subject::new("ganesha_local", local.address, GANESHA_EXPORT)?);
            // Dropped in this order: nfs-ganesha before the mount below it.
            rivals.push((on_mount, local, mount));
        }
    }
    let time = bench.size(Duration::from_millis(2000), Duration::from_millis(500));
    let mut all = Vec::new();
    for work in [Work::Lookup, Work::Create] {
        let mut variants: Vec<_> =
            subjects.iter_mut().map(|subject| || subject.sample(bench, work, time)).collect();
        let mut turns: Vec<&mut dyn FnMut() -> Result<Sample>> = Vec::new();
        variants.iter_mut().for_each(|variant| turns.push(variant));
        let samples = bench.alternate::<Sample>(&mut turns)?;
        let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
        all.extend(measures(work, &names, &samples)?);
    }
    drop(subjects);
    drop(rivals);
    Ok(all)
}

fn measures(work: Work, names: &[&str], samples: &[Vec<Sample>]) -> Result<Vec<Measure>> {
    let rates = |at: usize| -> Vec<f64> { samples[at].iter().map(|(rate, _)| *rate).collect() };
    let mut all = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let name = format!("metadata.{}.{name}", work.name());
        let cpu = samples[at].iter().map(|(_, cpu)| *cpu);
        all.push(Measure::new(name.clone(), "1/s", ratio::summary(rates(at))?));
        all.push(Measure::new(format!("{name}.cpu"), "us each", ratio::summary(cpu)?));
    }
    for (at, factor) in [(1, MOUNT_FACTOR_MIN), (2, LOCAL_FACTOR_MIN)] {
        let Some(rival) = names.get(at) else { continue };
        let ratio = ratio::of_pairs(&rates(0), &rates(at))?;
        let name = format!("metadata.{}.to_{rival}", work.name());
        let what = "limit: the processors, which clients and servers share";
        all.push(Measure::new(name, "x", ratio).at_least(factor, what));
    }
    Ok(all)
}

impl Subject {
    fn new(name: &'static str, server: SocketAddr, path: &str) -> Result<Self> {
        let one = |number: usize| {
            let mut mount = Mount::new(server, &format!("bench {name} {number}"), path)?;
            let root = mount.root();
            let directory = mount.mkdir(&root, &format!("{name}{number}"))?;
            for file in 0..FILES {
                let opened = mount.open(&directory, &format!("f{file}"), true)?;
                mount.close(&opened)?;
            }
            Ok(One { mount, directory, made: 0 })
        };
        let clients = (0..CLIENTS).map(one).collect::<Result<_>>();
        Ok(Self { name, clients: clients.with_context(|| format!("prepare {name}"))? })
    }

    /// All clients work for this time; then each removes what it made.
    fn sample(&mut self, bench: &Bench, work: Work, time: Duration) -> Result<Sample> {
        let start = Barrier::new(CLIENTS + 1);
        let (start, before) = (&start, self.clients.iter().map(|one| one.made).sum::<u64>());
        let (count, elapsed, cpu) = thread::scope(|scope| {
            let clients = self.clients.iter_mut();
            let threads: Vec<_> = clients
                .map(|one| {
                    scope.spawn(move || {
                        start.wait();
                        one.work(work, Instant::now() + time)
                    })
                })
                .collect();
            let cpu = cpu_of_servers(bench)?;
            start.wait();
            let clock = Instant::now();
            let mut count = 0;
            for thread in threads {
                count += thread.join().map_err(|_| anyhow!("a client panicked"))??;
            }
            let elapsed = clock.elapsed();
            anyhow::Ok((count, elapsed, cpu_of_servers(bench)?.saturating_sub(cpu)))
        })?;
        if self.clients.iter().map(|one| one.made).sum::<u64>() > before {
            self.clients.iter_mut().try_for_each(One::remove_made)?;
        }
        let count = count as f64;
        Ok((count / elapsed.as_secs_f64(), cpu.as_secs_f64() * 1e6 / count))
    }
}

impl One {
    /// Returns the number of operations until `end`.
    fn work(&mut self, work: Work, end: Instant) -> Result<u64> {
        let mut count = 0;
        while Instant::now() < end {
            match work {
                Work::Lookup => {
                    self.mount.stat(&self.directory, &format!("f{}", count % FILES))?;
                }
                Work::Create => {
                    let name = format!("n{}", self.made);
                    let opened = self.mount.open(&self.directory, &name, true)?;
                    self.made += 1;
                    self.mount.close(&opened)?;
                }
            }
            count += 1;
        }
        Ok(count)
    }

    fn remove_made(&mut self) -> Result<()> {
        while self.made > 0 {
            self.made -= 1;
            self.mount.remove(&self.directory, &format!("n{}", self.made))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bars_are_multiples_of_the_rivals_that_are_there() {
        let samples = [vec![(30.0, 1.0)], vec![(10.0, 1.0)], vec![(30.0, 1.0)]];
        let names = ["braid", "ganesha_mount", "ganesha_local"];
        let all = measures(Work::Lookup, &names, &samples).unwrap();
        let holds: Vec<_> = all.iter().filter_map(|one| one.plain.holds()).collect();
        assert_eq!(holds, [true, false], "3 x and 1 x");
        let alone = measures(Work::Lookup, &names[..1], &samples[..1]).unwrap();
        assert!(alone.iter().all(|one| one.plain.holds().is_none()));
    }
}
