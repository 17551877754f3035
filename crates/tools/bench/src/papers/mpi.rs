//! One client through MPI-IO: a program of one rank with the shim, on the client's host, in turn with the library.

use anyhow::Result;
use braid_netlab::{Lab, Spec};

use super::{
    Papers, Sample, against,
    one_client::{DAEMONS, GIGABIT, alone},
    taking::Taking,
    tasks::{Task, WAYS, Way, fill, together},
};
use crate::{
    measure::Measure,
    parallel::mpi::installed::{Ask, How, Installed, MPICH, Place},
    stats::percentile,
};

/// Of what the library gets.
const OF_LIBRARY: f64 = 0.97;
/// What every run writes, and the next one looks for.
const SEED: u64 = 1;
/// The program's file; the library has another.
const FILE: &str = "/mpi";

/// `mpi`: the client's line as the limit, then the daemons'.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let program = Installed::new(&MPICH)?;
    let daemons: Vec<(usize, usize)> = (0..DAEMONS).map(|daemon| (0, daemon)).collect();
    let mut all = Vec::new();
    for (name, client_rate, pairs) in
        [("one_client", None, &daemons[..1]), ("fast_client", Some(4 * GIGABIT), &daemons[..])]
    {
        let sized = papers.lab(&Spec { iods: DAEMONS, rate: GIGABIT, client_rate, ..Spec::default() }, pairs)?;
        // Half as long as others: a run of the program takes its time for other things too.
        let tasks = alone(papers, sized.lab.spec().client_rate() / 2);
        let bytes = tasks[0].bytes;
        fill(papers, &sized.lab, &tasks, None)?;
        fill(papers, &sized.lab, &[Task::new(0, FILE, 0, bytes)], None)?;
        sample(papers, &program, &sized.lab, bytes, Way::Write)?;
        for way in WAYS {
            let mut library = || together(papers, &sized.lab, &tasks, way);
            let mut mpi = || sample(papers, &program, &sized.lab, bytes, way);
            let samples = papers.alternate::<Sample>(&mut [&mut library, &mut mpi])?;
            let mut rates: Vec<f64> = samples[0].iter().map(|sample| sample.mb_per_second).collect();
            let what = format!("the library{}, ", sized.said());
            let name = format!("mpi.{name}.{}", way.word());
            let measures = against(&name, &samples[1], OF_LIBRARY, percentile(&mut rates, 50.0), &what);
            // It would have in it that MPI starts and that what was read is looked at.
            all.extend(measures.into_iter().filter(|measure| measure.unit != "s/GiB"));
        }
    }
    Ok(all)
}

/// Calls of 4 MiB, the first of them once before the clock runs, as the library's. The time is what the program says; what TCP sent again is of
/// its whole run.
fn sample(papers: &Papers, program: &Installed, lab: &Lab, bytes: u64, way: Way) -> Result<Sample> {
    let (read_seed, write_seed) = if way == Way::Read { (SEED, 0) } else { (0, SEED) };
    let ask = Ask {
        file: &format!("braid:{FILE}"),
        shape: "contiguous",
        bytes,
        how: How::Calls,
        read_seed,
        write_seed,
        hints: &[],
    };
    let place = Place { before: &lab.client_host(0)?.prefix(), environment: &lab.environment(), ranks: 1 };
    let taking = Taking::start(papers, lab)?;
    let times = program.run(&place, true, &ask)?;
    let taken = taking.end(papers, lab, bytes)?;
    let seconds = if way == Way::Read { times.read } else { times.write };
    Ok(Sample { mb_per_second: bytes as f64 / 1e6 / seconds, ..taken })
}
