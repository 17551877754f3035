//! A client in a process of its own, so that it can be killed between any two instructions.

use std::{
    io::{BufRead, BufReader, Write},
    path::Path,
    process::{Child, ChildStdout, Command, Stdio},
};

use anyhow::{Context, Result, bail};
use braid_client::Client;
use braid_testbed::cluster;

use super::Worker;
use crate::load::Actor;

/// The client process: prints each operation that it begins and each acknowledgement, until it is
/// killed.
pub fn run_client(mds: &str, key: &Path, below: &str, seed: u64, parts: u16) -> Result<()> {
    let mut actor = Actor::new(cluster::connect(mds, key)?, parts);
    let mut worker = Worker::new(seed, below, parts);
    // Flushed each time: every acknowledgement is printed before the kill.
    let say = |text: &str| {
        let mut out = std::io::stdout().lock();
        out.write_all(text.as_bytes()).and_then(|()| out.flush())
    };
    loop {
        let operation = worker.next_operation();
        say("begin\n")?;
        match actor.act(worker.model(), &operation) {
            Ok(()) => worker.acknowledge(&operation),
            Err(why) => {
                say(&format!("failed {}\n", why.to_string().replace('\n', " ")))?;
                bail!("{operation:?}: {why}");
            }
        }
        say("done\n")?;
    }
}

/// The parent's handle of the process.
pub struct ClientProcess {
    child: Child,
    lines: BufReader<ChildStdout>,
    worker: Worker,
}

impl ClientProcess {
    /// Starts `own --client`.
    pub fn start(
        own: &Path,
        contact: &(String, std::path::PathBuf),
        below: &str,
        seed: u64,
        parts: u16,
    ) -> Result<Self> {
        let mut command = Command::new(own);
        command.args(["--client", below, "--mds", &contact.0, "--key"]).arg(&contact.1);
        command.args(["--seed", &seed.to_string(), "--parts", &parts.to_string()]);
        let mut child =
            command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn()?;
        let lines = child.stdout.take().map(BufReader::new).context("no output of the client")?;
        Ok(Self { child, lines, worker: Worker::new(seed, below, parts) })
    }

    /// Sends SIGKILL. Then everything that was acknowledged must be there, and the interrupted
    /// operation must have happened completely or not at all.
    pub fn kill_and_check(mut self, client: &Client) -> Result<Worker, String> {
        let _ = self.child.kill();
        let _ = self.child.wait();
        let mut begun = None;
        for line in self.lines.lines().map_while(std::io::Result::ok) {
            match line.split(' ').next() {
                Some("begin") => begun = Some(self.worker.next_operation()),
                Some("done") => {
                    begun.take().iter().for_each(|operation| self.worker.acknowledge(operation))
                }
                // The parent checks whether it happened, as if the client had been killed during
                // it.
                _ => {}
            }
        }
        if let Some(operation) = begun {
            self.worker.resolve(client, &operation, &"its client was killed")?;
        }
        self.worker.check(client)?;
        Ok(self.worker)
    }
}
