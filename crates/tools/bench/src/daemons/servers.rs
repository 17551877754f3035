//! What rows of gateways and of rival servers share.

use std::{
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Result, bail};
use braid_testbed::wait;
use rustix::time::{ClockId, clock_gettime};

use super::Daemon;
use crate::bench::Bench;

/// Maximum time until a server listens.
const READY_MAX: Duration = Duration::from_secs(60);

/// Waits until a server listens; returns its address.
pub fn wait_until_listening(listen: &str, daemon: &mut Daemon) -> Result<SocketAddr> {
    let address: SocketAddr = listen.parse()?;
    wait::until("a server listens", READY_MAX, || {
        daemon.check()?;
        Ok(TcpStream::connect(address).is_ok())
    })?;
    Ok(address)
}

/// CPU time of all processes of the run but this one: of the servers, whichever they are. Those
/// without requests use none.
pub fn cpu_of_servers(bench: &Bench) -> Result<Duration> {
    let all = bench.meter().now()?;
    let own = clock_gettime(ClockId::ProcessCPUTime);
    let (Ok(seconds), Ok(nanos)) = (u64::try_from(own.tv_sec), u32::try_from(own.tv_nsec)) else {
        bail!("the clock of this process is negative");
    };
    Ok(all.saturating_sub(Duration::new(seconds, nanos)))
}
