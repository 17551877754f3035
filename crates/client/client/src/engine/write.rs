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
    iod_body::{Body, JoinAsk},
    open_file::Grant,
    read::REPLANS_MAX,
    room::{HeldRoom, RoomAsk, Spent},
    told::{Telling, Told},
    transfer::{Job, Stop, reply},
    unsynced::Unsynced,
};
use crate::{
    error::{Error, Result},
    plan::{Memory, Piece, Planned, Planner, deal, gather},
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
    pub async fn write_held(
        &self,
        held: &mut HeldRoom,
        offset: u64,
        buffers: &[IoSlice<'_>],
        modified: Option<Timestamp>,
    ) -> Result<usize> {
        let spent = Spent::of(held);
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
        held: Held<'_>,
    ) -> Result<usize> {
        self.allow_telling(Rights::WRITE)?;
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
        let telling = Telling::begin(&self.handle.told);
        for _ in 0..REPLANS_MAX {
            match self.write_request(&request, end, buffers, held, &mut deadline).await {
                Ok(()) => {
                    telling.end();
                    return Ok(bytes as usize);
                }
                Err(Stop::Failed(error)) => return Err(error),
                Err(Stop::Replan) => self.handle.told.forget(),
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
        (room, modified): Held<'_>,
        deadline: &mut Duration,
    ) -> Result<(), Stop> {
        let grant: Arc<Grant<D>> = self.grant();
        let mut planner = Planner::new(&grant.map, request.clone())?;
        while let Some(round) = planner.next_round() {
            let mut job = WriteRound {
                room,
                modified,
                ..WriteRound::joining(self, &grant, &round, &[], buffers, end)
            };
            self.run(&grant, &mut job, deadline).await?;
            *deadline = self.engine().renewed_deadline(); // every server has answered
        }
        Ok(())
    }
}

/// The reservation of buffered bytes, and the time when the program wrote them.
type Held<'a> = (Option<&'a Spent>, Option<Timestamp>);

/// Writes the windows of one round.
pub(super) struct WriteRound<'r, 'd, D: Driver> {
    grant: &'r Grant<D>,
    round: &'r [Planned],
    /// The windows as parts of a collective request; if empty, each window is a separate write.
    joins: &'r [JoinAsk],
    /// The end of the complete write. A write that is too large is refused before its first byte is
    /// sent.
    end: u64,
    buffers: &'r [IoSlice<'d>],
    unsynced: &'r Unsynced,
    told: &'r Told,
    driver: &'r D,
    /// The reservation that the bytes use.
    room: Option<&'r Spent>,
    /// The time when the program wrote the bytes, if not now.
    modified: Option<Timestamp>,
    /// The reservation message last sent with each window.
    asked: Vec<Option<RoomAsk>>,
    /// Bounce buffers of the windows that need one, filled when they are first sent.
    staged: Vec<Vec<u8>>,
}

impl<'r, 'd, D: Driver> WriteRound<'r, 'd, D> {
    /// A round without a reservation; for the parts of a collective request if `joins` is not
    /// empty.
    pub(super) fn joining(
        file: &'r OpenFile<D>,
        grant: &'r Grant<D>,
        round: &'r [Planned],
        joins: &'r [JoinAsk],
        buffers: &'r [IoSlice<'d>],
        end: u64,
    ) -> Self {
        let (unsynced, told, driver) = (&file.unsynced, &file.handle.told, file.engine().driver());
        let (staged, asked) = (vec![Vec::new(); round.len()], vec![None; round.len()]);
        Self {
            grant,
            round,
            joins,
            end,
            buffers,
            unsynced,
            told,
            driver,
            room: None,
            modified: None,
            asked,
            staged,
        }
    }
}

impl<D: Driver> Job for WriteRound<'_, '_, D> {
    fn len(&self) -> usize {
        self.round.len()
    }

    fn target(&self, index: usize) -> usize {
        self.round[index].target
    }

    fn calls<'s>(&'s mut self, pending: &[usize]) -> Result<Vec<IodCall<'s>>> {
        for index in pending {
            let planned = &self.round[*index];
            if matches!(planned.memory, Memory::Staged) && self.staged[*index].is_empty() {
                self.staged[*index] = gather(&self.grant.map, planned, self.buffers)?;
            }
        }
        for index in pending {
            let target = self.round[*index].target;
            let uses = self.room.map_or(0, |room| room.at(self.grant.map.targets()[target].iod));
            let room = &self.grant.pools[target].room;
            let asks = self.joins.is_empty() && (uses > 0 || room.asks());
            self.asked[*index] = asks.then(|| room.ask(uses, self.driver.now()));
        }
        let windows: Vec<&[Piece]> =
            pending.iter().map(|index| self.round[*index].pieces()).collect();
        let call = |(index, mut send): (&usize, Vec<IoSlice<'s>>)| {
            let planned = &self.round[*index];
            if !self.staged[*index].is_empty() {
                send.push(IoSlice::new(&self.staged[*index]));
            }
            let body = match (self.asked[*index], self.joins.get(*index)) {
                (_, Some(join)) => Body::Join(*join),
                (Some(ask), None) => Body::WriteWithRoom(&planned.request, ask, self.modified),
                (None, None) => Body::Write(&planned.request),
            };
            IodCall { target: planned.target, body, send, recv: Vec::new() }
        };
        Ok(pending.iter().zip(deal(self.buffers, &windows)).map(call).collect())
    }

    fn accept(&mut self, index: usize, answer: Answer) -> Result<()> {
        let planned = &self.round[index];
        let pool = &self.grant.pools[planned.target];
        let (reply, objects) = match &self.asked[index] {
            None => (reply(|| pool.server(), &answer)?, Vec::new()),
            Some(asked) => {
                let WriteWithReservationReply { bytes, verifier, reservation: room, objects } =
                    reply(|| pool.server(), &answer)?;
                pool.room.heard(asked, room);
                (WriteReply { bytes, verifier }, objects)
            }
        };
        if reply.bytes.0 != planned.payload {
            let why =
                format!("wrote {} bytes of {} and reported no error", reply.bytes, planned.payload);
            return Err(Error::new(Status::DiskError, why).at(pool.server()));
        }
        pool.said(reply.verifier);
        let iod = self.grant.map.targets()[planned.target].iod;
        self.told.wrote(iod, reply.verifier, &objects);
        self.unsynced.wrote(iod, reply.verifier, || pool.server());
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
