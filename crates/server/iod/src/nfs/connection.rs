//! The loop of one connection's thread: a record, its compound, the reply.
//!
//! Invariants:
//! 1. One request of a connection runs at a time, and its record is at most
//!    [`MESSAGE_BYTES_MAX`] long (I9).
//! 2. A peer that stops in the middle of a record, or does not read a reply, is disconnected after
//!    [`STALL_MAX`] (I8).

use std::{
    io::{self, Read, Write},
    net::TcpStream,
    time::{Duration, Instant},
};

use braid_nfs_wire::{
    nfs4::{NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND, PROCEDURE_NULL},
    rpc::{
        auth::{AUTH_NONE, AUTH_SYS, AUTH_TLS, AuthStatus, OpaqueAuth},
        message::{AcceptStatus, CallHeader, ReplyHeader},
        record::{RecordReader, record_header},
    },
    xdr::{Decoder, Segment, Xdr},
};
use bytes::Bytes;

use super::{
    DataServer,
    compound::{self, ObjectBytes, Results, VerifiedHandles},
    sessions::MESSAGE_BYTES_MAX,
};

/// How long a peer may take for a whole record once it has begun, and for reading a reply.
const STALL_MAX: Duration = Duration::from_secs(60);
/// How long a new connection may be without its first request.
const FIRST_REQUEST_MAX: Duration = Duration::from_secs(30);
/// How long a connection may be idle. Linux disconnects after 6 minutes without a mount.
const IDLE_MAX: Duration = Duration::from_secs(900);
/// Bytes that are copied at a time where the system cannot send from a file.
const COPY_BYTES: usize = 64 << 10;
/// Zeros behind the data of an object are sent in pieces of this length.
static ZEROS: [u8; 16 << 10] = [0; 16 << 10];

/// Serves a connection until it ends. Returns why it ended.
pub(super) fn run(server: &DataServer, stream: TcpStream) -> String {
    match serve(server, stream) {
        Ok(()) => "closed by the client".to_owned(),
        Err(why) => why.to_string(),
    }
}

fn serve(server: &DataServer, mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
    stream.set_write_timeout(Some(STALL_MAX))?;
    let mut reader = RecordReader::with_limit(MESSAGE_BYTES_MAX as usize);
    let mut handles = VerifiedHandles::default();
    let mut idle_max = FIRST_REQUEST_MAX;
    // When the record that has begun must be complete; `None` between records.
    let mut complete_by: Option<Instant> = None;
    stream.set_read_timeout(Some(idle_max))?;
    loop {
        while let Some(record) = reader.next_record().map_err(io::Error::other)? {
            // The peer has begun the next record only now.
            complete_by = None;
            idle_max = IDLE_MAX;
            if let Some(reply) = answer(server, &mut handles, record) {
                send(&mut stream, &reply)?;
            }
        }
        // A peer that sends single bytes does not get more time by each of them.
        let wait = if reader.is_between_records() {
            complete_by = None;
            idle_max
        } else {
            let end = *complete_by.get_or_insert_with(|| Instant::now() + STALL_MAX);
            end.checked_duration_since(Instant::now()).ok_or(io::ErrorKind::TimedOut)?
        };
        // Zero would be no limit.
        stream.set_read_timeout(Some(wait.max(Duration::from_millis(1))))?;
        match stream.read(reader.space()) {
            Ok(0) => return Ok(()),
            Ok(bytes) => reader.advance(bytes),
            Err(why) if why.kind() == io::ErrorKind::Interrupted => {}
            Err(why) => return Err(why),
        }
    }
}

/// An RPC reply.
struct Reply {
    header: Vec<u8>,
    results: Results,
}

/// Answers a call; `None` for what needs no answer.
fn answer(server: &DataServer, handles: &mut VerifiedHandles, record: Bytes) -> Option<Reply> {
    let mut from = Decoder::new(record);
    let call = match CallHeader::decode(&mut from) {
        Ok(call) => call,
        Err(why) => return why.reply().map(|header| without_results(&header)),
    };
    let accepted = |status| without_results(&call.accepted(OpaqueAuth::none(), status));
    Some(match (call.program, call.version, call.procedure) {
        (NFS_PROGRAM, NFS_VERSION, PROCEDURE_NULL) => accepted(AcceptStatus::Success),
        (NFS_PROGRAM, NFS_VERSION, PROCEDURE_COMPOUND) => {
            // Users and their rights are the metadata server's business. A caller that expects more
            // protection than this server gives must not be served without it.
            match call.credential.flavor {
                AUTH_NONE | AUTH_SYS => {}
                AUTH_TLS => return Some(without_results(&call.denied(AuthStatus::BadCredential))),
                _ => return Some(without_results(&call.denied(AuthStatus::TooWeak))),
            }
            match compound::run(server, handles, from) {
                Ok(results) => Reply {
                    header: header(&call.accepted(OpaqueAuth::none(), AcceptStatus::Success)),
                    results,
                },
                Err(compound::GarbageArguments) => accepted(AcceptStatus::GarbageArguments),
            }
        }
        (NFS_PROGRAM, NFS_VERSION, _) => accepted(AcceptStatus::ProcedureUnavailable),
        (NFS_PROGRAM, ..) => {
            accepted(AcceptStatus::ProgramMismatch { low: NFS_VERSION, high: NFS_VERSION })
        }
        _ => accepted(AcceptStatus::ProgramUnavailable),
    })
}

fn without_results(reply: &ReplyHeader) -> Reply {
    Reply { header: header(reply), results: Results { segments: Vec::new(), external: Vec::new() } }
}

fn header(reply: &ReplyHeader) -> Vec<u8> {
    reply.to_bytes()
}

/// Sends a reply as one record. Data of an object goes from the page cache to the socket.
fn send(stream: &mut TcpStream, reply: &Reply) -> io::Result<()> {
    let Reply { header, results } = reply;
    let bytes = header.len() + results.segments.iter().map(Segment::len).sum::<usize>();
    let mut pending = Vec::with_capacity(header.len() + 1024);
    pending.extend_from_slice(&record_header(bytes));
    pending.extend_from_slice(header);
    let mut sources = results.external.iter();
    for segment in &results.segments {
        match (segment, segment.len()) {
            (Segment::Bytes(bytes), _) => pending.extend_from_slice(bytes),
            (Segment::External(_), length) => {
                let source = sources.next().ok_or_else(|| io::Error::other("no source"))?;
                send_before_more(stream, &pending)?;
                pending.clear();
                send_object(stream, source, length as u64)?;
            }
        }
    }
    stream.write_all(&pending)
}

/// Sends bytes, which the system may send together with those that follow.
#[cfg(target_os = "linux")]
fn send_before_more(stream: &mut TcpStream, mut bytes: &[u8]) -> io::Result<()> {
    use rustix::net::{SendFlags, send};
    while !bytes.is_empty() {
        match send(&*stream, bytes, SendFlags::MORE | SendFlags::NOSIGNAL) {
            Ok(sent) => bytes = &bytes[sent..],
            Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(())
}

#[cfg(not(target_os = "linux"))]
fn send_before_more(stream: &mut TcpStream, bytes: &[u8]) -> io::Result<()> {
    stream.write_all(bytes)
}

/// Sends bytes of an object, and zeros up to `length`. An object that was truncated meanwhile ends
/// the connection: its reply has begun, and the client repeats it.
fn send_object(stream: &mut TcpStream, source: &ObjectBytes, length: u64) -> io::Result<()> {
    let sent = match source.object.file() {
        Some(file) => send_file(stream, file, source.offset.0, source.data)?,
        None => copy_object(stream, source)?,
    };
    if sent < source.data {
        return Err(io::Error::other("an object was truncated while it was read"));
    }
    let mut zeros = length - source.data;
    while zeros > 0 {
        let piece = zeros.min(ZEROS.len() as u64);
        stream.write_all(&ZEROS[..piece as usize])?;
        zeros -= piece;
    }
    Ok(())
}

/// Sends bytes of a file. Returns how many it had.
#[cfg(target_os = "linux")]
fn send_file(stream: &TcpStream, file: &std::fs::File, offset: u64, bytes: u64) -> io::Result<u64> {
    let (mut at, end) = (offset, offset + bytes);
    while at < end {
        let left = (end - at) as usize;
        match rustix::fs::sendfile(stream, file, Some(&mut at), left) {
            Ok(0) => break,
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(why) => return Err(why.into()),
        }
    }
    Ok(at - offset)
}

#[cfg(not(target_os = "linux"))]
fn send_file(stream: &TcpStream, file: &std::fs::File, offset: u64, bytes: u64) -> io::Result<u64> {
    use std::io::{Seek, SeekFrom};
    let mut file = file.try_clone()?;
    file.seek(SeekFrom::Start(offset))?;
    io::copy(&mut file.take(bytes), &mut &*stream)
}

fn copy_object(stream: &mut TcpStream, source: &ObjectBytes) -> io::Result<u64> {
    let mut buffer = vec![0; COPY_BYTES];
    let mut sent = 0;
    while sent < source.data {
        let want = (source.data - sent).min(COPY_BYTES as u64) as usize;
        let at = braid_types::ObjectOffset(source.offset.0 + sent);
        let read = source.object.read_at(&mut buffer[..want], at).map_err(io::Error::other)?;
        if read == 0 {
            break;
        }
        stream.write_all(&buffer[..read])?;
        sent += read as u64;
    }
    Ok(sent)
}
