//! One client through MPI-IO: a program of one rank with the shim, on the client's host, in turn
//! with the library.

use anyhow::Result;
use braid_netlab::{Lab, Spec};
use braid_testbed::stats::percentile;

use super::{
    Papers, Sample, ScaledLab,
    one_client::{DAEMONS, GIGABIT, one_task_on},
    sampling::Sampling,
    tasks::{DIRECTIONS, Direction, Task, fill, together},
    with_target,
};
use crate::{
    measure::Measure,
    parallel::mpi::installed::{Installed, MPICH, MpiMethod, MpiRunRequest, TestFile},
};

/// The part of the library's rate.
const OF_LIBRARY: f64 = 0.97;
/// The pattern that every run writes and the next one checks.
const SEED: u64 = 1;

/// `mpi`: limited by the client's link, then by those of one to four daemons.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let program = Installed::new(&MPICH)?;
    let mut all = Vec::new();
    let pairs: Vec<(usize, usize)> = (0..DAEMONS).map(|daemon| (0, daemon)).collect();
    let spec = Spec { iods: DAEMONS, rate: GIGABIT, ..Spec::default() };
    let slow = papers.lab(&spec, &pairs[..1])?;
    all.extend(beside_library(papers, &program, &slow, DAEMONS, "mpi.one_client")?);
    drop(slow);
    let fast = papers.lab(&Spec { client_rate: Some(4 * GIGABIT), ..spec }, &pairs)?;
    for daemons in 1..=DAEMONS {
        all.extend(beside_library(
            papers,
            &program,
            &fast,
            daemons,
            &format!("mpi.fast_client.{daemons}"),
        )?);
    }
    Ok(all)
}

/// Both directions, on this many of the daemons.
fn beside_library(
    papers: &Papers,
    program: &Installed,
    sized: &ScaledLab,
    daemons: usize,
    name: &str,
) -> Result<Vec<Measure>> {
    let lab = &sized.lab;
    let (rate, line) = (lab.spec().rate, lab.spec().client_rate());
    // Half as long as others: a run of the program spends time on other things too.
    let library = one_task_on(papers, daemons, rate.min(line / daemons as u64) / 2);
    let bytes = library[0].bytes;
    // The program has its own file.
    let own = Task::new(0, format!("/mpi{daemons}"), 0, bytes);
    fill(papers, lab, &[library.clone(), vec![own.clone()]].concat(), Some(daemons as u16))?;
    sample(papers, program, lab, &own, Direction::Write)?;
    let mut all = Vec::new();
    for way in DIRECTIONS {
        let mut beside = || together(papers, lab, &library, way);
        let mut mpi = || sample(papers, program, lab, &own, way);
        let samples = papers.alternate::<Sample>(&mut [&mut beside, &mut mpi])?;
        let mut rates: Vec<f64> = samples[0].iter().map(|sample| sample.mb_per_second).collect();
        let what = format!("the library{}, ", sized.rate_note());
        let name = format!("{name}.{}", way.word());
        let measures =
            with_target(&name, &samples[1], OF_LIBRARY, percentile(&mut rates, 50.0), &what);
        // It would include the start of MPI and the check of the data.
        all.extend(measures.into_iter().filter(|measure| measure.unit != "s/GiB"));
    }
    Ok(all)
}

/// Calls of 4 MiB, the first of them once before the time measurement, as with the library. The
/// program reports the time; TCP's retransmissions are those of its whole run.
fn sample(
    papers: &Papers,
    program: &Installed,
    lab: &Lab,
    task: &Task,
    way: Direction,
) -> Result<Sample> {
    let bytes = task.bytes;
    let (read_seed, write_seed) = if way == Direction::Read { (SEED, 0) } else { (0, SEED) };
    let ask = MpiRunRequest {
        file: &format!("braid:{}", task.path),
        shape: "contiguous",
        bytes,
        how: MpiMethod::Calls,
        read_seed,
        write_seed,
        hints: &[],
    };
    let place = TestFile {
        before: &lab.client_host(0)?.prefix(),
        environment: &lab.environment(),
        ranks: 1,
    };
    let taking = Sampling::start(papers, lab)?;
    let times = program.run(&place, true, &ask)?;
    let taken = taking.end(papers, lab, bytes)?;
    let seconds = if way == Direction::Read { times.read } else { times.write };
    Ok(Sample { mb_per_second: bytes as f64 / 1e6 / seconds, ..taken })
}
