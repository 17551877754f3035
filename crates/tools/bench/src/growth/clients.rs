//! Clients, 1 to 256: tasks of the library, each with connections of its own, in a few processes.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, ensure};
use braid_client::OpenOptions;

use super::{
    Growth, Plan,
    series::{Point, Series, Unit},
    stage::{Amount, Stage},
    transfer::STRIPE_BYTES,
};
use crate::{
    daemons::{Daemon, IODS, resident_bytes},
    workers::clients::{FILE_BYTES, path},
};

/// Number of processes that the clients share.
const PROCESSES_MAX: u64 = 4;
/// Operations of a sample, of all clients together.
const OPERATIONS: u64 = 25_600;
/// As long as the interval between a client's polls for recalls (`AWAIT_RECALLS_MS`).
const IDLE_SECONDS: u64 = 3;

pub const PLAN: Plan = Plan {
    name: "clients",
    about: "clients of 4 daemons: connecting, 4 KiB reads and writes, stats, leases",
    size: "clients",
    sizes: &[1, 4, 16, 64, 256],
    quick: &[1, 16, 256],
    run,
};

fn run(growth: &Growth, sizes: &[u64]) -> Result<Vec<Series>> {
    let stage = Stage::start(growth, IODS)?;
    files(&stage, *sizes.last().unwrap_or(&1) as u32)?;
    let mut connect = Series::flat(
        "connect",
        "a client connects to all, opens its file and reads it",
        Unit::Each,
    );
    let mut all = [
        (
            "read",
            Series::flat(
                "read",
                "4 KiB of the client's own file, all at the same time",
                Unit::Each,
            ),
        ),
        ("write", Series::flat("write", "the same, written over", Unit::Each)),
        ("stat", Series::flat("stat", "of the client's own file by path", Unit::Each)),
    ];
    let mut idle = Series::flat("idle", "nobody asks anything: of a client", Unit::Second);
    for &size in sizes {
        let mut processes = Processes::start(&stage, size)?;
        let point = stage.once(size, Amount::Count(size), || processes.all("connect"))?;
        connect.push(processes.weighed(point)?);
        let each = growth.amount(OPERATIONS).div_ceil(size);
        for (what, series) in &mut all {
            let point = stage.point(size, Amount::Count(each * size), 0, || {
                processes.all(&format!("{what} {each}"))
            })?;
            series.push(processes.weighed(point)?);
        }
        let point = stage.once(size, Amount::Count(IDLE_SECONDS * size), || {
            thread::sleep(Duration::from_secs(IDLE_SECONDS));
            Ok(())
        })?;
        idle.push(processes.weighed(point)?);
    }
    // The memory of the first series is shown: of clients that have done everything.
    let [read, write, stat] = all.map(|(_, series)| series);
    Ok(vec![read, write, stat, connect, idle])
}

/// Creates each client's file, on all daemons.
fn files(stage: &Stage<'_>, count: u32) -> Result<()> {
    let client = stage.client()?;
    client.mkdir("/clients", 0o755)?;
    let options = OpenOptions::new()
        .write(true)
        .create_new(true)
        .stripe_size(STRIPE_BYTES)
        .iod_count(IODS as u16);
    for number in 0..count {
        client.open(path(number), &options)?.write_at(&vec![0x5a; FILE_BYTES as usize], 0)?;
    }
    Ok(())
}

/// Helper processes of this program; ended when dropped.
struct Processes {
    all: Vec<Process>,
    clients: u64,
}

struct Process {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Processes {
    fn start(stage: &Stage<'_>, clients: u64) -> Result<Self> {
        let processes = clients.min(PROCESSES_MAX);
        let first = |process: u64| process * clients / processes;
        let start =
            |process| Process::start(stage, first(process), first(process + 1) - first(process));
        Ok(Self { all: (0..processes).map(start).collect::<Result<_>>()?, clients })
    }

    /// Sends a command to all at the same time.
    fn all(&mut self, line: &str) -> Result<()> {
        self.all.iter_mut().try_for_each(|process| process.say(line))?;
        self.all.iter_mut().try_for_each(|process| process.expect("done"))
    }

    /// With the memory of a client in place of this program's.
    fn weighed(&self, mut point: Point) -> Result<Point> {
        let mut bytes = 0;
        for process in &self.all {
            bytes += resident_bytes(process.child.id())?.own;
        }
        point.memory.client = bytes / self.clients;
        Ok(point)
    }
}

impl Process {
    fn start(stage: &Stage<'_>, first: u64, count: u64) -> Result<Self> {
        // Dies with this program.
        let mut command: Command = Daemon::command(&std::env::current_exe()?);
        command.arg("clients").arg(&stage.cluster.mds_address).arg(&stage.cluster.key);
        command.args([first.to_string(), count.to_string()]);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let input = Some(child.stdin.take().context("a process has an input")?);
        let output = BufReader::new(child.stdout.take().context("a process has an output")?);
        let mut process = Self { child, input, output };
        process.expect("ready")?;
        Ok(process)
    }

    fn say(&mut self, line: &str) -> Result<()> {
        let input = self.input.as_mut().context("it has an input until it ends")?;
        Ok(writeln!(input, "{line}")?)
    }

    fn expect(&mut self, wanted: &str) -> Result<()> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        ensure!(
            line.trim() == wanted,
            "a process of clients answered {:?}, not {wanted}",
            line.trim()
        );
        Ok(())
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}
