//! Many clients: figures 6 and 7 of the Direct-pNFS paper, tables 3 and 8 of the CIFS paper.

use anyhow::Result;
use braid_netlab::Spec;

use super::{
    Papers, Sample, line,
    one_client::GIGABIT,
    rates::between_all,
    tasks::{CALL_BYTES, DIRECTIONS, Direction, Task, fill, together},
    with_target,
};
use crate::measure::Measure;

/// `clients`: 8 clients and 6 daemons, each with its own file, and all with parts of one.
pub fn eight(papers: &Papers) -> Result<Vec<Measure>> {
    const CLIENTS: usize = 8;
    const DAEMONS: usize = 6;
    let spec = Spec { iods: DAEMONS, clients: CLIENTS, rate: GIGABIT, ..Spec::default() };
    let sized = papers.lab(&spec, &between_all(CLIENTS, DAEMONS))?;
    let rate = sized.lab.spec().rate;
    // Four times as long as others, 500 MB for each at the whole rates as in the paper: the last
    // client ends the sample.
    let bytes = papers.bytes(4 * rate * DAEMONS as u64 / CLIENTS as u64, CALL_BYTES);
    let separate: Vec<Task> =
        (0..CLIENTS).map(|client| Task::new(client, format!("/own{client}"), 0, bytes)).collect();
    let shared =
        (0..CLIENTS).map(|client| Task::new(client, "/shared", client as u64 * bytes, bytes));
    let shared: Vec<Task> = shared.collect();
    let mut all = Vec::new();
    for (kind, tasks) in [("separate", &separate), ("one_file", &shared)] {
        fill(papers, &sized.lab, tasks, None)?;
        let (mut write, mut read) = (
            || together(papers, &sized.lab, tasks, Direction::Write),
            || together(papers, &sized.lab, tasks, Direction::Read),
        );
        let samples = papers.alternate::<Sample>(&mut [&mut write, &mut read])?;
        for (way, samples) in DIRECTIONS.into_iter().zip(&samples) {
            let what = format!("{DAEMONS} lines{}, ", sized.rate_note());
            let lines = DAEMONS as f64 * line(rate);
            all.extend(with_target(
                &format!("clients.{kind}.{}", way.word()),
                samples,
                0.95,
                lines,
                &what,
            ));
        }
    }
    Ok(all)
}

/// `cards`: 15 hosts with 4 tasks each, 4 servers with two network interfaces each; every task has
/// its own file over all servers.
pub fn sixty(papers: &Papers) -> Result<Vec<Measure>> {
    const HOSTS: usize = 15;
    const TASKS: usize = 60;
    const SERVERS: usize = 4;
    const CARDS: usize = 2;
    let spec =
        Spec { iods: SERVERS, clients: HOSTS, cards: CARDS, rate: GIGABIT, ..Spec::default() };
    let sized = papers.lab(&spec, &between_all(HOSTS, SERVERS))?;
    let lines = (SERVERS * CARDS) as u64 * sized.lab.spec().rate;
    // Also four times as long: a task of 60 has a small part of the links.
    let bytes = papers.bytes(4 * lines / TASKS as u64, CALL_BYTES);
    let task = |at: usize| Task::new(at % HOSTS, format!("/task{at}"), 0, bytes);
    let tasks: Vec<Task> = (0..TASKS).map(task).collect();
    fill(papers, &sized.lab, &tasks, None)?;
    let (mut write, mut read) = (
        || together(papers, &sized.lab, &tasks, Direction::Write),
        || together(papers, &sized.lab, &tasks, Direction::Read),
    );
    let samples = papers.alternate::<Sample>(&mut [&mut write, &mut read])?;
    let measures = DIRECTIONS.into_iter().zip(&samples).flat_map(|(way, samples)| {
        let what = format!("8 lines{}, ", sized.rate_note());
        with_target(&format!("cards.{}", way.word()), samples, 0.95, line(lines), &what)
    });
    Ok(measures.collect())
}
