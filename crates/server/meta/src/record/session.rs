//! The part of a client's session that must survive a restart of the metadata server.

use braid_types::{KeyId, MdsEpoch, SessionId};

use super::RecordError;
use crate::codec::{Decoder, Encoder};

const VERSION: u8 = 1;

/// A session that has begun and not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRecord {
    /// Its id.
    pub session: SessionId,
    /// The key that authenticated it.
    pub key: KeyId,
    /// The user of the ticket that authenticated it; `None` for the owner of the key itself.
    pub user: Option<u64>,
    /// The epoch of the metadata server that began it.
    pub epoch: MdsEpoch,
    /// What the client calls itself: host and process, for people.
    pub client: String,
    /// Whether it was ever granted a lease: after a restart it may assume for a while that it holds
    /// some.
    pub leases: bool,
}

impl SessionRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.u64(self.key.0).u8(u8::from(self.user.is_some())).u64(self.user.unwrap_or(0));
        out.u64(self.epoch.0).bytes(self.client.as_bytes()).u8(u8::from(self.leases));
        out.finish()
    }

    pub(crate) fn decode(session: SessionId, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("session", VERSION, bytes)?;
        let key = KeyId(from.u64()?);
        let user = match (from.u8()?, from.u64()?) {
            (0, 0) => None,
            (1, user) => Some(user),
            _ => return Err(from.broken()),
        };
        let epoch = MdsEpoch(from.u64()?);
        let client = String::from_utf8(from.bytes()?.to_vec()).map_err(|_| from.broken())?;
        let leases = match from.u8()? {
            0 => false,
            1 => true,
            _ => return Err(from.broken()),
        };
        from.finish()?;
        Ok(Self { session, key, user, epoch, client, leases })
    }
}
