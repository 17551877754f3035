//! pynfs, a client in Python that sends single NFSv4.1 operations, correct and incorrect ones, and
//! checks the replies. It needs no mount and no kernel client.
//!
//! `nfs/pynfs.txt` lists the codes that may fail, each with its reason. Codes that pynfs itself
//! omits because a code before failed, reports as unsupported, or passes with a warning count as
//! failed: only its `PASS` is a pass.

use super::{Options, known_failures::KnownFailures, nfs_server::NfsServer};
use crate::context::Context;
use crate::guest::GuestNetwork;
use crate::process::Process;
use crate::report::SuiteResult;
use crate::tools;
use anyhow::{Context as _, Result, ensure};
use std::fs;
use std::time::Duration;

const KNOWN: &str = include_str!("../../nfs/pynfs.txt");
/// Its program, in the directory where it must run.
const DIRECTORY: &str = "nfs4.1";
const PROGRAM: &str = "testserver.py";
/// A file that its build generates.
const BUILT: &str = "xdrdef/nfs4_type.py";
/// The flag of the codes that run by default.
const DEFAULT: &str = "all";
/// Limit of the whole run. Six codes wait for the end of a lease and 10 s more: a run takes 130 s
/// with a lease of 10 s, and about 11 minutes with one of 90 s.
const LIMIT: Duration = Duration::from_secs(3600);

pub fn run(context: &Context, options: &Options) -> Result<SuiteResult> {
    let directory = options.checkout.join(DIRECTORY);
    ensure!(
        directory.join(PROGRAM).is_file() && directory.join(BUILT).is_file(),
        "suite pynfs: {} is no built checkout of pynfs; try: ./setup.py build there",
        options.checkout.display()
    );
    let python = tools::need("python3", "python3")?;
    let known = KnownFailures::parse(KNOWN).context("nfs/pynfs.txt")?;
    let network = GuestNetwork::loopback(options.namespace.as_deref());
    let server = NfsServer::start(context, options, &network)?;
    let url = format!("{}:{}{}", server.host, server.port, options.export);
    let limit = options.limit.unwrap_or(LIMIT);
    let run = Process::under(&network.prefix(), python).limit(limit).dir(&directory);
    let run = run.env("PYTHONDONTWRITEBYTECODE", "1").env("PYTHONUNBUFFERED", "1");
    let run = run.args([PROGRAM, &url, "--maketree", "--showomit", "--verbose"]);
    let run = match options.cases.as_slice() {
        [] => run.args([DEFAULT]),
        cases => run.args(["--rundeps"]).args(cases),
    };
    let finished = run.finish()?;
    let home = context.root.join("target/suite/pynfs");
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    fs::write(home.join("output"), finished.output())?;
    let outcomes = parse(&finished.stdout);
    ensure!(
        !outcomes.is_empty(),
        "suite pynfs: no case ran against {url}: {}\n{}",
        finished.status,
        finished.output()
    );
    let mut result = SuiteResult::default();
    for case in &outcomes {
        let one = known.judge(&case.code, case.failure().as_deref());
        println!("       {:<7} {:<12} {}", one.status(), case.code, case.name);
        result.merge(one);
    }
    if options.cases.is_empty() {
        let has = |code: &str| outcomes.iter().any(|case| case.code == code);
        for code in known.unknown(has) {
            result.merge(SuiteResult::fail(code, "listed in nfs/pynfs.txt, but it did not run"));
        }
    }
    if !finished.status.success() {
        let why = format!("pynfs did not finish: {}\n{}", finished.status, finished.stderr);
        result.merge(SuiteResult::fail("the run itself", why));
    }
    Ok(result)
}

/// One code and the outcome that pynfs printed last for it.
#[derive(Debug, PartialEq, Eq)]
struct PynfsCase {
    code: String,
    name: String,
    outcome: String,
    message: String,
}

impl PynfsCase {
    /// Why it did not pass; `None` when it passed.
    fn failure(&self) -> Option<String> {
        (self.outcome != "PASS").then(|| format!("{}: {}", self.outcome, self.message))
    }
}

/// Lines are `EID5a    st_exchange_id.testX     : FAILURE`, followed by an indented message. A
/// verbose run prints such a line when a code begins and when it ends; the report at the end
/// repeats it, also for omitted codes.
fn parse(stdout: &str) -> Vec<PynfsCase> {
    let mut cases: Vec<PynfsCase> = Vec::new();
    let mut current = None;
    for line in stdout.lines() {
        if let Some(case) = headline(line) {
            match cases.iter().position(|other| other.code == case.code) {
                Some(at) => {
                    current = Some(at);
                    cases[at] = case;
                }
                None => {
                    current = Some(cases.len());
                    cases.push(case);
                }
            }
        } else if let Some(at) = current.filter(|_| line.starts_with("          ")) {
            let message = &mut cases[at].message;
            let space = if message.is_empty() { "" } else { " " };
            *message += &format!("{space}{}", line.trim());
        } else {
            current = None;
        }
    }
    cases
}

fn headline(line: &str) -> Option<PynfsCase> {
    let (test, outcome) = line.rsplit_once(" : ")?;
    let mut words = test.split_whitespace();
    let (code, name) = (words.next()?, words.next()?);
    let known = name.starts_with("st_") && words.next().is_none() && !line.starts_with(' ');
    known.then(|| PynfsCase {
        code: code.to_owned(),
        name: name.to_owned(),
        outcome: outcome.trim().to_owned(),
        message: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\
EID1     st_exchange_id.testSupported                             : RUNNING
EID1     st_exchange_id.testSupported                             : PASS
EID5a    st_exchange_id.testUpdate                                : RUNNING
EID5a    st_exchange_id.testUpdate                                : FAILURE
           OP_EXCHANGE_ID should return NFS4_OK : instead
           got NFS4ERR_PERM
DELEG1   st_delegation.testReadDeleg                              : RUNNING
**************************************************
EID1     st_exchange_id.testSupported                             : PASS
EID5a    st_exchange_id.testUpdate                                : FAILURE
           OP_EXCHANGE_ID should return NFS4_OK, instead
           got NFS4ERR_PERM
SEQ4     st_sequence.testReplay                                   : OMIT
           Dependency EID5a had status FAILURE.
**************************************************
Command line asked for 4 of 333 tests
Of those: 1 Skipped, 1 Failed, 0 Warned, 1 Passed
";

    #[test]
    fn the_last_outcome_of_a_code_counts_with_its_message() {
        let cases = parse(RUN);
        let shown: Vec<_> = cases.iter().map(|case| (case.code.as_str(), case.failure())).collect();
        assert_eq!(shown[0], ("EID1", None));
        let why = "FAILURE: OP_EXCHANGE_ID should return NFS4_OK, instead got NFS4ERR_PERM";
        assert_eq!(shown[1], ("EID5a", Some(why.to_owned())));
        assert_eq!(shown.len(), 4);
    }

    #[test]
    fn an_omitted_code_and_one_that_did_not_end_are_no_passes() {
        let cases = parse(RUN);
        assert!(cases[2].failure().unwrap().starts_with("RUNNING"));
        assert!(cases[3].failure().unwrap().contains("Dependency EID5a"));
    }

    #[test]
    fn every_known_failure_has_a_reason() {
        KnownFailures::parse(KNOWN).unwrap();
    }
}
