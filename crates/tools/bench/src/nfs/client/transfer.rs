//! READ, WRITE and COMMIT of an open file: at its data servers, or all through one server.
//!
//! A sparse layout of type `files` (RFC 8881 13.4.4): stripe unit number `offset / unit`, plus the
//! first stripe index, modulo the stripes, is the entry of the device's list of data servers. The
//! offset in a request to a data server is that in the file.

use std::{net::SocketAddr, sync::LazyLock, thread};

use anyhow::{Context, Result, anyhow, bail, ensure};
use braid_nfs_wire::nfs4::{
    ArgOp, ExchangeIdFlags, FileHandle, ResOp, StableHow, StateId, Verifier,
    args::{CommitArgs, ReadArgs, WriteArgs},
    layout_files::{FileDevice, FileLayout},
};
use bytes::Bytes;

use super::{
    mount::{OpenFile, put},
    session::{IO_BYTES_MAX, Session},
};

/// What is written.
static DATA: LazyLock<Bytes> = LazyLock::new(|| vec![0xa5; IO_BYTES_MAX].into());

/// The direction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Way {
    /// From the servers.
    Read,
    /// To the servers, unstable; the caller commits.
    Write,
}

impl Way {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Read, Self::Write];

    /// For names of measures.
    pub fn word(self) -> &'static str {
        if self == Self::Read { "read" } else { "write" }
    }
}

/// A request: first byte, and number of bytes.
pub type Piece = (u64, usize);

/// Which server has which bytes of an open file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StripedFile {
    unit: u64,
    first: usize,
    /// For each stripe index its server.
    stripes: Vec<usize>,
    /// For each server the file's handle there.
    handles: Vec<FileHandle>,
    state: StateId,
}

impl StripedFile {
    /// Through one server.
    pub fn whole(file: &OpenFile) -> Self {
        let handles = vec![file.handle.clone()];
        Self { unit: u64::MAX, first: 0, stripes: vec![0], handles, state: file.state }
    }

    /// By a layout.
    ///
    /// # Errors
    /// A dense layout, one that commits through the metadata server, or one that contradicts its
    /// device.
    pub fn new(layout: &FileLayout, device: &FileDevice, file: &OpenFile) -> Result<Self> {
        let servers = device.data_servers.len();
        ensure!(device.is_consistent() && !device.stripe_indices.is_empty(), "a device of nothing");
        ensure!(!layout.util.is_dense() && !layout.util.commits_through_mds(), "a dense layout");
        ensure!(layout.pattern_offset == 0, "a pattern that begins later");
        let unit = u64::from(layout.util.stripe_unit());
        ensure!(unit > 0, "stripes of 0 bytes");
        let handle = |server| match &layout.handles[..] {
            // RFC 8881 13.4.4: the metadata server's handle, one for all, or one for each.
            [] => Some(file.handle.clone()),
            [one] => Some(one.clone()),
            all => all.get(server).cloned(),
        };
        let handles = (0..servers).map(handle).collect::<Option<_>>();
        Ok(Self {
            unit,
            first: layout.first_stripe_index as usize,
            stripes: device.stripe_indices.iter().map(|index| *index as usize).collect(),
            handles: handles.context("fewer handles than data servers")?,
            // RFC 8881 13.9.1: the open's state, with a sequence number of 0.
            state: StateId { seqid: 0, ..file.state },
        })
    }

    /// The server of a byte.
    pub fn server_of(&self, offset: u64) -> usize {
        let stripe = (offset / self.unit).wrapping_add(self.first as u64);
        self.stripes[(stripe % self.stripes.len() as u64) as usize]
    }

    /// Cuts requests at stripe edges and at the largest request; the requests of each server.
    pub fn split(&self, pieces: impl IntoIterator<Item = Piece>) -> Vec<Vec<Piece>> {
        let mut all = vec![Vec::new(); self.handles.len()];
        for (mut offset, mut left) in pieces {
            while left > 0 {
                let in_stripe = self.unit - offset % self.unit;
                let length = left.min(IO_BYTES_MAX).min(usize::try_from(in_stripe).unwrap_or(left));
                all[self.server_of(offset)].push((offset, length));
                offset += length as u64;
                left -= length;
            }
        }
        all
    }
}

/// Requests of `call` bytes that cover a range.
pub fn sequential(start: u64, bytes: u64, call: u64) -> impl Iterator<Item = Piece> {
    (start..start + bytes)
        .step_by(call as usize)
        .map(move |at| (at, call.min(start + bytes - at) as usize))
}

/// Sessions with data servers, under the name that the client has at the metadata server.
///
/// # Errors
/// What a server refuses.
pub fn data_sessions(servers: &[SocketAddr], owner: &str, slots: u32) -> Result<Vec<Session>> {
    let session = |server: &SocketAddr| {
        Session::new(*server, owner, slots, ExchangeIdFlags::USE_PNFS_DS)
            .with_context(|| format!("a session with data server {server}"))
    };
    servers.iter().map(session).collect()
}

/// Moves the pieces of [`StripedFile::split`]: each session those of its server, by a thread of its
/// own if there are several, with at most `depth` requests at a time. Writes are committed.
///
/// # Errors
/// What a server refuses; invariant 3 of the module.
pub fn transfer(
    sessions: &mut [Session],
    file: &StripedFile,
    split: &[Vec<Piece>],
    way: Way,
    depth: usize,
) -> Result<()> {
    ensure!(sessions.len() == split.len(), "{} sessions", sessions.len());
    let parts = sessions.iter_mut().zip(split).zip(&file.handles);
    let mut parts = parts.map(|((session, pieces), handle)| Part {
        session,
        pieces,
        handle,
        state: file.state,
        depth,
    });
    if split.len() == 1 {
        return parts.next().context("there is one part")?.run(way);
    }
    thread::scope(|scope| {
        let threads: Vec<_> = parts.map(|mut part| scope.spawn(move || part.run(way))).collect();
        threads.into_iter().try_for_each(|one| one.join().map_err(|_| anyhow!("a panic"))?)
    })
}

/// The requests to one server.
struct Part<'a> {
    session: &'a mut Session,
    pieces: &'a [Piece],
    handle: &'a FileHandle,
    state: StateId,
    depth: usize,
}

impl Part<'_> {
    fn run(&mut self, way: Way) -> Result<()> {
        let slots = self.depth.clamp(1, self.session.slots());
        let mut free: Vec<usize> = (0..slots).collect();
        let mut wanted = vec![0; slots];
        let mut buffer = vec![0; if way == Way::Read { IO_BYTES_MAX } else { 0 }];
        let mut verifier = None;
        for &(offset, length) in self.pieces {
            if free.is_empty() {
                free.push(self.finish_one(way, &wanted, &mut buffer, &mut verifier)?);
            }
            let slot = free.pop().context("a slot is free")?;
            wanted[slot] = length;
            let op = match way {
                Way::Read => ArgOp::Read(ReadArgs {
                    state_id: self.state,
                    offset,
                    count: u32::try_from(length)?,
                }),
                Way::Write => ArgOp::Write(WriteArgs {
                    state_id: self.state,
                    offset,
                    stable: StableHow::Unstable,
                    data: DATA.slice(..length),
                }),
            };
            self.session.send(slot, &[put(self.handle), op])?;
        }
        while free.len() < slots {
            free.push(self.finish_one(way, &wanted, &mut buffer, &mut verifier)?);
        }
        if let Some(written) = verifier {
            let args = CommitArgs { offset: 0, count: 0 };
            let mut results = self.session.call(&[put(self.handle), ArgOp::Commit(args)])?;
            let Some(ResOp::Commit(Ok(committed))) = results.pop() else { bail!("no COMMIT") };
            ensure!(committed.verifier == written, "the server lost unstable data");
        }
        Ok(())
    }

    /// Waits for the next reply and returns its slot.
    fn finish_one(
        &mut self,
        way: Way,
        wanted: &[usize],
        buffer: &mut [u8],
        verifier: &mut Option<Verifier>,
    ) -> Result<usize> {
        if way == Way::Read {
            let (slot, head) = self.session.receive_read(buffer)?;
            ensure!(wanted.get(slot) == Some(&head.count), "a READ returned {} bytes", head.count);
            return Ok(slot);
        }
        let (slot, mut results) = self.session.receive()?;
        match results.pop() {
            Some(ResOp::Write(Ok(written))) => {
                let whole =
                    wanted.get(slot).is_some_and(|length| *length == written.count as usize);
                ensure!(whole, "a WRITE of {} bytes", written.count);
                let before = verifier.replace(written.verifier);
                ensure!(before.is_none_or(|it| it == written.verifier), "the server restarted");
                Ok(slot)
            }
            other => bail!("not a WRITE's success but {:?}", other.map(|result| result.status())),
        }
    }
}

#[cfg(test)]
mod tests;
