//! Files with a part on a daemon that was removed from the cluster for good.
//!
//! | request to the daemon | it has no existing part | it has one |
//! |---|---|---|
//! | read | no bytes: a hole, or past the end | fails, with daemon and object (I8, I11) |
//! | sizes of objects | none | according to the recorded size of the file |
//! | data or hole from an offset | no data, a hole at the offset | fails |
//! | flush | succeeds, with a verifier that no daemon has | the same |
//! | anything that writes | fails | fails |
//!
//! The verifier of the flush reports unsynced writes to the daemon as lost (I6). All failures are
//! immediate.
//!
//! Invariant: the parts in a capability are known to be the ones that existed only if it was issued
//! after the client knew of the removal: the metadata server recorded the parts before it reported
//! the removal. The client renews an older capability first.

use std::{sync::Arc, time::Duration};

use braid_layout::LayoutError;
use braid_net::{Answer, Driver};
use braid_types::{ByteCount, FileOffset, ObjectId, ObjectOffset, PartIndex, WriteVerifier};
use braid_wire::{
    Wire, encode_success,
    message::{
        iod::{FlushReply, ReadReply, SeekWhat},
        types::ObjectInfo,
    },
};

use super::{
    OpenFile, iod_batch::IodCall, iod_body::Body, iod_error::RetryAction, open_file::FileState,
};
use crate::error::Error;

impl<D: Driver> OpenFile<D> {
    /// Sends the calls for existing daemons, and answers those for removed ones.
    pub(crate) async fn batch_with_removed(
        &self,
        grant: &Arc<FileState<D>>,
        calls: Vec<IodCall<'_>>,
        deadline: Duration,
    ) -> Result<(Vec<Result<Answer, RetryAction>>, Duration), RetryAction> {
        let answer = |call: &IodCall<'_>| {
            grant.pools[call.target]
                .is_removed()
                .then(|| grant.answer_of_removed(call.target, &call.body))
        };
        let mut outcomes: Vec<_> = calls.iter().map(answer).collect();
        let asked: Vec<IodCall<'_>> = calls
            .into_iter()
            .zip(&outcomes)
            .filter(|(_, known)| known.is_none())
            .map(|(call, _)| call)
            .collect();
        let (answers, moved) = match asked.is_empty() {
            true => (Vec::new(), Duration::ZERO),
            false => self.exchange_batch(grant, asked, deadline).await?,
        };
        let mut answers = answers.into_iter();
        outcomes
            .iter_mut()
            .filter(|known| known.is_none())
            .for_each(|known| *known = answers.next());
        Ok((outcomes.into_iter().flatten().collect(), moved))
    }
}

impl<D: Driver> FileState<D> {
    /// Whether a daemon of the file was removed.
    pub(crate) fn has_removed(&self) -> bool {
        self.pools.iter().any(|pool| pool.is_removed())
    }

    fn answer_of_removed(&self, target: usize, body: &Body<'_>) -> Result<Answer, RetryAction> {
        let pool = &self.pools[target];
        if !self.removed_targets.contains(&target) {
            return Err(RetryAction::Renew(pool.removed_error(None)));
        }
        let existing: Vec<PartIndex> =
            self.map.targets()[target].parts.iter().filter(|part| self.exists(*part)).collect();
        let lost = existing.first().copied();
        let fails = |part: Option<PartIndex>| {
            Err(RetryAction::Fail(pool.removed_error(part.and_then(|part| self.object(part)))))
        };
        match body {
            Body::Flush => Ok(answer(&FlushReply { verifier: WriteVerifier(0) })),
            Body::ObjectSizes => {
                let infos: Result<Vec<ObjectInfo>, LayoutError> =
                    existing.iter().map(|part| self.info(*part)).collect();
                infos.map(|infos| answer(&infos)).map_err(unmapped)
            }
            Body::Read(_) if lost.is_none() => {
                Ok(answer(&ReadReply { bytes: ByteCount(0), ends: Vec::new() }))
            }
            Body::Seek { offset, what } if lost.is_none() => {
                let holes = self.map.targets()[target]
                    .parts
                    .iter()
                    .map(|part| self.next_byte(part, *offset));
                let nearest = match what {
                    SeekWhat::Data => None,
                    _ => holes
                        .collect::<Result<Vec<_>, _>>()
                        .map_err(unmapped)?
                        .into_iter()
                        .flatten()
                        .min(),
                };
                Ok(answer(&nearest))
            }
            _ => fails(lost.or_else(|| self.map.targets()[target].parts.iter().next())),
        }
    }

    fn object(&self, part: PartIndex) -> Option<ObjectId> {
        let generation = self.map.layout().placement(part)?.generation;
        Some(ObjectId { file: self.attributes.file, part, generation })
    }

    /// The state of an object according to the recorded size of its file.
    fn info(&self, part: PartIndex) -> Result<ObjectInfo, LayoutError> {
        let bytes = ByteCount(self.map.layout_map().object_bytes(self.attributes.bytes.0, part)?);
        Ok(ObjectInfo {
            part,
            exists: true,
            bytes,
            bytes_used: ByteCount(0),
            mtime: self.attributes.mtime,
        })
    }

    /// The first byte of this part at or after an offset of the file; `None` if there is none.
    fn next_byte(
        &self,
        part: PartIndex,
        offset: FileOffset,
    ) -> Result<Option<FileOffset>, LayoutError> {
        let from = ObjectOffset(self.map.layout_map().object_bytes(offset.0, part)?);
        Ok(self.map.layout_map().file_offset(part, from).ok())
    }
}

fn answer(reply: &impl Wire) -> Answer {
    Answer { body: encode_success(reply), payload_bytes: 0 }
}

fn unmapped(error: LayoutError) -> RetryAction {
    RetryAction::Fail(Error::from(error))
}
