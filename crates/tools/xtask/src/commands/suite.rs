//! `cargo xtask suite NAME …`: a third-party suite, on a mount of BraidFS, in any directory, or on
//! an NFS or SMB server.
//!
//! Nothing of these suites is in this repository: xfstests, LTP, pynfs and Connectathon's are read
//! from a checkout or an installation that the caller names, stress-ng and smbtorture are programs
//! of the distribution. Results stay in `target/suite/NAME`; docs/conformance.md explains them.

use crate::context::Context;
use crate::external_suites::{self, ExternalSuite, Options, Subject};
use crate::progress;
use crate::report::Totals;
use anyhow::{Context as _, Result, bail, ensure};
use std::time::Duration;

const USAGE: &str = "cargo xtask suite xfstests|ltp DIR [--on DIRECTORY | --second-mount] \
    [--limit SECONDS] [CASES]... or cargo xtask suite stress-ng or cargo xtask suite \
    pynfs|guest-nfs DIR [--server HOST:PORT] [--export PATH] [--namespace NAME] \
    [--options MOUNT_OPTIONS] [--no-layouts] [--local] [--limit SECONDS] [CASES]... or \
    cargo xtask suite smbtorture [--server HOST:PORT --export SHARE] [--limit SECONDS] [CASES]...";

pub fn run(args: &[String]) -> Result<bool> {
    let Some((name, rest)) = args.split_first() else {
        bail!("suite: no name was given; try: {USAGE}")
    };
    let suite = external_suites::by_name(name)
        .with_context(|| format!("suite: no suite `{name}`; try: {USAGE}"))?;
    let options = parse(suite, rest)?;
    ensure!(
        braid_testbed::programs::is_root(),
        "suite: mounting and the suites need root; try: sudo {USAGE}"
    );
    let context = Context::new(false)?;
    progress::print_every_minute();
    let _step = progress::step(suite.name);
    let mut totals = Totals::default();
    let started = std::time::Instant::now();
    let result = (suite.run)(&context, &options)?;
    totals.add(suite.name, started.elapsed(), result);
    Ok(totals.print_and_judge())
}

fn parse(suite: &ExternalSuite, args: &[String]) -> Result<Options> {
    let mut options = Options::default();
    let mut rest = args.iter();
    if suite.wants_checkout {
        let checkout = rest
            .next()
            .with_context(|| format!("suite: its directory is missing; try: {USAGE}"))?;
        options.checkout =
            std::fs::canonicalize(checkout).with_context(|| format!("suite: {checkout}"))?;
    }
    while let Some(arg) = rest.next() {
        match arg.as_str() {
            "--on" => {
                options.on = Some(rest.next().context("suite: --on needs a directory")?.into())
            }
            "--second-mount" => options.second_mount = true,
            "--server" | "--export" if suite.subject == Subject::Mount => {
                bail!("suite: {arg} is for suites of NFS and SMB; try: {USAGE}")
            }
            "--namespace" | "--options" | "--no-layouts" | "--local"
                if suite.subject != Subject::Nfs =>
            {
                bail!("suite: {arg} is for suites of NFS; try: {USAGE}")
            }
            "--server" => {
                let address = rest.next().and_then(|text| external_suites::parse_address(text));
                options.server = Some(address.context("suite: --server needs HOST:PORT")?);
            }
            "--export" => {
                options.export = rest.next().context("suite: --export needs a path")?.clone()
            }
            "--namespace" => {
                let name = rest.next().context("suite: --namespace needs a name of `ip netns`")?;
                options.namespace = Some(name.clone());
            }
            "--options" => {
                options.mount_options =
                    rest.next().context("suite: --options needs options of mount(8)")?.clone()
            }
            "--no-layouts" => options.no_layouts = true,
            "--local" => options.is_local = true,
            "--limit" => {
                let seconds = rest.next().and_then(|text| text.parse().ok());
                options.limit = Some(Duration::from_secs(
                    seconds.context("suite: --limit needs a number of seconds")?,
                ));
            }
            flag if flag.starts_with("--") => {
                bail!("suite: unknown argument `{flag}`; try: {USAGE}")
            }
            case => options.cases.push(case.to_owned()),
        }
    }
    ensure!(
        options.on.is_none() || !options.second_mount,
        "suite: --on runs in a directory that has no second mount; try: {USAGE}"
    );
    ensure!(
        suite.subject == Subject::Mount || (options.on.is_none() && !options.second_mount),
        "suite: --on and --second-mount are for suites on a mount; try: {USAGE}"
    );
    ensure!(
        !options.is_local || options.server.is_none(),
        "suite: --local runs without a server; try: {USAGE}"
    );
    Ok(options)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(words: &[&str]) -> Result<Options> {
        parse_for("xfstests", words)
    }

    fn parse_for(suite: &str, words: &[&str]) -> Result<Options> {
        let suite = external_suites::by_name(suite).unwrap();
        parse(suite, &words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>())
    }

    #[test]
    fn a_checkout_then_cases_and_a_directory_in_any_order() {
        let options =
            parsed(&["/", "generic/001", "--on", "/tmp", "--limit", "9", "generic/346"]).unwrap();
        assert_eq!(options.limit, Some(Duration::from_secs(9)));
        assert_eq!(options.cases, ["generic/001", "generic/346"]);
        assert_eq!(options.on.unwrap(), std::path::Path::new("/tmp"));
    }

    #[test]
    fn a_missing_checkout_or_an_unknown_flag_is_an_error() {
        assert!(parsed(&[]).is_err());
        assert!(parsed(&["/no/such/directory"]).is_err());
        assert!(parsed(&["/", "--fast"]).is_err());
        assert!(parsed(&["/", "--limit", "long"]).is_err());
    }

    #[test]
    fn a_server_and_an_export_are_for_suites_of_nfs_and_smb() {
        let words = ["/", "--server", "[::1]:2049", "--export", "/data", "--namespace", "bed"];
        let options = parse_for("pynfs", &words).unwrap();
        assert_eq!(options.server, Some(("::1".to_owned(), 2049)));
        assert_eq!((options.export.as_str(), options.namespace.as_deref()), ("/data", Some("bed")));
        assert!(parsed(&words).is_err());
        assert!(parse_for("pynfs", &["/", "--server", "nowhere"]).is_err());
        assert!(parse_for("guest-nfs", &["/", "--second-mount"]).is_err());
        let options = parse_for("smbtorture", &["--server", "host:445", "--export", "data"]);
        assert_eq!(options.unwrap().export, "data");
        assert!(parse_for("smbtorture", &["--namespace", "bed"]).is_err());
    }

    #[test]
    fn a_second_mount_is_of_the_suites_own_cluster() {
        assert!(parsed(&["/", "--second-mount"]).unwrap().second_mount);
        assert!(parsed(&["/", "--second-mount", "--on", "/tmp"]).is_err());
    }
}
