//! Selects where the log is written: standard error, a file, or the system log.

#[cfg(target_os = "linux")]
mod bounded;

use std::{fs::File, io::IsTerminal, path::Path, sync::Mutex};

use tracing_subscriber::{EnvFilter, fmt::writer::BoxMakeWriter};

use crate::output::Fault;

/// Where the log is written.
pub enum LogTarget<'p> {
    /// Standard error.
    StandardError,
    /// A file, without a size limit.
    File(&'p Path),
    /// A file with a size limit, for hosts without a system log. If it cannot be opened, nothing is
    /// logged.
    #[cfg(target_os = "linux")]
    Bounded(&'p Path),
    /// The system log at `/dev/log`, for a process without a terminal. If it does not exist,
    /// nothing is logged.
    #[cfg(target_os = "linux")]
    System,
}

/// Starts logging; `BRAID_LOG` has precedence over `level`.
pub fn start(place: LogTarget<'_>, level: &str) -> Result<(), Fault> {
    let filter = EnvFilter::try_from_env("BRAID_LOG").unwrap_or_else(|_| EnvFilter::new(level));
    // A line that cannot be written, for example on a full disk, is dropped. Otherwise the library
    // would report it on standard error; if that is the same file, the report panics during a
    // request.
    let log = tracing_subscriber::fmt()
        .log_internal_errors(false)
        .with_env_filter(filter)
        .with_target(false);
    match place {
        LogTarget::StandardError => {
            log.with_writer(std::io::stderr).with_ansi(std::io::stderr().is_terminal()).init();
        }
        LogTarget::File(path) => {
            let file = File::options().create(true).append(true).open(path);
            let file = file.map_err(|e| Fault::failed(format!("writing {}", path.display()), e))?;
            log.with_writer(Mutex::new(file)).with_ansi(false).init();
        }
        #[cfg(target_os = "linux")]
        LogTarget::Bounded(path) => match bounded::BoundedLog::open(path) {
            Ok(file) => log.with_writer(Mutex::new(file)).with_ansi(false).init(),
            // A missing log must not fail a mount.
            Err(_) => log.with_writer(std::io::sink).init(),
        },
        #[cfg(target_os = "linux")]
        LogTarget::System => {
            log.with_writer(system::writer()).with_ansi(false).without_time().init()
        }
    }
    Ok(())
}

/// Whether this host has a system log.
#[cfg(target_os = "linux")]
pub fn has_system_log() -> bool {
    system::connect().is_ok()
}

#[cfg(target_os = "linux")]
mod system {
    use std::{
        io::{self, Write},
        os::unix::net::UnixDatagram,
    };

    use tracing::{Level, Metadata};
    use tracing_subscriber::fmt::MakeWriter;

    use super::BoxMakeWriter;

    const SOCKET: &str = "/dev/log";
    /// RFC 3164: "system daemons".
    const FACILITY: u8 = 3;

    pub fn connect() -> io::Result<UnixDatagram> {
        UnixDatagram::unbound().and_then(|socket| socket.connect(SOCKET).map(|()| socket))
    }

    /// Writes to the system log, if there is one.
    pub fn writer() -> BoxMakeWriter {
        let connected = connect();
        // A full log must not block a mount.
        let socket = connected.and_then(|socket| socket.set_nonblocking(true).map(|()| socket));
        socket.map_or_else(
            |_| BoxMakeWriter::new(io::sink),
            |socket| BoxMakeWriter::new(Socket(socket)),
        )
    }

    struct Socket(UnixDatagram);

    /// Writes one line with its severity.
    struct Line<'s>(&'s UnixDatagram, u8);

    impl<'s> MakeWriter<'s> for Socket {
        type Writer = Line<'s>;

        fn make_writer(&'s self) -> Line<'s> {
            Line(&self.0, severity(Level::INFO))
        }

        fn make_writer_for(&'s self, of: &Metadata<'_>) -> Line<'s> {
            Line(&self.0, severity(*of.level()))
        }
    }

    impl Write for Line<'_> {
        fn write(&mut self, text: &[u8]) -> io::Result<usize> {
            let mut message =
                format!("<{}>braid[{}]: ", FACILITY * 8 + self.1, std::process::id()).into_bytes();
            message.extend_from_slice(text.trim_ascii_end());
            // A lost line must not fail the caller.
            let _ = self.0.send(&message);
            Ok(text.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// RFC 3164: 3 error, 4 warning, 6 informational, 7 debug.
    fn severity(level: Level) -> u8 {
        match level {
            Level::ERROR => 3,
            Level::WARN => 4,
            Level::INFO => 6,
            _ => 7,
        }
    }
}
