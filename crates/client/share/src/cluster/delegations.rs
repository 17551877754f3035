//! Delegations: leases of the session at the metadata server (ADR 0038).

use std::{
    collections::HashMap,
    sync::{Mutex, MutexGuard, PoisonError},
};

use braid_client::{
    asynchronous::DelegationNotice,
    lease::{LeaseMode, Recalled},
};
use braid_types::FileIndex;
use tokio::sync::{
    Notify,
    mpsc::{UnboundedReceiver, UnboundedSender, unbounded_channel},
};

use super::session::{Client, Session};
use crate::{DelegationRecall, Result};

/// What a session must know of its delegations. The table of the metadata server bounds the number.
#[derive(Debug)]
pub(super) struct Delegations {
    inner: Mutex<Inner>,
    /// Recalls that the gateway has not taken yet. The channel is closed when the session ends.
    recalls: tokio::sync::Mutex<UnboundedReceiver<DelegationRecall>>,
    /// The gateway has dropped all delegations after their loss.
    dropped: Notify,
}

#[derive(Debug)]
struct Inner {
    /// Sends to `recalls`; `None` when the session has ended.
    sender: Option<UnboundedSender<DelegationRecall>>,
    /// Whether the task that receives recalls of the metadata server has begun.
    begun: bool,
    /// Recalls that were not answered yet.
    recalled: HashMap<FileIndex, Recalled>,
}

impl Delegations {
    pub(super) fn new() -> Self {
        let (sender, receiver) = unbounded_channel();
        let inner = Inner { sender: Some(sender), begun: false, recalled: HashMap::new() };
        Self {
            inner: Mutex::new(inner),
            recalls: tokio::sync::Mutex::new(receiver),
            dropped: Notify::new(),
        }
    }

    /// The session ends: there are no more recalls.
    pub(super) fn end(&self) {
        self.lock().sender = None;
        self.dropped.notify_one();
    }

    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, notice: DelegationNotice) {
        let mut inner = self.lock();
        let recall = match notice {
            DelegationNotice::Recalled(recalled) => {
                let file = recalled.of.file();
                inner.recalled.insert(file, recalled);
                match recalled.keep {
                    LeaseMode::Read => DelegationRecall::Reduce(file),
                    _ => DelegationRecall::File(file),
                }
            }
            DelegationNotice::AllLost(_) => {
                inner.recalled.clear();
                DelegationRecall::All
            }
        };
        if let Some(sender) = &inner.sender {
            // Without a receiver the session has ended.
            let _ = sender.send(recall);
        }
    }
}

impl Session {
    /// Receives recalls from now on. Those of delegations that the session does not know of, since
    /// they are of an earlier start of the gateway, are answered immediately.
    pub(super) fn receive_recalls(self: &std::sync::Arc<Self>) -> Result<()> {
        if !std::mem::replace(&mut self.delegations().lock().begun, true) {
            self.client().begin_delegations()?;
            let session = std::sync::Arc::downgrade(self);
            drop(tokio::spawn(receive(self.client().clone(), session)));
        }
        Ok(())
    }

    pub(super) async fn delegate(
        self: &std::sync::Arc<Self>,
        file: FileIndex,
        write: bool,
    ) -> Result<bool> {
        self.receive_recalls()?;
        self.run(self.client().ask_delegation(file, write)).await
    }

    pub(super) async fn return_delegation(&self, file: FileIndex) -> Result<()> {
        // A close that was not sent yet would exclude an open that denies.
        let _ = self.client().flush_closes().await;
        let recalled = self.delegations().lock().recalled.remove(&file);
        let of = braid_client::LeaseOf::Delegation(file);
        match recalled {
            Some(recalled) => self.run(self.client().delegation_returned(&recalled)).await,
            None => self.run(self.client().return_lease(of)).await,
        }
    }

    /// Keeps the delegation to read, if the newest recall of it allows that.
    pub(super) async fn reduce_delegation(&self, file: FileIndex) -> Result<bool> {
        let recalled = {
            let mut inner = self.delegations().lock();
            match inner.recalled.get(&file) {
                Some(recalled) if recalled.keep == LeaseMode::Read => inner.recalled.remove(&file),
                _ => None,
            }
        };
        let Some(recalled) = recalled else {
            return self.return_delegation(file).await.map(|()| false);
        };
        let call = self.client().delegation_reduced(&recalled);
        self.run(call).await.map(|()| true)
    }

    pub(super) fn drop_delegations(&self) {
        self.delegations().dropped.notify_one();
    }

    pub(super) async fn next_recall(&self) -> Option<DelegationRecall> {
        self.delegations().recalls.lock().await.recv().await
    }
}

/// Receives recalls until the session ends.
async fn receive(client: Client, session: std::sync::Weak<Session>) {
    while let Some(notices) = client.next_delegation_notices().await {
        for notice in notices {
            let Some(session) = session.upgrade() else { return };
            let delegations = session.delegations();
            delegations.add(notice);
            if let DelegationNotice::AllLost(lost) = notice {
                delegations.dropped.notified().await;
                client.delegations_dropped(lost);
            }
        }
    }
    if let Some(session) = session.upgrade() {
        session.delegations().end();
    }
}
