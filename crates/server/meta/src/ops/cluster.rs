//! Records of the whole cluster: identity, map epoch, client keys, I/O daemons.

use std::ops::ControlFlow;

use braid_types::{Failure, FileIndex, IodId, KeyId, MapEpoch, Status, Timestamp};

use crate::identity::{Call, Identity};
use crate::key::{self, Kind};
use crate::namespace::Namespace;
use crate::record::{
    ClientKey, ClusterIdentity, IodRecord, IodState, KeyRights, Outcome, RecordError,
};
use crate::tx::{Op, Tx};

impl Namespace {
    /// The cluster's identity and its counters.
    pub fn cluster(&self) -> ClusterIdentity {
        self.writer().cluster
    }

    /// Raises the epoch of the cluster map, which has changed.
    pub fn bump_map_epoch(&self) -> Result<MapEpoch, Failure> {
        self.cluster_change(|tx| Ok(bump(tx)))
    }

    /// Every I/O daemon that ever registered.
    pub fn iods(&self) -> Result<Vec<IodRecord>, Failure> {
        self.cluster_records(Kind::Iod, 4, |id, value| IodRecord::decode(IodId(id as u32), value))
    }

    /// Registers an I/O daemon, or records its current addresses and labels. A daemon with the same
    /// directory keeps its id. The map's epoch rises if anything is new. The record is committed
    /// when this returns; sync before reporting it.
    pub fn register_iod(
        &self,
        uuid: [u8; 16],
        addresses: &[String],
        labels: &[String],
    ) -> Result<IodRecord, Failure> {
        let known = self.iods()?.into_iter().find(|iod| iod.uuid == uuid);
        if let Some(iod) =
            known.as_ref().filter(|iod| iod.addresses == addresses && iod.labels == labels)
        {
            return Ok(iod.clone());
        }
        self.cluster_change(|tx| {
            let mut cluster = tx.writer.cluster;
            let (id, state) = known
                .map_or((IodId(cluster.next_iod), IodState::Active), |iod| (iod.id, iod.state));
            cluster.next_iod = cluster.next_iod.max(id.0 + 1);
            cluster.map_epoch.0 += 1;
            tx.set_cluster(cluster);
            let iod = IodRecord {
                id,
                uuid,
                addresses: addresses.to_vec(),
                labels: labels.to_vec(),
                state,
            };
            tx.batch.put(key::iod(id), iod.encode());
            Ok(iod)
        })
    }

    /// Sets the administrative state of an I/O daemon. The map's epoch rises.
    pub fn set_iod_state(&self, id: IodId, state: IodState) -> Result<(), Failure> {
        self.cluster_change(|tx| {
            let bytes = tx.get(&key::iod(id))?.ok_or(Status::NotFound)?;
            let iod = IodRecord { state, ..IodRecord::decode(id, &bytes)? };
            tx.batch.put(key::iod(id), iod.encode());
            bump(tx);
            Ok(())
        })
    }

    /// Removes an I/O daemon for good. It is on disk when this returns: a loss of power must not
    /// bring the daemon back.
    pub fn remove_iod(&self, id: IodId) -> Result<(), Failure> {
        self.set_iod_state(id, IodState::Removed)?;
        self.sync()
    }

    /// Every client key, also revoked ones.
    pub fn client_keys(&self) -> Result<Vec<ClientKey>, Failure> {
        self.cluster_records(Kind::ClientKey, 8, |id, value| ClientKey::decode(KeyId(id), value))
    }

    /// One client key.
    pub fn client_key(&self, id: KeyId) -> Result<Option<ClientKey>, Failure> {
        let bytes = self.store.get(&key::client_key(id))?;
        Ok(bytes.map(|bytes| ClientKey::decode(id, &bytes)).transpose()?)
    }

    /// Adds a client key under an id that was never used.
    pub fn add_client_key(
        &self,
        name: &str,
        secret: &[u8],
        rights: KeyRights,
        now: Timestamp,
    ) -> Result<ClientKey, Failure> {
        self.cluster_change(|tx| {
            let mut cluster = tx.writer.cluster;
            let id = KeyId(cluster.next_key);
            cluster.next_key += 1;
            tx.set_cluster(cluster);
            let (name, secret) = (name.to_owned(), secret.to_vec());
            let key = ClientKey { id, name, secret, rights, made: now, revoked: false };
            tx.batch.put(key::client_key(id), key.encode());
            Ok(key)
        })
    }

    /// Revokes a client key. Its record remains, without the secret.
    pub fn revoke_client_key(&self, id: KeyId) -> Result<(), Failure> {
        self.cluster_change(|tx| {
            let bytes = tx.get(&key::client_key(id))?.ok_or(Status::NotFound)?;
            let key =
                ClientKey { revoked: true, secret: Vec::new(), ..ClientKey::decode(id, &bytes)? };
            tx.batch.put(key::client_key(id), key.encode());
            Ok(())
        })
    }

    fn cluster_change<T>(
        &self,
        body: impl FnOnce(&mut Tx<'_>) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let who = Identity::root();
        let call = Call { who: &who, now: Timestamp::default(), replay: None };
        let mut made = None;
        self.change(&call, Op::Cluster, FileIndex::ROOT, |tx| {
            made = Some(body(tx)?);
            Ok(Outcome::Done)
        })?;
        made.ok_or_else(|| Status::Internal.into())
    }

    /// Records whose key is an id of `id_bytes` bytes, in the order of their ids.
    fn cluster_records<T>(
        &self,
        kind: Kind,
        id_bytes: usize,
        decode: impl Fn(u64, &[u8]) -> Result<T, RecordError>,
    ) -> Result<Vec<T>, Failure> {
        let range = key::all(key::CLUSTER_SHARD, kind);
        let mut found = Vec::new();
        self.store.snapshot()?.scan(&range.from, &range.end, &mut |key, value| {
            let id = key.get(3..3 + id_bytes).unwrap_or_default();
            let id = id.iter().fold(0, |id, byte| id << 8 | u64::from(*byte));
            found.push(decode(id, value));
            ControlFlow::Continue(())
        })?;
        Ok(found.into_iter().collect::<Result<_, _>>()?)
    }
}

fn bump(tx: &mut Tx<'_>) -> MapEpoch {
    let mut cluster = tx.writer.cluster;
    cluster.map_epoch.0 += 1;
    tx.set_cluster(cluster);
    cluster.map_epoch
}
