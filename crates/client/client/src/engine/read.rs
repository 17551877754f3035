//! Reading: fills the caller's buffers, with zeros for holes, up to the end of the file.
//!
//! While a file is being written, no record contains its size: the file ends where its farthest
//! object ends. Every read reply contains the ends of the objects at its daemon.
//!
//! ```text
//!   complete payload, and a known object ends at or after the last requested byte:  done
//!   otherwise: query the other daemons of the layout for their objects, all at the same time (I1);
//!              the file ends where the farthest object ends; missing bytes before it are zeros
//! ```

use std::{io::IoSliceMut, sync::Arc, time::Duration};

use braid_layout::Request;
use braid_net::{Answer, Driver, Pipe};
use braid_types::{PartIndex, Status};
use braid_wire::{
    Rights,
    message::{iod::ReadReply, types::ObjectInfo},
};

use super::{
    FileView, OpenFile,
    iod_batch::IodCall,
    iod_body::{Body, JoinSpec},
    open_file::FileState,
    transfer::{Transfer, TransferEnd, reply},
};
use crate::{
    error::{Error, Result},
    plan::{FileMap, Piece, Planned, Planner, WindowMemory, assign_buffers_mut, scatter},
};

/// If a file's layout changes, or the file is truncated, more often than this during one call, the
/// call fails.
pub(super) const REPLANS_MAX: usize = 8;

/// What a call knows about the end of the file.
pub(super) struct FileEnd {
    /// According to the daemons in `asked`, no byte exists at or after this offset.
    bytes: u64,
    asked: Vec<bool>,
}

impl<D: Driver> OpenFile<D> {
    /// Reads the view's bytes from stream position `start` into `buffers`, one after the other.
    /// Returns the number of bytes, which is less than the buffers' capacity only at the end of the
    /// file.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_at(
        &self,
        view: &FileView,
        start: u64,
        buffers: &mut [IoSliceMut<'_>],
    ) -> Result<usize> {
        self.read_named(view, start, buffers, None)
            .await
            .map_err(|error| error.during("read", self.path()))
    }

    /// As [`OpenFile::read_at`] into one buffer, but may leave the bytes in `pipe`, which was
    /// begun. Then the pipe contains their number, at most its capacity, and `buffer` is unused.
    /// Otherwise no payload is in the pipe.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_at_into_pipe(
        &self,
        view: &FileView,
        start: u64,
        buffer: &mut [u8],
        pipe: &mut Pipe,
    ) -> Result<usize> {
        let buffers = &mut [IoSliceMut::new(buffer)];
        self.read_named(view, start, buffers, Some(pipe))
            .await
            .map_err(|error| error.during("read", self.path()))
    }

    /// As [`OpenFile::read_at`], but returns the bytes: up to `bytes_max`, fewer only at the end of
    /// the file. Those of one strip are not copied where the driver has memory of its own.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn read_to_vec(
        &self,
        view: &FileView,
        start: u64,
        bytes_max: usize,
    ) -> Result<Vec<u8>> {
        let named = |error: Error| error.during("read", self.path());
        let request = view.request(start, bytes_max as u64);
        if request.bytes == bytes_max as u64
            && request.bytes > 0
            && self.engine().read_cache.is_none()
        {
            self.check_rights(Rights::READ).map_err(named)?;
            self.mark_stale_if_parts_unknown();
            let mut deadline = self.engine().deadline();
            let read = self.read_strip_to_vec(view, &request, &mut deadline).await;
            if let Some(bytes) = read.map_err(named)? {
                return Ok(bytes);
            }
        }
        let mut buffer = vec![0; bytes_max];
        let count = self.read_at(view, start, &mut [IoSliceMut::new(&mut buffer)]).await?;
        buffer.truncate(count);
        Ok(buffer)
    }

    async fn read_named(
        &self,
        view: &FileView,
        start: u64,
        buffers: &mut [IoSliceMut<'_>],
        pipe: Option<&mut Pipe>,
    ) -> Result<usize> {
        let buffer_bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let request = view.request(start, buffer_bytes);
        if pipe.is_none() && request.bytes > 0 && request.bytes == buffer_bytes {
            self.check_rights(Rights::READ)?;
            if let Some(bytes) = self.read_cached(view, &request, buffers).await? {
                return Ok(bytes);
            }
        }
        self.read_uncached(view, start, buffers, pipe).await
    }

    /// Reads from the daemons.
    pub(super) async fn read_uncached(
        &self,
        view: &FileView,
        start: u64,
        buffers: &mut [IoSliceMut<'_>],
        pipe: Option<&mut Pipe>,
    ) -> Result<usize> {
        self.check_rights(Rights::READ)?;
        self.mark_stale_if_parts_unknown();
        let buffer_bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let request = view.request(start, buffer_bytes);
        if request.bytes == 0 {
            return Ok(0);
        }
        let mut deadline = self.engine().deadline();
        if request.bytes == buffer_bytes
            && let Some(bytes) =
                self.read_strip(view, &request, (&mut *buffers, pipe), &mut deadline).await?
        {
            return Ok(bytes as usize);
        }
        for _ in 0..REPLANS_MAX {
            match self.read_request(view, &request, buffers, &mut deadline).await {
                Ok(bytes) => return Ok(bytes as usize),
                Err(TransferEnd::Failed(error)) => return Err(error),
                Err(TransferEnd::Replan) => {}
            }
        }
        Err(Error::new(
            Status::TryAgain,
            "the file was truncated, or its layout changed, too often",
        ))
    }

    async fn read_request(
        &self,
        view: &FileView,
        request: &Request,
        buffers: &mut [IoSliceMut<'_>],
        deadline: &mut Duration,
    ) -> Result<u64, TransferEnd> {
        let plan = self.state();
        // The capability of the replies so far; see `Transfer::is_one_view`.
        let mut grant = Arc::clone(&plan);
        let mut is_first = true;
        let mut end = FileEnd::new(&plan.map);
        // Bytes of the request before the end of the file; corrected at the first short reply.
        let mut wanted = request.bytes;
        let mut planner = Planner::new(&plan.map, request.clone())?;
        while let Some(mut round) = planner.next_round() {
            round.retain(|planned| planned.position < wanted);
            let mut job = ReadRound::new(&plan, &round, buffers, &mut end);
            let used = self.run_transfer(&grant, &mut job, deadline).await?;
            *deadline = self.engine().renewed_deadline(); // every server has answered
            let got = job.got;
            if !Arc::ptr_eq(&used, &grant) && !std::mem::take(&mut is_first) {
                return Err(TransferEnd::Replan);
            }
            (grant, is_first) = (used, false);
            if round.iter().zip(&got).any(|(planned, got)| *got < planned.payload) {
                // If the file grows meanwhile, the earlier end counts: bytes behind it were not
                // read in an earlier round.
                wanted =
                    wanted.min(self.find_end(&grant, view, request, &mut end, deadline).await?);
                zero_missing(&round, &got, wanted, buffers);
            }
        }
        if wanted == request.bytes && !end.reaches(view.file_end(request)?) {
            // Every byte came, but the daemons may have added zeros past the end.
            wanted = self.find_end(&grant, view, request, &mut end, deadline).await?;
        }
        Ok(wanted)
    }

    /// The number of bytes of the request before the end of the file.
    pub(super) async fn find_end(
        &self,
        grant: &Arc<FileState<D>>,
        view: &FileView,
        request: &Request,
        end: &mut FileEnd,
        deadline: &mut Duration,
    ) -> Result<u64, TransferEnd> {
        let rest = end.not_asked();
        if !end.reaches(view.file_end(request)?) && !rest.is_empty() {
            let sizes: Vec<Vec<ObjectInfo>> =
                self.ask_targets(grant, &rest, Body::ObjectSizes, deadline).await?;
            for (target, objects) in rest.into_iter().zip(sizes) {
                end.take(
                    &grant.map,
                    target,
                    objects.iter().map(|object| (object.part, object.bytes.0)),
                )?;
            }
        }
        Ok(view.bytes_below(end.bytes).saturating_sub(request.start).min(request.bytes))
    }

    /// The current length of the file, according to its objects. Queries the I/O daemons only.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn size(&self) -> Result<u64> {
        let result = match self.check_rights(Rights(0)) {
            Ok(()) => self.size_of_objects(self.engine().deadline()).await,
            Err(error) => Err(error),
        };
        result.map_err(|error| error.during("get the size of", self.path()))
    }

    async fn size_of_objects(&self, mut deadline: Duration) -> Result<u64> {
        for _ in 0..REPLANS_MAX {
            let grant = self.state();
            let all: Vec<usize> = (0..grant.map.targets().len()).collect();
            let sizes: Result<Vec<Vec<ObjectInfo>>, TransferEnd> =
                self.ask_targets(&grant, &all, Body::ObjectSizes, &mut deadline).await;
            match sizes {
                Ok(sizes) => {
                    let objects: Vec<(PartIndex, u64)> = sizes
                        .iter()
                        .flatten()
                        .map(|object| (object.part, object.bytes.0))
                        .collect();
                    return size_from(&grant.map, &objects);
                }
                Err(TransferEnd::Failed(error)) => return Err(error),
                Err(TransferEnd::Replan) => {}
            }
        }
        Err(Error::new(
            Status::TryAgain,
            "the file was truncated, or its layout changed, too often",
        ))
    }
}

pub(super) fn size_from(map: &FileMap, objects: &[(PartIndex, u64)]) -> Result<u64> {
    map.layout_map()
        .file_size_from_objects(objects)
        .map_err(|error| Error::new(Status::Corrupted, error.to_string()))
}

impl FileEnd {
    pub(super) fn new(map: &FileMap) -> Self {
        Self { bytes: 0, asked: vec![false; map.targets().len()] }
    }

    pub(super) fn take(
        &mut self,
        map: &FileMap,
        target: usize,
        ends: impl Iterator<Item = (PartIndex, u64)>,
    ) -> Result<()> {
        self.asked[target] = true;
        for end in ends {
            self.bytes = self.bytes.max(size_from(map, &[end])?);
        }
        Ok(())
    }

    /// Whether the file is known to reach this offset.
    pub(super) fn reaches(&self, offset: u64) -> bool {
        self.bytes >= offset
    }

    fn not_asked(&self) -> Vec<usize> {
        self.asked
            .iter()
            .enumerate()
            .filter(|(_, asked)| !**asked)
            .map(|(target, _)| target)
            .collect()
    }
}

/// Reads the windows of one round.
pub(super) struct ReadRound<'r, 'b, 'd, D: Driver> {
    grant: &'r FileState<D>,
    round: &'r [Planned],
    /// The windows as parts of a collective request; if empty, each window is a separate read.
    joins: &'r [JoinSpec],
    buffers: &'b mut [IoSliceMut<'d>],
    end: &'r mut FileEnd,
    /// Bounce buffers of the windows that need one; empty for the others.
    bounce_buffers: Vec<Vec<u8>>,
    got: Vec<u64>,
}

impl<'r, 'b, 'd, D: Driver> ReadRound<'r, 'b, 'd, D> {
    fn new(
        grant: &'r FileState<D>,
        round: &'r [Planned],
        buffers: &'b mut [IoSliceMut<'d>],
        end: &'r mut FileEnd,
    ) -> Self {
        let staged = round.iter().map(|planned| match planned.memory {
            WindowMemory::BounceBuffer => vec![0; planned.payload as usize],
            WindowMemory::Pieces(_) => Vec::new(),
        });
        Self {
            grant,
            round,
            joins: &[],
            buffers,
            end,
            bounce_buffers: staged.collect(),
            got: vec![0; round.len()],
        }
    }

    /// For the parts of a collective request.
    pub(super) fn joining(
        grant: &'r FileState<D>,
        round: &'r [Planned],
        joins: &'r [JoinSpec],
        buffers: &'b mut [IoSliceMut<'d>],
        end: &'r mut FileEnd,
    ) -> Self {
        Self { joins, ..Self::new(grant, round, buffers, end) }
    }

    /// The number of bytes received for each window.
    pub(super) fn got(self) -> Vec<u64> {
        self.got
    }
}

impl<D: Driver> Transfer for ReadRound<'_, '_, '_, D> {
    fn len(&self) -> usize {
        self.round.len()
    }

    fn target(&self, index: usize) -> usize {
        self.round[index].target
    }

    fn calls<'s>(&'s mut self, pending: &[usize]) -> Result<Vec<IodCall<'s>>> {
        let windows: Vec<&[Piece]> =
            pending.iter().map(|index| self.round[*index].pieces()).collect();
        let dealt = assign_buffers_mut(self.buffers, &windows);
        let mut staged: Vec<Option<&'s mut Vec<u8>>> =
            self.bounce_buffers.iter_mut().map(Some).collect();
        let call = |(index, mut recv): (&usize, Vec<IoSliceMut<'s>>)| {
            let planned = &self.round[*index];
            if let Some(bounce) = staged[*index].take().filter(|bounce| !bounce.is_empty()) {
                recv.push(IoSliceMut::new(bounce));
            }
            let body = self
                .joins
                .get(*index)
                .map_or(Body::Read(&planned.request), |join| Body::Join(*join));
            IodCall { target: planned.target, body, send: Vec::new(), recv }
        };
        Ok(pending.iter().zip(dealt).map(call).collect())
    }

    fn accept(&mut self, index: usize, answer: Answer) -> Result<()> {
        let planned = &self.round[index];
        let pool = &self.grant.pools[planned.target];
        let reply: ReadReply = reply(|| pool.server_name(), &answer)?;
        if reply.bytes.0 != answer.payload_bytes || answer.payload_bytes > planned.payload {
            let why =
                format!("announced {} payload bytes, sent {}", reply.bytes, answer.payload_bytes);
            return Err(Error::new(Status::Malformed, why).at(pool.server_name()));
        }
        self.got[index] = answer.payload_bytes;
        self.end.take(
            &self.grant.map,
            planned.target,
            reply.ends.iter().map(|end| (end.part, end.bytes.0)),
        )?;
        if matches!(planned.memory, WindowMemory::BounceBuffer) {
            // A failed attempt may have left bytes behind those received now.
            self.bounce_buffers[index][answer.payload_bytes as usize..].fill(0);
            scatter(&self.grant.map, planned, &self.bounce_buffers[index], self.buffers)?;
        }
        Ok(())
    }

    fn is_one_view(&self) -> bool {
        true
    }
}

/// Fills missing bytes before `wanted`, the end of the file, with zeros.
pub(super) fn zero_missing(
    round: &[Planned],
    got: &[u64],
    wanted: u64,
    buffers: &mut [IoSliceMut<'_>],
) {
    let missing: Vec<Vec<Piece>> =
        round.iter().zip(got).map(|(planned, got)| clip(planned.pieces(), *got, wanted)).collect();
    let windows: Vec<&[Piece]> = missing.iter().map(Vec::as_slice).collect();
    for slice in assign_buffers_mut(buffers, &windows).iter_mut().flatten() {
        slice.fill(0);
    }
}

/// The pieces without their first `skip` bytes, below position `end`.
fn clip(pieces: &[Piece], mut skip: u64, end: u64) -> Vec<Piece> {
    let mut left = Vec::new();
    for piece in pieces {
        let skipped = skip.min(piece.bytes);
        skip -= skipped;
        let (from, to) = (piece.position + skipped, (piece.position + piece.bytes).min(end));
        if from < to {
            left.push(Piece { position: from, bytes: to - from });
        }
    }
    left
}
