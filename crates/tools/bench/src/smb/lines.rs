//! Many processes and 4 servers with two lines each, in a lab: tables 3 to 5 and 8 to 10 of the
//! white paper *Using CIFS as a Global File System for HPC Clusters*.
//!
//! Each server has an I/O daemon and a gateway. As in the paper, a process has a connection to one
//! server and a file of its own there: its directory stores new files on that server's daemon. A
//! line is what TCP carries over a link ([`line()`]). Two processors carry all hosts, so the links
//! have a part of the paper's rate ([`SLOWED`]).

use std::{net::SocketAddr, sync::Barrier, thread, time::Instant};

use anyhow::{Context, Result, anyhow};
use braid_netlab::{Lab, Spec};
use braid_testbed::braid::{Braid, Daemon};

use super::{
    client::{Connection, File, Protection, READ_BYTES_MAX, SHARE},
    servers::add_user,
};
use crate::{
    bench::Bench,
    daemons::release_binary,
    measure::{Measure, ratio},
    papers::line,
};

const SERVERS: usize = 4;
const CARDS: usize = 2;
const GIGABIT: u64 = 1_000_000_000;
/// The part of the rates that the lab has.
const SLOWED: u64 = 8;
/// Hosts, and processes on each: the paper's.
const POINTS: [(usize, usize); 9] =
    [(1, 1), (4, 1), (8, 1), (16, 1), (1, 4), (2, 4), (4, 4), (8, 4), (16, 4)];
/// The bar: a part of the lines, for one stream and from this many processes on.
const LINES_MIN: f64 = 0.95;
const PROCESSES_WITH_BAR: usize = 32;
/// Requests of 1 MiB at a time of each process.
const DEPTH: usize = 2;
const CALL: u64 = READ_BYTES_MAX as u64;

/// `lines`: files of the servers that the processes are connected to; and, to compare, files that
/// are striped over all servers.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let stage = Stage::start(bench)?;
    let points: &[_] = bench.size(&POINTS, &POINTS[..2]);
    let mut all = Vec::new();
    for (hosts, each) in points.iter().copied() {
        all.extend(stage.measure(bench, hosts, each, true)?);
    }
    let (hosts, each) = bench.size((8, 4), (2, 1));
    all.extend(stage.measure(bench, hosts, each, false)?);
    Ok(all)
}

/// A lab with a gateway on each server. The gateways end first.
struct Stage {
    /// By server, by card.
    gateways: Vec<Vec<SocketAddr>>,
    _daemons: Vec<Daemon>,
    lab: Lab,
}

/// A connection with its file.
struct Process {
    host: usize,
    connection: Connection,
    file: File,
    bytes: u64,
}

impl Stage {
    fn start(bench: &Bench) -> Result<Self> {
        braid_netlab::check_requirements()?;
        let binary = bench.braid().map_or_else(release_binary, |given| Ok(given.to_path_buf()))?;
        let most = POINTS.into_iter().map(|(hosts, _)| hosts).max().unwrap_or_default();
        // In memory, so that no disk is measured.
        let spec = Spec {
            iods: SERVERS,
            clients: bench.size(most, 4),
            cards: CARDS,
            rate: GIGABIT / SLOWED,
            slowed: SLOWED,
            dir: Some("/dev/shm".into()),
            ..Spec::default()
        };
        let lab = Lab::start(&Braid::at(binary.clone()), &spec)?;
        let users = lab.dir().join("smb-users");
        add_user(&binary, &users)?;
        let (mut gateways, mut daemons) = (Vec::new(), Vec::new());
        for server in 0..SERVERS {
            let (addresses, daemon) = lab.start_smb_gateway(server, SHARE, &users)?;
            let parsed = addresses.iter().map(|address| address.parse());
            gateways.push(parsed.collect::<Result<_, _>>()?);
            daemons.push(daemon);
            let path = format!("/{}", directory(server));
            lab.succeed("mds", &["mkdir", &path])?;
            let first = server.to_string();
            let set = ["layout", "set", &path, "--iod-count", "1", "--first-iod", &first];
            lab.succeed("mds", &set)?;
        }
        lab.succeed("mds", &["mkdir", &format!("/{STRIPED}")])?;
        Ok(Self { gateways, _daemons: daemons, lab })
    }

    fn measure(
        &self,
        bench: &Bench,
        hosts: usize,
        each: usize,
        is_local: bool,
    ) -> Result<Vec<Measure>> {
        let count = hosts * each;
        let kind = if is_local { "local" } else { STRIPED };
        let name = format!("lines.{kind}.{hosts}x{each}");
        eprintln!("bench: {name}");
        let lines = lines_of(hosts) as f64 * line(self.lab.spec().rate);
        let bytes = bytes_of_each(lines, bench.size(2.0, 0.5), count);
        let mut processes = (0..count)
            .map(|number| self.process(number, hosts, is_local, bytes))
            .collect::<Result<Vec<_>>>()?;
        together(&mut processes, true)?;
        let cell = std::cell::RefCell::new(&mut processes);
        let (mut write, mut read) =
            (|| together(&mut cell.borrow_mut(), true), || together(&mut cell.borrow_mut(), false));
        let samples = bench.alternate::<f64>(&mut [&mut write, &mut read])?;
        for process in processes {
            process.end(&self.lab)?;
        }
        let has_bar = is_local && (count == 1 || count >= PROCESSES_WITH_BAR);
        measures(&name, lines, has_bar, &samples)
    }

    /// The servers in turn, and for each its cards in turn, as table 11 of the paper has it.
    fn process(&self, number: usize, hosts: usize, is_local: bool, bytes: u64) -> Result<Process> {
        let (server, card, host) = (number % SERVERS, number / SERVERS % CARDS, number % hosts);
        let address = self.gateways[server][card];
        self.lab.client_host(host)?.inside(|| {
            let mut connection = Connection::new(address, number as u64, Protection::None)?;
            let directory = if is_local { directory(server) } else { STRIPED.to_owned() };
            let file = connection.create(&format!(r"{directory}\{number}"), false)?;
            Ok(Process { host, connection, file, bytes })
        })
    }
}

impl Process {
    fn pass(&mut self, is_write: bool) -> Result<()> {
        let Self { connection, file, bytes, .. } = self;
        match is_write {
            true => connection.write_all(*file, &vec![0xa5; READ_BYTES_MAX], *bytes, DEPTH),
            false => connection.read_all(*file, *bytes, READ_BYTES_MAX, DEPTH),
        }
        .with_context(|| format!("client{}", self.host))
    }

    fn end(mut self, lab: &Lab) -> Result<()> {
        lab.client_host(self.host)?.inside(|| self.connection.close(self.file))
    }
}

const STRIPED: &str = "striped";

fn directory(server: usize) -> String {
    format!("on{server}")
}

/// The lines of the clients' hosts, until the servers have fewer.
fn lines_of(hosts: usize) -> usize {
    hosts.min(SERVERS * CARDS)
}

/// Whole requests that all lines carry in these seconds, for each process.
fn bytes_of_each(mb_per_second: f64, seconds: f64, processes: usize) -> u64 {
    let all = (mb_per_second * 1e6 * seconds) as u64;
    (all / processes as u64 / CALL).max(1) * CALL
}

/// MB/s of all processes, from when all are ready to when the last is done.
fn together(processes: &mut [Process], is_write: bool) -> Result<f64> {
    let bytes: u64 = processes.iter().map(|process| process.bytes).sum();
    let start = Barrier::new(processes.len() + 1);
    let start = &start;
    let seconds = thread::scope(|scope| {
        let threads: Vec<_> = processes
            .iter_mut()
            .map(|process| {
                scope.spawn(move || {
                    start.wait();
                    process.pass(is_write)
                })
            })
            .collect();
        start.wait();
        let clock = Instant::now();
        for thread in threads {
            thread.join().map_err(|_| anyhow!("a client panicked"))??;
        }
        anyhow::Ok(clock.elapsed().as_secs_f64())
    })?;
    Ok(bytes as f64 / 1e6 / seconds)
}

fn measures(name: &str, lines: f64, has_bar: bool, samples: &[Vec<f64>]) -> Result<Vec<Measure>> {
    let mut all = Vec::new();
    for (way, samples) in ["write", "read"].into_iter().zip(samples) {
        let name = format!("{name}.{way}");
        let part = ratio::summary(samples.iter().map(|rate| rate / lines))?;
        let mut measure = Measure::new(name.clone(), "of the lines", part);
        if has_bar {
            let reason = format!("of {lines:.1} MB/s, at 1/{SLOWED} of the paper's rates");
            measure = measure.at_least(LINES_MIN, reason);
        }
        all.push(measure);
        let rate = ratio::summary(samples.iter().copied())?;
        all.push(Measure::new(format!("{name}.rate"), "MB/s", rate));
    }
    Ok(all)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_the_hosts_until_the_servers_have_fewer() {
        assert_eq!([1, 4, 8, 16].map(lines_of), [1, 4, 8, 8]);
    }

    #[test]
    fn each_process_moves_whole_requests() {
        assert_eq!(bytes_of_each(100.0, 2.0, 1), 190 * CALL);
        assert_eq!(bytes_of_each(1.0, 0.5, 64), CALL);
    }

    #[test]
    fn one_stream_and_many_have_a_bar() {
        let samples = [vec![95.0], vec![94.0]];
        let holds = |has_bar| {
            let all = measures("lines.local.8x4", 100.0, has_bar, &samples).unwrap();
            all.iter().filter_map(|one| one.plain.holds()).collect::<Vec<_>>()
        };
        assert_eq!(holds(true), [true, false]);
        assert!(holds(false).is_empty());
    }
}
