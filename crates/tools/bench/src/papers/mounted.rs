//! One client through the mount, with `dd`.

use std::{path::PathBuf, process::Command, time::Instant};

use anyhow::{Context, Result, ensure};
use braid_netlab::{Host, Lab, Spec};

use super::{
    Papers, Sample, against, line,
    one_client::{DAEMONS, GIGABIT, alone, beside_one_stream},
    tasks::{CALL_BYTES, WAYS, Way, fill},
};
use crate::measure::Measure;

/// `mount`: with the client's line as the limit, then with the daemons'.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let slow = papers.lab(&Spec { iods: DAEMONS, rate: GIGABIT, ..Spec::default() }, &[(0, 0)])?;
    let tasks = alone(papers, slow.lab.spec().rate);
    fill(&slow.lab, &tasks, None)?;
    let mount = Mount::new(papers, &slow.lab)?;
    let mut all = Vec::new();
    for way in WAYS {
        let (limit, samples) = beside_one_stream(papers, &slow, way, || mount.sample(&slow.lab, tasks[0].bytes, way))?;
        let what = format!("one iperf3 stream{}, ", slow.said());
        all.extend(against(&format!("mount.one_client.{}", way.word()), &samples, 0.93, limit, &what));
    }
    drop((mount, slow));
    let spec = Spec { iods: DAEMONS, rate: GIGABIT, client_rate: Some(4 * GIGABIT), ..Spec::default() };
    let pairs: Vec<(usize, usize)> = (0..DAEMONS).map(|daemon| (0, daemon)).collect();
    let fast = papers.lab(&spec, &pairs)?;
    let tasks = alone(papers, DAEMONS as u64 * fast.lab.spec().rate);
    fill(&fast.lab, &tasks, None)?;
    let mount = Mount::new(papers, &fast.lab)?;
    let sample = |way| mount.sample(&fast.lab, tasks[0].bytes, way);
    let (mut write, mut read) = (|| sample(Way::Write), || sample(Way::Read));
    let samples = papers.alternate::<Sample>(&mut [&mut write, &mut read])?;
    for (way, samples) in WAYS.into_iter().zip(&samples) {
        let lines = DAEMONS as f64 * line(fast.lab.spec().rate);
        let what = format!("{DAEMONS} lines{}, ", fast.said());
        all.extend(against(&format!("mount.fast_client.{}", way.word()), samples, 0.85, lines, &what));
    }
    Ok(all)
}

/// A mount on the first client host; the lab unmounts what is below its directory.
struct Mount {
    braid: PathBuf,
    host: Host,
    environment: Vec<(&'static str, String)>,
    point: PathBuf,
}

impl Mount {
    fn new(papers: &Papers, lab: &Lab) -> Result<Self> {
        let point = lab.dir().join("mount");
        std::fs::create_dir(&point)?;
        let environment = lab.environment().to_vec();
        let mount =
            Self { braid: papers.braid.path().to_owned(), host: lab.client_host(0)?.clone(), environment, point };
        mount.mount()?;
        Ok(mount)
    }

    fn mount(&self) -> Result<()> {
        let mut command = self.host.command(&self.braid);
        command.arg("mount").arg(&self.point).envs(self.environment.iter().cloned());
        succeed(&mut command)
    }

    /// A mount that has seen nothing of the file; `dd` with calls of 4 MiB, and `fsync` after writing.
    fn sample(&self, lab: &Lab, bytes: u64, way: Way) -> Result<Sample> {
        succeed(Command::new("umount").arg(&self.point))?;
        self.mount()?;
        let file = self.point.join("file").display().to_string();
        ensure!(std::fs::metadata(&file)?.len() == bytes, "{file} is not what was written");
        let (from, to, flags) = match way {
            Way::Write => ("/dev/zero", file.as_str(), "conv=notrunc,fsync"),
            Way::Read => (file.as_str(), "/dev/null", "conv=notrunc"),
        };
        let count = format!("count={}", bytes / CALL_BYTES);
        let block = format!("bs={CALL_BYTES}");
        let before = lab.counters()?;
        let start = Instant::now();
        succeed(Command::new("dd").args([
            &format!("if={from}"),
            &format!("of={to}"),
            &block,
            &count,
            flags,
            "status=none",
        ]))?;
        let time = start.elapsed().as_secs_f64();
        let counted = lab.counters()? - before;
        Ok(Sample {
            mb_per_second: bytes as f64 / 1e6 / time,
            retransmits: counted.retransmits as f64,
            timeouts: counted.timeouts as f64,
        })
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.point).output();
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr).trim());
    Ok(())
}
