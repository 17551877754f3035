//! The machine alone, without daemons.

use anyhow::Result;
use braid_testbed::stats::Summary;

use super::{latency::Latency, sequential};
use crate::{
    bench::{Bench, WorkCost},
    measure::Measure,
    pinning::{Pinning, pinned},
    references::{local_file::LocalFile, round_trip::RoundTrip, stream::Stream},
};

/// All references in turn.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let sizes = sequential::Sizes::of(bench);
    let stream = Stream::start(bench)?;
    let streamed = bench.alternate(&mut [&mut || stream.sample(bench, sizes.sample)])?.remove(0);
    let summary = |values: Vec<f64>| Summary::of(values).expect("there is a sample");
    let mut measures = vec![
        Measure::new(
            "reference.stream.cpu",
            "s/GiB",
            summary(streamed.iter().map(|one| one.cpu_per_gib).collect()),
        ),
        Measure::new(
            "reference.stream.rate",
            "MB/s",
            summary(streamed.iter().map(|one| one.mb_per_second).collect()),
        ),
    ];
    let file = std::cell::RefCell::new(LocalFile::make(&bench.scratch, "reference", sizes.file)?);
    let files = bench.alternate::<WorkCost>(&mut [
        &mut || sizes.passes(bench, || file.borrow_mut().read()),
        &mut || sizes.passes(bench, || file.borrow_mut().write()),
    ])?;
    for (name, taken) in ["local_read", "local_rewrite"].into_iter().zip(&files) {
        let cpu = summary(taken.iter().map(|one| one.cpu_per_gib(sizes.sample)).collect());
        let rate = summary(taken.iter().map(|one| one.mb_per_second(sizes.sample)).collect());
        measures.push(Measure::new(format!("reference.{name}.cpu"), "s/GiB", cpu));
        measures.push(Measure::new(format!("reference.{name}.rate"), "MB/s", rate));
    }
    measures.extend(round_trips(bench)?);
    Ok(measures)
}

fn round_trips(bench: &Bench) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for pinning in Pinning::ALL {
        let mut round_trip = RoundTrip::start()?;
        let pid = round_trip.pid();
        let count = bench.size(20_000, 4_000);
        let samples: Vec<Latency> =
            pinned(pinning, &[pid], || bench.alternate(&mut [&mut || round_trip.sample(count)]))?
                .remove(0);
        let summary =
            Summary::of(samples.iter().map(|sample| sample.p50_us)).expect("there is a sample");
        measures.push(Measure::new(
            format!("reference.round_trip.{}", pinning.name()),
            "us",
            summary,
        ));
    }
    Ok(measures)
}
