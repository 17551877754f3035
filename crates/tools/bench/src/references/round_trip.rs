//! The round trip of one byte over loopback TCP to another process.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    process::{Child, Command, Stdio},
};

use anyhow::{Context, Result};

use crate::rows::latency::{Latency, each};

/// A process that answers each byte with a byte, and the connection to it.
pub struct RoundTrip {
    child: Child,
    stream: TcpStream,
}

impl RoundTrip {
    /// Starts the process.
    pub fn start() -> Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        let mut child = command.arg("echo").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let mut address = String::new();
        let stdout = child.stdout.take().context("the process has an output")?;
        BufReader::new(stdout).read_line(&mut address)?;
        let stream = TcpStream::connect(address.trim()).context("connect to the echo process")?;
        stream.set_nodelay(true)?;
        Ok(Self { child, stream })
    }

    /// Its process id, to be pinned.
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// `count` round trips, one at a time.
    pub fn sample(&mut self, count: u32) -> Result<Latency> {
        each(count, |_| {
            self.stream.write_all(b"x")?;
            self.stream.read_exact(&mut [0])?;
            Ok(())
        })
    }
}

impl Drop for RoundTrip {
    fn drop(&mut self) {
        // It ends when its connection does; this is for one that does not.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
