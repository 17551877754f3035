//! The recorded part of sessions.

use std::ops::ControlFlow;

use braid_types::{Failure, KeyId, SessionId, ShardId, Status, Timestamp};

use super::open;
use crate::identity::{Call, Identity};
use crate::key::{self, Kind};
use crate::namespace::Namespace;
use crate::opens::OpenFile;
use crate::record::{Outcome, RecordError, SessionRecord};
use crate::store::{Batch, ReserveUse};
use crate::tx::Op;
use braid_types::FileIndex;

impl Namespace {
    /// Begins a session with an id that was never used. It is recorded before anybody learns of it.
    pub fn begin_session(
        &self,
        key: KeyId,
        user: Option<u64>,
        client: &str,
    ) -> Result<SessionRecord, Failure> {
        let who = Identity::root();
        let call = Call { who: &who, now: Timestamp::default(), replay: None };
        let mut begun = None;
        self.change(&call, Op::Sessions, FileIndex::ROOT, |tx| {
            let mut cluster = tx.writer.cluster;
            let session = SessionId(cluster.next_session);
            cluster.next_session += 1;
            tx.set_cluster(cluster);
            let (epoch, client, leases) = (cluster.epoch, client.to_owned(), false);
            let record = SessionRecord { session, key, user, epoch, client, leases };
            tx.batch.put(key::session(session), record.encode());
            begun = Some(record);
            Ok(Outcome::Done)
        })?;
        begun.ok_or_else(|| Status::Internal.into())
    }

    /// A session that has begun and not ended, also under an earlier server.
    pub fn session(&self, session: SessionId) -> Result<Option<SessionRecord>, Failure> {
        let bytes = self.store.get(&key::session(session))?;
        Ok(bytes.map(|bytes| SessionRecord::decode(session, &bytes)).transpose()?)
    }

    /// Records that a session holds leases. Must be forced to disk before the session learns of the
    /// first lease.
    pub fn note_leases(&self, session: SessionId) -> Result<(), Failure> {
        // Read and written under one lock. Otherwise the record of a session that ends meanwhile
        // would come back.
        let _writer = self.writer();
        let record = self.session(session)?.ok_or(Status::NoSession)?;
        if record.leases {
            return Ok(());
        }
        let mut batch = Batch::new();
        batch.put(key::session(session), SessionRecord { leases: true, ..record }.encode());
        self.store.commit(batch, self.fence).map(drop).map_err(Failure::from)
    }

    /// Every session that has begun and not ended.
    pub fn sessions(&self) -> Result<Vec<SessionRecord>, Failure> {
        let range = key::all(key::CLUSTER_SHARD, Kind::Session);
        let mut found: Vec<Result<SessionRecord, RecordError>> = Vec::new();
        self.store.snapshot()?.scan(&range.from, &range.end, &mut |key, value| {
            let id = key::file_of(key).ok_or(RecordError::Broken { what: "session" });
            found.push(id.and_then(|id| SessionRecord::decode(SessionId(id.0), value)));
            ControlFlow::Continue(())
        })?;
        Ok(found.into_iter().collect::<Result<_, _>>()?)
    }

    /// The opens of one session.
    pub fn open_files_of(&self, session: SessionId) -> Vec<OpenFile> {
        self.writer().opens.files_of(session)
    }

    /// Ends a session: closes its opens, then removes its replay records, then its own record. The
    /// caller has fenced it on the I/O daemons where it could write (I4). Returns the files whose
    /// size is to be collected now (I5).
    ///
    /// This takes several batches, so that a session with very many files stays within the limit of
    /// a batch. Its own record is removed last, so that a restart finds the rest and ends it again.
    pub fn end_session(
        &self,
        session: SessionId,
        now: Timestamp,
    ) -> Result<Vec<FileIndex>, Failure> {
        let who = Identity::root();
        let call = Call { who: &who, now, replay: None };
        let mut to_collect = Vec::new();
        for open in self.open_files_of(session) {
            self.change(&call, Op::Close, open.file, |tx| {
                open::release(tx, OpenFile::none(open.file, session))?;
                Ok(Outcome::Done)
            })?;
            if self.needs_size_collection(open.file)? {
                to_collect.push(open.file);
            }
        }
        self.forget_replays(session)?;
        let _writer = self.writer();
        let mut batch = Batch::new();
        batch.remove(key::session(session));
        batch.allow_reserve(ReserveUse::All);
        self.store.commit(batch, self.fence)?;
        Ok(to_collect)
    }

    fn forget_replays(&self, session: SessionId) -> Result<(), Failure> {
        let mut writer = self.writer();
        for shard in 0..self.shards {
            let range = key::replays_of(ShardId(shard), session);
            let mut batch = Batch::new();
            self.store.snapshot()?.scan(&range.from, &range.end, &mut |key, _| {
                batch.remove(key);
                ControlFlow::Continue(())
            })?;
            if !batch.is_empty() {
                batch.allow_reserve(ReserveUse::All);
                self.store.commit(batch, self.fence)?;
            }
        }
        writer.replays.retain(|(other, _), _| *other != session);
        Ok(())
    }
}
