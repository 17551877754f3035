//! iperf3 over loopback.

use std::{
    path::Path,
    process::{Command, Stdio},
};

use anyhow::{Context, Result, bail};
use braid_testbed::ports::free_address;
use serde_json::Value;

use super::stream::Streamed;
use crate::{bench::Bench, daemons::Daemon};

/// How often a client tries to reach the server, which needs a moment to listen.
const TRIES_MAX: u32 = 50;

/// A running iperf3 server.
pub struct Iperf {
    _server: Daemon,
    port: String,
    version: String,
}

impl Iperf {
    /// `None` when iperf3 is not installed.
    pub fn start(scratch: &Path) -> Result<Option<Self>> {
        let Ok(output) = Command::new("iperf3").arg("--version").output() else { return Ok(None) };
        let text = String::from_utf8_lossy(&output.stdout);
        let version = text.split_whitespace().take(2).collect::<Vec<_>>().join(" ");
        let address = free_address()?;
        let port = address.rsplit(':').next().context("an address has a port")?.to_owned();
        let mut command = Daemon::command(Path::new("iperf3"));
        command.args(["--server", "--bind", "127.0.0.1", "--port", &port]);
        let iperf =
            Self { _server: Daemon::start(command, &scratch.join("iperf3.log"))?, port, version };
        iperf.wait_until_ready()?;
        Ok(Some(iperf))
    }

    /// `iperf 3.x`.
    pub fn version(&self) -> &str {
        &self.version
    }

    /// One stream of about `bytes`.
    pub fn sample(&self, bench: &Bench, bytes: u64) -> Result<Streamed> {
        let mut report = String::new();
        let taken = bench.take(|| {
            report = self.run(bytes)?;
            Ok(())
        })?;
        let (received, mb_per_second) = received(&report)?;
        Ok(Streamed { cpu_per_gib: taken.cpu_per_gib(received), mb_per_second })
    }

    fn wait_until_ready(&self) -> Result<()> {
        for _ in 0..TRIES_MAX {
            if self.run(1 << 20).is_ok() {
                return Ok(());
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
        self.run(1 << 20).map(|_| ())
    }

    fn run(&self, bytes: u64) -> Result<String> {
        let mut command = Command::new("iperf3");
        command.args([
            "--client",
            "127.0.0.1",
            "--port",
            &self.port,
            "--json",
            "--bytes",
            &bytes.to_string(),
        ]);
        let output = command.stdin(Stdio::null()).output().context("running iperf3")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        // It also exits with 0 when it reaches no server.
        if !output.status.success() || received(&text).is_err() {
            bail!("iperf3 failed: {}", text.trim());
        }
        Ok(text)
    }
}

/// Bytes and millions of bytes a second, as the receiver saw them.
fn received(report: &str) -> Result<(u64, f64)> {
    let json: Value = serde_json::from_str(report).context("parse iperf3's report")?;
    let sum = &json["end"]["sum_received"];
    let bytes = sum["bytes"].as_u64().context("iperf3's report has no bytes")?;
    let bits = sum["bits_per_second"].as_f64().context("iperf3's report has no rate")?;
    Ok((bytes, bits / 8e6))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_receivers_numbers_are_taken() {
        let report = r#"{"end":{"sum_sent":{"bytes":9},
            "sum_received":{"bytes":1048576,"bits_per_second":8000000.0}}}"#;
        assert_eq!(received(report).unwrap(), (1 << 20, 1.0));
        assert!(received(r#"{"error":"unable to connect"}"#).is_err());
    }
}
