//! Allocation, holes and size of an open file.

use std::time::Duration;

use braid_net::Driver;
use braid_types::{ByteCount, FileOffset, Status, limits::FILE_BYTES_MAX};
use braid_wire::{
    Rights,
    message::{
        iod::{FlushReply, SeekWhat},
        mds::{AttributeChanges, PunchHole, Stat},
        types::{Attributes, PathRef},
    },
};

use super::{OpenFile, iod_body::Body, read::REPLANS_MAX, transfer::TransferEnd};
use crate::error::{Error, Result};

impl<D: Driver> OpenFile<D> {
    /// The current attributes of the file.
    ///
    /// # Errors
    /// As any call of the metadata server. [`Status::StaleHandle`] if a restarted one could not
    /// reclaim the open file.
    pub async fn attributes(&self) -> Result<Attributes> {
        let call = Stat { at: PathRef::file(self.file()), follow: false };
        let attributes =
            self.caller.repeatable("stat", &PathRef::file(self.file()), call).send().await;
        self.handle.check().map_err(|error| error.during("stat", self.path()))?;
        attributes
    }

    /// Truncates the file to `bytes`, or extends it with zeros (I5).
    ///
    /// # Errors
    /// As any call of the metadata server.
    pub async fn set_len(&self, bytes: u64) -> Result<Attributes> {
        self.check_rights(Rights::WRITE).map_err(|error| error.during("truncate", self.path()))?;
        self.wait_for_abandons().await.map_err(|error| error.during("truncate", self.path()))?;
        let changes =
            AttributeChanges { bytes: Some(ByteCount(bytes)), ..AttributeChanges::none() };
        let result = self.caller.set_attributes(&PathRef::file(self.file()), false, changes).await;
        // From now on the daemons refuse the old size generation, even if the reply was lost.
        self.mark_stale();
        result
    }

    /// Makes a range read as zeros; the size does not change (I5).
    ///
    /// # Errors
    /// As any call of the metadata server.
    pub async fn punch_hole(&self, offset: u64, bytes: u64) -> Result<Attributes> {
        self.check_rights(Rights::WRITE)
            .map_err(|error| error.during("punch a hole in", self.path()))?;
        self.wait_for_abandons()
            .await
            .map_err(|error| error.during("punch a hole in", self.path()))?;
        let call =
            PunchHole { file: self.file(), offset: FileOffset(offset), bytes: ByteCount(bytes) };
        let result =
            self.caller.once("punch a hole in", &PathRef::file(self.file()), call).send().await;
        self.mark_stale();
        result
    }

    /// Allocates disk space for a range on the I/O daemons. Extends the file to the end of the
    /// range unless `keep_size` is set.
    ///
    /// # Errors
    /// [`Status::NoSpace`], with the daemon.
    pub async fn allocate(&self, offset: u64, bytes: u64, keep_size: bool) -> Result<()> {
        self.allocate_named(offset, bytes, keep_size)
            .await
            .map_err(|error| error.during("allocate", self.path()))
    }

    async fn allocate_named(&self, offset: u64, bytes: u64, keep_size: bool) -> Result<()> {
        self.check_rights(Rights::WRITE)?;
        if offset.checked_add(bytes).is_none_or(|end| end > FILE_BYTES_MAX) {
            return Err(Error::new(Status::TooLarge, "the range ends past the largest file"));
        }
        let body =
            Body::Allocate { offset: FileOffset(offset), bytes: ByteCount(bytes), keep_size };
        let mut deadline = self.engine().deadline();
        for _ in 0..REPLANS_MAX {
            let grant = self.state();
            let all: Vec<usize> = (0..grant.map.targets().len()).collect();
            let replies: Result<Vec<FlushReply>, TransferEnd> =
                self.ask_targets(&grant, &all, body, &mut deadline).await;
            match replies {
                Ok(replies) => {
                    for (target, reply) in all.into_iter().zip(replies) {
                        let iod = grant.map.targets()[target].iod;
                        grant.pools[target].set_verifier(reply.verifier);
                        self.unflushed.record_write(iod, reply.verifier, || {
                            grant.pools[target].server_name()
                        });
                    }
                    return Ok(());
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

    /// The next byte of data at or after `offset` (`SEEK_DATA`); `None` if there is none.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn next_data(&self, offset: u64) -> Result<Option<u64>> {
        let found = self.seek(offset, SeekWhat::Data, self.engine().deadline()).await;
        found
            .map(|found| found.into_iter().flatten().min())
            .map_err(|error| error.during("seek in", self.path()))
    }

    /// The next hole at or after `offset` (`SEEK_HOLE`), at the latest the end of the file; `None`
    /// past the end.
    ///
    /// # Errors
    /// With the path and the daemon.
    pub async fn next_hole(&self, offset: u64) -> Result<Option<u64>> {
        let size = self.size().await?;
        let found = self.seek(offset, SeekWhat::Hole, self.engine().deadline()).await;
        let found = found.map_err(|error| error.during("seek in", self.path()))?;
        Ok((offset < size).then(|| found.into_iter().flatten().min().unwrap_or(size).min(size)))
    }

    async fn seek(
        &self,
        offset: u64,
        what: SeekWhat,
        mut deadline: Duration,
    ) -> Result<Vec<Option<u64>>> {
        self.check_rights(Rights::READ)?;
        let body = Body::Seek { offset: FileOffset(offset), what };
        for _ in 0..REPLANS_MAX {
            let grant = self.state();
            let all: Vec<usize> = (0..grant.map.targets().len()).collect();
            let replies: Result<Vec<Option<FileOffset>>, TransferEnd> =
                self.ask_targets(&grant, &all, body, &mut deadline).await;
            match replies {
                Ok(replies) => {
                    return Ok(replies
                        .into_iter()
                        .map(|found| found.map(|offset| offset.0))
                        .collect());
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
