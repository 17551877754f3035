//! One file for each operation. Here is only which file serves which message, and for whom.

mod abandon;
mod allocate;
mod collect;
mod copy;
mod delete;
mod fence;
mod flush;
mod list;
mod lost_found;
mod measure;
mod punch;
mod read;
mod room;
mod search;
mod seek;
mod sizes;
mod space;
mod status;
mod truncate;
mod work;
mod write;

use std::time::Duration;

use braid_store::ObjectStore;
use braid_types::{Failure, Status};
use braid_wire::{
    Wire, WireError,
    message::{CommonRequest, iod::IodRequest},
};

use crate::{
    collective,
    connection::{ConnectionState, Standing},
    iod_core::{Begun, IodCore},
    sink::Answer,
};

pub(crate) use measure::Turn;
pub(crate) use read::Readable;
pub use read::{COPIED_BYTES_MAX, ReadJob};
pub(crate) use search::Search;
pub(crate) use space::space;
pub use work::Work;
pub use write::WriteJob;
pub(crate) use write::is_there;

/// Decodes a request and hands it to its file.
pub(crate) fn begin<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    op: u16,
    body: &[u8],
    payload_bytes: u32,
) -> Result<Begun<S>, Failure> {
    if let Some(request) = CommonRequest::decode(op, body) {
        no_payload(payload_bytes)?;
        return common(core, connection, now, decoded(request)?);
    }
    let request = IodRequest::decode(op, body).ok_or_else(|| {
        Failure::new(
            Status::UnknownMessage,
            format!("message {op:#06x} is not one of an I/O daemon"),
        )
    })?;
    let request = decoded(request)?;
    tracing::debug!(call = request.name(), payload_bytes, "begun");
    if !matches!(
        request,
        IodRequest::Write(_) | IodRequest::WriteWithRoom(_) | IodRequest::JoinWrite(_)
    ) {
        no_payload(payload_bytes)?;
    }
    check_role(connection.standing(), &request)?;
    if !(shows_capability(&request) || lets_go(&request)) {
        core.admit(connection, now)?;
    }
    dispatch(core, connection, now, request, payload_bytes)
}

fn dispatch<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &mut ConnectionState,
    now: Duration,
    request: IodRequest,
    payload_bytes: u32,
) -> Result<Begun<S>, Failure> {
    match request {
        IodRequest::Read(read) => read::begin(core, connection, now, &read).map(Begun::Read),
        IodRequest::Write(write) => {
            write::begin(core, connection, now, &write, payload_bytes).map(Begun::Write)
        }
        IodRequest::WriteWithRoom(write) => {
            room::write(core, connection, now, &write, payload_bytes).map(Begun::Write)
        }
        IodRequest::Collect(collect) => {
            answer(collective::collect(core, connection, now, &collect))
        }
        IodRequest::JoinRead(join) => {
            collective::join_read(core, connection, now, &join).map(Begun::Join)
        }
        IodRequest::JoinWrite(join) => {
            collective::join_write(core, connection, now, &join, payload_bytes).map(Begun::Join)
        }
        IodRequest::ReturnRoom(back) => answer(room::take_back(core, connection, now, &back)),
        IodRequest::Flush(flush) => flush::begin(core, connection, now, &flush).map(Begun::Work),
        IodRequest::ObjectSizes(sizes) => {
            answer(sizes::object_sizes(core, connection, now, &sizes))
        }
        IodRequest::Allocate(allocate) => {
            allocate::begin(core, connection, now, allocate).map(Begun::Work)
        }
        IodRequest::CopyRange(copy) => copy::begin(core, connection, now, copy).map(Begun::Work),
        IodRequest::Release(release) => {
            release.handles.into_iter().for_each(|handle| connection.release(handle));
            answer(Ok(()))
        }
        IodRequest::Seek(seek) => answer(seek::seek(core, connection, now, &seek)),
        IodRequest::Truncate(truncate) => truncate::begin(core, truncate).map(Begun::Work),
        IodRequest::Punch(punch) => punch::begin(core, punch).map(Begun::Work),
        IodRequest::Delete(delete) => Ok(Begun::Work(delete::begin(delete))),
        IodRequest::CollectSizes(collect) if collect.flush => {
            Ok(Begun::Work(collect::begin(collect)))
        }
        IodRequest::CollectSizes(collect) => answer(collect::collect(core, &collect)),
        IodRequest::Abandon(gone) => answer(abandon::abandon(core, connection, &gone)),
        IodRequest::Fence(fence) => answer(fence::fence(core, &fence)),
        IodRequest::ListObjects(list) => list::begin(list).map(Begun::Work),
        IodRequest::DiskSpace(_) => answer(space(core)),
        IodRequest::MoveToLost(lost) => Ok(Begun::Work(lost_found::begin(lost))),
        IodRequest::MeasureDisk(load) => {
            measure::begin(core, connection, now, &load).map(Begun::Work)
        }
        IodRequest::FlushAll(_) => Ok(Begun::Work(flush::begin_all(core))),
        other => Err(Failure::new(Status::UnknownMessage, other.name())),
    }
}

fn common<S: ObjectStore>(
    core: &IodCore<S>,
    connection: &ConnectionState,
    now: Duration,
    request: CommonRequest,
) -> Result<Begun<S>, Failure> {
    match request {
        CommonRequest::Ping(_) => answer(Ok(())),
        // Whoever takes the slices in turn drops the job before it comes here; here nothing is in flight.
        CommonRequest::Cancel(_) => answer(Ok(())),
        CommonRequest::DaemonStatus(_) => match connection.standing() {
            Standing::Mds | Standing::Admin => answer(Ok(status::status(core, now))),
            Standing::Client(_) | Standing::Nobody => Err(Status::WrongRole.into()),
        },
        _ => Err(Status::UnknownMessage.into()),
    }
}

/// Data calls are for clients and the metadata server, management for the metadata server, and what an
/// administrator's fsck needs for both.
fn check_role(standing: Standing, request: &IodRequest) -> Result<(), Failure> {
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
            matches!(standing, Standing::Client(_) | Standing::Mds)
        }
        R::Abandon(_)
        | R::WriteWithRoom(_)
        | R::ReturnRoom(_)
        | R::Collect(_)
        | R::JoinRead(_)
        | R::JoinWrite(_)
        | R::MeasureDisk(_) => {
            matches!(standing, Standing::Client(_))
        }
        R::ListObjects(_) | R::DiskSpace(_) | R::MoveToLost(_) => {
            matches!(standing, Standing::Mds | Standing::Admin)
        }
        // It changes nothing that anybody can see, and what a client wants durable it may have closed.
        R::FlushAll(_) => standing != Standing::Nobody,
        _ => standing == Standing::Mds,
    };
    if allowed { Ok(()) } else { Err(Failure::new(Status::WrongRole, request.name())) }
}

/// Calls whose capability passes the gate, which looks at the fences and at the epoch.
fn shows_capability(request: &IodRequest) -> bool {
    use IodRequest as R;
    matches!(
        request,
        R::Read(_)
            | R::Write(_)
            | R::WriteWithRoom(_)
            | R::Collect(_)
            | R::JoinRead(_)
            | R::JoinWrite(_)
            | R::Flush(_)
            | R::ObjectSizes(_)
            | R::Allocate(_)
            | R::CopyRange(_)
            | R::Seek(_)
    )
}

/// Calls by which a client gives up what is its own: also who was fenced may.
fn lets_go(request: &IodRequest) -> bool {
    use IodRequest as R;
    matches!(request, R::Release(_) | R::ReturnRoom(_) | R::Abandon(_))
}

fn answer<S, R: Wire>(outcome: Result<R, Failure>) -> Result<Begun<S>, Failure> {
    outcome.map(|reply| Begun::Answer(Answer::from_outcome(Ok(reply))))
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
        format!("{payload_bytes} bytes of payload where none belong"),
    ))
}

/// What the layout crate refuses in a request is the caller's mistake.
pub(crate) fn invalid(why: braid_layout::LayoutError) -> Failure {
    Failure::new(Status::Invalid, why.to_string())
}
