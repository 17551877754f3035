//! Records of the whole cluster: its identity, its keys, its I/O daemons.

use braid_types::{ClusterUuid, IodId, KeyId, MapEpoch, MdsEpoch, Timestamp};

use super::RecordError;
use super::default::text;
use crate::codec::{Decoder, Encoder};

const VERSION: u8 = 1;

/// The cluster's identity and its counters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClusterIdentity {
    /// Drawn at random when the cluster was created.
    pub uuid: ClusterUuid,
    /// Starts of the metadata server so far; the leader fence of its commits.
    pub epoch: MdsEpoch,
    /// Changes of the cluster map so far.
    pub map_epoch: MapEpoch,
    /// Shards in use.
    pub shards: u16,
    /// Every session id below this may have been given out.
    pub next_session: u64,
    /// Every I/O daemon id below this has been given out.
    pub next_iod: u32,
    /// Every key id below this has been given out; 0 is the server key.
    pub next_key: u64,
}

impl ClusterIdentity {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.raw(&self.uuid.0).u64(self.epoch.0).u64(self.map_epoch.0).u16(self.shards);
        out.u64(self.next_session).u32(self.next_iod).u64(self.next_key);
        out.finish()
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("cluster", VERSION, bytes)?;
        let uuid = ClusterUuid(from.raw(16)?.try_into().map_err(|_| from.broken())?);
        let identity = Self {
            uuid,
            epoch: MdsEpoch(from.u64()?),
            map_epoch: MapEpoch(from.u64()?),
            shards: from.u16()?,
            next_session: from.u64()?,
            next_iod: from.u32()?,
            next_key: from.u64()?,
        };
        from.finish()?;
        Ok(identity)
    }
}

/// What the owner of a client key may do.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct KeyRights {
    /// Only calls that change nothing.
    pub read_only: bool,
    /// All its users, also root, act as this (user, group).
    pub squash: Option<(u64, u64)>,
    /// Only below this path; empty for everything.
    pub subtree: Vec<u8>,
    /// Whether the key may also be used by an administrator.
    pub admin: bool,
}

impl KeyRights {
    fn encode(&self, out: &mut Encoder) {
        let (uid, gid) = self.squash.unwrap_or_default();
        out.u8(u8::from(self.read_only)
            | u8::from(self.squash.is_some()) << 1
            | u8::from(self.admin) << 2);
        out.u64(uid).u64(gid).bytes(&self.subtree);
    }

    fn decode(from: &mut Decoder<'_>) -> Result<Self, RecordError> {
        let marks = from.u8()?;
        if marks > 7 {
            return Err(from.broken());
        }
        let squash = (from.u64()?, from.u64()?);
        Ok(Self {
            read_only: marks & 1 != 0,
            squash: (marks & 2 != 0).then_some(squash),
            subtree: from.bytes()?.to_vec(),
            admin: marks & 4 != 0,
        })
    }
}

/// A client key: one host or group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct ClientKey {
    /// Its id.
    pub id: KeyId,
    /// Its name, for people.
    pub name: String,
    /// The secret, as the handshake needs it.
    pub secret: Vec<u8>,
    /// What its owner may do.
    pub rights: KeyRights,
    /// When it was created.
    pub made: Timestamp,
    /// Whether it was revoked.
    pub revoked: bool,
}

impl ClientKey {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        self.rights.encode(&mut out);
        out.u8(u8::from(self.revoked))
            .time(self.made)
            .bytes(self.name.as_bytes())
            .bytes(&self.secret);
        out.finish()
    }

    pub(crate) fn decode(id: KeyId, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("key", VERSION, bytes)?;
        let rights = KeyRights::decode(&mut from)?;
        let revoked = from.u8()? != 0;
        let made = from.time()?;
        let (name, secret) = (text(&mut from)?, from.bytes()?.to_vec());
        from.finish()?;
        Ok(Self { id, name, secret, rights, made, revoked })
    }
}

/// The administrative state of an I/O daemon. Whether it runs is observed, not stored. The numbers
/// are part of the format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
#[non_exhaustive]
pub enum IodState {
    /// Serves and gets new files.
    Active = 1,
    /// Serves and gets no new files.
    Draining = 2,
    /// Removed for good.
    Removed = 3,
}

/// One I/O daemon as it registered.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct IodRecord {
    /// Its stable id.
    pub id: IodId,
    /// The identity of its directory: a daemon with the same directory gets the same id again.
    pub uuid: [u8; 16],
    /// `host:port`, one for each network interface.
    pub addresses: Vec<String>,
    /// Labels that placements select by.
    pub labels: Vec<String>,
    /// Its administrative state.
    pub state: IodState,
}

impl IodRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.raw(&self.uuid).u8(self.state as u8);
        for list in [&self.addresses, &self.labels] {
            out.u16(list.len() as u16);
            list.iter().for_each(|text| {
                out.bytes(text.as_bytes());
            });
        }
        out.finish()
    }

    pub(crate) fn decode(id: IodId, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("iod", VERSION, bytes)?;
        let uuid = from.raw(16)?.try_into().map_err(|_| from.broken())?;
        let state = match from.u8()? {
            1 => IodState::Active,
            2 => IodState::Draining,
            3 => IodState::Removed,
            _ => return Err(from.broken()),
        };
        let (addresses, labels) = (texts(&mut from)?, texts(&mut from)?);
        from.finish()?;
        Ok(Self { id, uuid, addresses, labels, state })
    }
}

fn texts(from: &mut Decoder<'_>) -> Result<Vec<String>, RecordError> {
    let count = from.u16()?;
    (0..count).map(|_| text(from)).collect()
}
