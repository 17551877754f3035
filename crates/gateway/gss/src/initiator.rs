//! The client's side of context creation.

use std::ffi::{OsStr, OsString};
use std::path::Path;

use bytes::Bytes;

use crate::context::KerberosContext;
use crate::error::GssError;
use crate::ffi::{HOST_SERVICE, INDEFINITE, INITIATE, KERBEROS, MUTUAL_FLAG, PRINCIPAL};
use crate::library::{Kerberos, none};
use crate::objects::{Context, Credential, Name, OwnedBuffer, input};

/// A client with tickets.
#[derive(Debug)]
pub struct Initiator {
    library: Kerberos,
    credential: Credential,
}

/// A context whose server is to send a token.
#[derive(Debug)]
pub struct PendingInitiation<'a> {
    initiator: &'a Initiator,
    context: Context,
    target: Name,
}

/// What one token leads to.
#[derive(Debug)]
pub enum InitiateStep<'a> {
    /// The context can be used, after the server has received the token, if there is one.
    Established(KerberosContext, Option<Bytes>),
    /// The server is to receive the token and to answer with another.
    Continue(PendingInitiation<'a>, Bytes),
}

impl Initiator {
    /// A client that gets its tickets with the key of `principal` in a keytab, and stores them in
    /// the ticket cache `cache`, such as `MEMORY:` or `FILE:/run/tickets`.
    ///
    /// # Errors
    /// [`GssError::Failed`] when there is no such key, or no ticket for it.
    pub fn from_keytab(
        library: Kerberos,
        keytab: &Path,
        principal: &str,
        cache: &str,
    ) -> Result<Self, GssError> {
        let name = Name::import(library, principal, &PRINCIPAL)?;
        let mut keytab_text = OsString::from("FILE:");
        keytab_text.push(keytab);
        let store = [("client_keytab", keytab_text.as_os_str()), ("ccache", OsStr::new(cache))];
        let credential = Credential::acquire(library, Some(&name), INITIATE, &store)?;
        Ok(Self { library, credential })
    }

    /// Begins a context with `service`, such as `nfs@server.example.org`.
    ///
    /// # Errors
    /// [`GssError::Failed`] when there is no ticket for the service.
    pub fn begin(&self, service: &str) -> Result<InitiateStep<'_>, GssError> {
        let target = Name::import(self.library, service, &HOST_SERVICE)?;
        let context = Context::empty(self.library);
        PendingInitiation { initiator: self, context, target }.step(&[])
    }
}

impl<'a> PendingInitiation<'a> {
    /// Handles the server's token, which is empty in the first step.
    ///
    /// # Errors
    /// [`GssError::Failed`] when it is not the answer of the service.
    pub fn step(mut self, token: &[u8]) -> Result<InitiateStep<'a>, GssError> {
        let library = self.initiator.library;
        let mut out = OwnedBuffer::new(library);
        let (mut minor, mut token) = (0, input(token));
        // SAFETY: all pointers are valid for the call; `context` and `out` own what is returned;
        // no channel bindings; mechanism, flags and lifetime are not asked for.
        let major = unsafe {
            (library.functions().gss_init_sec_context)(
                &mut minor,
                self.initiator.credential.raw,
                &mut self.context.raw,
                self.target.raw,
                &KERBEROS,
                MUTUAL_FLAG,
                INDEFINITE,
                none(),
                &mut token,
                none(),
                out.as_mut_ptr(),
                none(),
                none(),
            )
        };
        let continues = library.check("gss_init_sec_context", major, minor)?;
        let token = Bytes::copy_from_slice(out.bytes());
        if continues {
            return Ok(InitiateStep::Continue(self, token));
        }
        let context = KerberosContext::new(self.context, &self.target)?;
        Ok(InitiateStep::Established(context, (!token.is_empty()).then_some(token)))
    }
}
