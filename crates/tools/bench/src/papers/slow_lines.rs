//! One to eight clients and six daemons at 100 Mbit/s, separate files: figure 6c of the paper on Direct-pNFS.

use anyhow::Result;
use braid_netlab::Spec;

use super::{
    Papers, Sample, beside,
    curves::FAST_ETHERNET,
    line,
    tasks::{Task, WAYS, Way, fill, together},
};
use crate::measure::Measure;

const DAEMONS: usize = 6;
const CLIENTS: [usize; 4] = [1, 2, 4, 8];
/// The paper's large blocks.
const CALL_BYTES: u64 = 2 << 20;

/// `slow_lines`: the limit is the clients' lines, or the daemons' where these are fewer.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let most = CLIENTS.into_iter().max().unwrap_or_default();
    let pairs: Vec<(usize, usize)> = (0..DAEMONS).map(|at| (at, at)).collect();
    let spec = Spec { iods: DAEMONS, clients: most, rate: FAST_ETHERNET, ..Spec::default() };
    let sized = papers.lab(&spec, &pairs)?;
    let rate = sized.lab.spec().rate;
    let mut all = Vec::new();
    for clients in CLIENTS {
        let lines = clients.min(DAEMONS);
        // Half as long as others: there are many points.
        let bytes = papers.bytes(rate * lines as u64 / clients as u64 / 2, CALL_BYTES);
        let task = |client| Task::new(client, format!("/{client}of{clients}"), 0, bytes).in_calls_of(CALL_BYTES);
        let tasks: Vec<Task> = (0..clients).map(task).collect();
        fill(papers, &sized.lab, &tasks, None)?;
        let (mut write, mut read) =
            (|| together(papers, &sized.lab, &tasks, Way::Write), || together(papers, &sized.lab, &tasks, Way::Read));
        let samples = papers.alternate::<Sample>(&mut [&mut write, &mut read])?;
        for (way, samples) in WAYS.into_iter().zip(&samples) {
            let name = format!("slow_lines.{clients}.{}", way.word());
            all.extend(beside(&name, samples, lines as f64 * line(rate)));
        }
    }
    Ok(all)
}
