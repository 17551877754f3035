//! Resolves names to addresses within a deadline (I8). The system's lookup cannot be cancelled, so
//! it runs on a thread that is abandoned when it takes too long.
//!
//! Invariant: at most [`LOOKUPS_MAX`] lookups run at a time (I9). A name server that does not
//! answer costs no more than that.

use std::{
    io::{self, ErrorKind},
    net::{SocketAddr, ToSocketAddrs},
    sync::{
        atomic::{AtomicUsize, Ordering},
        mpsc::{RecvTimeoutError, sync_channel},
    },
    thread,
    time::Instant,
};

/// Maximum number of abandoned threads.
const LOOKUPS_MAX: usize = 16;

/// Resolves names, with a limit on running lookups.
#[derive(Debug)]
pub(super) struct Resolver {
    lookup: fn(&str) -> io::Result<Vec<SocketAddr>>,
    running: AtomicUsize,
}

/// Uses the system's resolver: `/etc/hosts`, DNS.
pub(super) static SYSTEM: Resolver = Resolver::new(|name| Ok(name.to_socket_addrs()?.collect()));

impl Resolver {
    pub(super) const fn new(lookup: fn(&str) -> io::Result<Vec<SocketAddr>>) -> Self {
        Self { lookup, running: AtomicUsize::new(0) }
    }

    /// The addresses of `host:port`. A numeric address needs no lookup.
    pub(super) fn resolve(
        &'static self,
        address: &str,
        deadline: Instant,
    ) -> io::Result<Vec<SocketAddr>> {
        match address.parse() {
            Ok(numeric) => Ok(vec![numeric]),
            Err(_) => self.look_up(address, deadline),
        }
    }

    fn look_up(&'static self, address: &str, deadline: Instant) -> io::Result<Vec<SocketAddr>> {
        let permit = LookupPermit::take(&self.running)?;
        let (answer, answered) = sync_channel(1);
        let name = address.to_string();
        thread::Builder::new().name("braid-resolver".into()).spawn(move || {
            let _permit = permit;
            let _ = answer.send((self.lookup)(&name)); // the caller may have stopped waiting
        })?;
        match answered.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            Ok(found) => found,
            Err(RecvTimeoutError::Timeout) => {
                let why = "the name was not looked up in time; \
                           try: check the name servers, or give a numeric address";
                Err(io::Error::other(why))
            }
            Err(RecvTimeoutError::Disconnected) => {
                Err(io::Error::other("the lookup of the name failed"))
            }
        }
    }
}

/// The right to run one lookup.
struct LookupPermit(&'static AtomicUsize);

impl LookupPermit {
    fn take(running: &'static AtomicUsize) -> io::Result<Self> {
        if running.fetch_add(1, Ordering::Relaxed) < LOOKUPS_MAX {
            return Ok(Self(running));
        }
        running.fetch_sub(1, Ordering::Relaxed);
        let why =
            format!("{LOOKUPS_MAX} name lookups have no answer yet; try: check the name servers");
        Err(io::Error::new(ErrorKind::ResourceBusy, why))
    }
}

impl Drop for LookupPermit {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn never(_: &str) -> io::Result<Vec<SocketAddr>> {
        loop {
            thread::park();
        }
    }

    fn soon() -> Instant {
        Instant::now() + Duration::from_millis(5)
    }

    #[test]
    fn a_name_server_that_does_not_answer_is_given_up_at_the_deadline() {
        static SILENT: Resolver = Resolver::new(never);
        let error = SILENT.resolve("storage.example:7000", soon()).unwrap_err();
        assert!(error.to_string().contains("not looked up in time"), "{error}");
        assert_eq!(SILENT.running.load(Ordering::Relaxed), 1, "the abandoned lookup still runs");
    }

    #[test]
    fn lookups_without_an_answer_are_bounded() {
        static SILENT: Resolver = Resolver::new(never);
        for _ in 0..LOOKUPS_MAX {
            SILENT.resolve("storage.example:7000", soon()).unwrap_err();
        }
        let error = SILENT.resolve("storage.example:7000", soon()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ResourceBusy);
    }

    #[test]
    fn a_finished_lookup_frees_its_permit() {
        static FAILING: Resolver = Resolver::new(|_| Err(ErrorKind::NotFound.into()));
        for _ in 0..10 * LOOKUPS_MAX {
            let far = Instant::now() + Duration::from_secs(60);
            while FAILING.running.load(Ordering::Relaxed) > 0 {
                thread::yield_now();
            }
            assert_eq!(
                FAILING.resolve("storage.example:7000", far).unwrap_err().kind(),
                ErrorKind::NotFound
            );
        }
    }

    #[test]
    fn a_numeric_address_needs_no_name_server() {
        static SILENT: Resolver = Resolver::new(never);
        let address: SocketAddr = "[::1]:7000".parse().unwrap();
        assert_eq!(SILENT.resolve("[::1]:7000", Instant::now()).unwrap(), [address]);
    }
}
