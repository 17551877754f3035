//! Metrics for Prometheus: a minimal HTTP/1.1 server that answers only `GET /metrics`, with a text.
//!
//! Bounded (I9): one connection at a time; a request has at most [`REQUEST_BYTES_MAX`] bytes and
//! [`REQUEST_TIMEOUT`]; the connection is closed after one answer. A scraper that asks every few
//! seconds needs no more.

use std::{
    io::{self, Read, Write},
    net::{SocketAddr, TcpListener, TcpStream},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

/// Maximum length of a request; the head of a scraper's request has some hundred bytes.
pub const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Maximum time of a connection.
pub const REQUEST_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause after the system had no descriptor or memory for a connection.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// A running server. Dropping it stops it.
#[derive(Debug)]
pub struct MetricsServer {
    address: SocketAddr,
    stopping: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl MetricsServer {
    /// Listens on `address` (`host:port`; for port 0 the system chooses one) and answers with the
    /// result of `text`.
    ///
    /// # Errors
    /// `cannot serve metrics on ADDRESS: why; try: …`.
    pub fn start(address: &str, text: impl Fn() -> String + Send + 'static) -> io::Result<Self> {
        let explain = |error: io::Error| {
            let why =
                format!("cannot serve metrics on {address}: {error}; try: another address or port");
            io::Error::new(error.kind(), why)
        };
        let listener = TcpListener::bind(address).map_err(explain)?;
        let address = listener.local_addr()?;
        let stopping = Arc::new(AtomicBool::new(false));
        let stop = stopping.clone();
        let thread = thread::Builder::new()
            .name("braid-metrics".into())
            .spawn(move || serve(&listener, &stop, &text))?;
        Ok(Self { address, stopping, thread: Some(thread) })
    }

    /// The address that it listens on.
    pub fn local_addr(&self) -> SocketAddr {
        self.address
    }

    /// Stops the server. It may be called again.
    pub fn stop(&mut self) {
        let Some(thread) = self.thread.take() else { return };
        self.stopping.store(true, Ordering::SeqCst);
        let mut address = self.address;
        if address.ip().is_unspecified() {
            address.set_ip(if address.is_ipv4() {
                [127, 0, 0, 1].into()
            } else {
                [0, 0, 0, 0, 0, 0, 0, 1].into()
            });
        }
        // only to wake the thread
        let _ = TcpStream::connect_timeout(&address, Duration::from_secs(1));
        drop(thread.join());
    }
}

impl Drop for MetricsServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn serve(listener: &TcpListener, stopping: &AtomicBool, text: &impl Fn() -> String) {
    while !stopping.load(Ordering::SeqCst) {
        match listener.accept() {
            // A scraper that disconnects is no error of the server.
            Ok((stream, _)) if !stopping.load(Ordering::SeqCst) => drop(answer(stream, text)),
            Ok(_) => {}
            Err(_) => thread::sleep(ACCEPT_PAUSE),
        }
    }
}

fn answer(mut stream: TcpStream, text: &impl Fn() -> String) -> io::Result<()> {
    let (status, body) = match head(&mut stream)? {
        Some(head) => respond(&head, text),
        None => ("431 Request Header Fields Too Large", "the request is too long\n".to_owned()),
    };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
         Content-Length: {length}\r\nConnection: close\r\n\r\n"
    );
    stream.write_all(head.as_bytes())?;
    stream.write_all(body.as_bytes())
}

/// The head of the request; `None` when it is too long.
fn head(stream: &mut TcpStream) -> io::Result<Option<Vec<u8>>> {
    let deadline = Instant::now() + REQUEST_TIMEOUT;
    stream.set_write_timeout(Some(REQUEST_TIMEOUT))?;
    let (mut head, mut buffer) = (Vec::new(), [0; 1024]);
    while !head.windows(4).any(|end| end == b"\r\n\r\n") {
        if head.len() >= REQUEST_BYTES_MAX {
            return Ok(None);
        }
        let left = deadline.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return Err(io::ErrorKind::TimedOut.into());
        }
        stream.set_read_timeout(Some(left))?;
        match stream.read(&mut buffer)? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            bytes => head.extend_from_slice(&buffer[..bytes]),
        }
    }
    Ok(Some(head))
}

fn respond(head: &[u8], text: &impl Fn() -> String) -> (&'static str, String) {
    // RFC 9112 3: request-line = method SP request-target SP HTTP-version.
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let mut words = line.split(|byte| *byte == b' ');
    match (words.next(), words.next()) {
        (Some(b"GET"), Some(b"/metrics" | b"/")) => ("200 OK", text()),
        (Some(b"GET"), Some(_)) => ("404 Not Found", "try: /metrics\n".to_owned()),
        _ => ("405 Method Not Allowed", "only GET is served\n".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ask(server: &MetricsServer, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(server.local_addr()).unwrap();
        stream.write_all(request).unwrap();
        let mut reply = Vec::new();
        stream.read_to_end(&mut reply).unwrap();
        String::from_utf8(reply).unwrap()
    }

    #[test]
    fn metrics_are_served_again_and_again_and_nothing_else() {
        let server = MetricsServer::start("127.0.0.1:0", || "braid_up 1\n".to_owned()).unwrap();
        for _ in 0..3 {
            let reply = ask(&server, b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n");
            assert!(
                reply.starts_with("HTTP/1.1 200 OK\r\n") && reply.ends_with("\r\n\r\nbraid_up 1\n"),
                "{reply}"
            );
        }
        assert!(ask(&server, b"GET /else HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 404 "));
        assert!(ask(&server, b"POST /metrics HTTP/1.1\r\n\r\n").starts_with("HTTP/1.1 405 "));
        assert!(ask(&server, b"\x00\xff garbage\r\n\r\n").starts_with("HTTP/1.1 405 "));
    }

    #[test]
    fn a_request_without_end_is_refused_at_its_limit() {
        let server = MetricsServer::start("127.0.0.1:0", String::new).unwrap();
        let reply = ask(&server, &[b'x'; REQUEST_BYTES_MAX]);
        assert!(reply.starts_with("HTTP/1.1 431 "), "{reply}");
    }

    #[test]
    fn it_stops_and_a_taken_port_is_explained() {
        let mut server = MetricsServer::start("127.0.0.1:0", String::new).unwrap();
        let address = server.local_addr().to_string();
        let why = MetricsServer::start(&address, String::new).unwrap_err().to_string();
        assert!(why.contains(&address) && why.contains("try:"), "{why}");
        server.stop();
        server.stop();
        assert!(TcpStream::connect(&address).is_err());
    }
}
