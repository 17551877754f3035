//! The load that is recorded: one client, one operation at a time, each marked before and after.

use std::{fs::File, io::Write, path::Path};

use anyhow::{Context, Result};
use braid_testbed::{braid::Braid, cluster};

use super::{BELOW, IODS, READY};
use crate::load::{Actor, Model, Operation, Script};

/// The operations of a seed.
pub fn operations(seed: u64, count: usize) -> Vec<Operation> {
    let (mut model, mut script) = (Model::default(), Script::new(seed, BELOW));
    let mut all = vec![Operation::MakeDirectory(BELOW.to_owned())];
    model.apply(&all[0]);
    while all.len() < count {
        let next = script.next(&model);
        model.apply(&next);
        all.push(next);
    }
    all
}

/// Creates a cluster in `dir`/cluster and runs the operations of a seed; the progress is marked in
/// `dir`/marks. This is the process that the recorder runs.
pub fn load(braid: &Braid, dir: &Path, seed: u64, count: usize, port: u16) -> Result<()> {
    let mut marks = File::create(dir.join("marks"))?;
    let cluster = dir.join("cluster");
    let up = ["up".into(), cluster.as_os_str().to_owned(), "--no-mount".into()];
    let numbers =
        ["--iods".into(), IODS.to_string().into(), "--port".into(), port.to_string().into()];
    let up = up.into_iter().chain(numbers);
    let mut daemon = braid.daemon(up, READY, &dir.join("recorded.log"))?;
    let client = cluster::connect(&format!("127.0.0.1:{port}"), &cluster.join("keys/client.key"))?;
    let mut actor = Actor::new(client, IODS);
    let mut model = Model::default();
    // One `write` each: a mark is one event of the trace.
    let mut mark = |text: String| marks.write_all(text.as_bytes()).context("marking");
    mark("ready\n".to_owned())?;
    for (number, operation) in operations(seed, count).iter().enumerate() {
        mark(format!("begin {number}\n"))?;
        actor
            .act(&model, operation)
            .with_context(|| format!("operation {number}, {operation:?}"))?;
        mark(format!("done {number}\n"))?;
        model.apply(operation);
    }
    daemon.kill();
    Ok(())
}
