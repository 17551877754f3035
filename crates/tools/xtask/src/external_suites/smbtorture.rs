//! smbtorture, Samba's client that checks the replies of an SMB server to single requests, right
//! and wrong ones. It needs no mount and no kernel client.
//!
//! `smb/smbtorture.txt` lists the tests that may fail, each with its reason. A test that smbtorture
//! skips, or that does not end within the limit, counts as failed: only its `success` is a pass.

use super::{Options, cluster::Cluster, known_failures::KnownFailures};
use crate::context::Context;
use crate::report::SuiteResult;
use anyhow::{Context as _, Result, ensure};
use braid_testbed::{ports, process::Process, programs};
use std::fs;
use std::path::Path;
use std::time::Duration;

const KNOWN: &str = include_str!("../../smb/smbtorture.txt");
const PREFIX: &str = "smb2.";
/// Suites that measure, or that hold something for a test by hand, and never end.
const OMITTED: [&str; 5] =
    ["smb2.bench", "smb2.hold-oplock", "smb2.hold-sharemode", "smb2.check-sharemode", "smb2.scan"];
/// Limit of each suite, as in the comparison of ADR 0052.
const LIMIT: Duration = Duration::from_secs(100);
const SHARE: &str = "share";
const PASSWORD: &str = "torture";

pub fn run(context: &Context, options: &Options) -> Result<SuiteResult> {
    let smbtorture = programs::need("smbtorture", &["samba-testsuite"])?;
    let known = KnownFailures::parse(KNOWN).context("smb/smbtorture.txt")?;
    let server = SmbServer::start(context, options)?;
    let home = context.root.join("target/suite/smbtorture");
    fs::create_dir_all(&home).with_context(|| home.display().to_string())?;
    let suites = match options.cases.as_slice() {
        [] => all_suites(&smbtorture)?,
        chosen => chosen.to_vec(),
    };
    let (mut result, mut seen) = (SuiteResult::default(), Vec::new());
    for suite in &suites {
        let mut listed = listed_tests(&smbtorture, suite)?;
        // A name also stands for longer ones: smb2.session for smb2.session-id.
        listed.retain(|test| !seen.contains(test));
        if listed.is_empty() {
            continue;
        }
        let run = |name: &str| -> Result<Vec<TortureOutcome>> {
            let run = Process::new(&smbtorture).limit(options.limit.unwrap_or(LIMIT));
            let run = run.args([&format!("//{}/{}", server.host, server.share), "--fullname"]);
            let run = run.args(["-p", &server.port.to_string(), "-U", &server.user]);
            let finished = run.args([name]).finish()?;
            fs::write(home.join(name.replace(['/', ' '], "_")), finished.output())?;
            Ok(parse(&finished.stdout))
        };
        let outcomes = run(suite)?;
        for test in listed {
            let is_it = |outcome: &&TortureOutcome| outcome.test == test;
            let mut outcome = outcomes.iter().rfind(is_it).cloned();
            if outcome.is_none() && *suite != test {
                // The limit came first: it runs alone.
                outcome = run(&test)?.iter().rfind(is_it).cloned();
            }
            let failure = match &outcome {
                Some(outcome) => outcome.failure(),
                None => Some("no outcome before the limit".to_owned()),
            };
            let one = known.judge(&test, failure.as_deref());
            println!("       {:<7} {test}", one.status());
            result.merge(one);
            seen.push(test);
        }
    }
    if options.cases.is_empty() {
        for test in known.unknown(|test| seen.iter().any(|other| other == test)) {
            let why = "listed in smb/smbtorture.txt, but this smbtorture does not have it";
            result.merge(SuiteResult::fail(test, why));
        }
    }
    Ok(result)
}

/// The gateway of a cluster of its own, or the server that the caller named.
struct SmbServer {
    host: String,
    port: u16,
    share: String,
    /// `USER%PASSWORD`.
    user: String,
    _cluster: Option<Cluster>,
}

impl SmbServer {
    /// `--server HOST:PORT --export SHARE`, with the user in the variable `SMB_USER`; without them,
    /// starts a cluster whose gateway shares `/` with root.
    fn start(context: &Context, options: &Options) -> Result<Self> {
        if let Some((host, port)) = options.server.clone() {
            let user = std::env::var("SMB_USER")
                .context("suite smbtorture: no user; try: SMB_USER=NAME%PASSWORD before it")?;
            let share = options.export.trim_start_matches('/').to_owned();
            ensure!(!share.is_empty(), "suite smbtorture: no share; try: --export SHARE");
            return Ok(Self { host, port, share, user, _cluster: None });
        }
        let address = ports::free_address()?;
        let (host, port) = address.rsplit_once(':').context("an address has a port")?;
        let cluster = Cluster::start_with_smb(context, "smb", &address, SHARE, PASSWORD)?;
        Ok(Self {
            host: host.to_owned(),
            port: port.parse()?,
            share: SHARE.to_owned(),
            user: format!("root%{PASSWORD}"),
            _cluster: Some(cluster),
        })
    }
}

/// Every suite of SMB 2 and 3 that ends by itself.
fn all_suites(smbtorture: &Path) -> Result<Vec<String>> {
    let listed = Process::new(smbtorture).args(["--list-suites"]).finish()?.stdout;
    let names = listed.lines().map(str::trim).filter(|name| name.starts_with(PREFIX));
    let names: Vec<String> =
        names.filter(|name| !OMITTED.contains(name)).map(str::to_owned).collect();
    ensure!(!names.is_empty(), "suite smbtorture: it names no suite {PREFIX}*: {listed}");
    Ok(names)
}

/// The tests of a suite, by their full names.
fn listed_tests(smbtorture: &Path, suite: &str) -> Result<Vec<String>> {
    let listed = Process::new(smbtorture).args(["--list", suite]).finish()?.stdout;
    let tests: Vec<String> = listed.lines().filter_map(full_name).collect();
    ensure!(!tests.is_empty(), "suite smbtorture: it has no test {suite}: {listed}");
    Ok(tests)
}

/// `--list` prints the last part twice: `smb2.lock.cancel.cancel`.
fn full_name(line: &str) -> Option<String> {
    let (name, last) = line.trim().rsplit_once('.')?;
    let is_test = name.starts_with(PREFIX) && name.rsplit('.').next() == Some(last);
    is_test.then(|| name.to_owned())
}

/// One test and what smbtorture printed when it ended.
#[derive(Clone, Debug, PartialEq, Eq)]
struct TortureOutcome {
    test: String,
    word: String,
    message: String,
}

impl TortureOutcome {
    /// Why it did not pass; `None` when it passed.
    fn failure(&self) -> Option<String> {
        (self.word != "success").then(|| format!("{}: {}", self.word, self.message))
    }
}

/// Lines are `success: TEST`, or `failure: TEST [` (also `error`, `skip`), lines of text, and `]`.
fn parse(stdout: &str) -> Vec<TortureOutcome> {
    let mut outcomes: Vec<TortureOutcome> = Vec::new();
    let mut is_message = false;
    for line in stdout.lines() {
        if is_message && line.trim() == "]" {
            is_message = false;
        } else if let Some(outcome) = outcomes.last_mut().filter(|_| is_message) {
            let space = if outcome.message.is_empty() { "" } else { " " };
            outcome.message += &format!("{space}{}", line.trim());
        } else if let Some(outcome) = headline(line) {
            is_message = line.trim_end().ends_with('[');
            outcomes.push(outcome);
        }
    }
    outcomes
}

fn headline(line: &str) -> Option<TortureOutcome> {
    let (word, rest) = line.split_once(": ")?;
    let test = rest.trim_end().trim_end_matches('[').trim_end();
    ["success", "failure", "error", "skip"].contains(&word).then(|| TortureOutcome {
        test: test.to_owned(),
        word: word.to_owned(),
        message: String::new(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const RUN: &str = "\
smbtorture 4.17.12-Debian
Using seed 1795880737
progress: 8
test: smb2.getinfo.complex
time: 2026-11-28 15:45:37.014641
success: smb2.getinfo.complex
test: smb2.getinfo.fsinfo
failure: smb2.getinfo.fsinfo [
../../source4/torture/smb2/getinfo.c:760: Expression `ret' failed:
success: is what it expected
]
skip: smb2.getinfo.qfs [
no such share
]
test: smb2.getinfo.granted
";

    #[test]
    fn outcomes_have_their_message_and_lines_in_it_are_no_outcomes() {
        let shown: Vec<_> = parse(RUN)
            .into_iter()
            .map(|outcome| (outcome.test.clone(), outcome.failure()))
            .collect();
        assert_eq!(shown.len(), 3);
        assert_eq!(shown[0], ("smb2.getinfo.complex".to_owned(), None));
        assert!(shown[1].1.as_ref().unwrap().ends_with("failed: success: is what it expected"));
        assert_eq!(shown[2].1.as_deref(), Some("skip: no such share"));
    }

    #[test]
    fn listed_names_repeat_their_last_part() {
        assert_eq!(full_name("smb2.lock.cancel.cancel\n").unwrap(), "smb2.lock.cancel");
        assert_eq!((full_name("smbtorture 4.17.12-Debian"), full_name("smb2.lock")), (None, None));
    }

    #[test]
    fn every_known_failure_has_a_reason() {
        KnownFailures::parse(KNOWN).unwrap();
    }
}
