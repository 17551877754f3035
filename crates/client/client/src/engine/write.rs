//! Writing: sends the caller's buffers directly to the I/O daemons.

use std::{io::IoSlice, sync::Arc, time::Duration};

use braid_layout::Request;
use braid_net::{Answer, Driver};
use braid_types::{Status, Timestamp, limits::FILE_BYTES_MAX};
use braid_wire::{
    Rights,
    message::iod::{WriteReply, WriteWithReservationReply},
};

use super::{
    FileView, OpenFile,
    iod_batch::IodCall,
    iod_body::{Body, JoinSpec},
    open_file::FileState,
    read::REPLANS_MAX,
    reservation::{Reservation, ReservationRequest, UsedReservation},
    size_report::{PendingWrite, SizeReportState},
    transfer::{Transfer, TransferEnd, reply},
    unflushed_writes::UnflushedWrites,
};
use crate::{
    error::{Error, Result},
    plan::{Piece, Planned, Planner, WindowMemory, assign_buffers, gather},
};

impl<D: Driver> OpenFile<D> {
    /// Writes `buffers`, one after the other, to the view's bytes from stream position `start`.
    /// Writes all of them, or fails; after an error, any of them may have been written.
    ///
    /// Acknowledged bytes survive the kill of any process, but not a power failure before
    /// [`OpenFile::sync`] (I6).
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_at(
        &self,
        view: &FileView,
        start: u64,
        buffers: &[IoSlice<'_>],
    ) -> Result<usize> {
        self.write_named(view, start, buffers, (None, None))
            .await
            .map_err(|error| error.during("write", self.path()))
    }

    /// Writes bytes with the space reserved in `held`, at an offset of the file. As
    /// [`OpenFile::write_at`], but a full disk does not refuse them. Releases the reservation, also
    /// after an error. `modified` is the time of the write by the program, on the metadata server's
    /// clock; `None`: now.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn write_reserved(
        &self,
        held: &mut Reservation,
        offset: u64,
        buffers: &[IoSlice<'_>],
        modified: Option<Timestamp>,
    ) -> Result<usize> {
        let spent = UsedReservation::of(held);
        let written = async {
            self.write_named(&FileView::whole()?, offset, buffers, (Some(&spent), modified)).await
        };
        written.await.map_err(|error| error.during("write", self.path()))
    }

    async fn write_named(
        &self,
        view: &FileView,
        start: u64,
        buffers: &[IoSlice<'_>],
        held: ReservedWrite<'_>,
    ) -> Result<usize> {
        self.check_rights_keeping_report(Rights::WRITE)?;
        let bytes: u64 = buffers.iter().map(|buffer| buffer.len() as u64).sum();
        let request = view.request(start, bytes);
        if request.bytes < bytes {
            let why = format!(
                "{bytes} bytes from position {start} go past the end of the view \
                 or byte {FILE_BYTES_MAX}"
            );
            return Err(Error::new(Status::TooLarge, why).with_hint("a smaller offset"));
        }
        if bytes == 0 {
            return Ok(0);
        }
        let (mut deadline, end) = (self.engine().deadline(), view.file_end(&request)?);
        let telling = PendingWrite::begin(&self.handle.size_report);
        for _ in 0..REPLANS_MAX {
            match self.write_request(&request, end, buffers, held, &mut deadline).await {
                Ok(()) => {
                    telling.end();
                    return Ok(bytes as usize);
                }
                Err(TransferEnd::Failed(error)) => return Err(error),
                Err(TransferEnd::Replan) => self.handle.size_report.invalidate(),
            }
        }
        Err(Error::new(
            Status::TryAgain,
            "the file was truncated, or its layout changed, too often",
        ))
    }

    async fn write_request(
        &self,
        request: &Request,
        end: u64,
        buffers: &[IoSlice<'_>],
        (reservation, modified): ReservedWrite<'_>,
        deadline: &mut Duration,
    ) -> Result<(), TransferEnd> {
        let grant: Arc<FileState<D>> = self.state();
        let mut planner = Planner::new(&grant.map, request.clone())?;
        while let Some(round) = planner.next_round() {
            let mut job = WriteRound {
                reservation,
                modified,
                ..WriteRound::joining(self, &grant, &round, &[], buffers, end)
            };
            self.run_transfer(&grant, &mut job, deadline).await?;
            *deadline = self.engine().renewed_deadline(); // every server has answered
        }
        Ok(())
    }
}

/// The reservation of buffered bytes, and the time when the program wrote them.
type ReservedWrite<'a> = (Option<&'a UsedReservation>, Option<Timestamp>);

/// Writes the windows of one round.
pub(super) struct WriteRound<'r, 'd, D: Driver> {
    grant: &'r FileState<D>,
    round: &'r [Planned],
    /// The windows as parts of a collective request; if empty, each window is a separate write.
    joins: &'r [JoinSpec],
    /// The end of the complete write. A write that is too large is refused before its first byte is
    /// sent.
    end: u64,
    buffers: &'r [IoSlice<'d>],
    unflushed: &'r UnflushedWrites,
    size_report: &'r SizeReportState,
    driver: &'r D,
    /// The reservation that the bytes use.
    reservation: Option<&'r UsedReservation>,
    /// The time when the program wrote the bytes, if not now.
    modified: Option<Timestamp>,
    /// The reservation message last sent with each window.
    requests: Vec<Option<ReservationRequest>>,
    /// Bounce buffers of the windows that need one, filled when they are first sent.
    bounce_buffers: Vec<Vec<u8>>,
}

impl<'r, 'd, D: Driver> WriteRound<'r, 'd, D> {
    /// A round without a reservation; for the parts of a collective request if `joins` is not
    /// empty.
    pub(super) fn joining(
        file: &'r OpenFile<D>,
        grant: &'r FileState<D>,
        round: &'r [Planned],
        joins: &'r [JoinSpec],
        buffers: &'r [IoSlice<'d>],
        end: u64,
    ) -> Self {
        let (unsynced, size_report, driver) =
            (&file.unflushed, &file.handle.size_report, file.engine().driver());
        let (staged, asked) = (vec![Vec::new(); round.len()], vec![None; round.len()]);
        Self {
            grant,
            round,
            joins,
            end,
            buffers,
            unflushed: unsynced,
            size_report,
            driver,
            reservation: None,
            modified: None,
            requests: asked,
            bounce_buffers: staged,
        }
    }
}

impl<D: Driver> Transfer for WriteRound<'_, '_, D> {
    fn len(&self) -> usize {
        self.round.len()
    }

    fn target(&self, index: usize) -> usize {
        self.round[index].target
    }

    fn calls<'s>(&'s mut self, pending: &[usize]) -> Result<Vec<IodCall<'s>>> {
        for index in pending {
            let planned = &self.round[*index];
            if matches!(planned.memory, WindowMemory::BounceBuffer)
                && self.bounce_buffers[*index].is_empty()
            {
                self.bounce_buffers[*index] = gather(&self.grant.map, planned, self.buffers)?;
            }
        }
        for index in pending {
            let target = self.round[*index].target;
            let uses = self
                .reservation
                .map_or(0, |reservation| reservation.at(self.grant.map.targets()[target].iod));
            let reservation = &self.grant.pools[target].reservation;
            let asks = self.joins.is_empty() && (uses > 0 || reservation.has_message());
            self.requests[*index] = asks.then(|| reservation.request(uses, self.driver.now()));
        }
        let windows: Vec<&[Piece]> =
            pending.iter().map(|index| self.round[*index].pieces()).collect();
        let call = |(index, mut send): (&usize, Vec<IoSlice<'s>>)| {
            let planned = &self.round[*index];
            if !self.bounce_buffers[*index].is_empty() {
                send.push(IoSlice::new(&self.bounce_buffers[*index]));
            }
            let body = match (self.requests[*index], self.joins.get(*index)) {
                (_, Some(join)) => Body::Join(*join),
                (Some(ask), None) => {
                    Body::WriteWithReservation(&planned.request, ask, self.modified)
                }
                (None, None) => Body::Write(&planned.request),
            };
            IodCall { target: planned.target, body, send, recv: Vec::new() }
        };
        Ok(pending.iter().zip(assign_buffers(self.buffers, &windows)).map(call).collect())
    }

    fn accept(&mut self, index: usize, answer: Answer) -> Result<()> {
        let planned = &self.round[index];
        let pool = &self.grant.pools[planned.target];
        let (reply, objects) = match &self.requests[index] {
            None => (reply(|| pool.server_name(), &answer)?, Vec::new()),
            Some(asked) => {
                let WriteWithReservationReply { bytes, verifier, reservation, objects } =
                    reply(|| pool.server_name(), &answer)?;
                pool.reservation.apply_reply(asked, reservation);
                (WriteReply { bytes, verifier }, objects)
            }
        };
        if reply.bytes.0 != planned.payload {
            let why =
                format!("wrote {} bytes of {} and reported no error", reply.bytes, planned.payload);
            return Err(Error::new(Status::DiskError, why).at(pool.server_name()));
        }
        pool.set_verifier(reply.verifier);
        let iod = self.grant.map.targets()[planned.target].iod;
        self.size_report.record_write(iod, reply.verifier, &objects);
        self.unflushed.record_write(iod, reply.verifier, || pool.server_name());
        Ok(())
    }

    fn extends_to(&self) -> u64 {
        self.end
    }

    /// Each byte of a write comes before or after a concurrent truncate by itself.
    fn is_one_view(&self) -> bool {
        false
    }
}
