//! A lab, or the reason why this machine cannot run one.
#![allow(dead_code, reason = "each test binary uses some of it")]

use std::time::{Duration, Instant};

use braid_netlab::{Lab, Spec};
use braid_testbed::braid::Braid;

/// Maximum duration of a call on a busy machine.
pub const PATIENCE: Duration = Duration::from_secs(120);

/// The command under test.
pub fn braid() -> Braid {
    Braid::find().unwrap()
}

/// A running lab. Prints why the test is skipped if this machine cannot run one.
pub fn lab(spec: Spec) -> Option<Lab> {
    if unable() {
        return None;
    }
    Some(Lab::start(&braid(), &spec).unwrap())
}

/// The same, for a test that also drops packets.
pub fn lossy_lab(spec: Spec) -> Option<Lab> {
    if unable() {
        return None;
    }
    match Lab::start(&braid(), &spec) {
        Err(error) if format!("{error:#}").contains("nft") => {
            println!("skipped: {error:#}");
            None
        }
        lab => Some(lab.unwrap()),
    }
}

/// Whether this machine cannot run a lab; prints the reason.
pub fn unable() -> bool {
    match braid_netlab::check_requirements() {
        Ok(()) => false,
        Err(error) => {
            println!("skipped: {error:#}");
            true
        }
    }
}

/// Names of all namespaces.
pub fn namespaces() -> Vec<String> {
    let entries = std::fs::read_dir("/run/netns").into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned()).collect()
}

/// Repeats `call` until it succeeds after a server is back.
pub fn eventually<T>(mut call: impl FnMut() -> braid_client::Result<T>) -> T {
    let start = Instant::now();
    loop {
        match call() {
            Ok(answer) => return answer,
            Err(error) if start.elapsed() > PATIENCE => {
                panic!("still after {} s: {error}", PATIENCE.as_secs())
            }
            Err(_) => std::thread::sleep(Duration::from_millis(20)),
        }
    }
}
