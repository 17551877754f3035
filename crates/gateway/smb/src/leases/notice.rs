//! Notifications: messages that no request has asked for. MS-SMB2 2.2.23, 3.3.4.6, 3.3.4.7.

use std::sync::Weak;
use std::task::{Context, Waker};

use braid_share::Share;
use braid_smb_wire::smb2::create::{LeaseState, OplockLevel};
use braid_smb_wire::smb2::oplock_break::{
    LeaseBreak, LeaseBreakFlags, OplockBreak, OplockBreakBody,
};
use braid_smb_wire::smb2::{Body, Command, FileId, Flags, Header};
use bytes::Bytes;

use super::{Peer, spawn};

/// The number of a message that answers nothing. 3.3.4.6.
const UNSOLICITED: u64 = u64::MAX;

/// A notification.
#[derive(Debug)]
pub(super) struct Notice<S: Share> {
    peer: Peer<S>,
    body: OplockBreakBody,
}

impl<S: Share> Notice<S> {
    /// Of the break of a lease, from a state to another. 3.3.4.7.
    pub fn of_lease(
        peer: &Peer<S>,
        key: [u8; 16],
        new_epoch: u16,
        (current_state, new_state): (LeaseState, LeaseState),
        is_acknowledged: bool,
    ) -> Self {
        let flags = match is_acknowledged {
            true => LeaseBreakFlags::ACK_REQUIRED,
            false => LeaseBreakFlags::default(),
        };
        let body = LeaseBreak { new_epoch, flags, key, current_state, new_state };
        Self { peer: peer.clone(), body: OplockBreakBody::LeaseNotification(body) }
    }

    /// Of the break of an oplock. 3.3.4.6.
    pub fn of_oplock(peer: &Peer<S>, file_id: FileId, oplock_level: OplockLevel) -> Self {
        let body = OplockBreak { oplock_level, file_id };
        Self { peer: peer.clone(), body: OplockBreakBody::Oplock(body) }
    }

    /// Sends it before what its connection sends later. If the connection does not take it
    /// immediately, a task sends it: a client that does not read delays no other one.
    pub fn send(self) {
        let Self { peer, body } = self;
        tracing::debug!(?body, "a break");
        let Some(connection) = peer.connection.upgrade() else { return };
        // Without a runtime the process ends.
        if tokio::runtime::Handle::try_current().is_err() || !connection.begin_notice() {
            return;
        }
        let mut sending = Box::pin(async move {
            // 3.3.4.6: neither session nor tree; 3.3.4.1.1: it is not signed.
            let header = Header {
                flags: Flags::RESPONSE,
                credits: 0,
                credit_charge: 0,
                ..Header::request(Command::OplockBreak, UNSOLICITED)
            };
            let plain = [Bytes::copy_from_slice(&header.to_bytes()), body.to_bytes().into()];
            let frame = match peer.sealed_by.as_ref().map(Weak::upgrade) {
                None => plain.to_vec(),
                Some(Some(session)) => session.protection.seal(session.id, &plain),
                // Its session has ended, and with it the lease.
                Some(None) => Vec::new(),
            };
            if !frame.is_empty() {
                connection.send(&frame).await;
            }
            connection.end_notice();
        });
        if sending.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending() {
            spawn(sending);
        }
    }
}
