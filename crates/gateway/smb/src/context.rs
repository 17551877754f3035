//! What a request runs with.

use std::sync::{Arc, OnceLock};

use braid_share::{Identity, Share};
use braid_smb_wire::smb2::{Command, FileId, Flags, Header};
use braid_smb_wire::{Malformed, NtStatus};
use bytes::Bytes;

use crate::connection::Connection;
use crate::durable::channel::{Channel, Late, Running};
use crate::open::Open;
use crate::server::SmbServer;
use crate::session::Session;
use crate::tree::Tree;

/// A request, and what its header names.
#[derive(Clone, Debug)]
pub struct Context<S: Share> {
    /// The server.
    pub server: Arc<SmbServer<S>>,
    /// The connection.
    pub connection: Arc<Connection>,
    /// The header.
    pub header: Header,
    /// Whether it is the last one of its frame: only that one is answered later.
    pub is_last: bool,
    /// Whether it was encrypted.
    pub is_sealed: bool,
    /// The whole message, from its header on.
    pub message: Bytes,
    /// The session, if the request needs one.
    pub(crate) session: Option<Arc<Session<S>>>,
    /// The tree, if the request needs one.
    pub(crate) tree: Option<Arc<Tree>>,
    /// In a related request of a compound: the open of the request before it.
    pub(crate) related: Option<FileId>,
    /// The request as one of its open, until it has ended.
    pub(crate) running: Arc<OnceLock<Running>>,
}

impl<S: Share> Context<S> {
    /// The session.
    ///
    /// # Errors
    /// `USER_SESSION_DELETED` for a command that does not need one.
    pub fn session(&self) -> Result<&Arc<Session<S>>, NtStatus> {
        self.session.as_ref().ok_or(NtStatus::USER_SESSION_DELETED)
    }

    /// The tree.
    ///
    /// # Errors
    /// `NETWORK_NAME_DELETED` for a command that does not need one.
    pub fn tree(&self) -> Result<&Arc<Tree>, NtStatus> {
        self.tree.as_ref().ok_or(NtStatus::NETWORK_NAME_DELETED)
    }

    /// The session of the metadata server.
    ///
    /// # Errors
    /// As [`Context::session`].
    pub fn client(&self) -> Result<&S::Client, NtStatus> {
        self.session().map(|session| session.client())
    }

    /// What the user is to the file system.
    ///
    /// # Errors
    /// As [`Context::session`].
    pub fn who(&self) -> Result<&Identity, NtStatus> {
        self.session().map(|session| session.who())
    }

    /// The open that a request names. In a related request all ones mean the open of the request
    /// before (MS-SMB2 3.3.5.2.7.2).
    ///
    /// # Errors
    /// `FILE_CLOSED` if there is no such open; `FILE_NOT_AVAILABLE` if the request is late.
    pub fn open(&self, id: FileId) -> Result<Arc<Open<S>>, NtStatus> {
        let id = self.file_id(id);
        let open = self.session()?.open(id).ok_or(NtStatus::FILE_CLOSED)?;
        // 3.3.5.2.11: an open belongs to its tree.
        if self.tree.as_ref().is_some_and(|tree| tree.id != open.tree_id()) {
            return Err(NtStatus::FILE_CLOSED);
        }
        if let Open::File(file) = &*open {
            file.end_replay();
            if self.running.get().is_none() {
                self.count(&file.channel)?;
            }
        }
        Ok(open)
    }

    /// Counts the request as one of an open, until it has ended. 3.3.5.2.10.
    fn count(&self, channel: &Arc<Channel>) -> Result<(), NtStatus> {
        let is_smb3 = self.connection.negotiated().is_some_and(|one| one.dialect.is_smb3());
        let sequence = is_smb3.then(|| self.header.channel_sequence());
        let is_replay = is_smb3 && self.header.flags.has(Flags::REPLAY);
        match channel.begin(sequence, is_replay) {
            Ok(running) => {
                // The requests of an open may name another one as well, which is not counted.
                let _ = self.running.set(running);
                Ok(())
            }
            Err(Late) if self.is_refused_late() => Err(NtStatus::FILE_NOT_AVAILABLE),
            Err(Late) => Ok(()),
        }
    }

    fn is_refused_late(&self) -> bool {
        matches!(
            Command::from_number(self.header.command),
            Some(Command::Write | Command::SetInfo | Command::Ioctl)
        )
    }

    /// The open that a number means, with that of the request before in a related request.
    pub fn file_id(&self, id: FileId) -> FileId {
        match self.related {
            Some(related) if id == FileId::RELATED => related,
            _ => id,
        }
    }
}

/// The result of a request.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Reply {
    /// `SUCCESS`, or a warning that has a body of the command.
    pub status: NtStatus,
    /// The body.
    pub body: Vec<u8>,
    /// Bytes behind the body, which are not copied: those of a READ.
    pub data: Bytes,
    /// The open that the request made or used, for related requests.
    pub file_id: Option<FileId>,
    /// The session that the request began.
    pub session_id: Option<u64>,
    /// The tree that the request began.
    pub tree_id: Option<u32>,
    /// The number of a request that waits.
    pub async_id: Option<u64>,
}

impl Reply {
    /// A success with this body.
    pub fn new(body: &impl braid_smb_wire::smb2::Body) -> Self {
        Self { body: body.to_bytes(), ..Self::default() }
    }

    /// The reply, for related requests to use this open.
    #[must_use]
    pub fn with_file(self, id: FileId) -> Self {
        Self { file_id: Some(id), ..self }
    }

    /// The reply, with a warning.
    #[must_use]
    pub fn with_status(self, status: NtStatus) -> Self {
        Self { status, ..self }
    }
}

/// The status of a request that does not follow its format. MS-SMB2 3.3.5.2.
pub fn malformed(error: Malformed) -> NtStatus {
    tracing::debug!(%error, "a request is refused");
    NtStatus::INVALID_PARAMETER
}

/// The result of an operation.
pub type OpResult = Result<Reply, NtStatus>;
