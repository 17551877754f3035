//! One data server beside its native protocol: CPU time of the I/O daemon's process for each GiB.

use std::cell::RefCell;

use anyhow::Result;
use braid_client::{OpenOptions, TlsPolicy};

use super::{
    client::{
        mount::Mount,
        transfer::{StripedFile, Way, data_sessions, sequential, transfer},
    },
    servers::Servers,
};
use crate::{
    bench::Bench,
    growth::process_group::ProcessGroup,
    measure::{Measure, ratio},
    rows::target::{self, CALL_BYTES},
};

/// Bars: multiples of the native protocol's CPU time.
const READ_FACTOR_MAX: f64 = 1.2;
const WRITE_FACTOR_MAX: f64 = 1.3;
/// Requests at a time: the native client has one call at a time, too.
const DEPTH: usize = 1;
const GIB: f64 = (1_u64 << 30) as f64;

/// `data_server`: files in the page cache, one client. A write is over when its bytes are on disk:
/// `fsync` at the end by the native protocol, COMMIT by NFS.
pub fn run(bench: &Bench) -> Result<Vec<Measure>> {
    let (file_bytes, passes) = bench.size((256_u64 << 20, 8), (64 << 20, 4));
    let servers = Servers::start(bench, 1)?;
    let mut iod = ProcessGroup::new(bench.meter(), "nfs-iod")?;
    iod.add(&servers.cluster.iod_pids())?;
    let native = servers.cluster.client(TlsPolicy::default())?;
    let options = OpenOptions::new().read(true).write(true).create(true);
    let native = native.open("/native", &options)?;
    let buffer = RefCell::new(vec![0xa5; CALL_BYTES]);

    let mut mount = Mount::new(servers.address, "bench", "")?;
    let root = mount.root();
    let opened = mount.open(&root, "nfs", true)?;
    let layout = mount.layout(&opened)?;
    let data = RefCell::new(data_sessions(&layout.servers, "bench", DEPTH as u32)?);
    let split = layout.file.split(sequential(0, file_bytes, CALL_BYTES as u64));
    let by_nfs =
        |file: &StripedFile, way| transfer(&mut data.borrow_mut(), file, &split, way, DEPTH);
    let by_native = |way| match way {
        Way::Read => target::read(&native, file_bytes, &mut buffer.borrow_mut()),
        Way::Write => {
            target::write(&native, file_bytes, &buffer.borrow())?;
            native.sync()?;
            Ok(())
        }
    };
    // New bytes once, so that measured writes are overwrites of what is in the page cache.
    by_native(Way::Write)?;
    by_nfs(&layout.file, Way::Write)?;
    mount.layout_commit(&opened, &layout, file_bytes)?;

    let sample = |work: &dyn Fn() -> Result<()>| {
        work()?;
        let start = iod.now()?;
        let taken = bench.take(|| (0..passes).try_for_each(|_| work()))?;
        let bytes = passes * file_bytes;
        let cpu = iod.now()?.saturating_sub(start).as_secs_f64() / (bytes as f64 / GIB);
        Ok((cpu, taken.mb_per_second(bytes)))
    };
    let mut all = Vec::new();
    for (way, limit) in [(Way::Read, READ_FACTOR_MAX), (Way::Write, WRITE_FACTOR_MAX)] {
        let (mut native, mut nfs) =
            (|| sample(&|| by_native(way)), || sample(&|| by_nfs(&layout.file, way)));
        let samples = bench.alternate::<(f64, f64)>(&mut [&mut native, &mut nfs])?;
        let name = format!("data_server.{}", way.word());
        let [native, nfs] =
            [0, 1].map(|at| -> Vec<f64> { samples[at].iter().map(|(cpu, _)| *cpu).collect() });
        all.push(
            Measure::new(format!("{name}.cpu"), "x native", ratio::of_pairs(&nfs, &native)?)
                .at_most(limit, "CPU of the I/O daemon for each GiB, native protocol = 1"),
        );
        for (kind, at) in [("native", 0), ("nfs", 1)] {
            let cpu = samples[at].iter().map(|(cpu, _)| *cpu);
            let rate = samples[at].iter().map(|(_, rate)| *rate);
            all.push(Measure::new(format!("{name}.{kind}.cpu"), "s/GiB", ratio::summary(cpu)?));
            all.push(Measure::new(format!("{name}.{kind}.rate"), "MB/s", ratio::summary(rate)?));
        }
    }
    mount.layout_return(&opened, &layout)?;
    mount.close(&opened)?;
    Ok(all)
}
