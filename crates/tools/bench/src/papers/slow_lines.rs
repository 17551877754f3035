//! One to eight clients and six daemons at 100 Mbit/s, separate files: figure 6c of the paper on Direct-pNFS.

use anyhow::Result;
use braid_netlab::Spec;

use super::{
    Papers, Sample, beside,
    curves::FAST_ETHERNET,
    line,
    rates::between_all,
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
    let spec = Spec { iods: DAEMONS, clients: most, rate: FAST_ETHERNET, ..Spec::default() };
    let sized = papers.lab(&spec, &between_all(most, DAEMONS))?;
    let rate = sized.lab.spec().rate;
    let mut all = Vec::new();
    for clients in CLIENTS {
        let lines = clients.min(DAEMONS);
        // Twice as long as others: a client of eight has few calls in it, and the last one ends the sample.
        let bytes = papers.bytes(2 * rate * lines as u64 / clients as u64, CALL_BYTES);
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
