//! Curves of the 1996 paper, one client at 100 Mbit/s: by request size, by number of daemons, by
//! stripe size (figures 8 to 10).
//!
//! A point takes half as long as a sample of other rows. The paper measures reads; writes are
//! measured here with one daemon.

use anyhow::Result;
use braid_netlab::Spec;

use super::{
    Papers, Sample, ScaledLab, beside, line,
    tasks::{CALL_BYTES, DIRECTIONS, Direction, Task, fill_striped, together},
};
use crate::measure::Measure;

/// The paper's network.
pub const FAST_ETHERNET: u64 = 100_000_000;
/// Stripes of figures 8 and 9.
pub const STRIPE_BYTES: u64 = 16 << 10;
const KIB: u64 = 1 << 10;

/// One point: the end of its name, its tasks, and the direction.
pub struct Point {
    /// `4.64KiB.read`.
    pub name: String,
    /// Tasks at the same time.
    pub tasks: Vec<Task>,
    /// To or from the daemons.
    pub way: Direction,
}

/// Samples of all points in turn, with their limit in MB/s.
pub fn measured(
    papers: &Papers,
    sized: &ScaledLab,
    row: &str,
    points: &[Point],
    limit: f64,
) -> Result<Vec<Measure>> {
    let mut samples: Vec<_> = points
        .iter()
        .map(|point| || together(papers, &sized.lab, &point.tasks, point.way))
        .collect();
    let mut samples: Vec<&mut dyn FnMut() -> Result<Sample>> =
        samples.iter_mut().map(|sample| sample as &mut dyn FnMut() -> Result<Sample>).collect();
    let samples = papers.alternate(&mut samples)?;
    let measures = points.iter().zip(&samples);
    Ok(measures
        .flat_map(|(point, samples)| beside(&format!("{row}.{}", point.name), samples, limit))
        .collect())
}

/// Bytes of a task that gets `bits_per_second` for half a sample, in whole calls of any size here.
pub fn bytes(papers: &Papers, bits_per_second: u64) -> u64 {
    papers.bytes(bits_per_second / 2, CALL_BYTES)
}

/// `16KiB`, `2MiB`.
pub fn size(bytes: u64) -> String {
    if bytes >= KIB << 10 { format!("{}MiB", bytes >> 20) } else { format!("{}KiB", bytes >> 10) }
}

/// `request_size`: one daemon, so that a request is one message; the paper's curve drops at 512
/// KiB, unexplained.
pub fn request_size(papers: &Papers) -> Result<Vec<Measure>> {
    let sized = papers.lab(&Spec { iods: 1, rate: FAST_ETHERNET, ..Spec::default() }, &[(0, 0)])?;
    let rate = sized.lab.spec().rate;
    let task = Task::new(0, "/file", 0, bytes(papers, rate));
    fill_striped(papers, &sized.lab, std::slice::from_ref(&task), STRIPE_BYTES, None)?;
    let mut points = Vec::new();
    for call in [16, 64, 256, 512, 1024, 2048, 4096].map(|kib| kib * KIB) {
        for way in DIRECTIONS {
            points.push(Point {
                name: format!("{}.{}", size(call), way.word()),
                tasks: vec![task.in_calls_of(call)],
                way,
            });
        }
    }
    measured(papers, &sized, "request_size", &points, line(rate))
}

/// `daemon_count`: the client's line is the limit of every point.
pub fn daemon_count(papers: &Papers) -> Result<Vec<Measure>> {
    let sized = papers.lab(&Spec { iods: 8, rate: FAST_ETHERNET, ..Spec::default() }, &[(0, 0)])?;
    let rate = sized.lab.spec().rate;
    let mut points = Vec::new();
    for daemons in [1, 2, 3, 4, 8_u16] {
        let task = Task::new(0, format!("/on{daemons}"), 0, bytes(papers, rate));
        fill_striped(papers, &sized.lab, std::slice::from_ref(&task), STRIPE_BYTES, Some(daemons))?;
        for call in [16, 256, 2048].map(|kib| kib * KIB) {
            let tasks = vec![task.in_calls_of(call)];
            points.push(Point {
                name: format!("{daemons}.{}", size(call)),
                tasks,
                way: Direction::Read,
            });
        }
    }
    measured(papers, &sized, "daemon_count", &points, line(rate))
}

/// `stripe_size`: four daemons.
pub fn stripe_size(papers: &Papers) -> Result<Vec<Measure>> {
    let sized = papers.lab(&Spec { iods: 4, rate: FAST_ETHERNET, ..Spec::default() }, &[(0, 0)])?;
    let rate = sized.lab.spec().rate;
    let mut points = Vec::new();
    for stripe in [4, 16, 64, 256].map(|kib| kib * KIB) {
        let task = Task::new(0, format!("/in{}", size(stripe)), 0, bytes(papers, rate));
        fill_striped(papers, &sized.lab, std::slice::from_ref(&task), stripe, None)?;
        for call in [64, 512, 2048].map(|kib| kib * KIB) {
            let name = format!("{}.{}", size(stripe), size(call));
            points.push(Point { name, tasks: vec![task.in_calls_of(call)], way: Direction::Read });
        }
    }
    measured(papers, &sized, "stripe_size", &points, line(rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_named_by_the_largest_unit() {
        assert_eq!(
            [16 << 10, 512 << 10, 1 << 20, 4 << 20].map(size),
            ["16KiB", "512KiB", "1MiB", "4MiB"]
        );
    }
}
