//! One operation at a time, each timed.

use std::time::Instant;

use anyhow::Result;
use braid_testbed::stats::{Summary, percentile};

use crate::{
    bench::Bench,
    measure::Measure,
    pinning::{Pinning, pinned},
    references::round_trip::RoundTrip,
};

/// Round trips of one reference sample.
const ROUND_TRIPS: u32 = 20_000;
/// The same with `--quick`.
const ROUND_TRIPS_QUICK: u32 = 4_000;

/// The latencies of many operations.
#[derive(Clone, Copy, Debug)]
pub struct Latency {
    /// The median, in microseconds.
    pub p50_us: f64,
    /// The 99th percentile.
    pub p99_us: f64,
    /// CPU of all processes for each, in microseconds; 0 until [`timed`] sets it.
    pub cpu_us: f64,
}

/// Runs `operation` `count` times, with its number.
pub fn each(count: u32, mut operation: impl FnMut(u32) -> Result<()>) -> Result<Latency> {
    let mut times_us = Vec::with_capacity(count as usize);
    for number in 0..count {
        let start = Instant::now();
        operation(number)?;
        times_us.push(start.elapsed().as_secs_f64() * 1e6);
    }
    Ok(Latency {
        p50_us: percentile(&mut times_us, 50.0),
        p99_us: percentile(&mut times_us, 99.0),
        cpu_us: 0.0,
    })
}

/// [`each`], with its CPU.
pub fn timed(
    bench: &Bench,
    count: u32,
    operation: impl FnMut(u32) -> Result<()>,
) -> Result<Latency> {
    let mut latency = None;
    let taken = bench.take(|| {
        latency = Some(each(count, operation)?);
        Ok(())
    })?;
    let latency = latency.expect("the work was done");
    Ok(Latency { cpu_us: taken.cpu_us_each(count.into()), ..latency })
}

/// One operation over plain connections and over TLS.
pub struct Subject<'s> {
    /// The row.
    pub name: &'static str,
    /// The maximum number of round trips.
    pub round_trips: f64,
    /// The processes that serve it, to be pinned.
    pub pids: Vec<u32>,
    /// A sample over plain connections.
    pub plain: &'s mut dyn FnMut() -> Result<Latency>,
    /// A sample over TLS.
    pub tls: Option<&'s mut dyn FnMut() -> Result<Latency>>,
}

/// Measures it in turn with the round trip, on any processors and on one processor.
pub fn against_round_trip(bench: &Bench, mut subject: Subject<'_>) -> Result<Vec<Measure>> {
    let mut measures = Vec::new();
    for pinning in Pinning::ALL {
        measures.extend(one_pinning(bench, &mut subject, pinning)?);
    }
    Ok(measures)
}

fn one_pinning(bench: &Bench, subject: &mut Subject<'_>, pinning: Pinning) -> Result<Vec<Measure>> {
    let mut round_trip = RoundTrip::start()?;
    let pids: Vec<u32> = subject.pids.iter().copied().chain([round_trip.pid()]).collect();
    let count = bench.size(ROUND_TRIPS, ROUND_TRIPS_QUICK);
    let mut reference = || round_trip.sample(count);
    let mut variants: Vec<&mut dyn FnMut() -> Result<Latency>> =
        vec![&mut reference, &mut *subject.plain];
    if let Some(tls) = &mut subject.tls {
        variants.push(&mut **tls);
    }
    let samples = pinned(pinning, &pids, || bench.alternate(&mut variants))?;
    Ok(report(subject, pinning, &samples))
}

fn report(subject: &Subject<'_>, pinning: Pinning, samples: &[Vec<Latency>]) -> Vec<Measure> {
    let summary = |of: usize, pick: fn(&Latency) -> f64| {
        samples.get(of).and_then(|all| Summary::of(all.iter().map(pick)))
    };
    let plain = |pick| summary(1, pick).expect("there is a sample");
    let round_trip = summary(0, |sample| sample.p50_us).expect("there is a sample");
    let name = |what: &str| format!("{}.{}.{what}", subject.name, pinning.name());
    let reason = format!("{} x round trip {:.1}", subject.round_trips, round_trip.median);
    vec![
        Measure::new(name("round_trip"), "us", round_trip),
        Measure::new(name("p50"), "us", plain(|sample| sample.p50_us))
            .at_most(subject.round_trips * round_trip.median, reason)
            .beside_tls(summary(2, |sample| sample.p50_us)),
        Measure::new(name("p99"), "us", plain(|sample| sample.p99_us))
            .beside_tls(summary(2, |sample| sample.p99_us)),
        Measure::new(name("cpu"), "us each", plain(|sample| sample.cpu_us))
            .beside_tls_at_most(summary(2, |sample| sample.cpu_us), 2.5),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_operation_is_run_with_its_number() {
        let mut numbers = Vec::new();
        each(3, |number| {
            numbers.push(number);
            Ok(())
        })
        .unwrap();
        assert_eq!(numbers, [0, 1, 2]);
    }

    #[test]
    fn an_operation_that_fails_ends_the_sample() {
        assert!(each(3, |_| anyhow::bail!("no")).is_err());
    }

    #[test]
    fn the_bar_is_a_multiple_of_the_round_trip_of_the_same_pinning() {
        let latency = |p50_us| Latency { p50_us, p99_us: 99.0, cpu_us: 1.0 };
        let subject = Subject {
            name: "stat",
            round_trips: 1.6,
            pids: vec![],
            plain: &mut || Ok(latency(0.0)),
            tls: None,
        };
        let measures =
            report(&subject, Pinning::OneCpu, &[vec![latency(10.0)], vec![latency(16.5)]]);
        let p50 = measures.iter().find(|measure| measure.name == "stat.one_cpu.p50").unwrap();
        assert_eq!(p50.plain.target.as_ref().unwrap().limit(), 16.0);
        assert_eq!(p50.plain.holds(), Some(false));
    }
}
