//! A task other than the first: it has one connection, to the root.

use std::{
    io::{self, Read, Write},
    net::{Shutdown, TcpStream, ToSocketAddrs},
    sync::{Mutex, TryLockError},
    thread,
    time::{Duration, Instant},
};

use braid_net::random_bytes;
use braid_types::Status;
use braid_wire::{Decoder, Secret, Wire};

use super::{
    ALL_BYTES_MAX, VERDICT_TIME, check_given,
    frame::{Direction, Kind, Timed, garbage},
    join::HELLO_TIME,
    proof::{ANSWER_BYTES, Hello, NONCE_BYTES, Transcript},
    why,
};
use crate::{
    Error, Result, fork,
    group::{crowded, deadline, inherited, late, lost, meeting},
};

/// The wait between attempts to reach a root that does not listen yet.
const RETRY_PERIOD: Duration = Duration::from_millis(20);
/// How long to wait for the reason that a lost root may have sent.
const LAST_WORD_TIME: Duration = Duration::from_millis(500);
/// The largest length of the reason in a frame that ends the group.
const REASON_BYTES_MAX: usize = 1024;

/// A task that has joined.
pub(super) struct Member {
    size: u32,
    process: u64,
    line: Mutex<Line>,
}

struct Line {
    stream: TcpStream,
    to_root: Direction,
    from_root: Direction,
    failed: Option<Error>,
}

/// Why an attempt to join failed.
enum Attempt {
    /// A retry may succeed: the root does not listen yet, or the connection was lost.
    Again(String),
    Over(Error),
}

impl From<io::Error> for Attempt {
    fn from(error: io::Error) -> Self {
        Self::Again(why(&error))
    }
}

impl Member {
    /// Returns when all tasks are there.
    pub(super) fn join(
        address: impl ToSocketAddrs,
        rank: u32,
        size: u32,
        secret: &Secret,
        deadline: Instant,
    ) -> Result<Self> {
        loop {
            let why = match attempt(
                &address,
                Hello { size, rank, nonce: random_bytes() },
                secret,
                deadline,
            ) {
                Ok(line) => {
                    return Ok(Self { size, process: fork::mark(), line: Mutex::new(line) });
                }
                Err(Attempt::Over(error)) => return Err(error),
                Err(Attempt::Again(why)) => why,
            };
            if Instant::now() >= deadline {
                let error =
                    Error::new(Status::Unreachable, format!("task 0 is not reached: {why}"));
                return Err(
                    meeting(error).with_hint("check that task 0 runs and listens at this address")
                );
            }
            thread::sleep(RETRY_PERIOD);
        }
    }

    pub(super) fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>> {
        if fork::mark() != self.process {
            return Err(inherited());
        }
        let mut line = match self.line.try_lock() {
            Ok(line) => line,
            Err(TryLockError::Poisoned(line)) => line.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(crowded()),
        };
        if let Some(failed) = &line.failed {
            return Err(failed.clone());
        }
        line.round(mine, self.size, time_max).inspect_err(|error| {
            line.failed = Some(error.clone());
            // The root notices it immediately and notifies the others.
            let _ = line.stream.shutdown(Shutdown::Both);
        })
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        if fork::mark() != self.process {
            return; // invariant 5
        }
        if let Ok(line) = self.line.get_mut() {
            let _ = line.stream.shutdown(Shutdown::Both);
        }
    }
}

impl Line {
    fn round(&mut self, mine: &[u8], size: u32, time_max: Duration) -> Result<Vec<Vec<u8>>> {
        check_given(mine)?;
        let deadline = deadline(time_max);
        let sent = self.to_root.send(
            &self.stream,
            Kind::Give,
            &given_body(time_max, mine),
            Some(deadline),
        );
        // A lost root may have sent the reason.
        let until = match &sent {
            Ok(()) => deadline + VERDICT_TIME,
            Err(_) => Instant::now() + LAST_WORD_TIME,
        };
        let bytes_max = ALL_BYTES_MAX + 4 + 4 * size as usize;
        let received = self.from_root.receive(&self.stream, bytes_max, Some(until));
        match (sent, received) {
            (_, Ok((Kind::Failed, body))) => Err(failed_of(&body)),
            (Err(error), _) | (Ok(()), Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
                Err(late(&[0], time_max))
            }
            (Err(error), _) | (Ok(()), Err(error)) => Err(lost(0, &why(&error))),
            (Ok(()), Ok((Kind::All, body))) => {
                all_of(&body, size).ok_or_else(|| lost(0, "it sent a list that is not understood"))
            }
            (Ok(()), Ok(_)) => Err(lost(0, "it sent an unexpected frame")),
        }
    }
}

fn attempt(
    address: &impl ToSocketAddrs,
    hello: Hello,
    secret: &Secret,
    deadline: Instant,
) -> Result<Line, Attempt> {
    let stream = connect(address, deadline)?;
    // A failure affects only the speed.
    let _ = stream.set_nodelay(true);
    let mut timed =
        Timed { stream: &stream, deadline: Some(deadline.min(Instant::now() + HELLO_TIME)) };
    timed.write_all(&hello.to_bytes())?;
    let mut answer = [0; ANSWER_BYTES];
    timed.read_exact(&mut answer)?;
    let (nonce, proof) = answer
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or_else(|| garbage("an answer without a nonce"))?;
    let proof = proof.first_chunk().ok_or_else(|| garbage("an answer without a proof"))?;
    let transcript = Transcript::new(&hello.to_bytes(), nonce);
    if !transcript.is_root(secret, proof) {
        let error = Error::new(
            Status::AuthenticationFailed,
            "the listener is not the first task of this group",
        );
        return Err(Attempt::Over(meeting(error).with_hint("the same secret for all tasks")));
    }
    timed.write_all(&transcript.proof_of_member(secret))?;
    let keys = transcript.keys(secret);
    let (to_root, mut from_root) = (Direction::new(keys.to_root), Direction::new(keys.to_member));
    match from_root.receive(&stream, REASON_BYTES_MAX + 2, Some(deadline + VERDICT_TIME))? {
        (Kind::Joined, _) => Ok(Line { stream, to_root, from_root, failed: None }),
        (Kind::Failed, body) => Err(Attempt::Over(failed_of(&body))),
        _ => Err(garbage("task 0 sent an unexpected first frame").into()),
    }
}

fn connect(address: &impl ToSocketAddrs, deadline: Instant) -> io::Result<TcpStream> {
    let mut failed = io::Error::new(io::ErrorKind::NotFound, "the address names no host");
    for address in address.to_socket_addrs()? {
        let left = deadline.saturating_duration_since(Instant::now()).max(Duration::from_millis(1));
        match TcpStream::connect_timeout(&address, left) {
            Ok(stream) => return Ok(stream),
            Err(error) => failed = error,
        }
    }
    Err(failed)
}

/// The body of the frame that ends the group: status and reason.
pub(super) fn failed_body(error: &Error) -> Vec<u8> {
    let mut body = error.status().to_bytes();
    body.extend(error.why().bytes().take(REASON_BYTES_MAX));
    body
}

fn failed_of(body: &[u8]) -> Error {
    let mut from = Decoder::new(body);
    let status = Status::decode(&mut from).unwrap_or(Status::ConnectionLost);
    let why = from.take(from.remaining()).map(String::from_utf8_lossy).unwrap_or_default();
    meeting(Error::new(status, why).with_hint("check the output of the tasks"))
}

/// The first bytes of a payload frame: how long the task waits, in ms.
pub(super) const PATIENCE_BYTES: usize = 8;

fn given_body(time_max: Duration, mine: &[u8]) -> Vec<u8> {
    let patience_ms = u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX);
    [&patience_ms.to_le_bytes()[..], mine].concat()
}

/// How long a task waits, and its payload.
pub(super) fn given_of(mut body: Vec<u8>) -> Option<(Duration, Vec<u8>)> {
    let patience_ms = u64::from_le_bytes(*body.first_chunk()?);
    body.drain(..PATIENCE_BYTES);
    Some((Duration::from_millis(patience_ms), body))
}

/// The payloads of all tasks: a count, and each with its length.
pub(super) fn all_body(all: &[Vec<u8>]) -> Vec<u8> {
    let mut body = (all.len() as u32).to_bytes();
    body.reserve(all.iter().map(|given| given.len() + 4).sum());
    for given in all {
        (given.len() as u32).encode(&mut body);
        body.extend_from_slice(given);
    }
    body
}

fn all_of(body: &[u8], size: u32) -> Option<Vec<Vec<u8>>> {
    let mut from = Decoder::new(body);
    if from.count(4).ok()? != size as usize {
        return None;
    }
    let one = |from: &mut Decoder<'_>| {
        let bytes = from.count(1).ok()?;
        Some(from.take(bytes).ok()?.to_vec())
    };
    let all: Option<Vec<Vec<u8>>> = (0..size).map(|_| one(&mut from)).collect();
    from.finish().ok()?;
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_payloads_are_decoded_and_anything_else_is_refused() {
        let all = vec![b"one".to_vec(), Vec::new(), vec![7; 1000]];
        let body = all_body(&all);
        assert_eq!(all_of(&body, 3), Some(all));
        assert_eq!(all_of(&body, 2), None, "of another group");
        assert_eq!(all_of(&body[..body.len() - 1], 3), None, "cut short");
        assert_eq!(all_of(&[&body[..], &[0]].concat(), 3), None, "too long");
        assert_eq!(all_of(&[255; 64], u32::MAX), None, "a count that does not fit");
    }

    #[test]
    fn a_payload_says_how_long_its_task_waits() {
        for (time_max, bytes) in
            [(Duration::from_millis(1500), &b"bytes"[..]), (Duration::ZERO, b"")]
        {
            assert_eq!(given_of(given_body(time_max, bytes)), Some((time_max, bytes.to_vec())));
        }
        assert_eq!(
            given_of(given_body(Duration::MAX, b"")).unwrap().0,
            Duration::from_millis(u64::MAX)
        );
        assert_eq!(given_of(vec![0; PATIENCE_BYTES - 1]), None);
    }

    #[test]
    fn why_the_group_is_over_travels() {
        let error = failed_of(&failed_body(&late(&[3], Duration::from_secs(1))));
        assert_eq!(error.status(), Status::Unreachable);
        assert!(error.to_string().contains("task 3 did not come within 1.0 s"), "{error}");
        assert_eq!(failed_of(&[]).status(), Status::ConnectionLost);
    }
}
