//! Four tasks on four hosts, each with a partition of one file: figure 11 of the paper of 1996.
//!
//! ```text
//!   group = stripe   task 0 ──► daemon 0     group < stripe   all tasks ──► one daemon, the next
//!                    task 1 ──► daemon 1     group > stripe   each task ──► some or all daemons
//! ```

use anyhow::Result;
use braid_client::View;
use braid_netlab::Spec;

use super::{
    Papers,
    curves::{FAST_ETHERNET, Point, bytes, measured, size},
    line,
    rates::between_all,
    tasks::{Direction, Task, fill_striped},
};
use crate::measure::Measure;

const TASKS: usize = 4;
/// The paper's request.
const CALL_BYTES: u64 = 2 << 20;
const GROUPS: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];
const STRIPES: [u64; 3] = GROUPS;

/// `partition`: reads, as in the paper: each group size on each stripe size, and a file for each
/// task instead. The limit is that of the daemons' links.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let spec = Spec { iods: TASKS, clients: TASKS, rate: FAST_ETHERNET, ..Spec::default() };
    let sized = papers.lab(&spec, &between_all(TASKS, TASKS))?;
    let rate = sized.lab.spec().rate;
    let bytes = bytes(papers, rate);
    let mut points = Vec::new();
    let mut add = |name: &str, tasks: &[Task]| {
        points.push(Point { name: name.to_owned(), tasks: tasks.to_vec(), way: Direction::Read });
    };
    for stripe in STRIPES {
        let path = format!("/in{}", size(stripe));
        let whole =
            (0..TASKS).map(|rank| Task::new(rank, path.as_str(), rank as u64 * bytes, bytes));
        fill_striped(papers, &sized.lab, &whole.collect::<Vec<_>>(), stripe, None)?;
        for group in GROUPS {
            let tasks: Vec<Task> = (0..TASKS).map(|rank| own(rank, &path, group, bytes)).collect();
            add(&format!("{}_in_{}", size(group), size(stripe)), &tasks);
        }
    }
    let separate: Vec<Task> =
        (0..TASKS).map(|rank| Task::new(rank, format!("/own{rank}"), 0, bytes)).collect();
    fill_striped(papers, &sized.lab, &separate, STRIPES[1], None)?;
    add(
        "separate_files",
        &separate.iter().map(|task| task.in_calls_of(CALL_BYTES)).collect::<Vec<_>>(),
    );
    measured(papers, &sized, "partition", &points, TASKS as f64 * line(rate))
}

/// A task that sees every fourth group, from its rank on.
fn own(rank: usize, path: &str, group: u64, bytes: u64) -> Task {
    let view = View::strided(rank as u64 * group, group, TASKS as u64 * group);
    Task { view: Some(view), ..Task::new(rank, path, 0, bytes).in_calls_of(CALL_BYTES) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partitions_of_all_tasks_are_the_file() {
        let (group, bytes) = (GROUPS[0], 4 * GROUPS[0]);
        let mut seen = vec![0; TASKS * bytes as usize];
        for rank in 0..TASKS {
            let task = own(rank, "/file", group, bytes);
            let view = braid_client::FileView::new(task.view.unwrap()).unwrap();
            for position in 0..task.bytes {
                seen[view.file_offset(position).unwrap() as usize] += 1;
            }
        }
        assert!(seen.iter().all(|times| *times == 1));
    }
}
