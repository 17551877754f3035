//! IO500's hard loads on a mount: two tasks write records of 47,008 bytes into one file in turn,
//! and two tasks create files of 3,901 bytes in one directory. IOR and mdtest with an MPI run them
//! where installed, else two processes of this program.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};
use braid_testbed::shell::sh;

use super::{Sample, subject::Subject};
use crate::{
    args::{
        HardPhase::{self, Create, Read, ReadRecords, Remove, Stat, WriteRecords},
        MountArgs,
    },
    bench::Bench,
    workers::{
        ior_hard::{RECORD_BYTES, TASKS},
        process::Worker,
    },
};

const RECORDS: (u64, u64) = (8_000, 500);
const FILES: (u64, u64) = (4_000, 500);

/// Ranks that wait yield; also as root, with more ranks than processors.
const MPI: &str = "export MPIR_CVAR_POLLS_BEFORE_YIELD=1 OMPI_MCA_mpi_yield_when_idle=1 \
    OMPI_ALLOW_RUN_AS_ROOT=1 \
                   OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 OMPI_MCA_rmaps_base_oversubscribe=1\n";

/// One file, written and synced; read by a client with a cold cache.
pub fn ior(bench: &Bench, args: &MountArgs, subject: &Subject) -> Result<Vec<Sample>> {
    let (file, count) = (subject.dir().join("ior_hard"), bench.size(RECORDS.0, RECORDS.1));
    let load = Load { bench, tool: tool(bench, args, "ior"), path: &file, count };
    let write = load.ior("write", "-w -k -e", WriteRecords)?;
    subject.cold()?;
    let read = load.ior("read", "-r -k -C -Q 1", ReadRecords)?;
    fs::remove_file(&file)?;
    let rate = |name, value| Sample { name, unit: "MB/s", value };
    Ok(vec![rate("ior_hard.write", write), rate("ior_hard.read", read)])
}

/// Files are created; a client with a cold cache then reads their attributes, reads and removes
/// them.
pub fn mdtest(bench: &Bench, args: &MountArgs, subject: &Subject) -> Result<Vec<Sample>> {
    let (dir, count) = (subject.dir().join("mdtest_hard"), bench.size(FILES.0, FILES.1));
    fs::create_dir(&dir)?;
    let load = Load { bench, tool: tool(bench, args, "mdtest"), path: &dir, count };
    let create = load.mdtest("File creation", "-C", Create)?;
    subject.cold()?;
    let stat = load.mdtest("File stat", "-T", Stat)?;
    let read = load.mdtest("File read", "-E", Read)?;
    let remove = load.mdtest("File removal", "-r", Remove)?;
    sh("rm -r \"$1\"", &[&dir.display().to_string()])?;
    let rate = |name, value| Sample { name, unit: "per s", value };
    Ok(vec![
        rate("mdtest_hard.create", create),
        rate("mdtest_hard.stat", stat),
        rate("mdtest_hard.read", read),
        rate("mdtest_hard.remove", remove),
    ])
}

/// The program of this name if it and an MPI are installed; else a note.
fn tool(bench: &Bench, args: &MountArgs, name: &str) -> Option<PathBuf> {
    let program = args.ior.as_ref().map_or_else(|| PathBuf::from(name), |dir| dir.join(name));
    let found =
        sh("command -v mpirun && command -v \"$1\"", &[&program.display().to_string()]).is_ok();
    bench.note(match found {
        true => format!("{name}_hard: by {name}, 2 ranks"),
        false => format!(
            "{name}_hard: by two processes of this program that make the same calls: no {name} \
                with mpirun was found; \
             try: --ior DIR"
        ),
    });
    found.then_some(program)
}

struct Load<'a> {
    bench: &'a Bench,
    /// `None`: this program makes the calls.
    tool: Option<PathBuf>,
    path: &'a Path,
    /// Records or files of each task.
    count: u64,
}

impl Load<'_> {
    /// Millions of bytes a second.
    fn ior(&self, operation: &str, options: &str, phase: HardPhase) -> Result<f64> {
        let Some(tool) = &self.tool else {
            return Ok(self.own(phase)? * RECORD_BYTES as f64 / 1e6);
        };
        let script = format!(
            "{MPI}mpirun -n {TASKS} \"$1\" -a POSIX -g {options} -t {RECORD_BYTES} -b \
                {RECORD_BYTES} -s {} -o \"$2\"",
            self.count
        );
        let said = sh(&script, &[&tool.display().to_string(), &self.path.display().to_string()])?;
        ior_rate(&said, operation).with_context(|| format!("ior printed no rate: {said}"))
    }

    /// Files a second.
    fn mdtest(&self, line: &str, options: &str, phase: HardPhase) -> Result<f64> {
        let Some(tool) = &self.tool else { return self.own(phase) };
        let script = format!(
            "{MPI}mpirun -n {TASKS} \"$1\" -F {options} -n {} -w 3901 -e 3901 -N 1 -d \"$2\"",
            self.count
        );
        let said = sh(&script, &[&tool.display().to_string(), &self.path.display().to_string()])?;
        mdtest_rate(&said, line).with_context(|| format!("mdtest printed no rate: {said}"))
    }

    /// Records or files a second, by processes of this program.
    fn own(&self, phase: HardPhase) -> Result<f64> {
        let word = clap::ValueEnum::to_possible_value(&phase).context("a phase has a name")?;
        let start = |rank: u64| {
            let numbers = [rank.to_string().into(), self.count.to_string().into()];
            let [rank, count] = numbers;
            Worker::start(&["hard".into(), word.get_name().into(), self.path.into(), rank, count])
        };
        let mut workers: Vec<Worker> = (0..TASKS).map(start).collect::<Result<_>>()?;
        let taken = self.bench.take(|| {
            workers.iter_mut().try_for_each(Worker::go)?;
            workers.iter_mut().try_for_each(|worker| worker.expect_done(self.count))
        })?;
        workers.into_iter().try_for_each(Worker::finish)?;
        Ok(taken.per_second(TASKS * self.count))
    }
}

/// Parses `write  318.58  318.58 ...` in the summary, the last such line: MiB a second, converted
/// to MB.
fn ior_rate(said: &str, operation: &str) -> Option<f64> {
    let of_operation = |line: &str| {
        let mut words = line.split_whitespace();
        (words.next()? == operation).then_some(words.next()?.parse::<f64>().ok()?)
    };
    Some(said.lines().filter_map(of_operation).next_back()? * f64::from(1 << 20) / 1e6)
}

/// Parses `File creation  1234.5  1234.5  1234.5 ...`: the first number, of all ranks.
fn mdtest_rate(said: &str, line: &str) -> Option<f64> {
    let of_line = said.lines().find_map(|text| text.trim().strip_prefix(line))?;
    of_line.trim_start_matches([':', ' ']).split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_found_in_what_the_tools_print() {
        let ior = "access    bw(MiB/s)  IOPS\nwrite     300.00     12329      0.000162\n\n\
            Summary of all tests:\n\
                   Operation   Max(MiB)   Min(MiB)\nwrite         318.58     318.58     318.58\n";
        assert!(ior_rate(ior, "write").is_some_and(|rate| (rate - 334.055).abs() < 0.001));
        assert_eq!(ior_rate(ior, "read"), None);
        let mdtest =
            "   File creation             1453.125       1453.125       1453.125          0.000\n";
        assert_eq!(mdtest_rate(mdtest, "File creation"), Some(1453.125));
        assert_eq!(mdtest_rate(mdtest, "File stat"), None);
    }

    #[test]
    fn without_the_tools_two_processes_make_the_same_calls() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("file");
        let arguments =
            |phase, rank| crate::args::HardArgs { phase, path: file.clone(), rank, count: 3 };
        for rank in 0..TASKS {
            crate::workers::ior_hard::work(&arguments(WriteRecords, rank)).unwrap();
        }
        assert_eq!(fs::metadata(&file).unwrap().len(), 3 * TASKS * RECORD_BYTES);
        crate::workers::ior_hard::work(&arguments(ReadRecords, 1)).unwrap();
        let files =
            |phase, rank| crate::args::HardArgs { phase, path: dir.path().into(), rank, count: 3 };
        (0..TASKS).for_each(|rank| crate::workers::ior_hard::work(&files(Create, rank)).unwrap());
        [Stat, Read]
            .into_iter()
            .for_each(|phase| crate::workers::ior_hard::work(&files(phase, 0)).unwrap());
        (0..TASKS).for_each(|rank| crate::workers::ior_hard::work(&files(Remove, rank)).unwrap());
        assert!(crate::workers::ior_hard::work(&files(Stat, 0)).is_err(), "nothing is left");
    }
}
