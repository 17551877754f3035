//! One client and a few daemons, with the library: figures 4 to 6 of the 2008 paper.

use anyhow::Result;
use braid_netlab::Spec;
use braid_testbed::stats::percentile;

use super::{
    Papers, Sample, ScaledLab, line, references,
    tasks::{CALL_BYTES, DIRECTIONS, Direction, Task, fill, together},
    with_target,
};
use crate::measure::Measure;

/// Gigabit Ethernet.
pub const GIGABIT: u64 = 1_000_000_000;
/// Daemons of the paper.
pub const DAEMONS: usize = 4;

/// One task on the first client with a file that fills one link for the time of a sample.
pub fn one_task(papers: &Papers, bits_per_second: u64) -> Vec<Task> {
    let bytes = papers.bytes(bits_per_second, CALL_BYTES);
    vec![Task::new(0, "/file", 0, bytes)]
}

/// The same for a client with several times that rate, and a file on `daemons` daemons of `rate`
/// each.
pub fn one_task_on(papers: &Papers, daemons: usize, rate: u64) -> Vec<Task> {
    let bytes = papers.bytes(daemons as u64 * rate, CALL_BYTES);
    vec![Task::new(0, format!("/on{daemons}"), 0, bytes)]
}

/// `one_client`: limited by the client's link, as measured with one stream of iperf3.
pub fn one_client(papers: &Papers) -> Result<Vec<Measure>> {
    let sized = papers.lab(&Spec { iods: DAEMONS, rate: GIGABIT, ..Spec::default() }, &[(0, 0)])?;
    let tasks = one_task(papers, sized.lab.spec().rate);
    fill(papers, &sized.lab, &tasks, None)?;
    let mut all = Vec::new();
    for way in DIRECTIONS {
        let (limit, samples) =
            beside_one_stream(papers, &sized, way, || together(papers, &sized.lab, &tasks, way))?;
        let what = format!("one iperf3 stream{}, ", sized.rate_note());
        all.extend(with_target(
            &format!("one_client.{}", way.word()),
            &samples,
            0.97,
            limit,
            &what,
        ));
    }
    Ok(all)
}

/// Samples, in turn with those of one stream of iperf3; its median is the limit.
pub fn beside_one_stream(
    papers: &Papers,
    sized: &ScaledLab,
    way: Direction,
    mut subject: impl FnMut() -> Result<Sample>,
) -> Result<(f64, Vec<Sample>)> {
    let seconds = papers.seconds.ceil() as u32;
    let mut stream =
        || references::sample(papers, &sized.lab, &[(0, 0)], way == Direction::Read, seconds);
    let mut samples = papers.alternate::<Sample>(&mut [&mut stream, &mut subject])?;
    let subject = samples.pop().unwrap_or_default();
    let mut rates: Vec<f64> = samples.concat().iter().map(|sample| sample.mb_per_second).collect();
    Ok((percentile(&mut rates, 50.0), subject))
}

/// `fast_client`: limited by the daemons' links.
pub fn fast_client(papers: &Papers) -> Result<Vec<Measure>> {
    let mut all = Vec::new();
    for daemons in 1..=DAEMONS {
        let pairs: Vec<(usize, usize)> = (0..daemons).map(|daemon| (0, daemon)).collect();
        let spec = Spec {
            iods: daemons,
            rate: GIGABIT,
            client_rate: Some(4 * GIGABIT),
            ..Spec::default()
        };
        let sized = papers.lab(&spec, &pairs)?;
        let lines = daemons as f64 * line(sized.lab.spec().rate);
        let tasks = one_task(papers, daemons as u64 * sized.lab.spec().rate);
        fill(papers, &sized.lab, &tasks, None)?;
        let (mut write, mut read) = (
            || together(papers, &sized.lab, &tasks, Direction::Write),
            || together(papers, &sized.lab, &tasks, Direction::Read),
        );
        let samples = papers.alternate::<Sample>(&mut [&mut write, &mut read])?;
        for (way, samples) in DIRECTIONS.into_iter().zip(&samples) {
            let name = format!("fast_client.{daemons}.{}", way.word());
            let what = format!("{daemons} lines{}, ", sized.rate_note());
            all.extend(with_target(&name, samples, 0.95, lines, &what));
            let streams = references::sample(
                papers,
                &sized.lab,
                &pairs,
                way == Direction::Read,
                papers.seconds.ceil() as u32,
            )?;
            all.push(super::measures(&format!("{name}.iperf3"), &[streams]).0);
        }
    }
    Ok(all)
}
