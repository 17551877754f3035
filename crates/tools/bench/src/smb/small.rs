//! Small files of 1 and 16 clients, one operation at a time for each: the gateway, Samba on a mount
//! of the same cluster, and Samba on the local file system.

use std::{
    net::SocketAddr,
    sync::Barrier,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, anyhow};

use super::{
    client::{Connection, Protection},
    servers::{Samba, Servers},
};
use crate::{
    bench::Bench,
    daemons::cpu_of_servers,
    measure::{Measure, ratio},
};

const IODS: usize = 4;
const CLIENTS: [usize; 2] = [1, 16];
/// Files of a client that are read and asked for.
const FILES: u64 = 64;
const FILE_BYTES: usize = 4096;
/// The bar: a multiple of Samba's rate on a mount.
const MOUNT_FACTOR_MIN: f64 = 1.5;

/// What is measured.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Work {
    /// CREATE of a new file, CLOSE.
    Create,
    /// CREATE of an old file, READ of 4 KiB, CLOSE: three requests.
    Read,
    /// CREATE, QUERY_INFO and CLOSE in one compound.
    Stat,
}

impl Work {
    const ALL: [Self; 3] = [Self::Create, Self::Read, Self::Stat];

    fn name(self) -> &'static str {
        match self {
            Self::Create => "create",
            Self::Read => "open_read_close",
            Self::Stat => "stat",
        }
    }
}

/// A client and its directory.
struct One {
    connection: Connection,
    directory: String,
    made: u64,
}

/// A server with its clients.
struct Subject {
    name: &'static str,
    clients: Vec<One>,
}

/// Operations per second, and microseconds of the servers' CPU for each.
type Sample = (f64, f64);

/// `small`: operations per second.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let servers = Servers::start(bench, IODS)?;
    let mut subjects = vec![Subject::new("braid", servers.address)?];
    let mut rivals = Vec::new();
    match Samba::missing() {
        Some(why) => bench.note(why),
        None => {
            let mount = servers.mount()?;
            let local_dir = bench.scratch.join("samba-local-small");
            std::fs::create_dir_all(&local_dir)?;
            let on_mount = Samba::start(bench, mount.point())?;
            let local = Samba::start(bench, &local_dir)?;
            subjects.push(Subject::new("samba_mount", on_mount.address)?);
            subjects.push(Subject::new("samba_local", local.address)?);
            rivals.push((on_mount, local, mount));
        }
    }
    let time = bench.size(Duration::from_millis(2000), Duration::from_millis(500));
    let mut all = Vec::new();
    for clients in CLIENTS {
        for work in Work::ALL {
            let mut variants: Vec<_> = subjects
                .iter_mut()
                .map(|subject| || subject.sample(bench, clients, work, time))
                .collect();
            let mut turns: Vec<&mut dyn FnMut() -> Result<Sample>> = Vec::new();
            variants.iter_mut().for_each(|variant| turns.push(variant));
            let samples = bench.alternate::<Sample>(&mut turns)?;
            let names: Vec<&str> = subjects.iter().map(|subject| subject.name).collect();
            all.extend(measures(clients, work, &names, &samples)?);
        }
    }
    drop(subjects);
    drop(rivals);
    Ok(all)
}

fn measures(
    clients: usize,
    work: Work,
    names: &[&str],
    samples: &[Vec<Sample>],
) -> Result<Vec<Measure>> {
    let rates = |at: usize| -> Vec<f64> { samples[at].iter().map(|(rate, _)| *rate).collect() };
    let prefix = format!("small.{}.{clients}", work.name());
    let mut all = Vec::new();
    for (at, name) in names.iter().enumerate() {
        let name = format!("{prefix}.{name}");
        let cpu = samples[at].iter().map(|(_, cpu)| *cpu);
        all.push(Measure::new(name.clone(), "1/s", ratio::summary(rates(at))?));
        all.push(Measure::new(format!("{name}.cpu"), "us each", ratio::summary(cpu)?));
    }
    for (at, rival) in names.iter().enumerate().skip(1) {
        let ratio = ratio::of_pairs(&rates(0), &rates(at))?;
        let measure = Measure::new(format!("{prefix}.to_{rival}"), "x", ratio);
        let what = "limit: the processors, which clients and servers share";
        let is_bar = at == 1;
        all.push(if is_bar { measure.at_least(MOUNT_FACTOR_MIN, what) } else { measure });
    }
    Ok(all)
}

impl Subject {
    /// With as many clients as the largest measure needs.
    fn new(name: &'static str, server: SocketAddr) -> Result<Self> {
        let one = |number: usize| {
            let mut connection = Connection::new(server, number as u64, Protection::None)?;
            let directory = format!("{name}{number}");
            connection.make_directory(&directory)?;
            for file in 0..FILES {
                let opened = connection.create(&format!(r"{directory}\f{file}"), true)?;
                connection.write_all(opened, &[0xa5; FILE_BYTES], FILE_BYTES as u64, 1)?;
                connection.close(opened)?;
            }
            Ok(One { connection, directory, made: 0 })
        };
        let most = CLIENTS.into_iter().max().unwrap_or_default();
        let clients = (0..most).map(one).collect::<Result<_>>();
        Ok(Self { name, clients: clients.with_context(|| format!("prepare {name}"))? })
    }

    /// The first `count` clients work for this time; then each removes what it made.
    fn sample(
        &mut self,
        bench: &Bench,
        count: usize,
        work: Work,
        time: Duration,
    ) -> Result<Sample> {
        let clients = &mut self.clients[..count];
        let start = Barrier::new(count + 1);
        let start = &start;
        let (operations, elapsed, cpu) = thread::scope(|scope| {
            let threads: Vec<_> = clients
                .iter_mut()
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
            let mut operations = 0;
            for thread in threads {
                operations += thread.join().map_err(|_| anyhow!("a client panicked"))??;
            }
            let elapsed = clock.elapsed();
            anyhow::Ok((operations, elapsed, cpu_of_servers(bench)?.saturating_sub(cpu)))
        })?;
        clients.iter_mut().try_for_each(One::remove_made)?;
        let operations = operations as f64;
        Ok((operations / elapsed.as_secs_f64(), cpu.as_secs_f64() * 1e6 / operations))
    }
}

impl One {
    /// Returns the number of operations until `end`.
    fn work(&mut self, work: Work, end: Instant) -> Result<u64> {
        let mut count = 0;
        while Instant::now() < end {
            let old = format!(r"{}\f{}", self.directory, count % FILES);
            match work {
                Work::Create => {
                    let file = self.connection.create(&self.new_name(), true)?;
                    self.made += 1;
                    self.connection.close(file)?;
                }
                Work::Read => {
                    let file = self.connection.open(&old)?;
                    self.connection.read_all(file, FILE_BYTES as u64, FILE_BYTES, 1)?;
                    self.connection.close(file)?;
                }
                Work::Stat => self.connection.stat(&old)?,
            }
            count += 1;
        }
        Ok(count)
    }

    /// The name of the file that is made next.
    fn new_name(&self) -> String {
        format!(r"{}\n{}", self.directory, self.made)
    }

    fn remove_made(&mut self) -> Result<()> {
        while self.made > 0 {
            self.made -= 1;
            self.connection.remove(&self.new_name())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bar_is_a_multiple_of_samba_on_a_mount() {
        let samples = [vec![(15.0, 1.0)], vec![(10.0, 1.0)], vec![(30.0, 1.0)]];
        let names = ["braid", "samba_mount", "samba_local"];
        let all = measures(1, Work::Stat, &names, &samples).unwrap();
        let holds: Vec<_> = all.iter().filter_map(|one| one.plain.holds()).collect();
        assert_eq!(holds, [true]);
        let alone = measures(1, Work::Stat, &names[..1], &samples[..1]).unwrap();
        assert!(alone.iter().all(|one| one.plain.holds().is_none()));
    }
}
