//! The figures of the papers, measured on hosts of a lab (`braid-netlab`) whose links have the
//! papers' rates.
//!
//! A target is a part of a link's rate, not of a machine's. *line* is what TCP can carry over the
//! link: 1448 bytes of each 1538 that a full frame takes on the wire. Daemons store their objects
//! in memory, and measured writes are overwrites.

mod client_count;
mod clients;
mod curves;
mod incast;
mod labels;
mod machine_use;
mod mounted;
mod mpi;
mod one_client;
mod other_systems;
mod over_tls;
mod partition;
mod patterns;
pub mod plots;
mod rates;
mod references;
mod sampling;
mod slow_daemon;
mod small_calls;
pub mod store;
mod streams;
pub mod tables;
mod tasks;

use std::{
    cell::{Cell, RefCell},
    path::PathBuf,
    process::ExitCode,
};

use anyhow::{Result, bail, ensure};
use braid_netlab::{Lab, Spec};
use braid_testbed::{braid::Braid, programs::need, stats::Summary};

use crate::{
    args::PapersArgs, cpu::CpuMeter, daemons, machine, measure::Measure, page, report, steal::Steal,
};

/// Payload of a full frame with 12 bytes of TCP options, and its bytes on the wire.
const PAYLOAD: f64 = 1448.0 / 1538.0;

/// Something that can be measured by name.
struct Row {
    name: &'static str,
    about: &'static str,
    run: fn(&Papers) -> Result<Vec<Measure>>,
}

const ROWS: &[Row] = &[
    Row {
        name: "one_client",
        about: "1 Gbit/s, 4 daemons, 64 KiB stripes, library",
        run: one_client::one_client,
    },
    Row {
        name: "fast_client",
        about: "client of 4 Gbit/s, 1 to 4 daemons of 1 Gbit/s, library",
        run: one_client::fast_client,
    },
    Row {
        name: "mount",
        about: "both through the mount, the second with 1 to 4 daemons",
        run: mounted::run,
    },
    Row {
        name: "mpi",
        about: "both through MPI-IO, the second with 1 to 4 daemons: one rank with the shim, \
            beside the library",
        run: mpi::run,
    },
    Row {
        name: "incast",
        about: "read with 2, 3, 4, 16 daemons, queues of 64 and 256 KiB",
        run: incast::run,
    },
    Row {
        name: "clients",
        about: "8 clients, 6 daemons, separate files and one file",
        run: clients::eight,
    },
    Row {
        name: "small_calls",
        about: "8 clients, 6 daemons, calls of 8 KiB and of 2 MiB through mounts",
        run: small_calls::run,
    },
    Row {
        name: "client_count",
        about: "1 to 8 clients, 6 daemons, 1 Gbit/s, separate files and one file",
        run: client_count::gigabit,
    },
    Row {
        name: "slow_lines",
        about: "1 to 8 clients, 6 daemons, 100 Mbit/s, separate files and one file",
        run: client_count::fast_ethernet,
    },
    Row {
        name: "patterns",
        about: "ATLAS's writes, BTIO, OLTP, PostMark: braid bench with 8 tasks, 6 daemons",
        run: patterns::run,
    },
    Row {
        name: "cards",
        about: "60 tasks on 15 hosts, 4 servers of 2 x 1 Gbit/s",
        run: clients::sixty,
    },
    Row {
        name: "streams",
        about: "1 to 16 hosts with 1 or 4 tasks each, 4 servers of 2 x 1 Gbit/s",
        run: streams::run,
    },
    Row {
        name: "rivals",
        about: "GlusterFS and MooseFS beside our mount on the same lines",
        run: other_systems::run,
    },
    Row {
        name: "late",
        about: "a daemon with 10 times the delay of the others",
        run: slow_daemon::run,
    },
    Row {
        name: "request_size",
        about: "100 Mbit/s, 1 daemon, 16 KiB stripes: calls of 16 KiB to 4 MiB",
        run: curves::request_size,
    },
    Row {
        name: "daemon_count",
        about: "100 Mbit/s, 1 to 8 daemons, 16 KiB stripes: calls of 16 KiB to 2 MiB",
        run: curves::daemon_count,
    },
    Row {
        name: "stripe_size",
        about: "100 Mbit/s, 4 daemons, stripes of 4 to 256 KiB: calls of 64 KiB to 2 MiB",
        run: curves::stripe_size,
    },
    Row {
        name: "partition",
        about: "100 Mbit/s, 4 tasks, 4 daemons: partitions of 4 to 64 KiB in stripes of 4 to 64 \
            KiB",
        run: partition::run,
    },
];

/// One run.
pub struct Papers {
    repetitions: u32,
    /// Length of a sample with a busy link, in seconds.
    seconds: f64,
    divide: Option<u64>,
    congestion: Option<String>,
    dir: PathBuf,
    braid: Braid,
    cpu: CpuMeter,
    steal: Steal,
    /// Whether the current row is measured with encrypted connections, once.
    tls: Cell<bool>,
    /// The part of its rates for each lab of the row; the same with encrypted connections.
    divides: RefCell<Vec<(Spec, u64)>>,
    /// How much of the machine the traffic of these labs needed.
    needs: RefCell<Vec<rates::MachineNeeds>>,
}

/// `cargo xtask bench papers`.
pub fn run(args: &PapersArgs) -> Result<ExitCode> {
    if args.list {
        ROWS.iter().for_each(|row| println!("{:16} {}", row.name, row.about));
        return Ok(ExitCode::SUCCESS);
    }
    if let Some(file) = &args.tables {
        page::write_section("papers", file)?;
        return Ok(ExitCode::SUCCESS);
    }
    let chosen = chosen(&args.rows)?;
    // Before any process is started.
    let cpu = CpuMeter::start();
    braid_netlab::check_requirements()?;
    need("iperf3", &["iperf3"])?;
    let papers = Papers {
        repetitions: args.repetitions.unwrap_or(if args.quick { 1 } else { 3 }),
        seconds: if args.quick { 0.5 } else { 1.5 },
        divide: args.divide,
        congestion: args.congestion.clone(),
        dir: args.dir.clone().unwrap_or_else(|| "/dev/shm".into()),
        braid: Braid::at(args.braid.clone().map_or_else(daemons::release_binary, Ok)?),
        cpu,
        steal: Steal::new(args.quick),
        tls: Cell::new(false),
        divides: RefCell::default(),
        needs: RefCell::default(),
    };
    let machine = machine::describe(&papers.dir);
    let control = papers.congestion.clone().unwrap_or_else(machine_use::congestion);
    let (mut all, mut failed) = (Vec::new(), Vec::new());
    for row in chosen {
        eprintln!("bench: {} ({})", row.name, row.about);
        let command = format!("cargo xtask bench papers {}", row.name);
        let load = machine::load();
        let measures = match papers.measured(row, !args.no_tls) {
            Ok(measures) => measures,
            Err(error) => {
                // The other rows are measured nevertheless.
                eprintln!("bench: {} failed: {error:#}", row.name);
                failed.push(row.name);
                continue;
            }
        };
        let measures: Vec<Measure> =
            measures.into_iter().map(|measure| measure.made_by(&command)).collect();
        if let Some(file) = &args.json {
            let when = machine::when(&format!("{machine}; TCP: {control}"), load, &papers.steal);
            store::store_row(file, row.name, &when, args.quick, &measures)?;
        }
        all.extend(measures);
    }
    print!(
        "{}",
        report::table::render(
            &machine,
            &[format!("TCP: {control}"), papers.cpu.describe().to_owned()],
            &all
        )
    );
    if let Ok(report) = serde_json::from_str(&report::json::render(&machine, &[], &all)) {
        other_systems::table::losses(&report)
            .iter()
            .for_each(|loss| println!("ours loses: {loss}"));
    }
    ensure!(
        failed.is_empty(),
        "these rows failed: {}; try: cargo xtask bench papers {}",
        failed.join(", "),
        failed.join(" ")
    );
    Ok(report::verdict(args.check, &all))
}

fn chosen(names: &[String]) -> Result<Vec<&'static Row>> {
    if let Some(unknown) =
        names.iter().find(|name| ROWS.iter().all(|row| row.name != name.as_str()))
    {
        let known: Vec<&str> = ROWS.iter().map(|row| row.name).collect();
        bail!("there is no row {unknown}; try: {}", known.join(", "));
    }
    Ok(ROWS
        .iter()
        .filter(|row| names.is_empty() || names.iter().any(|name| name == row.name))
        .collect())
}

impl Papers {
    /// A row with plain connections, and once more with encrypted ones.
    fn measured(&self, row: &Row, with_tls: bool) -> Result<Vec<Measure>> {
        self.divides.borrow_mut().clear();
        self.needs.borrow_mut().clear();
        let mut plain = (row.run)(self)?;
        plain.extend(rates::measures(row.name, &self.needs.borrow()));
        if !with_tls {
            return Ok(plain);
        }
        eprintln!("bench: {}, with TLS", row.name);
        self.tls.set(true);
        let tls = (row.run)(self);
        self.tls.set(false);
        Ok(over_tls::beside(plain, &tls?))
    }

    fn repetitions(&self) -> u32 {
        if self.tls.get() { 1 } else { self.repetitions }
    }

    /// A lab like this one, at this part of the rates.
    fn lab_at(&self, spec: &Spec, divide: u64) -> Result<ScaledLab> {
        let spec = Spec {
            dir: Some(self.dir.clone()),
            congestion: self.congestion.clone(),
            tls: self.tls.get(),
            rate: spec.rate / divide,
            client_rate: spec.client_rate.map(|rate| rate / divide),
            slowed: divide,
            ..spec.clone()
        };
        Ok(ScaledLab { lab: Lab::start(&self.braid, &spec)?, divide })
    }

    /// Bytes that a link of this rate carries in a sample, in whole calls of `call` bytes.
    fn bytes(&self, bits_per_second: u64, call: u64) -> u64 {
        let bytes = line(bits_per_second) * 1e6 * self.seconds;
        (bytes as u64 / call).max(2) * call
    }

    /// Runs the variants in turn ([`Steal::in_turn`]).
    fn alternate<T>(&self, variants: &mut [&mut dyn FnMut() -> Result<T>]) -> Result<Vec<Vec<T>>> {
        self.steal.in_turn(self.repetitions(), variants)
    }
}

/// A lab at a part of the requested rates.
struct ScaledLab {
    lab: Lab,
    divide: u64,
}

impl ScaledLab {
    /// The end of a target's explanation where the rates are reduced.
    fn rate_note(&self) -> String {
        if self.divide == 1 {
            String::new()
        } else {
            format!(", at 1/{} of the rates", self.divide)
        }
    }
}

/// Millions of bytes a second that TCP carries over a link of this rate.
pub fn line(bits_per_second: u64) -> f64 {
    bits_per_second as f64 / 8e6 * PAYLOAD
}

/// One sample: the rate, the CPU time on all hosts, and TCP's retransmissions.
#[derive(Clone, Copy, Debug)]
struct Sample {
    mb_per_second: f64,
    /// Seconds.
    cpu_per_gib: f64,
    retransmits: f64,
    timeouts: f64,
}

/// The measure of some samples, and those of CPU and TCP.
fn measures(name: &str, samples: &[Sample]) -> (Measure, [Measure; 3]) {
    let of = |value: fn(&Sample) -> f64| {
        Summary::of(samples.iter().map(value)).expect("there is a sample")
    };
    let cpu = Measure::new(format!("{name}.cpu"), "s/GiB", of(|sample| sample.cpu_per_gib));
    let retransmits =
        Measure::new(format!("{name}.retransmits"), "segments", of(|sample| sample.retransmits));
    let timeouts = Measure::new(format!("{name}.timeouts"), "times", of(|sample| sample.timeouts));
    (Measure::new(name, "MB/s", of(|sample| sample.mb_per_second)), [cpu, retransmits, timeouts])
}

/// The same with a limit and without a target.
fn beside(name: &str, samples: &[Sample], limit: f64) -> Vec<Measure> {
    let (measure, more) = measures(name, samples);
    let limit = Measure::new(format!("{name}.limit"), "MB/s", Summary::once(limit));
    [measure, limit].into_iter().chain(more).collect()
}

/// The same with a target: a part of a limit, which is a measure too.
fn with_target(name: &str, samples: &[Sample], part: f64, limit: f64, what: &str) -> Vec<Measure> {
    let mut all = beside(name, samples, limit);
    let measure = all.remove(0).at_least(part * limit, format!("{part} x {what}{limit:.1}"));
    all.insert(0, measure);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_gigabit_carries_117_megabytes_a_second() {
        assert!((line(1_000_000_000) - 117.7).abs() < 0.1);
    }

    #[test]
    fn rows_have_names_of_their_own() {
        let names: std::collections::BTreeSet<&str> = ROWS.iter().map(|row| row.name).collect();
        assert_eq!(names.len(), ROWS.len());
    }

    #[test]
    fn a_row_that_is_not_there_is_an_error_with_those_that_are() {
        assert_eq!(chosen(&[]).unwrap().len(), ROWS.len());
        assert!(
            chosen(&["x".to_owned()])
                .err()
                .unwrap()
                .to_string()
                .contains("try: one_client, fast_client")
        );
    }
}
