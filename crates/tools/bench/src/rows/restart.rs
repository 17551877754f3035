//! The metadata server is killed and started again while very many clients have very many files
//! open: the time until all of them have reclaimed their opens, and whether a session was fenced.

use std::{
    thread,
    time::{Duration, Instant},
};

use anyhow::{Result, ensure};
use braid_testbed::stats::Summary;

use crate::{bench::Bench, measure::Measure, workers::process::Worker};

/// Number of clients, and of open files of each.
const CLIENTS: (u32, u32) = (2_000, 200);
const OPENS: (u32, u32) = (500, 50);
/// Number of processes that the clients share.
const PROCESSES: u32 = 4;
/// The grace period: later clients are fenced.
const SECONDS_MAX: f64 = 15.0;
/// Time after which it gives up.
const WAIT_MAX: Duration = Duration::from_secs(120);
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// `restart`.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let cluster = bench.cluster()?;
    let (clients, opens) = (bench.size(CLIENTS.0, CLIENTS.1), bench.size(OPENS.0, OPENS.1));
    let total = u64::from(clients) * u64::from(opens);
    let share = clients / PROCESSES;
    let mut workers = (0..PROCESSES)
        .map(|process| {
            let (mds, key) = (cluster.mds_address.clone().into(), cluster.key.clone().into());
            let numbers = [process * share, share, opens].map(|number| number.to_string().into());
            let [first, count, opens] = numbers;
            Worker::start(&["opens".into(), mds, key, first, count, opens])
        })
        .collect::<Result<Vec<Worker>>>()?;
    let each = u64::from(share) * u64::from(opens);
    eprintln!("bench: restart: {clients} clients open {opens} files each");
    workers.iter_mut().try_for_each(Worker::go)?;
    workers.iter_mut().try_for_each(|worker| worker.expect_done(each))?;
    let (mut seconds, mut cpu, mut fenced) = (Vec::new(), Vec::new(), 0);
    for _ in 0..bench.size(bench.repetitions.min(3), 1) {
        let taken = bench.take(|| {
            cluster.kill_and_start_mds()?;
            // It does not answer before it listens.
            until(|| Ok(cluster.mds_metric("braid_mds_open_files").is_ok_and(|open| open >= total)))
        })?;
        seconds.push(taken.time.as_secs_f64());
        cpu.push(taken.cpu.as_secs_f64());
        until(|| Ok(cluster.mds_metric("braid_mds_grace")? == 0))?;
        fenced += cluster.mds_metric("braid_mds_sessions_fenced_total")?;
        let open = cluster.mds_metric("braid_mds_open_files")?;
        fenced += total.saturating_sub(open).div_ceil(opens.into());
        cluster.wait_until_up()?;
    }
    workers.iter_mut().try_for_each(Worker::go)?;
    // The close of a file that was not reclaimed fails.
    workers.iter_mut().try_for_each(|worker| worker.expect_done(0))?;
    workers.into_iter().try_for_each(Worker::finish)?;
    let summary = |values: Vec<f64>| Summary::of(values).expect("a sample");
    let what = format!("{clients} clients, {total} opens, kill -9 of the metadata server");
    Ok(vec![
        Measure::new("restart.all_back", "s", summary(seconds)).at_most(SECONDS_MAX, what),
        Measure::new("restart.cpu", "CPU s", summary(cpu)),
        Measure::new("restart.fenced", "sessions", Summary::once(fenced as f64))
            .at_most(0.0, "nobody is fenced"),
    ])
}

fn until(mut is_so: impl FnMut() -> Result<bool>) -> Result<()> {
    let began = Instant::now();
    while !is_so()? {
        ensure!(began.elapsed() < WAIT_MAX, "not recovered after {} s", WAIT_MAX.as_secs());
        thread::sleep(LOOK_EVERY);
    }
    Ok(())
}
