//! Starts requests: which operation serves which message, and for which peers.
//!
//! ```text
//!   begin(connection, now, op, body) ──┬── Answer   done: the final frame
//!                                      ├── Read     a job: each step() sends at most one frame
//!                                      ├── Write    a job: push() takes the payload as it arrives
//!                                      ├── Join     the same; it may wait for other tasks
//!                                      └── Work     run() it on a thread that may block
//! ```
//!
//! Invariants:
//! 1. A message is decoded, and the role of its peer is checked, before anything else is done for
//!    it.
//! 2. A request that carries a capability is admitted by its operation (`request_admission.rs`);
//!    every other request is admitted here, except those by which a client gives up its own
//!    resources.
//! 3. A slice of a job spends at most
//!    [`JOB_SLICE_ACCESSES_MAX`](braid_types::limits::JOB_SLICE_ACCESSES_MAX) steps of unfolding,
//!    and sends at most one data frame (I9).
//!
//! No assertion checks these: `begin` has the order of 1 and 2, and each operation passes the limit
//! of 3 to the unfolding.

use std::time::Duration;

use braid_store::ObjectStore;
use braid_types::{Failure, Status};
use braid_wire::{
    Wire, WireError,
    message::{CommonRequest, iod::IodRequest},
};

use crate::{
    collective::{self, JoinJob},
    connection::{ConnectionState, PeerRights},
    frame_sink::{Answer, FrameSink, SinkError},
    iod_core::IodCore,
    ops::{self, BlockingWork, ReadJob, ReadProgress, WriteJob},
    payload::Payload,
};

/// What a request has become.
#[derive(Debug)]
pub enum StartedRequest<S> {
    /// It is done.
    Answer(Answer),
    /// [`ReadJob::step`] until it has finished.
    Read(Box<ReadJob>),
    /// [`WriteJob::push`] the payload, then [`WriteJob::finish`].
    Write(Box<WriteJob>),
    /// A task's part in a collective request: it may have to wait for other tasks.
    Join(Box<JoinJob>),
    /// [`BlockingWork::run`] it on a thread that may block on the disk.
    Work(BlockingWork<S>),
}

impl<S: ObjectStore> IodCore<S> {
    /// Starts a request. `payload_bytes` is the length that the frame announces behind the body.
    pub fn begin(
        &self,
        connection: &mut ConnectionState,
        now: Duration,
        op: u16,
        body: &[u8],
        payload_bytes: u32,
    ) -> StartedRequest<S> {
        let begun = begin(self, connection, now, op, body, payload_bytes);
        let begun =
            begun.unwrap_or_else(|failure| StartedRequest::Answer(Answer::failure(&failure)));
        if let StartedRequest::Answer(answer) = &begun {
            self.counters().answered(answer.status);
        }
        begun
    }

    /// Carries out a whole call, for simulated networks and tests. The daemon itself runs the
    /// slices in turn.
    ///
    /// # Errors
    /// Those of the sink.
    pub fn handle(
        &self,
        connection: &mut ConnectionState,
        now: Duration,
        op: u16,
        body: &[u8],
        payload: &[u8],
        out: &mut dyn FrameSink,
    ) -> Result<(), SinkError> {
        let payload_bytes = u32::try_from(payload.len()).unwrap_or(u32::MAX);
        let answer = match self.begin(connection, now, op, body, payload_bytes) {
            StartedRequest::Read(mut job) => {
                while job.step(self, now, out)? == ReadProgress::Again {}
                return Ok(());
            }
            StartedRequest::Join(mut job) => {
                return job.run_without_waiting(self, now, payload, out);
            }
            StartedRequest::Answer(answer) => answer,
            StartedRequest::Work(work) => work.run(self, &|| now),
            StartedRequest::Write(mut job) => {
                let mut rest = payload;
                while !rest.is_empty() {
                    rest = &rest[job.push(self, now, rest)..];
                }
                loop {
                    if let Some(answer) = job.finish(self, now) {
                        break answer;
                    }
                }
            }
        };
        out.finish(&answer.body, &Payload::EMPTY)
    }
}

/// Decodes a request and dispatches it.
fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    op: u16,
    body: &[u8],
    payload_bytes: u32,
) -> Result<StartedRequest<S>, Failure> {
    if let Some(request) = CommonRequest::decode(op, body) {
        no_payload(payload_bytes)?;
        return common(core, connection, now, decoded(request)?);
    }
    let request = IodRequest::decode(op, body).ok_or_else(|| {
        Failure::new(Status::UnknownMessage, format!("an I/O daemon has no message {op:#06x}"))
    })?;
    let request = decoded(request)?;
    tracing::debug!(call = request.name(), payload_bytes, "started");
    if !matches!(
        request,
        IodRequest::Write(_) | IodRequest::WriteWithReservation(_) | IodRequest::JoinWrite(_)
    ) {
        no_payload(payload_bytes)?;
    }
    check_role(connection.rights(), &request)?;
    if !(carries_capability(&request) || gives_up_resources(&request)) {
        core.admission().check_connection(connection, now)?;
    }
    dispatch(core, connection, now, request, payload_bytes)
}

fn dispatch<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    request: IodRequest,
    payload_bytes: u32,
) -> Result<StartedRequest<S>, Failure> {
    match request {
        IodRequest::Read(read) => {
            ops::read::begin(core, connection, &read).map(StartedRequest::Read)
        }
        IodRequest::Write(write) => {
            ops::write::begin(core, connection, &write, payload_bytes).map(StartedRequest::Write)
        }
        IodRequest::WriteWithReservation(write) => {
            ops::reservation::write(core, connection, now, &write, payload_bytes)
                .map(StartedRequest::Write)
        }
        IodRequest::BeginCollective(collect) => {
            answer(collective::create(core, connection, now, &collect))
        }
        IodRequest::JoinRead(join) => {
            collective::join_read(core, connection, now, &join).map(StartedRequest::Join)
        }
        IodRequest::JoinWrite(join) => {
            collective::join_write(core, connection, now, &join, payload_bytes)
                .map(StartedRequest::Join)
        }
        IodRequest::ReturnReservation(back) => {
            answer(ops::reservation::release(core, connection, now, &back))
        }
        IodRequest::Flush(flush) => {
            ops::flush::begin(core, connection, now, &flush).map(StartedRequest::Work)
        }
        IodRequest::ObjectSizes(sizes) => {
            answer(ops::sizes::object_sizes(core, connection, now, &sizes))
        }
        IodRequest::Allocate(allocate) => {
            ops::allocate::begin(core, connection, now, allocate).map(StartedRequest::Work)
        }
        IodRequest::CopyRange(copy) => {
            ops::copy::begin(core, connection, now, copy).map(StartedRequest::Work)
        }
        IodRequest::Release(release) => {
            release.handles.into_iter().for_each(|handle| connection.release(handle));
            answer(Ok(()))
        }
        IodRequest::Seek(seek) => answer(ops::seek::seek(core, connection, now, &seek)),
        IodRequest::Truncate(truncate) => {
            ops::truncate::begin(core, truncate).map(StartedRequest::Work)
        }
        IodRequest::Punch(punch) => ops::punch::begin(core, punch).map(StartedRequest::Work),
        IodRequest::Delete(delete) => Ok(StartedRequest::Work(ops::delete::begin(delete))),
        IodRequest::CollectSizes(collect) if collect.flush => {
            Ok(StartedRequest::Work(ops::collect_sizes::begin(collect)))
        }
        IodRequest::CollectSizes(collect) => {
            answer(ops::collect_sizes::collect_sizes(core, &collect))
        }
        IodRequest::Abandon(gone) => answer(ops::abandon::abandon(core, connection, &gone)),
        IodRequest::Fence(fence) => answer(ops::fence::fence(core, &fence)),
        IodRequest::ListObjects(list) => ops::list::begin(list).map(StartedRequest::Work),
        IodRequest::DiskSpace(_) => answer(ops::space::space(core)),
        IodRequest::MoveToLost(lost) => Ok(StartedRequest::Work(ops::lost_found::begin(lost))),
        IodRequest::MeasureDisk(load) => {
            ops::measure::begin(core, connection, now, &load).map(StartedRequest::Work)
        }
        IodRequest::FlushAll(_) => Ok(StartedRequest::Work(ops::flush::begin_all(core))),
        other => Err(Failure::new(Status::UnknownMessage, other.name())),
    }
}

fn common<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &ConnectionState,
    now: Duration,
    request: CommonRequest,
) -> Result<StartedRequest<S>, Failure> {
    match request {
        CommonRequest::Ping(_) => answer(Ok(())),
        // The connection's loop drops the job before this; here nothing is in flight.
        CommonRequest::Cancel(_) => answer(Ok(())),
        CommonRequest::DaemonStatus(_) => match connection.rights() {
            PeerRights::Mds | PeerRights::Admin => answer(Ok(ops::status::status(core, now))),
            PeerRights::Client(_) | PeerRights::Nobody => Err(Status::WrongRole.into()),
        },
        _ => Err(Status::UnknownMessage.into()),
    }
}

/// Clients and the metadata server make data calls, the metadata server manages objects, and an
/// administrator makes the calls of fsck.
fn check_role(rights: PeerRights, request: &IodRequest) -> Result<(), Failure> {
    use IodRequest as R;
    let allowed = match request {
        R::Read(_)
        | R::Write(_)
        | R::Flush(_)
        | R::ObjectSizes(_)
        | R::Allocate(_)
        | R::Release(_)
        | R::Seek(_)
        | R::CopyRange(_) => {
            matches!(rights, PeerRights::Client(_) | PeerRights::Mds)
        }
        R::Abandon(_)
        | R::WriteWithReservation(_)
        | R::ReturnReservation(_)
        | R::BeginCollective(_)
        | R::JoinRead(_)
        | R::JoinWrite(_)
        | R::MeasureDisk(_) => {
            matches!(rights, PeerRights::Client(_))
        }
        R::ListObjects(_) | R::DiskSpace(_) | R::MoveToLost(_) => {
            matches!(rights, PeerRights::Mds | PeerRights::Admin)
        }
        // It changes nothing visible, and a client may have closed the file that it wants durable.
        R::FlushAll(_) => rights != PeerRights::Nobody,
        _ => rights == PeerRights::Mds,
    };
    if allowed { Ok(()) } else { Err(Failure::new(Status::WrongRole, request.name())) }
}

/// Calls with a capability, whose operations check fences and epoch.
fn carries_capability(request: &IodRequest) -> bool {
    use IodRequest as R;
    matches!(
        request,
        R::Read(_)
            | R::Write(_)
            | R::WriteWithReservation(_)
            | R::BeginCollective(_)
            | R::JoinRead(_)
            | R::JoinWrite(_)
            | R::Flush(_)
            | R::ObjectSizes(_)
            | R::Allocate(_)
            | R::CopyRange(_)
            | R::Seek(_)
    )
}

/// Calls by which a client gives up its own resources: a fenced client may make them too.
fn gives_up_resources(request: &IodRequest) -> bool {
    use IodRequest as R;
    matches!(request, R::Release(_) | R::ReturnReservation(_) | R::Abandon(_))
}

fn answer<S, R: Wire>(outcome: Result<R, Failure>) -> Result<StartedRequest<S>, Failure> {
    outcome.map(|reply| StartedRequest::Answer(Answer::from_outcome(Ok(reply))))
}

fn decoded<R>(request: Result<R, WireError>) -> Result<R, Failure> {
    request.map_err(|why| Failure::new(Status::Malformed, why.to_string()))
}

fn no_payload(payload_bytes: u32) -> Result<(), Failure> {
    if payload_bytes == 0 {
        return Ok(());
    }
    Err(Failure::new(
        Status::Malformed,
        format!("the message takes no payload, {payload_bytes} bytes came"),
    ))
}
