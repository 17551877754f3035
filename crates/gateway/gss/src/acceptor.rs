//! The server's side of context creation, with the key of a keytab.

use std::ffi::OsString;
use std::path::Path;
use std::time::Duration;

use braid_nfs_wire::rpc::gss::{AcceptStep, GssMechanism};
use bytes::Bytes;

use crate::context::KerberosContext;
use crate::error::GssError;
use crate::ffi::{ACCEPT, HOST_SERVICE, PRINCIPAL};
use crate::library::{Kerberos, none};
use crate::objects::{Context, Credential, Name, OwnedBuffer, input};
use crate::refusal::RefusalLog;

/// A server that accepts contexts of one service.
#[derive(Debug)]
pub struct Acceptor {
    library: Kerberos,
    credential: Credential,
    refusals: RefusalLog,
}

/// A context whose client is to send another token.
#[derive(Debug)]
pub struct PendingContext(Context);

impl Acceptor {
    /// A server for `service`, such as `nfs` for every host name in the keytab or
    /// `nfs@server.example.org` for one. Without `keytab`, that of `KRB5_KTNAME` or `krb5.conf`.
    ///
    /// # Errors
    /// [`GssError::Failed`] when the keytab cannot be read or has no key of the service.
    pub fn new(library: Kerberos, keytab: Option<&Path>, service: &str) -> Result<Self, GssError> {
        Self::with_name(library, keytab, Name::import(library, service, &HOST_SERVICE)?)
    }

    /// A server for one principal, such as `nfs/server.example.org@EXAMPLE.ORG`; else as
    /// [`Acceptor::new`].
    ///
    /// # Errors
    /// As [`Acceptor::new`].
    pub fn for_principal(
        library: Kerberos,
        keytab: Option<&Path>,
        principal: &str,
    ) -> Result<Self, GssError> {
        Self::with_name(library, keytab, Name::import(library, principal, &PRINCIPAL)?)
    }

    fn with_name(library: Kerberos, keytab: Option<&Path>, name: Name) -> Result<Self, GssError> {
        let keytab = keytab.map(|path| {
            let mut text = OsString::from("FILE:");
            text.push(path);
            text
        });
        let store: Vec<_> = keytab.iter().map(|text| ("keytab", text.as_os_str())).collect();
        let credential = Credential::acquire(library, Some(&name), ACCEPT, &store)?;
        Ok(Self { library, credential, refusals: RefusalLog::default() })
    }

    /// Handles one token; see [`GssMechanism::accept`]. It reads the keytab and writes the replay
    /// cache, so it may wait for a disk.
    fn step(&self, pending: Option<PendingContext>, token: &[u8]) -> Step {
        let mut context = pending.map_or_else(|| Context::empty(self.library), |pending| pending.0);
        let mut source = Name::empty(self.library);
        let mut out = OwnedBuffer::new(self.library);
        let (mut minor, mut token, mut lifetime) = (0, input(token), 0);
        // SAFETY: all pointers are valid for the call; `context`, `source` and `out` own what is
        // returned; no channel bindings; mechanism, flags and delegated tickets are not asked for.
        let major = unsafe {
            (self.library.functions().gss_accept_sec_context)(
                &mut minor,
                &mut context.raw,
                self.credential.raw,
                &mut token,
                none(),
                &mut source.raw,
                none(),
                out.as_mut_ptr(),
                none(),
                &mut lifetime,
                none(),
            )
        };
        let token = Bytes::copy_from_slice(out.bytes());
        let result = self.library.check("gss_accept_sec_context", major, minor);
        let established = result.and_then(|continues| {
            if continues {
                return Ok(Err(PendingContext(context)));
            }
            KerberosContext::new(context, &source).map(Ok)
        });
        Step { established, token, lifetime: Duration::from_secs(lifetime.into()) }
    }
}

/// What a token led to.
struct Step {
    established: Result<Result<KerberosContext, PendingContext>, GssError>,
    token: Bytes,
    lifetime: Duration,
}

impl GssMechanism for Acceptor {
    type Pending = PendingContext;
    type Context = KerberosContext;

    fn accept(
        &self,
        pending: Option<PendingContext>,
        token: &[u8],
    ) -> AcceptStep<PendingContext, KerberosContext> {
        let Step { established, token, lifetime } = self.step(pending, token);
        match established {
            Ok(Ok(context)) => AcceptStep::Established { context, token, lifetime },
            Ok(Err(pending)) => AcceptStep::Continue { pending, token },
            Err(error) => {
                self.refusals.refused(&error);
                AcceptStep::Failed { failure: error.failure(), token }
            }
        }
    }
}
