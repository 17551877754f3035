//! One client through the mount, with `dd`.

use std::{
    path::{Path, PathBuf},
    process::Command,
};

use anyhow::{Context, Result, ensure};
use braid_netlab::{Host, Lab, Spec};

use super::{
    Papers, Sample, line,
    one_client::{DAEMONS, GIGABIT, beside_one_stream, one_task, one_task_on},
    sampling::Sampling,
    tasks::{CALL_BYTES, DIRECTIONS, Direction, Task, fill},
    with_target,
};
use crate::{
    measure::Measure,
    mount::passthrough::{Example, Passthrough},
};

/// `mount`: limited by the client's link, then by the links of one to four daemons.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let slow = papers.lab_that_writes(
        &Spec { iods: DAEMONS, rate: GIGABIT, ..Spec::default() },
        &[(0, 0)],
        || fuse_cpu(papers, CALL_BYTES),
    )?;
    let tasks = one_task(papers, slow.lab.spec().rate);
    fill(papers, &slow.lab, &tasks, None)?;
    let mount = Mount::new(papers, &slow.lab, 0)?;
    let mut all = Vec::new();
    for way in DIRECTIONS {
        let (limit, samples) = beside_one_stream(papers, &slow, way, || {
            mount.sample(papers, &slow.lab, &tasks[0], way)
        })?;
        let what = format!("one iperf3 stream{}, ", slow.rate_note());
        all.extend(with_target(
            &format!("mount.one_client.{}", way.word()),
            &samples,
            0.93,
            limit,
            &what,
        ));
    }
    drop((mount, slow));
    let spec =
        Spec { iods: DAEMONS, rate: GIGABIT, client_rate: Some(4 * GIGABIT), ..Spec::default() };
    let pairs: Vec<(usize, usize)> = (0..DAEMONS).map(|daemon| (0, daemon)).collect();
    let fast = papers.lab_that_writes(&spec, &pairs, || fuse_cpu(papers, CALL_BYTES))?;
    let mount = Mount::new(papers, &fast.lab, 0)?;
    for daemons in 1..=DAEMONS {
        let tasks = one_task_on(papers, daemons, fast.lab.spec().rate);
        fill(papers, &fast.lab, &tasks, Some(daemons as u16))?;
        let sample = |way| mount.sample(papers, &fast.lab, &tasks[0], way);
        let (mut write, mut read) = (|| sample(Direction::Write), || sample(Direction::Read));
        let samples = papers.alternate::<Sample>(&mut [&mut write, &mut read])?;
        for (way, samples) in DIRECTIONS.into_iter().zip(&samples) {
            let lines = daemons as f64 * line(fast.lab.spec().rate);
            let what = format!("{daemons} lines{}, ", fast.rate_note());
            all.extend(with_target(
                &format!("mount.fast_client.{daemons}.{}", way.word()),
                samples,
                0.85,
                lines,
                &what,
            ));
        }
    }
    Ok(all)
}

/// A mount on a client host; the lab unmounts everything below its directory.
pub struct Mount {
    braid: PathBuf,
    host: Host,
    environment: Vec<(&'static str, String)>,
    point: PathBuf,
}

impl Mount {
    /// A mount on this client.
    pub fn new(papers: &Papers, lab: &Lab, client: usize) -> Result<Self> {
        let point = lab.dir().join(format!("mount{client}"));
        std::fs::create_dir(&point)?;
        let environment = lab.environment().to_vec();
        let mount = Self {
            braid: papers.braid.path().to_owned(),
            host: lab.client_host(client)?.clone(),
            environment,
            point,
        };
        mount.mount()?;
        Ok(mount)
    }

    fn mount(&self) -> Result<()> {
        let mut command = self.host.command(&self.braid);
        command.arg("mount").arg(&self.point).envs(self.environment.iter().cloned());
        succeed(&mut command)
    }

    /// The path of a file that the library created.
    pub fn file(&self, path: &str) -> PathBuf {
        self.point.join(path.trim_start_matches('/'))
    }

    /// Mounts it again: no file is cached.
    pub fn cold(&self) -> Result<()> {
        succeed(Command::new("umount").arg(&self.point))?;
        self.mount()
    }

    /// A mount without cached files; `dd` with calls of 4 MiB, and `fsync` after writing.
    fn sample(&self, papers: &Papers, lab: &Lab, task: &Task, way: Direction) -> Result<Sample> {
        self.cold()?;
        let (file, bytes) = (self.file(&task.path), task.bytes);
        ensure!(
            std::fs::metadata(&file)?.len() == bytes,
            "{} differs from what was written",
            file.display()
        );
        let taking = Sampling::start(papers, lab)?;
        succeed(&mut dd(&file, way, CALL_BYTES, 0, bytes))?;
        taking.end(papers, lab, bytes)
    }
}

/// `dd` of a part of a file, in blocks that divide its start and length.
pub fn dd(file: &Path, way: Direction, block: u64, start: u64, bytes: u64) -> Command {
    let file = file.display().to_string();
    let (from, to, at, flags) = match way {
        Direction::Write => ("/dev/zero", file.as_str(), "seek", "conv=notrunc,fsync"),
        Direction::Read => (file.as_str(), "/dev/null", "skip", "conv=notrunc"),
    };
    let mut command = Command::new("dd");
    command.args([format!("if={from}"), format!("of={to}"), format!("bs={block}")]);
    command.args([format!("{at}={}", start / block), format!("count={}", bytes / block)]);
    command.args([flags, "status=none"]);
    command
}

/// Seconds of CPU for each GiB that `dd` overwrites through libfuse's passthrough, with calls of
/// `block` bytes, in the directory of the daemons' files.
pub fn fuse_cpu(papers: &Papers, block: u64) -> Result<f64> {
    const BYTES: u64 = 64 << 20;
    let dir = tempfile::tempdir_in(&papers.dir)?;
    let passthrough = Passthrough::start(dir.path(), Example::Passthrough)?;
    let file = passthrough.point().join("file");
    let write = || succeed(&mut dd(&file, Direction::Write, block, 0, BYTES));
    write()?;
    let start = papers.cpu.now()?;
    (0..2).try_for_each(|_| write())?;
    let cpu = papers.cpu.now()?.saturating_sub(start);
    Ok(cpu.as_secs_f64() / (2.0 * BYTES as f64 / f64::from(1 << 30)))
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = Command::new("umount").arg(&self.point).output();
    }
}

fn succeed(command: &mut Command) -> Result<()> {
    let output = command.output().with_context(|| format!("running {command:?}"))?;
    ensure!(
        output.status.success(),
        "{command:?}: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    Ok(())
}
