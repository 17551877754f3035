//! Bytes: dd and fio.

use anyhow::{Context, Result, ensure};
use braid_testbed::{programs::need, shell::sh};

use super::{
    Sample,
    subject::{self, Subject},
};
use crate::{
    bench::{Bench, WorkCost},
    references::stream::Stream,
};

const MIB: u64 = 1 << 20;
/// Processes that read or write at the same time.
const PROCESSES: u64 = 4;
/// The CPU time of a byte on a raw TCP stream.
pub const STREAM_CPU: &str = "sequential.stream_cpu";
/// Seconds of random reading.
const RANDOM_SECONDS: u32 = 6;

const WRITE: &str = "dd if=/dev/zero of=\"$1\" bs=1M count=$2 conv=notrunc status=none";
const READ: &str = "dd if=\"$1\" of=/dev/null bs=1M status=none";
const WRITE_ALL: &str = "pids=; for i in 1 2 3 4; do \
                         dd if=/dev/zero of=\"$1$i\" bs=1M count=$2 conv=notrunc status=none & \
                         pids=\"$pids $!\"; done; \
                         for pid in $pids; do wait $pid; done";
const READ_ALL: &str = "pids=; for i in 1 2 3 4; do dd if=\"$1$i\" of=/dev/null bs=1M \
    status=none & pids=\"$pids $!\"; done; \
                        for pid in $pids; do wait $pid; done";

fn rate(name: &'static str, taken: &WorkCost, bytes: u64) -> Sample {
    Sample { name, unit: "MB/s", value: taken.mb_per_second(bytes) }
}

fn cpu(name: &'static str, taken: &WorkCost, bytes: u64) -> Sample {
    Sample { name, unit: "CPU s/GiB", value: taken.cpu_per_gib(bytes) }
}

/// A new file, overwritten in place, and read by a client with a cold cache.
pub fn sequential(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let (file, mib) = (subject.path("big"), bench.size(2048u64, 256));
    let (count, bytes) = (mib.to_string(), mib * MIB);
    sh("rm -f \"$1\"; sync", &[&file])?;
    let write = bench.take(|| sh(WRITE, &[&file, &count]).map(drop))?;
    sh("sync", &[])?;
    let rewrite = bench.take(|| sh(WRITE, &[&file, &count]).map(drop))?;
    ensure!(
        std::fs::metadata(&file)?.len() == bytes,
        "the file's length differs from what was written"
    );
    subject.cold()?;
    let read = bench.take(|| sh(READ, &[&file]).map(drop))?;
    sh("rm -f \"$1\"", &[&file])?;
    let mut samples = vec![
        rate("sequential.write", &write, bytes),
        cpu("sequential.write_cpu", &write, bytes),
        rate("sequential.rewrite", &rewrite, bytes),
        cpu("sequential.rewrite_cpu", &rewrite, bytes),
        rate("sequential.read", &read, bytes),
        cpu("sequential.read_cpu", &read, bytes),
    ];
    if subject.name() == subject::LOCAL {
        let streamed = Stream::start(bench)?.sample(bench, bytes)?;
        samples.push(Sample { name: STREAM_CPU, unit: "CPU s/GiB", value: streamed.cpu_per_gib });
    }
    Ok(samples)
}

/// The same by four processes, each with its own file.
pub fn parallel(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let (file, mib) = (subject.path("part"), bench.size(512u64, 64));
    let (count, bytes) = (mib.to_string(), PROCESSES * mib * MIB);
    sh("rm -f \"$1\"[1-4]; sync", &[&file])?;
    let write = bench.take(|| sh(WRITE_ALL, &[&file, &count]).map(drop))?;
    subject.cold()?;
    let read = bench.take(|| sh(READ_ALL, &[&file]).map(drop))?;
    sh("rm -f \"$1\"[1-4]", &[&file])?;
    Ok(vec![rate("parallel.write", &write, bytes), rate("parallel.read", &read, bytes)])
}

/// One job that reads past the client's cache.
pub fn random(bench: &Bench, subject: &Subject) -> Result<Vec<Sample>> {
    let (file, mib) = (subject.path("random"), bench.size(1024u64, 128));
    sh(WRITE, &[&file, &mib.to_string()])?;
    subject.cold()?;
    let (mean, p99) = random_read(&file, mib, bench.size(RANDOM_SECONDS, 2))?;
    sh("rm -f \"$1\"", &[&file])?;
    Ok(vec![
        Sample { name: "random.latency", unit: "us", value: mean },
        Sample { name: "random.p99", unit: "us", value: p99 },
    ])
}

/// Reads 4 KiB at a time for `seconds` within the first `mib` MiB of a file: mean and 99th
/// percentile, in microseconds.
pub fn random_read(file: &str, mib: u64, seconds: u32) -> Result<(f64, f64)> {
    need("fio", &["fio"])?;
    let fio = "fio --name=r --filename=\"$1\" --size=$2m --rw=randread --bs=4k --ioengine=psync \
        --direct=1 \
               --runtime=$3 --time_based --invalidate=0 --output-format=json 2>/dev/null";
    let said = sh(fio, &[file, &mib.to_string(), &seconds.to_string()])?;
    let report = said.find('{').map(|at| &said[at..]).context("fio printed no report")?;
    let report: serde_json::Value = serde_json::from_str(report).context("the report of fio")?;
    let latency = &report["jobs"][0]["read"]["clat_ns"];
    let us = |value: &serde_json::Value| {
        value.as_f64().map(|ns| ns / 1e3).context("fio printed no latency")
    };
    Ok((us(&latency["mean"])?, us(&latency["percentile"]["99.000000"])?))
}
