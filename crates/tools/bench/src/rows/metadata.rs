//! stat and create by path, one at a time.

use std::cell::Cell;

use anyhow::Result;
use braid_client::{Client, LayoutHint, OpenOptions, TlsPolicy};
use braid_testbed::stats::Summary;

use super::latency::{Latency, Subject, against_round_trip, timed};
use crate::{
    bench::Bench, measure::Measure, pinning::Pinning, workers::create::create as create_files,
};

/// `stat`: each name is looked up once.
pub fn stat(bench: &Bench) -> Result<Vec<Measure>> {
    let cluster = bench.cluster()?;
    let count = bench.size(10_000_u32, 2_000);
    let clients = Clients::connect(bench)?;
    clients.plain.mkdir("/stat", 0o755)?;
    let samples = bench.repetitions * Pinning::ALL.len() as u32 * 2;
    create_files(&clients.plain, "/stat", "f", count * samples)?;
    let next = Cell::new(0);
    let sample = |client: &Client| {
        let first = next.replace(next.get() + count);
        timed(bench, count, |number| {
            Ok(client.stat(format!("/stat/f{}", first + number)).map(drop)?)
        })
    };
    let mut over_tls = clients.tls.as_ref().map(|client| || sample(client));
    against_round_trip(
        bench,
        Subject {
            name: "stat",
            round_trips: 1.6,
            pids: cluster.pids(),
            plain: &mut || sample(&clients.plain),
            tls: over_tls.as_mut().map(|sample| sample as &mut dyn FnMut() -> Result<Latency>),
        },
    )
}

/// `create`: a new name each time; then the same with the file opened for writing and closed.
pub fn create(bench: &Bench) -> Result<Vec<Measure>> {
    let cluster = bench.cluster()?;
    let count = bench.size(10_000_u32, 2_000);
    let clients = Clients::connect(bench)?;
    clients.plain.mkdir("/create", 0o755)?;
    let next = Cell::new(0);
    let name = || format!("/create/f{}", next.replace(next.get() + 1_u64));
    let sample = |client: &Client| {
        timed(bench, count, |_| {
            Ok(client.touch(name(), 0o644, true, LayoutHint::none()).map(drop)?)
        })
    };
    let mut over_tls = clients.tls.as_ref().map(|client| || sample(client));
    let mut measures = against_round_trip(
        bench,
        Subject {
            name: "create",
            round_trips: 2.5,
            pids: cluster.pids(),
            plain: &mut || sample(&clients.plain),
            tls: over_tls.as_mut().map(|sample| sample as &mut dyn FnMut() -> Result<Latency>),
        },
    )?;
    let options = OpenOptions::new().write(true).create_new(true);
    let mut opened =
        || timed(bench, count, |_| Ok(clients.plain.open(name(), &options)?.close()?));
    let samples = bench.alternate(&mut [&mut opened])?.remove(0);
    let p50 = Summary::of(samples.iter().map(|sample| sample.p50_us)).expect("there is a sample");
    measures.push(Measure::new("create.free.open_and_close", "us", p50));
    Ok(measures)
}

/// A client over plain connections, and one over TLS.
struct Clients {
    plain: Client,
    tls: Option<Client>,
}

impl Clients {
    fn connect(bench: &Bench) -> Result<Self> {
        let cluster = bench.cluster()?;
        let tls = bench.tls.then(|| cluster.client(TlsPolicy::Always)).transpose()?;
        Ok(Self { plain: cluster.client(TlsPolicy::default())?, tls })
    }
}
