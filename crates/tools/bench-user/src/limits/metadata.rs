//! The metadata server's reply time, and the time to force a change to its disk.

use super::limit;
use crate::{
    bench::Bench,
    error::Result,
    report::{Limit, LimitKind},
    sample::{Step, rate, time},
};

pub(super) const COUNT: usize = 4;

pub(super) fn measure(bench: &Bench<'_>) -> Result<Vec<Limit>> {
    let (client, path) = (bench.client, bench.scratch.directory());
    let round_trip = time(bench, bench.limit_sample, || client.lstat(path).map(drop))?;
    let force = time(bench, bench.limit_sample, || {
        client.chmod(path, 0o700)?;
        client.sync_directory(path)
    })?;
    let tasks = bench.options.tasks();
    let mut looks: Vec<_> = (0..tasks).map(|_| Step(|| client.lstat(path).map(|_| 1))).collect();
    let looks = rate(bench, bench.limit_sample, &mut looks)?;
    let mut changes: Vec<_> =
        (0..tasks).map(|_| Step(|| client.chmod(path, 0o700).map(|()| 1))).collect();
    let changes = rate(bench, bench.limit_sample, &mut changes)?;
    Ok(vec![
        limit(
            LimitKind::MdsRoundTrip,
            None,
            "the round trip to the metadata server".into(),
            "a call that asks for attributes",
            round_trip,
        ),
        limit(
            LimitKind::MdsForce,
            None,
            "the metadata server's log".into(),
            "a change of mode and the force of the log to its disk, two calls",
            force,
        ),
        limit(
            LimitKind::MdsCalls,
            None,
            format!("the calls that the metadata server serves for {tasks} tasks"),
            "all tasks ask for attributes",
            looks,
        ),
        limit(
            LimitKind::MdsChanges,
            None,
            format!("the changes that the metadata server makes for {tasks} tasks"),
            "all tasks set a mode; not forced to disk",
            changes,
        ),
    ])
}
