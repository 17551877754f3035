//! A distant daemon: a relay in front of it, on its host, forwards each byte after a delay.
//!
//! It delays the data of TCP connections, not TCP itself: connection setup, acknowledgements and
//! retransmissions have the speed of the lab, and a ping has no delay. A kernel with netem could do
//! that too; this works without.

use std::{
    io::{ErrorKind, Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, SyncSender, sync_channel},
    },
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use crate::host::Host;

/// Maximum bytes of one read.
const READ_BYTES: usize = 64 << 10;
/// Maximum number of reads in flight in one direction: enough for 10 Gbit/s with a delay of 25 ms.
/// With a longer delay the relay slows the sender down.
const QUEUED_READS_MAX: usize = 512;
/// How often a relay checks whether it must end.
const STOP_POLL_INTERVAL: Duration = Duration::from_millis(50);

/// A running relay. It accepts no new connections after it is dropped.
#[derive(Debug)]
pub struct Relay {
    ended: Arc<AtomicBool>,
}

impl Relay {
    /// Listens on `host` at `from`, and forwards to `to` with this delay in each direction.
    pub fn start(host: &Host, from: &str, to: &str, each_way: Duration) -> Result<Self> {
        let ended = Arc::new(AtomicBool::new(false));
        let (from, to, stop, host) =
            (from.to_owned(), to.to_owned(), Arc::clone(&ended), host.clone());
        let (started, bound) = sync_channel(1);
        thread::spawn(move || match listen(&host, &from) {
            Ok(listener) => {
                let _ = started.send(Ok(()));
                accept(&listener, &to, each_way, &stop);
            }
            Err(error) => drop(started.send(Err(error))),
        });
        bound.recv().context("a relay ended")?.context("starting a relay")?;
        Ok(Self { ended })
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ended.store(true, Ordering::Relaxed);
    }
}

fn listen(host: &Host, from: &str) -> Result<TcpListener> {
    host.enter()?;
    let listener = TcpListener::bind(from)?;
    listener.set_nonblocking(true)?;
    Ok(listener)
}

fn accept(listener: &TcpListener, to: &str, each_way: Duration, stop: &AtomicBool) {
    while !stop.load(Ordering::Relaxed) {
        match listener.accept() {
            Ok((near, _)) => {
                // A dead daemon refuses connections; the relay then closes its own.
                let _ = join(near, to, each_way);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let look =
                    Timespec { tv_sec: 0, tv_nsec: STOP_POLL_INTERVAL.subsec_nanos().into() };
                let _ = poll(&mut [PollFd::new(listener, PollFlags::IN)], Some(&look));
            }
            Err(_) => return,
        }
    }
}

fn join(near: TcpStream, to: &str, each_way: Duration) -> Result<()> {
    near.set_nonblocking(false)?;
    let far = TcpStream::connect(to)?;
    for stream in [&near, &far] {
        stream.set_nodelay(true)?;
    }
    forward(near.try_clone()?, far.try_clone()?, each_way);
    forward(far, near, each_way);
    Ok(())
}

/// One direction: one thread reads, another writes.
fn forward(from: TcpStream, to: TcpStream, each_way: Duration) {
    let (give, taken) = sync_channel(QUEUED_READS_MAX);
    thread::spawn(move || read_timestamped(from, &give));
    thread::spawn(move || write_delayed(&taken, to, each_way));
}

fn read_timestamped(mut from: TcpStream, give: &SyncSender<(Instant, Vec<u8>)>) {
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = from.read(&mut buffer) {
        if give.send((Instant::now(), buffer[..count].to_vec())).is_err() {
            break;
        }
    }
    let _ = from.shutdown(Shutdown::Read);
}

fn write_delayed(taken: &Receiver<(Instant, Vec<u8>)>, mut to: TcpStream, each_way: Duration) {
    while let Ok((at, piece)) = taken.recv() {
        thread::sleep((at + each_way).saturating_duration_since(Instant::now()));
        if to.write_all(&piece).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Write);
}
