//! Streams by hosts and by tasks on each, 4 servers with two interfaces: tables 4, 5, 8, 9 and 10
//! of the CIFS paper.

use anyhow::Result;
use braid_netlab::Spec;

use super::{
    Papers, Sample, beside, line,
    one_client::GIGABIT,
    rates::between_all,
    tasks::{CALL_BYTES, DIRECTIONS, Direction, Task, fill, together},
};
use crate::measure::Measure;

const SERVERS: usize = 4;
const CARDS: usize = 2;
/// Hosts, and tasks on each: one stream, one for each host, four for each.
const POINTS: [(usize, usize); 8] =
    [(1, 1), (4, 1), (8, 1), (16, 1), (1, 4), (2, 4), (4, 4), (8, 4)];

/// `streams`: limited by the clients' links, or the servers' where these carry less.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let most = POINTS.into_iter().map(|(hosts, _)| hosts).max().unwrap_or_default();
    let spec =
        Spec { iods: SERVERS, clients: most, cards: CARDS, rate: GIGABIT, ..Spec::default() };
    let sized = papers.lab(&spec, &between_all(most, SERVERS))?;
    let rate = sized.lab.spec().rate;
    let mut all = Vec::new();
    for (hosts, each) in POINTS {
        let tasks = tasks(papers, rate, hosts, each);
        fill(papers, &sized.lab, &tasks, None)?;
        let (mut write, mut read) = (
            || together(papers, &sized.lab, &tasks, Direction::Write),
            || together(papers, &sized.lab, &tasks, Direction::Read),
        );
        let samples = papers.alternate::<Sample>(&mut [&mut write, &mut read])?;
        for (way, samples) in DIRECTIONS.into_iter().zip(&samples) {
            let name = format!("streams.{hosts}x{each}.{}", way.word());
            all.extend(beside(&name, samples, line(lines(hosts) * rate)));
        }
    }
    Ok(all)
}

fn lines(hosts: usize) -> u64 {
    hosts.min(SERVERS * CARDS) as u64
}

/// A separate file for each, over all servers; a sample of all takes as long as others.
fn tasks(papers: &Papers, rate: u64, hosts: usize, each: usize) -> Vec<Task> {
    let count = hosts * each;
    let bytes = papers.bytes(lines(hosts) * rate / count as u64, CALL_BYTES);
    (0..count).map(|at| Task::new(at % hosts, format!("/{hosts}x{each}.{at}"), 0, bytes)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lines_are_those_of_the_hosts_until_the_servers_have_fewer() {
        assert_eq!([1, 4, 8, 15].map(lines), [1, 4, 8, 8]);
    }
}
