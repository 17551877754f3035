//! Truncate and punch, as intents (I5): begun with a new size generation, carried out by the I/O
//! daemons, finished.
//!
//! ```text
//! begin ── batch: intent + inode.size_generation + 1 ──▶ each IOD: apply at the new generation,
//!                                                         │        refuse older ones
//!                                                         └─▶ finish ── batch: inode, no intent
//! ```
//! A file has at most one intent at a time, and the server reports its size only after the intent
//! is finished. A server that starts finds the intents and finishes them: applying one twice has
//! the same effect as once.

use std::ops::ControlFlow;
use std::sync::Arc;

use braid_types::limits::FILE_BYTES_MAX;
use braid_types::{Failure, FileIndex, ShardId, SizeGeneration, Status};

use super::attributes::{self, AttributeChanges};
use crate::identity::{Call, Want, permit};
use crate::key::{self, Kind};
use crate::lease::modes::{IgnoredOpens, OpenMode};
use crate::namespace::Namespace;
use crate::opens::Access;
use crate::quota::GrantChange;
use crate::record::{FileKind, Inode, Intent, IntentKind, Outcome, Parts, RecordError};
use crate::tx::{Op, Tx};

impl Namespace {
    /// Begins a truncate or punch. `opened`: the caller has the file open for writing, so the
    /// file's mode is not checked again. The caller must carry out the returned intent on every
    /// part, then finish it.
    pub fn begin_intent(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        kind: IntentKind,
        opened: bool,
    ) -> Result<Intent, Failure> {
        self.begin_intent_changing(call, file, kind, opened, &AttributeChanges::default())
    }

    /// As [`Namespace::begin_intent`], with other attributes changed in the same batch. An intent
    /// that has begun is carried out, so that all changes happen or none. The intent itself sets
    /// the times when it is finished.
    pub fn begin_intent_changing(
        &self,
        call: &Call<'_>,
        file: FileIndex,
        kind: IntentKind,
        opened: bool,
        changes: &AttributeChanges,
    ) -> Result<Intent, Failure> {
        let outcome = self.change(call, Op::BeginIntent, file, |tx| {
            let mut inode = (*tx.inode(file)?).clone();
            check(&inode, kind)?;
            if !opened {
                permit(call.who, &inode, Want::WRITE)?;
                // A caller that has the file open for writing was not denied that, or it could not
                // have opened it.
                tx.check_mode(file, OpenMode::plain(Access::WRITE), IgnoredOpens::Nothing)?;
            }
            if tx.has_intent(&inode)? {
                return Err(Failure::new(
                    Status::TryAgain,
                    "another truncate of the file is in progress",
                ));
            }
            let old = inode.clone();
            attributes::apply(call, &old, &mut inode, changes)?;
            let size = match kind {
                IntentKind::Truncate { size } => Some(size),
                IntentKind::Punch { .. } => None,
            };
            if let Some(size) = size {
                tx.writer.usage.check_growth(&inode, size, tx.now)?;
            }
            tx.note_grant_change(GrantChange::SizeChangeBegun { file, size });
            inode.size_generation.0 += 1;
            if !call.who.bypasses_permissions() {
                attributes::clear_set_ids(&mut inode);
            }
            // capabilities(7): every change of the bytes removes them, also by root.
            self.drop_capabilities(tx, &mut inode)?;
            inode.touch(tx.now);
            let intent = Intent { file, kind, generation: inode.size_generation };
            tx.batch.put(key::intent(file), intent.encode());
            Ok(Outcome::File(tx.put_inode(inode)))
        })?;
        let inode = outcome.inode().ok_or(Status::Internal)?;
        Ok(Intent { file, kind, generation: inode.size_generation })
    }

    /// Finishes an intent: every I/O daemon of the file has applied it. `parts` are those that have
    /// an object now. Finishing it twice changes nothing.
    pub fn finish_intent(
        &self,
        call: &Call<'_>,
        intent: &Intent,
        parts: &Parts,
    ) -> Result<Arc<Inode>, Failure> {
        let outcome = self.change(call, Op::FinishIntent, intent.file, |tx| {
            let mut inode = (*tx.inode(intent.file)?).clone();
            if !stands(tx, intent.file, intent.generation)? {
                return Ok(Outcome::File(tx.inode(intent.file)?));
            }
            let mut cut = None;
            if let IntentKind::Truncate { size } = intent.kind {
                (inode.size, cut) = (size, Some(size));
            }
            tx.note_grant_change(GrantChange::SizeChangeDone { file: intent.file, size: cut });
            // An empty file misses nothing: a lost part is not expected any more (I11).
            match cut {
                Some(0) => inode.parts = parts.clone(),
                _ => inode.parts.merge(parts),
            }
            inode.modify(tx.now);
            inode.note_write();
            tx.batch.remove(key::intent(intent.file));
            Ok(Outcome::File(tx.put_inode(inode)))
        })?;
        outcome.inode().ok_or_else(|| Status::Internal.into())
    }

    /// Replaces an intent by another one with its own generation. What a daemon refused for good is
    /// not sent again; daemons that have applied the first intent apply the second after it.
    ///
    /// # Errors
    /// [`Status::StaleHandle`] if the file was removed or the intent is finished.
    pub fn replace_intent(
        &self,
        call: &Call<'_>,
        intent: &Intent,
        kind: IntentKind,
    ) -> Result<Intent, Failure> {
        let outcome = self.change(call, Op::BeginIntent, intent.file, |tx| {
            if !stands(tx, intent.file, intent.generation)? {
                return Err(Status::StaleHandle.into());
            }
            let mut inode = (*tx.inode(intent.file)?).clone();
            let size = match kind {
                IntentKind::Truncate { size } => Some(size),
                IntentKind::Punch { .. } => None,
            };
            tx.note_grant_change(GrantChange::SizeChangeBegun { file: intent.file, size });
            inode.size_generation.0 += 1;
            let next = Intent { kind, generation: inode.size_generation, ..*intent };
            tx.batch.put(key::intent(intent.file), next.encode());
            Ok(Outcome::File(tx.put_inode(inode)))
        })?;
        let inode = outcome.inode().ok_or(Status::Internal)?;
        Ok(Intent { kind, generation: inode.size_generation, ..*intent })
    }

    /// The intent of a file.
    pub fn intent(&self, file: FileIndex) -> Result<Option<Intent>, Failure> {
        let bytes = self.store.get(&key::intent(file))?;
        Ok(bytes.map(|bytes| Intent::decode(file, &bytes)).transpose()?)
    }

    /// Every unfinished intent: a server that starts must finish them first.
    pub fn intents(&self) -> Result<Vec<Intent>, Failure> {
        let mut found = Vec::new();
        let view = self.store.snapshot()?;
        for shard in 0..self.shards {
            let range = key::all(ShardId(shard), Kind::Intent);
            view.scan(&range.from, &range.end, &mut |key, value| {
                let file = key::file_of(key).ok_or(RecordError::Broken { what: "intent" });
                found.push(file.and_then(|file| Intent::decode(file, value)));
                ControlFlow::Continue(())
            })?;
        }
        Ok(found.into_iter().collect::<Result<_, _>>()?)
    }
}

fn check(inode: &Inode, kind: IntentKind) -> Result<(), Failure> {
    match inode.kind {
        FileKind::Regular => {}
        FileKind::Directory => return Err(Status::IsDirectory.into()),
        _ => return Err(Status::Invalid.into()),
    }
    let end = match kind {
        IntentKind::Truncate { size } => Some(size),
        IntentKind::Punch { bytes: 0, .. } => return Err(Status::Invalid.into()),
        IntentKind::Punch { offset, bytes } => offset.checked_add(bytes),
    };
    if end.is_some_and(|end| end <= FILE_BYTES_MAX) { Ok(()) } else { Err(Status::TooLarge.into()) }
}

fn stands(tx: &Tx<'_>, file: FileIndex, generation: SizeGeneration) -> Result<bool, Failure> {
    let Some(bytes) = tx.get(&key::intent(file))? else { return Ok(false) };
    Ok(Intent::decode(file, &bytes)?.generation == generation)
}
