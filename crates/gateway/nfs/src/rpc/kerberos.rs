//! RPCSEC_GSS: the authenticator that a server is given, and users of Kerberos principals.
//!
//! This crate does not depend on a mechanism: `braid-gss` has that of the system's library, tests
//! have one of their own.

use std::collections::HashMap;
use std::fmt;
use std::io;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braid_nfs_wire::rpc::gss::{
    BodyError, GssContext, GssMechanism, GssOutcome, GssServer, HANDLE_BYTES, ProtectedCall,
    Service,
};
use braid_nfs_wire::rpc::message::{AcceptStatus, CallMessage};
use braid_nfs_wire::xdr::Encoder;
use braid_share::Identity;
use bytes::Bytes;
use tokio::sync::Semaphore;
use tokio::time::Instant;

use crate::config::{ANONYMOUS_ID, Security};

/// How long the groups of a user are cached, as those of Linux's NFS server.
const USER_CACHED: Duration = Duration::from_secs(600);
/// Most users that are cached. When there are more, all are looked up again.
const USERS_MAX: usize = 4096;
/// Most lookups at the same time: each blocks a thread while a directory service does not answer.
const LOOKUPS_MAX: usize = 16;

/// What a server needs to authenticate with Kerberos.
#[derive(Clone, Debug)]
pub struct Kerberos {
    authenticator: Arc<dyn GssAuthenticator>,
    users: Arc<dyn Users>,
    cache: Arc<Mutex<HashMap<String, (Identity, Instant)>>>,
    lookups: Arc<Semaphore>,
}

/// The system's user database. Calls may block.
pub trait Users: fmt::Debug + Send + Sync + 'static {
    /// User and groups of a principal such as `alice@EXAMPLE.ORG`; `None` if there is none.
    ///
    /// # Errors
    /// The database cannot be asked now.
    fn user(&self, principal: &str) -> io::Result<Option<Identity>>;
}

/// A [`GssServer`] with any mechanism.
pub trait GssAuthenticator: fmt::Debug + Send + Sync + 'static {
    /// As [`GssServer::receive`]. `handle` has random bytes, for a new context.
    fn receive(
        &self,
        call: &CallMessage,
        now: Duration,
        handle: [u8; HANDLE_BYTES],
    ) -> AuthenticatorOutcome;
}

/// As [`GssOutcome`], with any mechanism.
pub enum AuthenticatorOutcome {
    /// Execute the call.
    Execute(Box<dyn AuthenticatedCall>),
    /// Send this message.
    Reply(Encoder),
    /// Send nothing.
    Drop,
}

/// As [`ProtectedCall`], with any mechanism.
pub trait AuthenticatedCall: Send + Sync {
    /// The caller's name.
    fn principal(&self) -> &str;
    /// How the call was protected.
    fn service(&self) -> Service;
    /// The procedure's arguments.
    fn arguments(&self) -> &Bytes;
    /// The reply with results.
    ///
    /// # Errors
    /// As [`ProtectedCall::reply`].
    fn reply(&self, results: Encoder) -> Result<Encoder, BodyError>;
    /// The reply without results.
    ///
    /// # Errors
    /// As [`ProtectedCall::reply`].
    fn reply_without_results(&self, status: AcceptStatus) -> Result<Encoder, BodyError>;
}

impl<C: GssContext + Send + Sync> AuthenticatedCall for ProtectedCall<C> {
    fn principal(&self) -> &str {
        self.principal()
    }
    fn service(&self) -> Service {
        self.service()
    }
    fn arguments(&self) -> &Bytes {
        self.arguments()
    }
    fn reply(&self, results: Encoder) -> Result<Encoder, BodyError> {
        self.reply(results)
    }
    fn reply_without_results(&self, status: AcceptStatus) -> Result<Encoder, BodyError> {
        self.reply_without_results(status)
    }
}

impl<M> GssAuthenticator for GssServer<M>
where
    M: GssMechanism + fmt::Debug + Send + Sync + 'static,
    M::Pending: fmt::Debug + Send,
    M::Context: fmt::Debug + Send + Sync,
{
    fn receive(
        &self,
        call: &CallMessage,
        now: Duration,
        handle: [u8; HANDLE_BYTES],
    ) -> AuthenticatorOutcome {
        match self.receive(call, now, || handle) {
            GssOutcome::Execute(call) => AuthenticatorOutcome::Execute(Box::new(call)),
            GssOutcome::Reply(message) => AuthenticatorOutcome::Reply(message),
            GssOutcome::Drop => AuthenticatorOutcome::Drop,
        }
    }
}

impl Kerberos {
    /// An authenticator and the users of its principals.
    pub fn new(authenticator: Arc<dyn GssAuthenticator>, users: Arc<dyn Users>) -> Self {
        let lookups = Arc::new(Semaphore::new(LOOKUPS_MAX));
        Self { authenticator, users, cache: Arc::default(), lookups }
    }

    /// The authenticator.
    pub(super) fn authenticator(&self) -> &Arc<dyn GssAuthenticator> {
        &self.authenticator
    }

    /// User and groups of a principal. A principal without a user is the anonymous user.
    ///
    /// # Errors
    /// The database cannot be asked now. Acting as the anonymous user would give files to it.
    pub(super) async fn identity(&self, principal: &str) -> io::Result<Identity> {
        if let Some(identity) = self.cached(principal) {
            return Ok(identity);
        }
        let _permit = self.lookups.acquire().await.expect("the semaphore is never closed");
        // Another request of the user may have looked it up meanwhile.
        if let Some(identity) = self.cached(principal) {
            return Ok(identity);
        }
        let (users, name) = (Arc::clone(&self.users), principal.to_owned());
        let found = tokio::task::spawn_blocking(move || users.user(&name)).await;
        let identity = found.map_err(io::Error::other)??.unwrap_or_else(anonymous);
        let mut cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        if cache.len() >= USERS_MAX {
            cache.clear();
        }
        cache.insert(principal.to_owned(), (identity.clone(), Instant::now()));
        Ok(identity)
    }

    fn cached(&self, principal: &str) -> Option<Identity> {
        let cache = self.cache.lock().unwrap_or_else(PoisonError::into_inner);
        let (identity, since) = cache.get(principal)?;
        (since.elapsed() < USER_CACHED).then(|| identity.clone())
    }
}

fn anonymous() -> Identity {
    let (uid, gid) = (u64::from(ANONYMOUS_ID), u64::from(ANONYMOUS_ID));
    Identity { uid, gid, groups: Vec::new(), checked: false }
}

/// The security flavour with this protection.
pub(super) fn security_of(service: Service) -> Security {
    match service {
        Service::Integrity => Security::Krb5i,
        Service::Privacy => Security::Krb5p,
        _ => Security::Krb5,
    }
}
