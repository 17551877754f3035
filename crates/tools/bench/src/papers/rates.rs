//! Chooses the part of its rates at which a row runs: the largest for whose traffic the machine
//! suffices.
//!
//! ```text
//!   needs = busy part of all processors while iperf3 carries the row's traffic, in the dearer
//!           direction, x (rate of the links / rate of iperf3)
//!         + CPU time of local writes of as many bytes as the row writes / processors
//! ```
//!
//! Needs of more than 70 % at the whole rates lead to a quarter, then to a tenth. Ours and its
//! limits then run on the same slower links, and the target is a part of the links' rate. All
//! processors are measured, not this program's processes: the work of the switch belongs to no
//! process.

use std::{collections::BTreeSet, fs::File, os::unix::fs::FileExt as _};

use anyhow::{Context, Result, bail};
use braid_netlab::Spec;
use braid_testbed::stats::Summary;

use super::{Papers, ScaledLab, line, references};
use crate::measure::Measure;

/// The part of the machine that the traffic may need.
const MACHINE_MAX: f64 = 0.7;
/// Parts of the rates.
const DIVIDES: [u64; 3] = [1, 4, 10];
/// The unit of measured needs.
pub const UNIT: &str = "of the machine";
/// Local writes in calls of 4 MiB, and how often after the first time.
const LOCAL_CALLS: u64 = 16;
const LOCAL_CALL_BYTES: usize = 4 << 20;
const LOCAL_PASSES: u64 = 4;
const GIB: f64 = (1_u64 << 30) as f64;

/// The needs of a lab's traffic, and its part of the rates.
#[derive(Clone, Debug)]
pub struct MachineNeeds {
    /// The number of the lab in its row, from 1.
    lab: usize,
    divide: u64,
    part: f64,
}

/// Streams between each of the first clients and each of the first daemons.
pub fn between_all(clients: usize, daemons: usize) -> Vec<(usize, usize)> {
    (0..clients).flat_map(|client| (0..daemons).map(move |daemon| (client, daemon))).collect()
}

/// The needs as measures of a row: `clients.needs.lab1.at4`.
pub fn measures(row: &str, needs: &[MachineNeeds]) -> Vec<Measure> {
    let measure = |one: &MachineNeeds| {
        Measure::new(
            format!("{row}.needs.lab{}.at{}", one.lab, one.divide),
            UNIT,
            Summary::once(one.part),
        )
    };
    needs.iter().map(measure).collect()
}

impl Papers {
    /// A lab like this one, at the largest part of the rates for which the machine can carry
    /// streams between `pairs` of (client, daemon) and write their bytes to files.
    pub(super) fn lab(&self, spec: &Spec, pairs: &[(usize, usize)]) -> Result<ScaledLab> {
        self.lab_that_writes(spec, pairs, || self.local_cpu())
    }

    /// The same with this CPU time of a written GiB: that of a row through a mount includes FUSE.
    pub(super) fn lab_that_writes(
        &self,
        spec: &Spec,
        pairs: &[(usize, usize)],
        local: impl FnOnce() -> Result<f64>,
    ) -> Result<ScaledLab> {
        let before =
            self.divides.borrow().iter().find(|(of, _)| of == spec).map(|(_, divide)| *divide);
        if let Some(divide) = self.divide.or(before.filter(|_| self.tls.get())) {
            return self.lab_at(spec, divide);
        }
        let local = local().context("measure the cost of local writes")?;
        let nth = self.divides.borrow().len() + 1;
        let (divide, sized) = choose(|divide| {
            let sized = self.lab_at(spec, divide)?;
            let part = self.steal.undisturbed(&mut || self.needed(&sized, pairs, local))?;
            self.needs.borrow_mut().push(MachineNeeds { lab: nth, divide, part });
            Ok((part, sized))
        })?;
        self.divides.borrow_mut().push((spec.clone(), divide));
        Ok(sized)
    }

    /// The part of the machine that is needed.
    fn needed(&self, sized: &ScaledLab, pairs: &[(usize, usize)], local: f64) -> Result<f64> {
        let lines = lines(sized.lab.spec(), pairs);
        let mut network: f64 = 0.0;
        for reverse in [false, true] {
            let (used, carried) = references::used(&sized.lab, pairs, reverse)?;
            network = network.max(at_full_lines(used, carried, lines));
        }
        let written = of_writing(local, lines, processors());
        let (of_network, of_writes) = (network * 100.0, written * 100.0);
        eprintln!(
            "bench: at 1/{} of the rates iperf3 needs {of_network:.0} % of the machine, local \
                writes {of_writes:.0} %",
            sized.divide
        );
        Ok(network + written)
    }

    /// Seconds of CPU for each GiB overwritten in a file, in the directory of the daemons.
    fn local_cpu(&self) -> Result<f64> {
        let file: File = tempfile::tempfile_in(&self.dir)?;
        let buffer = vec![0xa5; LOCAL_CALL_BYTES];
        let pass = || {
            (0..LOCAL_CALLS)
                .try_for_each(|call| file.write_all_at(&buffer, call * buffer.len() as u64))
        };
        pass()?;
        let start = self.cpu.now()?;
        (0..LOCAL_PASSES).try_for_each(|_| pass())?;
        let cpu = self.cpu.now()?.saturating_sub(start);
        Ok(cpu.as_secs_f64() / ((LOCAL_PASSES * LOCAL_CALLS * buffer.len() as u64) as f64 / GIB))
    }
}

/// The first part of the rates whose needs are within the limit; the results of `at` for the others
/// are dropped before the next.
fn choose<T>(mut at: impl FnMut(u64) -> Result<(f64, T)>) -> Result<(u64, T)> {
    for divide in DIVIDES {
        let (needed, made) = at(divide)?;
        if needed <= MACHINE_MAX {
            return Ok((divide, made));
        }
    }
    bail!(
        "the machine is too busy for 1/{} of the rates; try: later, or --divide",
        DIVIDES[DIVIDES.len() - 1]
    )
}

/// The needs of the links' whole rate, computed from a lower rate.
fn at_full_lines(used: f64, carried: f64, lines: f64) -> f64 {
    used * (lines / carried).max(1.0)
}

/// The part of the processors that is busy with writing at this rate.
fn of_writing(cpu_per_gib: f64, mb_per_second: f64, processors: usize) -> f64 {
    cpu_per_gib * (mb_per_second * 1e6 / GIB) / processors as f64
}

fn processors() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// MB/s that all pairs can carry together: limited by the clients' links or the daemons'.
fn lines(spec: &Spec, pairs: &[(usize, usize)]) -> f64 {
    let count = |of: fn(&(usize, usize)) -> usize| {
        pairs.iter().map(of).collect::<BTreeSet<_>>().len() as u64
    };
    let (clients, daemons) = (count(|pair| pair.0), count(|pair| pair.1));
    line((clients * spec.client_rate()).min(daemons * spec.cards as u64 * spec.rate))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The choice when the whole rates need `whole` of the machine, and fractions of them
    /// accordingly less.
    fn chosen(whole: f64) -> Result<(u64, Vec<u64>)> {
        let mut tried = Vec::new();
        let (divide, ()) = choose(|divide| {
            tried.push(divide);
            Ok((whole / divide as f64, ()))
        })?;
        Ok((divide, tried))
    }

    #[test]
    fn rates_are_whole_or_a_quarter_or_a_tenth_by_the_machine() {
        assert_eq!(chosen(0.38).unwrap(), (1, vec![1]));
        assert_eq!(chosen(0.70).unwrap(), (1, vec![1]));
        assert_eq!(chosen(0.71).unwrap(), (4, vec![1, 4]));
        assert_eq!(chosen(2.8).unwrap(), (4, vec![1, 4]));
        assert_eq!(chosen(2.9).unwrap(), (10, vec![1, 4, 10]));
        assert!(chosen(7.1).unwrap_err().to_string().contains("too busy for 1/10"));
    }

    #[test]
    fn what_did_not_fill_the_lines_needs_more_for_all_of_them() {
        assert_eq!(at_full_lines(0.5, 100.0, 100.0), 0.5);
        assert_eq!(at_full_lines(0.5, 50.0, 100.0), 1.0);
        assert_eq!(
            at_full_lines(0.5, 101.0, 100.0),
            0.5,
            "a little more than the link's rate is noise"
        );
        assert_eq!(of_writing(2.0, GIB / 1e6, 2), 1.0);
        assert_eq!(of_writing(2.0, GIB / 4e6, 2), 0.25);
    }

    #[test]
    fn the_lines_of_all_pairs_are_those_of_clients_or_daemons() {
        let spec = |rate, client_rate, cards| Spec { rate, client_rate, cards, ..Spec::default() };
        let gigabit = 1_000_000_000;
        assert_eq!(lines(&spec(gigabit, None, 1), &between_all(8, 6)), line(6 * gigabit));
        assert_eq!(lines(&spec(gigabit, None, 2), &between_all(15, 4)), line(8 * gigabit));
        assert_eq!(
            lines(&spec(gigabit, Some(4 * gigabit), 1), &[(0, 0), (0, 1)]),
            line(2 * gigabit)
        );
        assert_eq!(lines(&spec(gigabit, None, 1), &between_all(1, 16)), line(gigabit));
    }

    #[test]
    fn needs_are_measures_of_their_row() {
        let [one] = measures("clients", &[MachineNeeds { lab: 1, divide: 4, part: 0.25 }])
            .try_into()
            .unwrap();
        assert_eq!(
            (one.name.as_str(), one.unit, one.plain.summary.median),
            ("clients.needs.lab1.at4", UNIT, 0.25)
        );
    }
}
