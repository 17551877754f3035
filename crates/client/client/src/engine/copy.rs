//! Copying a range from one open file to another. The I/O daemons copy it themselves if both ranges
//! have an identical placement. Otherwise it passes through this program in bounded parts.

use std::io::{IoSlice, IoSliceMut};

use braid_net::Driver;
use braid_types::{
    ByteCount, FileOffset, Status,
    limits::{COPY_RANGE_BYTES_MAX, FILE_BYTES_MAX, WINDOW_BYTES},
};
use braid_wire::{Rights, message::iod::WriteReply};

use super::{FileView, OpenFile, iod_body::Body, transfer::TransferEnd};
use crate::{
    error::{Error, Result},
    plan::FileMap,
};

impl<D: Driver> OpenFile<D> {
    /// Copies up to `bytes` from `source` at `from` to this file at `to`. Returns the number of
    /// copied bytes, which is less at the end of the source and where one call would take too long:
    /// call again. Ranges of the same file must not overlap.
    ///
    /// # Errors
    /// With the path and the daemon, if nothing was copied before the failure.
    pub async fn copy_range_from(
        &self,
        source: &Self,
        from: u64,
        to: u64,
        bytes: u64,
    ) -> Result<u64> {
        let copied = self.copy_range_named(source, from, to, bytes).await;
        copied.map_err(|error| error.during("copy to", self.path()))
    }

    async fn copy_range_named(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        source.check_rights(Rights::READ)?;
        self.check_rights(Rights::WRITE)?;
        if to > FILE_BYTES_MAX {
            return Err(Error::new(Status::TooLarge, "the range begins past the largest file"));
        }
        let bytes = source.size().await?.saturating_sub(from).min(bytes).min(FILE_BYTES_MAX - to);
        if source.file() == self.file() && from < to + bytes && to < from + bytes {
            return Err(Error::new(Status::Invalid, "the two ranges of the file overlap"));
        }
        let bytes = bytes.min(COPY_RANGE_BYTES_MAX);
        if bytes > 0 && self.copy_within(source, from, to, bytes).await? {
            return Ok(bytes);
        }
        self.copy_over(source, from, to, bytes).await
    }

    /// Lets the daemons copy. False if they cannot; some of it may have been copied.
    async fn copy_within(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<bool> {
        if source.is_stale() || !std::sync::Arc::ptr_eq(source.engine(), self.engine()) {
            return Ok(false);
        }
        let (mine, theirs) = (self.state(), source.state());
        if !theirs.map.layout().has_identical_placement(from, mine.map.layout(), to) {
            return Ok(false);
        }
        let targets = touched(&mine.map, to, bytes)?;
        let (from, to, bytes) = (FileOffset(from), FileOffset(to), ByteCount(bytes));
        let body = Body::CopyRange { source: &theirs.capability, from, to, bytes };
        let mut deadline = self.engine().deadline();
        let replies: Result<Vec<WriteReply>, TransferEnd> =
            self.ask_targets(&mine, &targets, body, &mut deadline).await;
        // One of the capabilities may be old: reading and writing find that out.
        let Ok(replies) = replies else { return Ok(false) };
        for (target, reply) in targets.into_iter().zip(&replies) {
            let iod = mine.map.targets()[target].iod;
            mine.pools[target].set_verifier(reply.verifier);
            self.unflushed.record_write(iod, reply.verifier, || mine.pools[target].server_name());
        }
        Ok(replies.iter().map(|reply| reply.bytes.0).sum::<u64>() == bytes.0)
    }

    async fn copy_over(&self, source: &Self, from: u64, to: u64, bytes: u64) -> Result<u64> {
        let whole = FileView::whole()?;
        let mut buffer = vec![0; bytes.min(WINDOW_BYTES) as usize];
        let mut done = 0;
        while done < bytes {
            let step_bytes = buffer.len().min((bytes - done) as usize);
            let piece = async {
                let got = source
                    .read_at(&whole, from + done, &mut [IoSliceMut::new(&mut buffer[..step_bytes])])
                    .await?;
                self.write_at(&whole, to + done, &[IoSlice::new(&buffer[..got])]).await?;
                Ok(got)
            };
            match piece.await {
                Err(error) if done == 0 => return Err(error),
                // The source was truncated meanwhile, or the rest fails: what was copied so far
                // counts.
                Ok(0) | Err(_) => break,
                Ok(got) => done += got as u64,
            }
        }
        Ok(done)
    }
}

/// The daemons that store bytes of a range.
fn touched(map: &FileMap, start: u64, bytes: u64) -> Result<Vec<usize>> {
    let mut touched = Vec::new();
    for (target, on) in map.targets().iter().enumerate() {
        for part in on.parts.iter() {
            if map.layout_map().object_bytes(start, part)?
                < map.layout_map().object_bytes(start + bytes, part)?
            {
                touched.push(target);
                break;
            }
        }
    }
    Ok(touched)
}
