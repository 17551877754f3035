//! The usual small read: contiguous, in one strip, of one I/O daemon. One exchange, and none of the lists that many
//! daemons and many windows need: half of the library's instructions in a 4 KiB read were theirs.
//!
//! Invariant: it ends in one of two ways. The daemon answered with success, and the call is finished from this
//! answer (I2: the daemon is not asked again); or nothing of the answer is used, and the general way begins anew,
//! which knows every remedy. A read may be repeated.

use std::{io::IoSliceMut, slice, sync::Arc, time::Duration};

use braid_layout::Request;
use braid_net::{Answer, Driver, Exchange};
use braid_types::limits::WINDOW_BYTES;
use braid_wire::{decode_outcome, message::iod::ReadReply};

use super::{
    FileView, OpenFile,
    iod_body::Body,
    open_file::Grant,
    read::{End, size_from, zero_missing},
    transfer::Stop,
};
use crate::{
    error::Result,
    plan::{Memory, Piece, Planned},
};

impl<D: Driver> OpenFile<D> {
    /// Reads a request that fills `buffers`; `None` when the general way has to be gone.
    pub(super) async fn read_strip(
        &self,
        view: &FileView,
        request: &Request,
        buffers: &mut [IoSliceMut<'_>],
        deadline: Duration,
    ) -> Result<Option<u64>> {
        if request.bytes > WINDOW_BYTES || self.is_stale() {
            return Ok(None);
        }
        let grant = self.grant();
        let Some(target) = grant.map.only_target(request)? else { return Ok(None) };
        let Some((reply, got)) = self.ask_for_strip(&grant, target, request, buffers, deadline).await else {
            return Ok(None);
        };
        match self.end_of_strip(&grant, target, (view, request), buffers, (&reply, got), deadline).await {
            Ok(bytes) => Ok(Some(bytes)),
            Err(Stop::Failed(error)) => Err(error),
            Err(Stop::Replan) => Ok(None),
        }
    }

    /// The one exchange: the reply, and how many bytes came; `None` for anything but a success.
    async fn ask_for_strip(
        &self,
        grant: &Arc<Grant<D>>,
        target: usize,
        request: &Request,
        buffers: &mut [IoSliceMut<'_>],
        deadline: Duration,
    ) -> Option<(ReadReply, u64)> {
        let (lease, mut pooled) = grant.pools[target].checkout(self.engine(), deadline).await.ok()?;
        let is_new = pooled.meta.presented.insert(grant.handle);
        let present = if is_new { &grant.capability[..] } else { &[] };
        let call = Body::Read(request);
        let recv = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer)).collect();
        let body = call.encode(grant.handle, present);
        let mut batch = [Exchange { connection: 0, op: call.op(), body, send: Vec::new(), recv, outcome: None }];
        let attempt = self.engine().attempt(deadline);
        self.engine().driver().exchange(slice::from_mut(&mut pooled.connection), &mut batch, attempt).await;
        let [Exchange { outcome, .. }] = batch;
        // A connection whose exchange failed is not put back.
        let answer = outcome?.ok()?;
        let reply = success(&answer, request.bytes);
        if reply.is_none() {
            pooled.meta.presented.remove(&grant.handle);
        }
        lease.give_back(pooled);
        reply.map(|reply| (reply, answer.payload_bytes))
    }

    /// How many bytes of the request there are; what is missing before the end of the file is a hole.
    async fn end_of_strip(
        &self,
        grant: &Arc<Grant<D>>,
        target: usize,
        (view, request): (&FileView, &Request),
        buffers: &mut [IoSliceMut<'_>],
        (reply, got): (&ReadReply, u64),
        deadline: Duration,
    ) -> Result<u64, Stop> {
        let ends = || reply.ends.iter().map(|end| (end.part, end.bytes.0));
        let file_end = view.file_end(request)?;
        for end in ends() {
            if got == request.bytes && size_from(&grant.map, &[end])? >= file_end {
                return Ok(request.bytes);
            }
        }
        let mut end = End::new(&grant.map);
        end.take(&grant.map, target, ends())?;
        let wanted = self.find_end(grant, view, request, &mut end, deadline).await?;
        let memory = Memory::Pieces(vec![Piece { position: 0, bytes: request.bytes }]);
        let planned = Planned { target, request: request.clone(), position: 0, payload: request.bytes, memory };
        zero_missing(&[planned], &[got], wanted, buffers);
        Ok(wanted)
    }
}

/// The reply of a success that makes sense.
fn success(answer: &Answer, wanted: u64) -> Option<ReadReply> {
    let reply = decode_outcome::<ReadReply>(&answer.body).ok()?.ok()?;
    (reply.bytes.0 == answer.payload_bytes && answer.payload_bytes <= wanted).then_some(reply)
}
