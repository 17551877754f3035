//! What NFS gateways and data servers need: file handles that an I/O daemon verifies by itself, the
//! size of a file, and a secret that all gateways share.

use braid_meta::Inode;
use braid_types::{ByteCount, Failure, FileIndex, PartIndex, SessionId, Status};
use braid_wire::{
    DataServerHandle, Rights,
    message::mds::{
        DataServerHandlesReply, FileSizeReply, GatewaySecretReply, GetDataServerHandles,
        GetFileSize, MdsRequest,
    },
    nfs_layout,
};

use super::open::session_of;
use crate::{
    call::{Call, CallOutcome},
    core::MdsCore,
};

/// What the gateways' secret is derived for.
const GATEWAY_SECRET: &str = "braid gateway handles";

impl MdsCore {
    /// The handles have the rights of an open file. As its capability, they end with the session,
    /// the epoch, and the size generation (I4, I5).
    pub(super) fn data_server_handles(&self, call: Call, r: &GetDataServerHandles) -> CallOutcome {
        if self.is_size_changing(r.file) {
            return CallOutcome::Gate(call, r.file);
        }
        let handles = session_of(&call).and_then(|session| {
            self.check_open(session, r.open_id, r.file, r.rights)?;
            let inode = self.file_named(&call, r.file)?;
            self.check_lost_parts(&inode, Rights::READ)?;
            if r.rights.allow(Rights::WRITE) {
                let mut state = self.state();
                // What the client's own replies report of the file is not all that is written to it
                // from now on (ADR 0020).
                state.sizes.opened_for_writing(r.file);
                // An NFS client that does not return its layout may write after the close.
                state.note_unfenced_close(session, r.file);
            }
            self.sign_data_server_handles(session, &inode, r.rights)
        });
        CallOutcome::from(call, handles)
    }

    /// Checks that the session has the file open with at least these rights.
    fn check_open(
        &self,
        session: SessionId,
        open_id: u64,
        file: FileIndex,
        rights: Rights,
    ) -> Result<(), Failure> {
        let held = self.state().sessions.live.get(session).and_then(|live| live.opened(open_id));
        match held {
            Some(open) if open.file == file && open.rights.allow(rights) => Ok(()),
            Some(_) => Err(Failure::new(
                Status::Invalid,
                format!("handle {open_id} is open for something else"),
            )),
            None => Err(Failure::new(Status::StaleHandle, format!("handle {open_id} is not open"))),
        }
    }

    fn sign_data_server_handles(
        &self,
        session: SessionId,
        inode: &Inode,
        rights: Rights,
    ) -> Result<DataServerHandlesReply, Failure> {
        let layout = inode
            .layout
            .as_deref()
            .ok_or_else(|| Failure::new(Status::Corrupted, "a file without a layout"))?;
        let (stripe_units, first_part) = nfs_layout(layout).ok_or_else(|| {
            let why = "the layout has no form for NFS: it is not round robin in whole MiB";
            Failure::new(Status::Unsupported, why)
        })?;
        let growth =
            self.growth_grant(session, (inode.file, layout), rights, ByteCount(inode.size))?;
        let existing = inode.parts.as_bytes();
        let is_recorded =
            |part: usize| existing.get(part / 8).is_some_and(|byte| byte >> (part % 8) & 1 == 1);
        let parts = layout.placements().count() as u16;
        let sign = |(part, placement): (PartIndex, &braid_layout::PartPlacement)| {
            DataServerHandle {
                file: inode.file,
                part,
                parts,
                first_part,
                stripe_units,
                generation: placement.generation,
                size_generation: inode.size_generation,
                rights,
                recorded: is_recorded(usize::from(part.0)),
                session,
                epoch: self.epoch,
                owner: (inode.owner.id, inode.group.id),
                write_end: growth.unwrap_or(u64::MAX),
            }
            .sign(&self.key)
        };
        let handles = layout.placements().map(sign).collect();
        Ok(DataServerHandlesReply { handles, layout: layout.clone() })
    }

    /// The secret is derived from the server key, so that all gateways have the same, also after
    /// restarts, and none learns the server key.
    pub(super) fn gateway_secret(&self, call: Call) -> CallOutcome {
        let rights = &call.connection.rights;
        let may_change_all =
            call.connection.root == FileIndex::ROOT && rights.squash.is_none() && !rights.read_only;
        if !call.connection.vouches() || !may_change_all {
            let why = "a gateway needs a client key that may change the whole file system, without \
                       squash";
            return CallOutcome::Fail(call, Failure::new(Status::NotPermitted, why));
        }
        let cluster = self.uuid;
        let secret = self.key.derive(GATEWAY_SECRET, &cluster.0).to_bytes();
        CallOutcome::from(call, Ok(GatewaySecretReply { cluster, secret }))
    }

    /// For an I/O daemon, on a connection of its own: while the sizes are collected, the daemon of
    /// the caller is asked, too.
    pub(super) fn file_size(&self, call: Call, r: &GetFileSize) -> CallOutcome {
        match self.namespace.getattr(r.file) {
            Ok(inode) => self.reply_with_attributes(
                call,
                inode,
                || MdsRequest::GetFileSize(r.clone()),
                |attributes| FileSizeReply { bytes: attributes.bytes },
            ),
            Err(failure) => CallOutcome::Fail(call, failure),
        }
    }
}
