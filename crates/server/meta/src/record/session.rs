//! A client's session, as far as it must outlive a restart of the metadata server.

use braid_types::{KeyId, MdsEpoch, SessionId};

use super::RecordError;
use crate::codec::{Decoder, Encoder};

const VERSION: u8 = 1;

/// A session that was opened and not ended.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SessionRecord {
    /// Its id.
    pub session: SessionId,
    /// The key that proved it.
    pub key: KeyId,
    /// The epoch of the metadata server that opened it.
    pub epoch: MdsEpoch,
    /// What the client calls itself: host and process, for people.
    pub client: String,
}

impl SessionRecord {
    pub(crate) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(VERSION);
        out.u64(self.key.0).u64(self.epoch.0).bytes(self.client.as_bytes());
        out.finish()
    }

    pub(crate) fn decode(session: SessionId, bytes: &[u8]) -> Result<Self, RecordError> {
        let mut from = Decoder::new("session", VERSION, bytes)?;
        let (key, epoch) = (KeyId(from.u64()?), MdsEpoch(from.u64()?));
        let client = String::from_utf8(from.bytes()?.to_vec()).map_err(|_| from.broken())?;
        from.finish()?;
        Ok(Self { session, key, epoch, client })
    }
}
