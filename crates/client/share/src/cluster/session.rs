//! A session at the metadata server, and the files that it has open.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, PoisonError, Weak,
        atomic::{AtomicBool, Ordering},
    },
};

use braid_client::{Config, asynchronous};
use braid_net::Tokio;
use braid_types::{FileIndex, SessionId, Status};

use super::{delegations::Delegations, file::OpenedFile, loss::LossCounter};
use crate::{Error, Identity, Result};

/// The client of the library.
pub(super) type Client = asynchronous::Client<Tokio>;

/// A session, which its [`super::ClusterClient`]s and their files share.
#[derive(Debug)]
pub(super) struct Session {
    client: Client,
    id: SessionId,
    /// Whether the next start of the gateway can continue it.
    is_adoptable: bool,
    ended: AtomicBool,
    pub(super) losses: Arc<LossCounter>,
    /// The open files, by index: a commit covers all opens of a file.
    files: Mutex<HashMap<FileIndex, Vec<Weak<OpenedFile>>>>,
    delegations: Delegations,
}

impl Session {
    /// Connects and begins a session.
    pub(super) async fn begin(config: Config, losses: Arc<LossCounter>) -> Result<Arc<Self>> {
        let is_adoptable = config.gateway.is_some();
        let client = Client::connect(config).await?;
        let missing = || Error::new(Status::NoSession, "the metadata server gave no session");
        let id = client.session_id().ok_or_else(missing)?;
        let (ended, files) = (AtomicBool::new(false), Mutex::default());
        let delegations = Delegations::new();
        Ok(Arc::new(Self { client, id, is_adoptable, ended, losses, files, delegations }))
    }

    pub(super) fn id(&self) -> SessionId {
        self.id
    }

    /// Ends the session. Its opens are closed first: otherwise the metadata server counts them
    /// until all I/O daemons refuse the session.
    pub(super) async fn end(&self) {
        if self.ended.swap(true, Ordering::AcqRel) {
            return;
        }
        self.delegations.end();
        for open in self.all_opens() {
            open.close_with_session().await;
        }
        // If this fails, the end of the session replaces the closes.
        let _ = self.client.flush_closes().await;
        self.client.clone().close().await;
    }

    /// As [`crate::ShareClient::leave`].
    pub(super) async fn leave(&self) {
        if !self.is_adoptable {
            return self.end().await;
        }
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.delegations.end();
            self.client.clone().leave().await;
        }
    }

    /// Runs a call of the session. Fails if the session ended before it or during it.
    pub(super) async fn run<T>(&self, call: impl Future<Output = Result<T>>) -> Result<T> {
        self.check()?;
        let done = call.await;
        self.check()?;
        done
    }

    /// Runs a call as a user.
    pub(super) async fn run_as<T, C: Future<Output = Result<T>>>(
        &self,
        who: &Identity,
        call: impl FnOnce(Client) -> C,
    ) -> Result<T> {
        self.check()?;
        // The library knows the numbers of identities that were used before: this sends nothing.
        let user = self.client.with_identity(who.clone()).await?;
        self.run(call(user)).await
    }

    /// The client with the gateway's own identity, which may do everything.
    pub(super) fn client(&self) -> &Client {
        &self.client
    }

    pub(super) fn delegations(&self) -> &Delegations {
        &self.delegations
    }

    /// Adds an open file.
    pub(super) fn add_file(&self, file: &Arc<OpenedFile>) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.entry(file.index()).or_default().push(Arc::downgrade(file));
    }

    /// An open file was dropped.
    pub(super) fn remove_files(&self, index: FileIndex) {
        let mut files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(opens) = files.get_mut(&index) {
            opens.retain(|open| open.strong_count() > 0);
            if opens.is_empty() {
                files.remove(&index);
            }
        }
    }

    /// The opens of a file.
    pub(super) fn opens_of(&self, index: FileIndex) -> Vec<Arc<OpenedFile>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.get(&index).into_iter().flatten().filter_map(Weak::upgrade).collect()
    }

    fn all_opens(&self) -> Vec<Arc<OpenedFile>> {
        let files = self.files.lock().unwrap_or_else(PoisonError::into_inner);
        files.values().flatten().filter_map(Weak::upgrade).collect()
    }

    /// Fails if the session has ended.
    fn check(&self) -> Result<()> {
        if self.client.session_id() == Some(self.id) && !self.ended.load(Ordering::Acquire) {
            return Ok(());
        }
        if !self.ended.swap(true, Ordering::AcqRel) {
            self.delegations.end();
            // The library has begun another session, which has none of the opens and locks.
            drop(tokio::spawn(self.client.clone().close()));
        }
        let why = "the session of this client has ended";
        Err(Error::new(Status::NoSession, why).with_hint("let the client connect again"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Outside a runtime nothing can be sent: the metadata server ends the silent session.
        if !*self.ended.get_mut()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            drop(runtime.spawn(self.client.clone().close()));
        }
    }
}
