//! Rounds of load, kills and checks.

use std::{
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use braid_testbed::{
    braid::Braid,
    cluster::{Cluster, Victim},
};

use super::{ClientProcess, Worker};
use braid_types::Random;

/// I/O daemons of the cluster.
const IODS: usize = 3;
/// Threads of load.
const WORKERS: u64 = 3;
/// Kills of daemons in one round.
const KILLS_MAX: u64 = 3;
/// The longest time of load before a kill.
const BEFORE_KILL_MS_MAX: u64 = 250;
/// The longest time for which a killed process stays down.
const AWAY_MS_MAX: u64 = 150;
/// Sizes are collected and objects deleted in the background, at the latest after the grace period
/// of a restart. Until then fsck may find something.
const QUIET_WITHIN: Duration = Duration::from_secs(60);
/// Interval between two runs of fsck.
const QUIET_POLL: Duration = Duration::from_millis(250);

/// A cluster under kills.
pub struct Rounds {
    own: PathBuf,
    cluster: Cluster,
    random: Random,
    workers: Vec<Worker>,
    round: u64,
}

impl Rounds {
    /// Starts the cluster in `dir`. `own` is the program whose `--client` is the client that is
    /// killed.
    pub fn start(braid: &Braid, own: &Path, dir: &Path, seed: u64) -> Result<Self> {
        let cluster = Cluster::start(braid, dir, IODS)?;
        let worker = |number| {
            Worker::new(
                seed.wrapping_mul(31).wrapping_add(number),
                &format!("/w{number}"),
                IODS as u16,
            )
        };
        let workers = (0..WORKERS).map(worker).collect();
        Ok(Self { own: own.to_owned(), cluster, random: Random::new(seed), workers, round: 0 })
    }

    /// The cluster, for tests that damage it.
    pub fn cluster(&mut self) -> &mut Cluster {
        &mut self.cluster
    }

    /// Operations acknowledged and interrupted so far.
    pub fn counts(&self) -> (u64, u64) {
        self.workers
            .iter()
            .fold((0, 0), |sum, worker| (sum.0 + worker.acknowledged, sum.1 + worker.cut_off))
    }

    /// Runs one round.
    ///
    /// # Errors
    /// The promise that was broken.
    pub fn round(&mut self) -> Result<(), String> {
        self.load_and_kill()?;
        self.check()?;
        self.fsck_once_quiet()
    }

    fn load_and_kill(&mut self) -> Result<(), String> {
        self.round += 1;
        let stop = AtomicBool::new(false);
        let text = |why: anyhow::Error| format!("{why:#}");
        let below = format!("/c{}", self.round);
        let contact = self.cluster.contact();
        let process = ClientProcess::start(
            &self.own,
            &contact,
            &below,
            self.random.next_u64() >> 32,
            IODS as u16,
        );
        let process = process.map_err(text)?;
        let clients: Result<Vec<_>> = self.workers.iter().map(|_| self.cluster.client()).collect();
        let clients = clients.context("connecting").map_err(text)?;
        let (cluster, random) = (&mut self.cluster, &mut self.random);
        thread::scope(|scope| {
            let stop = &stop;
            let running: Vec<_> = self
                .workers
                .iter_mut()
                .zip(clients)
                .map(|(worker, client)| scope.spawn(move || worker.work(client, stop)))
                .collect();
            let killed = kill_some(cluster, random);
            let checked =
                killed.and_then(|()| cluster.client().context("connecting")).map_err(text);
            let checked = checked.and_then(|client| process.kill_and_check(&client).map(drop));
            stop.store(true, Ordering::Relaxed);
            let outcomes = running
                .into_iter()
                .map(|worker| worker.join().unwrap_or(Err("a worker panicked".into())));
            let outcomes: Result<Vec<()>, String> = outcomes.collect();
            checked.and(outcomes.map(drop))
        })
    }

    /// Every tree must equal its acknowledged state.
    ///
    /// # Errors
    /// The difference.
    pub fn check(&mut self) -> Result<(), String> {
        self.cluster.check_alive().map_err(|why| format!("{why:#}"))?;
        let client = self.cluster.client().map_err(|why| format!("connecting: {why:#}"))?;
        self.workers.iter().try_for_each(|worker| worker.check(&client))
    }

    /// fsck must find nothing once background work has ended.
    fn fsck_once_quiet(&self) -> Result<(), String> {
        let since = Instant::now();
        loop {
            match self.cluster.fsck() {
                Ok(()) => return Ok(()),
                Err(why) if since.elapsed() > QUIET_WITHIN => return Err(format!("{why:#}")),
                Err(_) => thread::sleep(QUIET_POLL),
            }
        }
    }
}

/// Kills the metadata server, an I/O daemon, or all of them, and starts them again.
fn kill_some(cluster: &mut Cluster, random: &mut Random) -> Result<()> {
    for _ in 0..=random.below(KILLS_MAX) {
        thread::sleep(Duration::from_millis(random.below(BEFORE_KILL_MS_MAX)));
        let all = [Victim::Mds].into_iter().chain((0..cluster.iods()).map(Victim::Iod));
        let victims: Vec<_> = match random.below(5) {
            0 | 1 => vec![Victim::Mds],
            2 | 3 => vec![Victim::Iod(random.below(cluster.iods() as u64) as usize)],
            _ => all.collect(),
        };
        cluster.check_alive()?;
        victims.iter().for_each(|victim| cluster.kill(*victim));
        thread::sleep(Duration::from_millis(random.below(AWAY_MS_MAX)));
        victims.into_iter().try_for_each(|victim| cluster.restart(victim))?;
    }
    Ok(())
}
