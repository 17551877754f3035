//! Other networked file systems on the same hosts, interfaces and links, measured with the same
//! commands.
//!
//! ```text
//!   a lab ─┬─ mds      BraidFS's metadata server    MooseFS's master
//!          ├─ iod0..3  an I/O daemon each           a chunk server each     three GlusterFS bricks
//!          └─ client0  a mount of each: dd, fio, names, one subject after the other
//! ```
//!
//! All servers run at the same time; those without requests are idle. Their data is in memory, as
//! BraidFS's is here. Each stores one copy of every byte, except `gluster_disperse`, which stores 3
//! + 1. Missing abilities of another system are reported, and its lines left out.

mod gluster;
mod loads;
mod moosefs;
pub mod plots;
mod subject;
pub mod table;

use std::{borrow::Borrow, collections::BTreeMap, time::Duration};

use anyhow::Result;
use braid_netlab::{Lab, ServerRelay, Spec};
use braid_testbed::stats::Summary;

use self::subject::Subject;
use super::{
    Papers, line,
    mounted::fuse_cpu,
    one_client::{DAEMONS, GIGABIT},
    tasks::{CALL_BYTES, DIRECTIONS},
};
use crate::measure::Measure;

/// BraidFS's name here.
const OURS: &str = "braid";
/// Additional delay of each byte in each direction in the measurements with far hosts.
const FAR: Duration = Duration::from_micros(100);
/// Number of small files; those on far hosts take some ms each.
const NEAR_FILES: u32 = 2_000;
const FAR_FILES: u32 = 500;
/// The part of a sample's bytes: a link is busy for a second. Systems that use one link of four
/// take four.
const PART: (u64, u64) = (2, 3);

/// All measured systems.
const NAMES: [&str; 5] =
    [OURS, "gluster_distribute", "gluster_shard", "gluster_disperse", "moosefs"];
/// Subjects without measurements of small files.
const NO_NAMES: [&str; 2] = ["gluster_shard", "gluster_disperse"];

/// Values by measure and subject, in the order in which they were first seen.
#[derive(Default)]
struct Samples {
    order: Vec<(String, &'static str, Option<f64>)>,
    values: BTreeMap<String, Vec<f64>>,
}

impl Samples {
    /// Adds a value; `limit` is the links' rate.
    fn add(&mut self, name: String, unit: &'static str, limit: Option<f64>, value: f64) {
        if !self.values.contains_key(&name) {
            self.order.push((name.clone(), unit, limit));
        }
        self.values.entry(name).or_default().push(value);
    }

    /// A measure for each subject, and one for the limit.
    fn measures(&self) -> Vec<Measure> {
        let mut all = Vec::new();
        for (name, unit, limit) in &self.order {
            let summary =
                Summary::of(self.values[name].iter().copied()).expect("there is a sample");
            all.push(Measure::new(format!("rivals.{name}"), unit, summary));
            all.extend(limit.map(|limit| {
                Measure::new(format!("rivals.{name}.limit"), unit, Summary::once(limit))
            }));
        }
        all
    }
}

/// `rivals`: a client of 1 Gbit/s, then one of 4 Gbit/s.
pub fn run(papers: &Papers) -> Result<Vec<Measure>> {
    let mut samples = Samples::default();
    if papers.tls.get() {
        // There is nothing to compare with over TLS; ours is in the row `mount`.
        return Ok(Vec::new());
    }
    let local = || fuse_cpu(papers, CALL_BYTES);
    let spec = Spec { iods: DAEMONS, rate: GIGABIT, ..Spec::default() };
    let slow = papers.lab_that_writes(&spec, &[(0, 0)], local)?;
    let rate = slow.lab.spec().rate;
    let subjects = start(papers, &slow.lab)?;
    sequential(papers, &subjects, "one_client", rate, &mut samples)?;
    random(papers, &subjects, &mut samples)?;
    names(papers, &subjects, "near", NEAR_FILES, &mut samples)?;
    let far = detours(&slow.lab)?;
    names(papers, &subjects, "far", FAR_FILES, &mut samples)?;
    drop((far, subjects, slow));
    let spec =
        Spec { iods: DAEMONS, rate: GIGABIT, client_rate: Some(4 * GIGABIT), ..Spec::default() };
    let pairs: Vec<(usize, usize)> = (0..DAEMONS).map(|daemon| (0, daemon)).collect();
    let fast = papers.lab_that_writes(&spec, &pairs, local)?;
    let rate = DAEMONS as u64 * fast.lab.spec().rate;
    let subjects = start(papers, &fast.lab)?;
    sequential(papers, &subjects, "fast_client", rate, &mut samples)?;
    Ok(samples.measures())
}

/// BraidFS's mount, and those of the installed other systems.
fn start(papers: &Papers, lab: &Lab) -> Result<Vec<Subject>> {
    let mut subjects = vec![Subject::of_braid(papers.braid.path(), lab)?];
    for (name, rivals) in [("GlusterFS", gluster::start(lab)), ("MooseFS", moosefs::start(lab))] {
        match rivals {
            Ok(rivals) => subjects.extend(rivals),
            Err(error) => eprintln!("bench: {name} is left out: {error:#}"),
        }
    }
    Ok(subjects)
}

/// Runs `work` on every subject, repeatedly and in turn. A system that fails is left out from then
/// on.
fn each<S: Borrow<Subject>>(
    papers: &Papers,
    subjects: &[S],
    what: &str,
    mut work: impl FnMut(&Subject, bool) -> Result<()>,
) -> Result<()> {
    let mut failed = Vec::new();
    for repetition in 0..papers.repetitions {
        for subject in subjects.iter().map(Borrow::borrow) {
            if failed.contains(&subject.name) {
                continue;
            }
            eprintln!("bench: rivals, {what} on {}", subject.name);
            match work(subject, repetition == 0) {
                Err(error) if subject.name != OURS => {
                    eprintln!("bench: {what} on {} failed: {error:#}", subject.name);
                    failed.push(subject.name);
                }
                done => done?,
            }
        }
    }
    Ok(())
}

fn sequential(
    papers: &Papers,
    subjects: &[Subject],
    word: &str,
    rate: u64,
    samples: &mut Samples,
) -> Result<()> {
    let bytes = papers.bytes(rate / PART.1 * PART.0, CALL_BYTES);
    each(papers, subjects, word, |subject, first| {
        if first {
            // Measured writes are overwrites.
            subject.cold()?;
            loads::fill(subject, bytes)?;
        }
        for way in DIRECTIONS {
            let value = papers.steal.undisturbed(&mut || {
                subject.cold()?;
                loads::dd(subject, bytes, way)
            })?;
            samples.add(
                format!("{word}.{}.{}", way.word(), subject.name),
                "MB/s",
                Some(line(rate)),
                value,
            );
        }
        Ok(())
    })
}

/// On the file of `sequential`.
fn random(papers: &Papers, subjects: &[Subject], samples: &mut Samples) -> Result<()> {
    let seconds = papers.seconds.ceil() as u32;
    each(papers, subjects, "random", |subject, _| {
        let random = papers.steal.undisturbed(&mut || {
            subject.cold()?;
            loads::random(subject, seconds)
        })?;
        for (what, value) in random {
            samples.add(format!("random.{what}.{}", subject.name), "us", None, value);
        }
        Ok(())
    })
}

/// Not on subjects with more work for each name than a similar one: that would take minutes.
fn names(
    papers: &Papers,
    subjects: &[Subject],
    word: &str,
    count: u32,
    samples: &mut Samples,
) -> Result<()> {
    let subjects: Vec<&Subject> =
        subjects.iter().filter(|subject| !NO_NAMES.contains(&subject.name)).collect();
    each(papers, &subjects, &format!("names, {word}"), |subject, _| {
        let names = papers.steal.undisturbed(&mut || {
            subject.cold()?;
            loads::names(subject, count)
        })?;
        for (what, value) in names {
            samples.add(format!("names_{word}.{what}.{}", subject.name), "per s", None, value);
        }
        Ok(())
    })
}

/// Delays the traffic of every server, for new connections.
fn detours(lab: &Lab) -> Result<Vec<ServerRelay>> {
    let detour =
        |host: &str, ports: &[u16]| ServerRelay::start(lab.network().host(host)?, ports, FAR);
    let mut detours = vec![detour("mds", &[Lab::PORT, moosefs::MASTER_PORT])?];
    let ports: Vec<u16> =
        [Lab::PORT, moosefs::SERVER_PORT].into_iter().chain(gluster::ports()).collect();
    for iod in 0..DAEMONS {
        detours.push(detour(&format!("iod{iod}"), &ports)?);
    }
    Ok(detours)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_subject_has_a_line_beside_what_the_lines_carry() {
        let mut samples = Samples::default();
        for value in [100.0, 110.0, 90.0] {
            samples.add("one_client.read.braid".to_owned(), "MB/s", Some(117.7), value);
            samples.add("names_near.stat.braid".to_owned(), "per s", None, value);
        }
        let said: Vec<(String, f64)> = samples
            .measures()
            .iter()
            .map(|one| (one.name.clone(), one.plain.summary.median))
            .collect();
        let wanted = [
            ("rivals.one_client.read.braid", 100.0),
            ("rivals.one_client.read.braid.limit", 117.7),
            ("rivals.names_near.stat.braid", 100.0),
        ];
        assert_eq!(said, wanted.map(|(name, value)| (name.to_owned(), value)));
    }
}
