//! A wire to a daemon, whose speed a test sets, or which it cuts silently.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    sync::{Arc, Condvar, Mutex},
    thread,
    time::{Duration, Instant},
};

/// How much one direction of a connection passes on at a time.
const PIECE_BYTES: usize = 32 << 10;
/// How much of its idle time a wire makes up for.
const IDLE_MAX: Duration = Duration::from_millis(500);

/// See the module. Its threads end with the process.
#[derive(Clone)]
pub struct Wire {
    address: SocketAddr,
    state: Arc<(Mutex<State>, Condvar)>,
}

struct State {
    leads_to: Option<SocketAddr>,
    /// From the daemon, of all connections together; `None`: nothing passes in either direction.
    bytes_per_second: Option<u64>,
    /// When it has passed on everything it took.
    free_at: Instant,
}

impl Wire {
    /// A wire as fast as this host.
    pub fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state =
            State { leads_to: None, bytes_per_second: Some(u64::MAX), free_at: Instant::now() };
        let wire = Self { address, state: Arc::new((Mutex::new(state), Condvar::new())) };
        let accepts = wire.clone();
        thread::spawn(move || {
            for near in listener.incoming().flatten() {
                let wire = accepts.clone();
                thread::spawn(move || wire.join(near));
            }
        });
        wire
    }

    /// The address at this end.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Sets the address of the daemon.
    pub fn lead_to(&self, address: SocketAddr) {
        self.change(|state| state.leads_to = Some(address));
    }

    /// Sets the rate from the daemon.
    pub fn slow_down(&self, bytes_per_second: u64) {
        self.change(|state| state.bytes_per_second = Some(bytes_per_second));
    }

    /// Nothing passes any more, and no end is notified.
    pub fn cut(&self) {
        self.change(|state| state.bytes_per_second = None);
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.state.0.lock().unwrap());
        self.state.1.notify_all();
    }

    /// Waits until `found` returns something.
    fn wait<T>(&self, found: impl Fn(&mut State) -> Option<T>) -> T {
        let mut state = self.state.0.lock().unwrap();
        loop {
            match found(&mut state) {
                Some(found) => return found,
                None => state = self.state.1.wait(state).unwrap(),
            }
        }
    }

    fn join(&self, near: TcpStream) {
        let address = self.wait(|state| state.leads_to);
        let Ok(far) = TcpStream::connect(address) else { return };
        let (from, into) = (near.try_clone().unwrap(), far.try_clone().unwrap());
        let there = self.clone();
        thread::spawn(move || there.pass(from, into, false));
        self.pass(far, near, true);
    }

    fn pass(&self, mut from: TcpStream, mut into: TcpStream, is_paced: bool) {
        let mut piece = vec![0; PIECE_BYTES];
        while let Ok(bytes @ 1..) = from.read(&mut piece) {
            let due = self.wait(|state| state.due(if is_paced { bytes } else { 0 }));
            thread::sleep(due.saturating_duration_since(Instant::now()));
            if into.write_all(&piece[..bytes]).is_err() {
                break;
            }
        }
        let _ = (from.shutdown(Shutdown::Both), into.shutdown(Shutdown::Both));
    }
}

impl State {
    /// The time when this number of bytes has passed; `None`: not before something changes.
    fn due(&mut self, bytes: usize) -> Option<Instant> {
        let rate = self.bytes_per_second?;
        let now = Instant::now();
        if bytes == 0 {
            return Some(now);
        }
        let begin = self.free_at.max(now - IDLE_MAX);
        self.free_at = begin + Duration::from_secs_f64(bytes as f64 / rate as f64);
        Some(self.free_at)
    }
}
