//! The typical small read: contiguous, in one strip, at one I/O daemon. It takes one exchange, and
//! none of the lists that a read with many daemons and windows needs. These lists took half of the
//! library's instructions in a 4 KiB read.
//!
//! Invariant: it ends in one of two ways. Either the daemon answered with success, and the call is
//! completed from this reply (I2: no second request); or nothing of the reply is used, and the
//! general read, which handles every failure, starts from the beginning. A read may be repeated.

use std::{io::IoSliceMut, slice, sync::Arc, time::Duration};

use braid_layout::Request;
use braid_net::{Answer, Driver, Exchange, NetError, Pipe};
use braid_types::limits::WINDOW_BYTES;
use braid_wire::{decode_outcome, message::iod::ReadReply};

use super::{
    FileView, OpenFile,
    iod_body::Body,
    open_file::FileState,
    read::{FileEnd, size_from, zero_missing},
    transfer::TransferEnd,
};
use crate::{
    error::Result,
    plan::{Piece, Planned, WindowMemory},
};

impl<D: Driver> OpenFile<D> {
    /// Reads a request that fills `buffers`, or that is left in the pipe. `None`: use the general
    /// read.
    pub(super) async fn read_strip(
        &self,
        view: &FileView,
        request: &Request,
        (buffers, pipe): (&mut [IoSliceMut<'_>], Option<&mut Pipe>),
        deadline: &mut Duration,
    ) -> Result<Option<u64>> {
        if request.bytes > WINDOW_BYTES || self.is_stale() {
            return Ok(None);
        }
        let grant = self.state();
        let Some(target) = grant.map.only_target(request)? else { return Ok(None) };
        *deadline = self.engine().shorten_deadline([&grant.pools[target].status], *deadline);
        self.engine().check_time(*deadline, || grant.pools[target].server_name())?;
        let answer = match (pipe, &mut *buffers) {
            (Some(pipe), [buffer]) => {
                self.pipe_strip(&grant, target, (view, request), (pipe, buffer), deadline).await?
            }
            _ => {
                let into = Destination::Buffers(buffers);
                self.ask_for_strip(&grant, target, request, into, deadline).await
            }
        };
        let Some((reply, got)) = answer else { return Ok(None) };
        match self
            .end_of_strip(&grant, target, (view, request), buffers, (&reply, got), deadline)
            .await
        {
            Ok(bytes) => Ok(Some(bytes)),
            Err(TransferEnd::Failed(error)) => Err(error),
            Err(TransferEnd::Replan) => Ok(None),
        }
    }

    /// As [`OpenFile::read_strip`], into memory of the driver if it has any: the bytes of the
    /// request that exist.
    pub(super) async fn read_strip_to_vec(
        &self,
        view: &FileView,
        request: &Request,
        deadline: &mut Duration,
    ) -> Result<Option<Vec<u8>>> {
        if request.bytes > WINDOW_BYTES || self.is_stale() {
            return Ok(None);
        }
        let grant = self.state();
        let Some(target) = grant.map.only_target(request)? else { return Ok(None) };
        *deadline = self.engine().shorten_deadline([&grant.pools[target].status], *deadline);
        self.engine().check_time(*deadline, || grant.pools[target].server_name())?;
        let mut bytes = Vec::new();
        let into = Destination::Vec(&mut bytes);
        let answer = self.ask_for_strip(&grant, target, request, into, deadline).await;
        let Some((reply, got)) = answer else { return Ok(None) };
        bytes.truncate(got as usize);
        if is_whole(&grant, view, request, (&reply, got))? {
            return Ok(Some(bytes));
        }
        // The end of the file, or a hole.
        bytes.resize(request.bytes as usize, 0);
        let buffers = &mut [IoSliceMut::new(&mut bytes)];
        let ended =
            self.end_of_strip(&grant, target, (view, request), buffers, (&reply, got), deadline);
        match ended.await {
            Ok(count) => {
                bytes.truncate(count as usize);
                Ok(Some(bytes))
            }
            Err(TransferEnd::Failed(error)) => Err(error),
            Err(TransferEnd::Replan) => Ok(None),
        }
    }

    /// The same exchange through a pipe. The bytes stay in the pipe only if the reply is complete
    /// and within the file; the payload of any other reply is moved to the buffer.
    async fn pipe_strip(
        &self,
        grant: &Arc<FileState<D>>,
        target: usize,
        (view, request): (&FileView, &Request),
        (pipe, buffer): (&mut Pipe, &mut IoSliceMut<'_>),
        deadline: &mut Duration,
    ) -> Result<Option<(ReadReply, u64)>> {
        let answer = self
            .ask_for_strip(grant, target, request, Destination::Pipe(&mut *pipe, buffer), deadline)
            .await;
        if let Some((reply, got)) = &answer
            && is_whole(grant, view, request, (reply, *got))?
        {
            return Ok(answer);
        }
        if pipe.payload_bytes() > 0 && pipe.take(buffer).is_err() {
            return Ok(None);
        }
        Ok(answer)
    }

    /// Makes the exchange. Returns the reply and the number of payload bytes; `None` for anything
    /// but success.
    async fn ask_for_strip(
        &self,
        grant: &Arc<FileState<D>>,
        target: usize,
        request: &Request,
        mut into: Destination<'_, '_>,
        deadline: &mut Duration,
    ) -> Option<(ReadReply, u64)> {
        let (pool_permit, mut pooled) =
            grant.pools[target].checkout(self.engine(), *deadline).await.ok()?;
        let is_new = pooled.meta.presented.insert(grant.handle);
        let present = if is_new { &grant.capability[..] } else { &[] };
        let call = Body::Read(request);
        let body = call.encode(grant.handle, present);
        let (begun, silence_max) =
            (self.engine().driver().now(), self.engine().attempt_timeout(*deadline));
        let (driver, connection) = (self.engine().driver(), &mut pooled.connection);
        let direct = match &mut into {
            Destination::Pipe(pipe, buffer) => {
                driver
                    .exchange_into_pipe(
                        &mut *connection,
                        (call.op(), &body),
                        (pipe, buffer),
                        silence_max,
                    )
                    .await
            }
            Destination::Vec(bytes) => {
                let call = (call.op(), body.clone());
                let done = driver.exchange_to_vec(
                    &mut *connection,
                    call,
                    request.bytes as usize,
                    silence_max,
                );
                done.await.map(|outcome| {
                    outcome.map(|(answer, payload)| {
                        **bytes = payload;
                        answer
                    })
                })
            }
            Destination::Buffers(_) => None,
        };
        let outcome = match direct {
            Some(outcome) => Some(outcome),
            None => {
                let recv = into.slices(request.bytes);
                let mut batch = [Exchange {
                    connection: 0,
                    op: call.op(),
                    body,
                    send: Vec::new(),
                    recv,
                    outcome: None,
                }];
                driver.exchange(slice::from_mut(connection), &mut batch, silence_max).await;
                let [Exchange { outcome, .. }] = batch;
                outcome
            }
        };
        let outcome = outcome?;
        *deadline = match &outcome {
            Ok(_) => {
                grant.pools[target].status.set_responsive();
                self.engine().renewed_deadline() // the server has answered
            }
            Err(NetError::TimedOut { permit_wait: unasked, .. }) => {
                deadline.saturating_add(*unasked)
            }
            Err(_) => deadline.saturating_add(self.engine().active_time(begun, silence_max)),
        };
        self.engine().driver().extend_call_deadline(*deadline);
        let done = match outcome {
            Ok(answer) => {
                success(&answer, request.bytes).map(|reply| (reply, answer.payload_bytes))
            }
            Err(NetError::NotSent { .. }) => None,
            // A connection is not put back after its exchange failed.
            Err(_) => return None,
        };
        if done.is_none() {
            pooled.meta.presented.remove(&grant.handle);
        }
        pool_permit.put_back(pooled);
        done
    }

    /// The number of bytes of the request that exist. What is missing before the end of the file is
    /// a hole.
    async fn end_of_strip(
        &self,
        grant: &Arc<FileState<D>>,
        target: usize,
        (view, request): (&FileView, &Request),
        buffers: &mut [IoSliceMut<'_>],
        (reply, got): (&ReadReply, u64),
        deadline: &mut Duration,
    ) -> Result<u64, TransferEnd> {
        if is_whole(grant, view, request, (reply, got))? {
            return Ok(request.bytes);
        }
        let mut end = FileEnd::new(&grant.map);
        end.take(&grant.map, target, reply.ends.iter().map(|end| (end.part, end.bytes.0)))?;
        let wanted = self.find_end(grant, view, request, &mut end, deadline).await?;
        let memory = WindowMemory::Pieces(vec![Piece { position: 0, bytes: request.bytes }]);
        let planned = Planned {
            target,
            request: request.clone(),
            position: 0,
            payload: request.bytes,
            memory,
        };
        zero_missing(&[planned], &[got], wanted, buffers);
        Ok(wanted)
    }
}

/// Where the payload of a reply goes.
enum Destination<'a, 'b> {
    /// Into buffers of the caller.
    Buffers(&'a mut [IoSliceMut<'b>]),
    /// Into a pipe, or the buffer.
    Pipe(&'a mut Pipe, &'a mut IoSliceMut<'b>),
    /// Into memory of the driver, or a vector that is as long as the request.
    Vec(&'a mut Vec<u8>),
}

impl Destination<'_, '_> {
    /// Memory for this many bytes.
    fn slices(&mut self, bytes: u64) -> Vec<IoSliceMut<'_>> {
        match self {
            Self::Buffers(buffers) => {
                buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect()
            }
            Self::Pipe(_, buffer) => vec![IoSliceMut::new(buffer)],
            Self::Vec(vec) => {
                vec.resize(bytes as usize, 0);
                vec![IoSliceMut::new(vec)]
            }
        }
    }
}

/// Whether every byte came, and the file is known to reach the last one.
fn is_whole<D: Driver>(
    grant: &FileState<D>,
    view: &FileView,
    request: &Request,
    (reply, got): (&ReadReply, u64),
) -> Result<bool> {
    let file_end = view.file_end(request)?;
    for end in &reply.ends {
        if got == request.bytes && size_from(&grant.map, &[(end.part, end.bytes.0)])? >= file_end {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The reply, if it is a valid success.
fn success(answer: &Answer, wanted: u64) -> Option<ReadReply> {
    let reply = decode_outcome::<ReadReply>(&answer.body).ok()?.ok()?;
    (reply.bytes.0 == answer.payload_bytes && answer.payload_bytes <= wanted).then_some(reply)
}
