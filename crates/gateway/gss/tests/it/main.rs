//! Kerberos against a KDC of MIT Kerberos that the test starts.
//!
//! The library reads its configuration from the environment, which a process with threads cannot
//! change. So the test starts itself again with the environment of the KDC.
#![cfg(target_os = "linux")]

mod kdc;
mod scenarios;

use std::env;
use std::process::Command;

use kdc::Kdc;

/// Set in the process that runs the scenarios: the directory of the KDC.
const DIRECTORY: &str = "BRAID_GSS_TEST_KDC";

#[test]
fn server_and_client_with_a_real_kdc() {
    if let Some(directory) = env::var_os(DIRECTORY) {
        return scenarios::run(directory.as_ref());
    }
    let kdc = match Kdc::start() {
        Ok(kdc) => kdc,
        Err(reason) => return println!("skipped: {reason}"),
    };
    let output = Command::new(env::current_exe().expect("this test's file"))
        .args(["--exact", "server_and_client_with_a_real_kdc", "--nocapture"])
        .env(DIRECTORY, kdc.directory())
        .envs(kdc.environment())
        .output()
        .expect("this test again");
    let text = String::from_utf8_lossy(&output.stdout);
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{errors}\n{}", kdc.log());
    let passed = text.lines().filter(|line| line.starts_with("passed: ")).count();
    assert_eq!(passed, scenarios::COUNT, "{text}");
}
