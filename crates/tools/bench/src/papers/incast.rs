//! Many daemons answer one client at the same time: the drop from 93 to 75 MB/s of the 2008 paper.

use anyhow::Result;
use braid_netlab::Spec;

use super::{
    Papers, Sample, measures,
    one_client::{GIGABIT, one_task},
    tasks::{Direction, fill, together},
    with_target,
};
use crate::measure::Measure;

/// Number of daemons; each is compared with the first.
const DAEMONS: [u16; 4] = [2, 3, 4, 16];
/// Queue of the client's switch port, in KiB.
const QUEUES: [u64; 2] = [64, 256];

/// `incast`: the switch and its hosts are the same for every number; a file is on this many of the
/// daemons.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let mut all = Vec::new();
    for queue in QUEUES {
        let spec = Spec { iods: 16, rate: GIGABIT, queue: queue << 10, ..Spec::default() };
        let pairs: Vec<(usize, usize)> = (0..16).map(|daemon| (0, daemon)).collect();
        let sized = papers.lab(&spec, &pairs)?;
        let tasks = DAEMONS.map(|daemons| {
            let mut tasks = one_task(papers, sized.lab.spec().rate);
            tasks.iter_mut().for_each(|task| task.path = format!("/on{daemons}"));
            tasks
        });
        for (daemons, tasks) in DAEMONS.iter().zip(&tasks) {
            fill(papers, &sized.lab, tasks, Some(*daemons))?;
        }
        let mut reads: Vec<_> = tasks
            .iter()
            .map(|tasks| || together(papers, &sized.lab, tasks, Direction::Read))
            .collect();
        let mut reads: Vec<&mut dyn FnMut() -> Result<Sample>> =
            reads.iter_mut().map(|read| read as &mut dyn FnMut() -> Result<Sample>).collect();
        let samples = papers.alternate(&mut reads)?;
        let (first, more) = measures(&format!("incast.{queue}KiB.2"), &samples[0]);
        let limit = first.plain.summary.median;
        all.extend([first].into_iter().chain(more));
        for (daemons, samples) in DAEMONS.iter().zip(&samples).skip(1) {
            let what = format!("with 2 daemons{}, ", sized.rate_note());
            all.extend(with_target(
                &format!("incast.{queue}KiB.{daemons}"),
                samples,
                0.98,
                limit,
                &what,
            ));
        }
        let seconds = papers.seconds.ceil() as u32;
        let streams = super::references::sample(papers, &sized.lab, &pairs, true, seconds)?;
        let (rate, more) = measures(&format!("incast.{queue}KiB.iperf3_16"), &[streams]);
        all.extend([rate].into_iter().chain(more));
    }
    Ok(all)
}
