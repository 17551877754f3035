//! One to eight clients and six daemons, each client with its own file, or all with parts of one:
//! figures 6 and 7 of the Direct-pNFS paper as curves, at Gigabit and at Fast Ethernet.

use anyhow::Result;
use braid_netlab::Spec;

use super::{
    Papers, Sample, ScaledLab, beside,
    curves::FAST_ETHERNET,
    line,
    one_client::GIGABIT,
    rates::between_all,
    tasks::{DIRECTIONS, Direction, Task, fill, together},
};
use crate::measure::Measure;

const DAEMONS: usize = 6;
const CLIENTS: [usize; 5] = [1, 2, 4, 6, 8];
/// The paper's large blocks.
const CALL_BYTES: u64 = 2 << 20;

/// The clients' use of files.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    /// Each has its own file.
    Separate,
    /// Each has a part of one file, one after the other.
    OneFile,
}

impl Kind {
    fn word(self) -> &'static str {
        if self == Self::Separate { "separate" } else { "one_file" }
    }

    /// Names are the same for every number of clients: the memory cannot store more files.
    fn task(self, client: usize, bytes: u64) -> Task {
        let task = match self {
            Self::Separate => Task::new(client, format!("/own{client}"), 0, bytes),
            Self::OneFile => Task::new(client, "/shared", client as u64 * bytes, bytes),
        };
        task.in_calls_of(CALL_BYTES)
    }
}

/// `client_count`: each point once; the point of eight clients has its target, and more samples, in
/// the row `clients`.
pub fn gigabit(papers: &Papers) -> Result<Vec<Measure>> {
    measured(papers, "client_count", GIGABIT, |_| 1)
}

/// `slow_lines`: the paper's figure 6 c is for separate files.
pub fn fast_ethernet(papers: &Papers) -> Result<Vec<Measure>> {
    let times = |kind| if kind == Kind::Separate { papers.repetitions() } else { 1 };
    measured(papers, "slow_lines", FAST_ETHERNET, times)
}

/// The limit is that of the clients' links, or of the daemons' where these carry less.
fn measured(
    papers: &Papers,
    row: &str,
    rate: u64,
    times: impl Fn(Kind) -> u32,
) -> Result<Vec<Measure>> {
    let most = CLIENTS.into_iter().max().unwrap_or_default();
    let spec = Spec { iods: DAEMONS, clients: most, rate, ..Spec::default() };
    let sized = papers.lab(&spec, &between_all(most, DAEMONS))?;
    let mut all = Vec::new();
    for kind in [Kind::Separate, Kind::OneFile] {
        for clients in CLIENTS {
            all.extend(point(papers, &sized, row, (kind, clients), times(kind))?);
        }
    }
    Ok(all)
}

fn point(
    papers: &Papers,
    sized: &ScaledLab,
    row: &str,
    (kind, clients): (Kind, usize),
    times: u32,
) -> Result<Vec<Measure>> {
    let (rate, lines) = (sized.lab.spec().rate, clients.min(DAEMONS));
    // Longer than others: a client of eight makes few calls in a sample, fewer at a part of the
    // rates, and the last one ends the sample.
    let times_longer = if sized.divide > 1 { 4 } else { 2 };
    let bytes = papers.bytes(times_longer * rate * lines as u64 / clients as u64, CALL_BYTES);
    let tasks: Vec<Task> = (0..clients).map(|client| kind.task(client, bytes)).collect();
    fill(papers, &sized.lab, &tasks, None)?;
    let (mut write, mut read) = (
        || together(papers, &sized.lab, &tasks, Direction::Write),
        || together(papers, &sized.lab, &tasks, Direction::Read),
    );
    let samples = papers.steal.in_turn::<Sample>(times, &mut [&mut write, &mut read])?;
    let name = |way: Direction| format!("{row}.{}.{clients}.{}", kind.word(), way.word());
    let limit = lines as f64 * line(rate);
    Ok(DIRECTIONS
        .into_iter()
        .zip(&samples)
        .flat_map(|(way, samples)| beside(&name(way), samples, limit))
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_with_one_file_have_parts_of_it_that_do_not_meet() {
        let bytes = 3 * CALL_BYTES;
        let shared: Vec<Task> = (0..8).map(|client| Kind::OneFile.task(client, bytes)).collect();
        for pair in shared.windows(2) {
            assert_eq!(
                (pair[0].start + pair[0].bytes, &pair[0].path),
                (pair[1].start, &pair[1].path)
            );
        }
        let own: Vec<Task> = (0..8).map(|client| Kind::Separate.task(client, bytes)).collect();
        assert!(own.iter().all(|task| task.start == 0 && task.call == CALL_BYTES));
        assert_eq!(
            own.iter().map(|task| &task.path).collect::<std::collections::BTreeSet<_>>().len(),
            8
        );
    }
}
