//! Events for the hosts of a lab, requested by commands that run in it.
//!
//! ```text
//!   braid-netlab kill iod0 ── "kill iod0" ──► socket in the lab's directory ──► the lab's process
//!                          ◄── "ok", or an error ──
//! ```
//!
//! The socket is in a directory, not in a network: every host can reach it, also a partitioned one.

use std::{
    fmt, fs,
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::{UnixListener, UnixStream},
    path::{Path, PathBuf},
    sync::atomic::{AtomicBool, Ordering},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};

use crate::lab::Lab;

/// Environment variable with the path of the socket.
const VARIABLE: &str = "BRAID_LAB";
/// Time-out for the request of a connected command.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum length of a request or a reply, in bytes.
const LINE_MAX: u64 = 4096;

/// An event of a host.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// [`Network::partition`](crate::Network::partition).
    Partition,
    /// [`Network::heal`](crate::Network::heal).
    Heal,
    /// [`Lab::kill`].
    Kill,
    /// [`Lab::stop`].
    Stop,
    /// [`Lab::resume`].
    Resume,
    /// [`Lab::restart`].
    Restart,
}

impl Event {
    const ALL: [Self; 6] =
        [Self::Partition, Self::Heal, Self::Kill, Self::Stop, Self::Resume, Self::Restart];

    fn keyword(self) -> &'static str {
        match self {
            Self::Partition => "partition",
            Self::Heal => "heal",
            Self::Kill => "kill",
            Self::Stop => "stop",
            Self::Resume => "resume",
            Self::Restart => "restart",
        }
    }

    fn apply(self, lab: &mut Lab, host: &str) -> Result<()> {
        match self {
            Self::Partition => lab.network().partition(host),
            Self::Heal => lab.network().heal(host),
            Self::Kill => lab.kill(host),
            Self::Stop => lab.stop(host),
            Self::Resume => lab.resume(host),
            Self::Restart => lab.restart(host),
        }
    }
}

impl fmt::Display for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.keyword())
    }
}

/// Requests an event of a host from the lab that this process runs in.
///
/// # Errors
/// This process is in no lab; the host does not exist, or it has no daemon; any error of the lab.
pub fn request(event: Event, host: &str) -> Result<()> {
    let path = std::env::var_os(VARIABLE).map(PathBuf::from);
    let path = path
        .with_context(|| format!("{event} {host}: not in a lab; try: cargo xtask netlab shell"))?;
    let mut stream = UnixStream::connect(&path).with_context(|| {
        format!(
            "{event} {host}: the lab of {} has ended; try: cargo xtask netlab shell",
            path.display()
        )
    })?;
    writeln!(stream, "{event} {host}")?;
    match line(&stream)?.as_str() {
        "ok" => Ok(()),
        why => bail!("{event} {host}: {why}"),
    }
}

/// The socket for requests to a lab.
#[derive(Debug)]
pub struct Control {
    listener: UnixListener,
    path: PathBuf,
    ended: AtomicBool,
}

impl Control {
    /// Creates the socket in the directory of the lab.
    ///
    /// # Errors
    /// The path of the directory is too long for a socket.
    pub fn new(lab: &Lab) -> Result<Self> {
        Self::at(lab.dir().join("control"))
    }

    fn at(path: PathBuf) -> Result<Self> {
        let listener = UnixListener::bind(&path)
            .with_context(|| format!("listening at {}", path.display()))?;
        Ok(Self { listener, path, ended: AtomicBool::new(false) })
    }

    /// The environment variable with which a command finds the lab.
    pub fn variable(&self) -> (&'static str, &Path) {
        (VARIABLE, &self.path)
    }

    /// Serves requests, one after the other, until [`Control::end`].
    pub fn serve(&self, lab: &mut Lab) {
        self.serve_by(|event, host| event.apply(lab, host));
    }

    fn serve_by(&self, mut happen: impl FnMut(Event, &str) -> Result<()>) {
        for stream in self.listener.incoming().filter_map(std::io::Result::ok) {
            if self.ended.load(Ordering::Acquire) {
                break;
            }
            let answer = asked(&stream).and_then(|(event, host)| happen(event, &host));
            let answer = answer
                .map_or_else(|error| format!("{error:#}").replace('\n', " "), |()| "ok".to_owned());
            // A client that has closed its connection needs no reply.
            let _ = writeln!(&stream, "{answer}");
        }
    }

    /// Ends [`Control::serve`]: further requests fail.
    pub fn end(&self) {
        self.ended.store(true, Ordering::Release);
        // It waits for a connection.
        drop(UnixStream::connect(&self.path));
        let _ = fs::remove_file(&self.path);
    }
}

fn asked(stream: &UnixStream) -> Result<(Event, String)> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let said = line(stream)?;
    let (word, host) =
        said.split_once(' ').with_context(|| format!("`{said}` is not an event and a host"))?;
    let event = Event::ALL.into_iter().find(|event| event.keyword() == word);
    Ok((event.with_context(|| format!("`{word}` is not an event of hosts"))?, host.to_owned()))
}

fn line(stream: &UnixStream) -> Result<String> {
    let mut said = String::new();
    BufReader::new(stream).take(LINE_MAX).read_line(&mut said)?;
    ensure!(said.ends_with('\n'), "the lab has ended");
    said.pop();
    Ok(said)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_asked_happens_and_why_not_is_told_until_the_end() {
        let dir = tempfile::tempdir().unwrap();
        let control = Control::at(dir.path().join("control")).unwrap();
        let asks = |said: &str| {
            let mut stream = UnixStream::connect(&control.path).unwrap();
            writeln!(stream, "{said}").unwrap();
            line(&stream).unwrap()
        };
        let mut happened = Vec::new();
        std::thread::scope(|scope| {
            let happen = |event, host: &str| {
                ensure!(host != "nobody", "no host {host};\nthere is iod0");
                happened.push((event, host.to_owned()));
                Ok(())
            };
            scope.spawn(|| control.serve_by(happen));
            let answers = Event::ALL.map(|event| asks(&format!("{event} iod0")));
            let refused = ["kill nobody", "burn iod0", "kill"].map(asks);
            control.end();
            assert!(answers.iter().all(|answer| answer == "ok"), "{answers:?}");
            assert_eq!(refused[0], "no host nobody; there is iod0");
            assert!(
                refused[1].contains("burn") && refused[2].contains("not an event"),
                "{refused:?}"
            );
        });
        assert_eq!(happened, Event::ALL.map(|event| (event, "iod0".to_owned())));
    }
}
