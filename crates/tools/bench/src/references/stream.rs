//! A raw TCP stream over loopback: iperf3 where it is installed, else two loops of our own.

use std::{
    io::{Read, Write},
    net::{TcpListener, TcpStream},
};

use anyhow::{Result, anyhow};

use super::iperf::Iperf;
use crate::bench::Bench;

/// Bytes of one `read` and `write`, as in iperf3.
const BLOCK_BYTES: usize = 128 << 10;

/// CPU and throughput of a stream.
#[derive(Clone, Copy, Debug)]
pub struct Streamed {
    /// CPU-seconds per GiB, both ends.
    pub cpu_per_gib: f64,
    /// Millions of bytes a second.
    pub mb_per_second: f64,
}

/// The source of streams.
pub enum Stream {
    /// iperf3's server, waiting.
    Iperf(Iperf),
    /// Two threads.
    Own,
}

impl Stream {
    /// iperf3 if it is installed; the head of the report names the choice.
    pub fn start(bench: &Bench) -> Result<Self> {
        if let Some(iperf) = Iperf::start(&bench.scratch)? {
            bench.note(format!("raw TCP stream: {}", iperf.version()));
            return Ok(Self::Iperf(iperf));
        }
        bench.note("raw TCP stream: two loops of read and write; iperf3 is not installed");
        Ok(Self::Own)
    }

    /// Sends about `bytes`.
    pub fn sample(&self, bench: &Bench, bytes: u64) -> Result<Streamed> {
        match self {
            Self::Iperf(iperf) => iperf.sample(bench, bytes),
            Self::Own => own(bench, bytes),
        }
    }
}

fn own(bench: &Bench, bytes: u64) -> Result<Streamed> {
    let listener = TcpListener::bind("127.0.0.1:0")?;
    let address = listener.local_addr()?;
    let taken = bench.take(|| {
        let sender = std::thread::spawn(move || send(TcpStream::connect(address)?, bytes));
        receive(listener.accept()?.0)?;
        sender.join().map_err(|_| anyhow!("the sending thread panicked"))?
    })?;
    Ok(Streamed {
        cpu_per_gib: taken.cpu_per_gib(bytes),
        mb_per_second: taken.mb_per_second(bytes),
    })
}

fn send(mut stream: TcpStream, bytes: u64) -> Result<()> {
    let block = vec![0x5a; BLOCK_BYTES];
    let mut left = bytes;
    while left > 0 {
        let length = left.min(BLOCK_BYTES as u64);
        stream.write_all(&block[..length as usize])?;
        left -= length;
    }
    Ok(())
}

fn receive(mut stream: TcpStream) -> Result<()> {
    let mut block = vec![0; BLOCK_BYTES];
    while stream.read(&mut block)? > 0 {}
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::CoreArgs;

    #[test]
    fn our_own_stream_has_a_rate() {
        let bench = Bench::new(&CoreArgs::default()).unwrap();
        let streamed = own(&bench, (1 << 20) + 1).unwrap();
        assert!(streamed.mb_per_second > 0.0);
    }
}
