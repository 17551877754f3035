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
    ALL_PAYLOADS_BYTES_MAX, ROOT_REPLY_TIMEOUT, check_payload,
    frame::{DeadlineStream, Direction, FrameKind, invalid_data},
    join::HELLO_TIME,
    proof::{ANSWER_BYTES, Hello, NONCE_BYTES, Transcript},
    why,
};
use crate::{
    Error, Result, fork,
    group::{concurrent_call, deadline, group_error, task_lost, tasks_late, used_after_fork},
};

/// The wait between attempts to reach a root that does not listen yet.
const RETRY_PERIOD: Duration = Duration::from_millis(20);
/// How long to wait for the reason that a lost root may have sent.
const FAILURE_REASON_TIMEOUT: Duration = Duration::from_millis(500);
/// The largest length of the reason in a frame that ends the group.
const REASON_BYTES_MAX: usize = 1024;

/// A task that has joined.
pub(super) struct Member {
    size: u32,
    process: u64,
    connection: Mutex<RootConnection>,
}

struct RootConnection {
    stream: TcpStream,
    to_root: Direction,
    from_root: Direction,
    failed: Option<Error>,
}

/// Why an attempt to join failed.
enum JoinFailure {
    /// A retry may succeed: the root does not listen yet, or the connection was lost.
    Transient(String),
    Final(Error),
}

impl From<io::Error> for JoinFailure {
    fn from(error: io::Error) -> Self {
        Self::Transient(why(&error))
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
                    return Ok(Self { size, process: fork::mark(), connection: Mutex::new(line) });
                }
                Err(JoinFailure::Final(error)) => return Err(error),
                Err(JoinFailure::Transient(why)) => why,
            };
            if Instant::now() >= deadline {
                let error =
                    Error::new(Status::Unreachable, format!("task 0 is not reached: {why}"));
                return Err(group_error(error)
                    .with_hint("check that task 0 runs and listens at this address"));
            }
            thread::sleep(RETRY_PERIOD);
        }
    }

    pub(super) fn all_gather(&self, mine: &[u8], time_max: Duration) -> Result<Vec<Vec<u8>>> {
        if fork::mark() != self.process {
            return Err(used_after_fork());
        }
        let mut line = match self.connection.try_lock() {
            Ok(line) => line,
            Err(TryLockError::Poisoned(line)) => line.into_inner(),
            Err(TryLockError::WouldBlock) => return Err(concurrent_call()),
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
        if let Ok(line) = self.connection.get_mut() {
            let _ = line.stream.shutdown(Shutdown::Both);
        }
    }
}

impl RootConnection {
    fn round(&mut self, mine: &[u8], size: u32, time_max: Duration) -> Result<Vec<Vec<u8>>> {
        check_payload(mine)?;
        let deadline = deadline(time_max);
        let sent = self.to_root.send(
            &self.stream,
            FrameKind::Give,
            &encode_payload(time_max, mine),
            Some(deadline),
        );
        // A lost root may have sent the reason.
        let until = match &sent {
            Ok(()) => deadline + ROOT_REPLY_TIMEOUT,
            Err(_) => Instant::now() + FAILURE_REASON_TIMEOUT,
        };
        let bytes_max = ALL_PAYLOADS_BYTES_MAX + 4 + 4 * size as usize;
        let received = self.from_root.receive(&self.stream, bytes_max, Some(until));
        match (sent, received) {
            (_, Ok((FrameKind::Failed, body))) => Err(decode_failure(&body)),
            (Err(error), _) | (Ok(()), Err(error)) if error.kind() == io::ErrorKind::TimedOut => {
                Err(tasks_late(&[0], time_max))
            }
            (Err(error), _) | (Ok(()), Err(error)) => Err(task_lost(0, &why(&error))),
            (Ok(()), Ok((FrameKind::All, body))) => decode_all(&body, size)
                .ok_or_else(|| task_lost(0, "it sent a list that is not understood")),
            (Ok(()), Ok(_)) => Err(task_lost(0, "it sent an unexpected frame")),
        }
    }
}

fn attempt(
    address: &impl ToSocketAddrs,
    hello: Hello,
    secret: &Secret,
    deadline: Instant,
) -> Result<RootConnection, JoinFailure> {
    let stream = connect(address, deadline)?;
    // A failure affects only the speed.
    let _ = stream.set_nodelay(true);
    let mut timed = DeadlineStream {
        stream: &stream,
        deadline: Some(deadline.min(Instant::now() + HELLO_TIME)),
    };
    timed.write_all(&hello.to_bytes())?;
    let mut answer = [0; ANSWER_BYTES];
    timed.read_exact(&mut answer)?;
    let (nonce, proof) = answer
        .split_first_chunk::<NONCE_BYTES>()
        .ok_or_else(|| invalid_data("an answer without a nonce"))?;
    let proof = proof.first_chunk().ok_or_else(|| invalid_data("an answer without a proof"))?;
    let transcript = Transcript::new(&hello.to_bytes(), nonce);
    if !transcript.is_root(secret, proof) {
        let error = Error::new(
            Status::AuthenticationFailed,
            "the listener is not the first task of this group",
        );
        return Err(JoinFailure::Final(
            group_error(error).with_hint("the same secret for all tasks"),
        ));
    }
    timed.write_all(&transcript.proof_of_member(secret))?;
    let keys = transcript.keys(secret);
    let (to_root, mut from_root) = (Direction::new(keys.to_root), Direction::new(keys.to_member));
    match from_root.receive(&stream, REASON_BYTES_MAX + 2, Some(deadline + ROOT_REPLY_TIMEOUT))? {
        (FrameKind::Joined, _) => Ok(RootConnection { stream, to_root, from_root, failed: None }),
        (FrameKind::Failed, body) => Err(JoinFailure::Final(decode_failure(&body))),
        _ => Err(invalid_data("task 0 sent an unexpected first frame").into()),
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
pub(super) fn encode_failure(error: &Error) -> Vec<u8> {
    let mut body = error.status().to_bytes();
    body.extend(error.why().bytes().take(REASON_BYTES_MAX));
    body
}

pub(super) fn decode_failure(body: &[u8]) -> Error {
    let mut from = Decoder::new(body);
    let status = Status::decode(&mut from).unwrap_or(Status::ConnectionLost);
    let why = from.take(from.remaining()).map(String::from_utf8_lossy).unwrap_or_default();
    group_error(Error::new(status, why).with_hint("check the output of the tasks"))
}

/// The first bytes of a payload frame: how long the task waits, in ms.
pub(super) const WAIT_TIME_BYTES: usize = 8;

fn encode_payload(time_max: Duration, mine: &[u8]) -> Vec<u8> {
    let patience_ms = u64::try_from(time_max.as_millis()).unwrap_or(u64::MAX);
    [&patience_ms.to_le_bytes()[..], mine].concat()
}

/// How long a task waits, and its payload.
pub(super) fn decode_payload(mut body: Vec<u8>) -> Option<(Duration, Vec<u8>)> {
    let patience_ms = u64::from_le_bytes(*body.first_chunk()?);
    body.drain(..WAIT_TIME_BYTES);
    Some((Duration::from_millis(patience_ms), body))
}

/// The payloads of all tasks: a count, and each with its length.
pub(super) fn encode_all(all: &[Vec<u8>]) -> Vec<u8> {
    let mut body = (all.len() as u32).to_bytes();
    body.reserve(all.iter().map(|given| given.len() + 4).sum());
    for given in all {
        (given.len() as u32).encode(&mut body);
        body.extend_from_slice(given);
    }
    body
}

pub(super) fn decode_all(body: &[u8], size: u32) -> Option<Vec<Vec<u8>>> {
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
        let body = encode_all(&all);
        assert_eq!(decode_all(&body, 3), Some(all));
        assert_eq!(decode_all(&body, 2), None, "of another group");
        assert_eq!(decode_all(&body[..body.len() - 1], 3), None, "cut short");
        assert_eq!(decode_all(&[&body[..], &[0]].concat(), 3), None, "too long");
        assert_eq!(decode_all(&[255; 64], u32::MAX), None, "a count that does not fit");
    }

    #[test]
    fn a_payload_says_how_long_its_task_waits() {
        for (time_max, bytes) in
            [(Duration::from_millis(1500), &b"bytes"[..]), (Duration::ZERO, b"")]
        {
            assert_eq!(
                decode_payload(encode_payload(time_max, bytes)),
                Some((time_max, bytes.to_vec()))
            );
        }
        assert_eq!(
            decode_payload(encode_payload(Duration::MAX, b"")).unwrap().0,
            Duration::from_millis(u64::MAX)
        );
        assert_eq!(decode_payload(vec![0; WAIT_TIME_BYTES - 1]), None);
    }

    #[test]
    fn why_the_group_is_over_travels() {
        let error = decode_failure(&encode_failure(&tasks_late(&[3], Duration::from_secs(1))));
        assert_eq!(error.status(), Status::Unreachable);
        assert!(error.to_string().contains("task 3 did not come within 1.0 s"), "{error}");
        assert_eq!(decode_failure(&[]).status(), Status::ConnectionLost);
    }
}
