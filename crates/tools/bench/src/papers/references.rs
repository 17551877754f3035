//! iperf3 between hosts of a lab.

use std::{
    process::{Child, Command, Stdio},
    thread,
    time::Duration,
};

use anyhow::{Context, Result, anyhow, bail};
use braid_netlab::{Host, Lab};
use serde_json::Value;

use super::{Papers, Sample, machine_use::CpuUse, sampling::Sampling};

/// The port of the first client's server; the next client's is one higher.
const PORT: usize = 5201;
/// How often a client tries to reach a server, which needs a moment to listen.
const TRIES_MAX: u32 = 100;

/// The first part of streams is not counted when the machine's use is measured: they start one
/// after the other.
const OMIT: Duration = Duration::from_secs(1);
/// Allowed time between the starts of two streams.
const APART: Duration = Duration::from_millis(5);

/// The total rate of one stream between each of these (client, daemon) at the same time. `reverse`:
/// from daemons to clients.
pub fn sample(
    papers: &Papers,
    lab: &Lab,
    pairs: &[(usize, usize)],
    reverse: bool,
    seconds: u32,
) -> Result<Sample> {
    let (streams, _servers) = streams(lab, pairs)?;
    let taking = Sampling::start(papers, lab)?;
    let mb_per_second = thread::scope(|scope| {
        let started: Vec<_> = streams
            .iter()
            .map(|stream| scope.spawn(|| stream.run(reverse, &["--time", &seconds.to_string()])))
            .collect();
        carried(started)
    })?;
    let taken = taking.end(papers, lab, (mb_per_second * 1e6 * f64::from(seconds)) as u64)?;
    Ok(Sample { mb_per_second, ..taken })
}

/// The part of the machine that is busy while such streams run, and their rate in MB/s.
pub fn used(lab: &Lab, pairs: &[(usize, usize)], reverse: bool) -> Result<(f64, f64)> {
    let (streams, _servers) = streams(lab, pairs)?;
    let seconds = 1 + pairs.len() as u64 / 32;
    let arguments =
        ["--time".to_owned(), seconds.to_string(), "--omit".to_owned(), OMIT.as_secs().to_string()];
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    thread::scope(|scope| {
        let started: Vec<_> =
            streams.iter().map(|stream| scope.spawn(|| stream.run(reverse, &arguments))).collect();
        thread::sleep(OMIT + APART * u32::try_from(pairs.len())?);
        let start = CpuUse::now()?;
        thread::sleep(Duration::from_millis(700) * u32::try_from(seconds)?);
        let used = CpuUse::now()?.since(start);
        Ok((used, carried(started)?))
    })
}

/// The sum of all rates; all threads end before the first failure is returned.
fn carried(started: Vec<thread::ScopedJoinHandle<'_, Result<f64>>>) -> Result<f64> {
    let ended: Vec<_> = started.into_iter().map(thread::ScopedJoinHandle::join).collect();
    ended.into_iter().map(|ended| ended.map_err(|_| anyhow!("a thread panicked"))?).sum()
}

/// A stream for each pair, and their servers.
fn streams(lab: &Lab, pairs: &[(usize, usize)]) -> Result<(Vec<Stream>, Vec<Server>)> {
    let stream = |(client, daemon): &(usize, usize)| -> Result<Stream> {
        let (host, daemon) = (
            lab.client_host(*client)?.clone(),
            lab.network().host(&format!("iod{daemon}"))?.clone(),
        );
        // Clients use the interfaces of a server in turn.
        let address = daemon
            .addresses
            .get(client % daemon.addresses.len().max(1))
            .context("a host has an address")?;
        Ok(Stream {
            client: host,
            address: address.clone(),
            port: (PORT + client).to_string(),
            daemon,
        })
    };
    let streams = pairs.iter().map(stream).collect::<Result<Vec<_>>>()?;
    let servers = streams
        .iter()
        .map(|stream| Server::start(&stream.daemon, &stream.port))
        .collect::<Result<_>>()?;
    Ok((streams, servers))
}

/// A stream from a client to a daemon's host.
struct Stream {
    client: Host,
    daemon: Host,
    address: String,
    port: String,
}

impl Stream {
    /// Millions of bytes a second.
    fn run(&self, reverse: bool, arguments: &[&str]) -> Result<f64> {
        for _ in 0..TRIES_MAX {
            let mut command = self.client.command("iperf3");
            command
                .args(["--client", &self.address, "--port", &self.port, "--json"])
                .args(arguments);
            if reverse {
                command.arg("--reverse");
            }
            let output = command.stdin(Stdio::null()).output().context("run iperf3")?;
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            match received(&text) {
                Ok(rate) => return Ok(rate),
                // It also exits with 0 when it reaches no server.
                Err(_) if text.contains("unable to connect") => {
                    thread::sleep(Duration::from_millis(20))
                }
                Err(error) => return Err(error.context(text)),
            }
        }
        bail!("connect to iperf3 on {} failed", self.daemon.name)
    }
}

/// Millions of bytes a second, as the receiver saw them.
fn received(report: &str) -> Result<f64> {
    let json: Value = serde_json::from_str(report).context("parse iperf3's report")?;
    let bits = json["end"]["sum_received"]["bits_per_second"]
        .as_f64()
        .context("iperf3's report has no rate")?;
    Ok(bits / 8e6)
}

/// A server that ends when it is dropped.
struct Server(Child);

impl Server {
    fn start(host: &Host, port: &str) -> Result<Self> {
        let mut command: Command = host.command("iperf3");
        command.args(["--server", "--one-off", "--port", port]).stdin(Stdio::null());
        Ok(Self(
            command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().context("start iperf3")?,
        ))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
