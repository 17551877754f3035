//! How the root admits its tasks. It polls all connections and waits for none, so that a silent
//! connection keeps no task out.

use std::{
    collections::VecDeque,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    thread,
    time::{Duration, Instant},
};

use braid_net::random_bytes;
use braid_types::Status;
use braid_wire::Secret;

use super::{
    frame::{Direction, FrameKind},
    member::encode_failure,
    proof::{ANSWER_BYTES, HELLO_BYTES, Hello, Keys, NONCE_BYTES, PROOF_BYTES, Transcript},
};
use crate::{
    Error, Result,
    group::{group_error, tasks_late},
};

/// A connection that has not proved the secret within this time is dropped.
pub(super) const HELLO_TIME: Duration = Duration::from_secs(5);
/// Connections that have not proved the secret yet, 200 bytes each. Beyond it, the oldest is
/// dropped; its task retries.
const UNPROVED_MAX: usize = 1024;
/// The polling period, and the largest delay of a start by it.
const LOOK_PERIOD: Duration = Duration::from_millis(1);
/// How long notifying a task of its refusal may take.
const NOTIFY_TIMEOUT: Duration = Duration::from_secs(1);

/// A task that has proved the secret.
pub(super) struct Joined {
    pub(super) stream: TcpStream,
    pub(super) keys: Keys,
}

/// The tasks that have joined, by rank. The root's own entry stays empty.
pub(super) struct JoinPhase<'s> {
    secret: &'s Secret,
    pub(super) tasks: Vec<Option<Joined>>,
    unproved: VecDeque<UnprovedConnection>,
}

impl<'s> JoinPhase<'s> {
    pub(super) fn new(size: u32, secret: &'s Secret) -> Self {
        Self { secret, tasks: (0..size).map(|_| None).collect(), unproved: VecDeque::new() }
    }

    /// Returns when all tasks are there.
    pub(super) fn run(
        &mut self,
        listener: &TcpListener,
        deadline: Instant,
        time_max: Duration,
    ) -> Result<()> {
        let listening = listener.set_nonblocking(true);
        listening.map_err(|error| {
            group_error(Error::new(Status::Internal, format!("task 0 cannot listen: {error}")))
        })?;
        loop {
            let missing: Vec<u32> = (1..)
                .zip(&self.tasks[1..])
                .filter(|(_, task)| task.is_none())
                .map(|at| at.0)
                .collect();
            if missing.is_empty() {
                return Ok(());
            }
            if Instant::now() >= deadline {
                return Err(tasks_late(&missing, time_max));
            }
            // Bounded, however fast connections come: existing ones are polled in between.
            for _ in 0..UNPROVED_MAX {
                let Ok((stream, _)) = listener.accept() else { break };
                self.add_connection(stream);
            }
            if !self.look() {
                thread::sleep(LOOK_PERIOD);
            }
        }
    }

    fn add_connection(&mut self, stream: TcpStream) {
        if stream.set_nonblocking(true).is_err() {
            return;
        }
        // A failure affects only the speed.
        let _ = stream.set_nodelay(true);
        if self.unproved.len() == UNPROVED_MAX {
            self.unproved.pop_front();
        }
        self.unproved.push_back(UnprovedConnection {
            stream,
            since: Instant::now(),
            got: Vec::new(),
            step: HandshakeStep::Hello,
        });
    }

    /// Whether a task joined.
    fn look(&mut self) -> bool {
        let mut joined = false;
        for mut connection in std::mem::take(&mut self.unproved) {
            match connection.look(self.secret) {
                Ok(None) if connection.since.elapsed() < HELLO_TIME => {
                    self.unproved.push_back(connection)
                }
                // Too slow, disconnected, or not a task: nobody to notify.
                Ok(None) | Err(_) => {}
                Ok(Some((hello, transcript))) => {
                    self.admit(connection.stream, hello, transcript.keys(self.secret));
                    joined = true;
                }
            }
        }
        joined
    }

    fn admit(&mut self, stream: TcpStream, hello: Hello, keys: Keys) {
        if stream.set_nonblocking(false).is_err() {
            return;
        }
        let (Hello { rank, size, .. }, ours) = (hello, self.tasks.len());
        let why = match self.tasks.get_mut(rank as usize) {
            _ if size as usize != ours => {
                format!("task {rank} is of a group of {size} tasks, and this one has {ours}")
            }
            Some(slot @ None) if rank > 0 => {
                *slot = Some(Joined { stream, keys });
                return;
            }
            Some(_) => format!("there is another task {rank}"),
            None => format!("there is no task {rank} among {ours}"),
        };
        let refused = encode_failure(&Error::new(Status::Invalid, why));
        // A task that does not read it sees the connection end.
        let _ = Direction::new(keys.to_member).send(
            &stream,
            FrameKind::Failed,
            &refused,
            Some(Instant::now() + NOTIFY_TIMEOUT),
        );
    }
}

/// A connection that has not proved the secret.
struct UnprovedConnection {
    stream: TcpStream,
    since: Instant,
    got: Vec<u8>,
    step: HandshakeStep,
}

enum HandshakeStep {
    Hello,
    Proof(Hello, Transcript),
}

impl UnprovedConnection {
    /// Continues as far as possible without waiting. Returns the task when it has proved the
    /// secret.
    fn look(&mut self, secret: &Secret) -> io::Result<Option<(Hello, Transcript)>> {
        loop {
            match &self.step {
                HandshakeStep::Hello => {
                    let Some(hello) = self.next::<HELLO_BYTES>()? else { return Ok(None) };
                    let said = Hello::from_bytes(&hello).ok_or(io::ErrorKind::InvalidData)?;
                    let nonce = random_bytes();
                    let transcript = Transcript::new(&hello, &nonce);
                    let mut answer = [0; ANSWER_BYTES];
                    answer[..NONCE_BYTES].copy_from_slice(&nonce);
                    answer[NONCE_BYTES..].copy_from_slice(&transcript.proof_of_root(secret));
                    // An empty socket buffer accepts these few bytes immediately, unless the
                    // connection is broken.
                    self.stream.write_all(&answer)?;
                    self.step = HandshakeStep::Proof(said, transcript);
                }
                HandshakeStep::Proof(hello, transcript) => {
                    let (hello, transcript) = (*hello, transcript.clone());
                    let Some(proof) = self.next::<PROOF_BYTES>()? else { return Ok(None) };
                    return match transcript.is_member(secret, &proof) {
                        true => Ok(Some((hello, transcript))),
                        false => Err(io::ErrorKind::PermissionDenied.into()),
                    };
                }
            }
        }
    }

    /// The next `N` bytes, if they have arrived.
    fn next<const N: usize>(&mut self) -> io::Result<Option<[u8; N]>> {
        let mut bytes = [0; N];
        while self.got.len() < N {
            let wanted = N - self.got.len();
            match self.stream.read(&mut bytes[..wanted]) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(n) => self.got.extend_from_slice(&bytes[..n]),
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(None),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        bytes.copy_from_slice(&self.got);
        self.got.clear();
        Ok(Some(bytes))
    }
}
