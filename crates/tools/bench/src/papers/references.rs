//! iperf3 between hosts of a lab.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use braid_netlab::{Host, Lab};
use serde_json::Value;

use super::{Papers, Sample, taking::Taking};

const PORT: &str = "5201";
/// How often a client tries to reach a server, which needs a moment to listen.
const TRIES_MAX: u32 = 100;

/// What one stream between each of these (client, daemon) carries at the same time, in all. `reverse`: from daemons to clients.
pub fn sample(papers: &Papers, lab: &Lab, pairs: &[(usize, usize)], reverse: bool, seconds: u32) -> Result<Sample> {
    let hosts = |(client, daemon): &(usize, usize)| -> Result<(Host, Host)> {
        Ok((lab.client_host(*client)?.clone(), lab.network().host(&format!("iod{daemon}"))?.clone()))
    };
    let hosts = pairs.iter().map(hosts).collect::<Result<Vec<_>>>()?;
    let servers = hosts.iter().map(|(_, daemon)| Server::start(daemon)).collect::<Result<Vec<_>>>()?;
    let taking = Taking::start(papers, lab)?;
    let rates = thread::scope(|scope| {
        let started: Vec<_> =
            hosts.iter().map(|(client, daemon)| scope.spawn(|| stream(client, daemon, reverse, seconds))).collect();
        started
            .into_iter()
            .map(|thread| thread.join().map_err(|_| anyhow!("a thread panicked"))?)
            .collect::<Result<Vec<f64>>>()
    })?;
    let mb_per_second: f64 = rates.iter().sum();
    let taken = taking.end(papers, lab, (mb_per_second * 1e6 * f64::from(seconds)) as u64)?;
    drop(servers);
    Ok(Sample { mb_per_second, ..taken })
}

fn stream(client: &Host, daemon: &Host, reverse: bool, seconds: u32) -> Result<f64> {
    let time = seconds.to_string();
    for _ in 0..TRIES_MAX {
        let mut command = client.command("iperf3");
        command.args(["--client", daemon.address(), "--port", PORT, "--json", "--time", &time]);
        if reverse {
            command.arg("--reverse");
        }
        let output = command.stdin(Stdio::null()).output().context("running iperf3")?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        match received(&text) {
            Ok(rate) => return Ok(rate),
            // It exits with 0 also when it reaches no server.
            Err(_) if text.contains("unable to connect") => thread::sleep(Duration::from_millis(20)),
            Err(error) => return Err(error.context(text)),
        }
    }
    bail!("iperf3 on {} cannot be reached", daemon.name)
}

/// Millions of bytes a second, as the receiver saw them.
fn received(report: &str) -> Result<f64> {
    let json: Value = serde_json::from_str(report).context("reading iperf3's report")?;
    let bits = json["end"]["sum_received"]["bits_per_second"].as_f64().context("iperf3 does not tell the rate")?;
    Ok(bits / 8e6)
}

/// A server that ends with this.
struct Server(Child);

impl Server {
    fn start(host: &Host) -> Result<Self> {
        let mut command: Command = host.command("iperf3");
        command.args(["--server", "--one-off", "--port", PORT]).stdin(Stdio::null());
        Ok(Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("starting iperf3")?))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
