//! Established contexts.

use std::sync::{Mutex, MutexGuard, PoisonError};

use braid_nfs_wire::rpc::gss::{GssContext, GssFailure};
use bytes::Bytes;

use crate::error::GssError;
use crate::library::none;
use crate::objects::{Context, Name, OwnedBuffer, input};

/// Quality of protection: the mechanism's default. RFC 2744 3.9.
const DEFAULT_QUALITY: u32 = 0;

/// An established context of Kerberos. Threads that use it at the same time wait for each other.
#[derive(Debug)]
pub struct KerberosContext {
    context: Mutex<Context>,
    principal: String,
    local_user: Option<String>,
}

impl KerberosContext {
    /// A context that is established with this peer.
    pub(crate) fn new(context: Context, peer: &Name) -> Result<Self, GssError> {
        let (principal, local_user) = (peer.text()?, peer.local_user());
        Ok(Self { context: Mutex::new(context), principal, local_user })
    }

    /// The local user that the peer stands for, by `auth_to_local` of `krb5.conf`. `None` when
    /// the configuration has none, for instance for another realm.
    pub fn local_user(&self) -> Option<&str> {
        self.local_user.as_deref()
    }

    fn lock(&self) -> MutexGuard<'_, Context> {
        self.context.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The MIC of a message.
    ///
    /// # Errors
    /// [`GssError::Failed`], for instance when the context has expired.
    pub fn mic(&self, message: &[u8]) -> Result<Bytes, GssError> {
        let context = self.lock();
        let mut out = OwnedBuffer::new(context.library);
        let (mut minor, mut message) = (0, input(message));
        // SAFETY: the context is valid and locked; `message` is valid for the call, and `out` owns
        // what is returned.
        let major = unsafe {
            (context.library.functions().gss_get_mic)(
                &mut minor,
                context.raw,
                DEFAULT_QUALITY,
                &mut message,
                out.as_mut_ptr(),
            )
        };
        context.library.check("gss_get_mic", major, minor)?;
        Ok(Bytes::copy_from_slice(out.bytes()))
    }

    /// Checks the peer's MIC of a message.
    ///
    /// # Errors
    /// [`GssError::Failed`] when it is wrong.
    pub fn check_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssError> {
        let context = self.lock();
        let (mut minor, mut message, mut mic) = (0, input(message), input(mic));
        // SAFETY: as in `mic`; nothing is returned but statuses.
        let major = unsafe {
            (context.library.functions().gss_verify_mic)(
                &mut minor,
                context.raw,
                &mut message,
                &mut mic,
                none(),
            )
        };
        context.library.check("gss_verify_mic", major, minor).map(drop)
    }

    /// Encrypts a message.
    ///
    /// # Errors
    /// [`GssError::Failed`], and [`GssError::CannotEncrypt`].
    pub fn encrypt(&self, message: &[u8]) -> Result<Bytes, GssError> {
        let (encrypted, is_encrypted) = self.seal(message, true)?;
        if is_encrypted { Ok(encrypted) } else { Err(GssError::CannotEncrypt) }
    }

    /// A token with the message in clear text and its MIC: `gss_wrap` without confidentiality,
    /// which `RPCSEC_GSS` does not use and [`KerberosContext::decrypt`] refuses.
    ///
    /// # Errors
    /// [`GssError::Failed`].
    pub fn wrap_in_clear_text(&self, message: &[u8]) -> Result<Bytes, GssError> {
        self.seal(message, false).map(|(token, _)| token)
    }

    fn seal(&self, message: &[u8], encrypt: bool) -> Result<(Bytes, bool), GssError> {
        let context = self.lock();
        let mut out = OwnedBuffer::new(context.library);
        let (mut minor, mut message, mut encrypted) = (0, input(message), 0);
        // SAFETY: as in `mic`.
        let major = unsafe {
            (context.library.functions().gss_wrap)(
                &mut minor,
                context.raw,
                encrypt.into(),
                DEFAULT_QUALITY,
                &mut message,
                &mut encrypted,
                out.as_mut_ptr(),
            )
        };
        context.library.check("gss_wrap", major, minor)?;
        Ok((Bytes::copy_from_slice(out.bytes()), encrypted != 0))
    }

    /// Decrypts a message of the peer.
    ///
    /// # Errors
    /// [`GssError::Failed`] when it was changed, [`GssError::NotEncrypted`].
    pub fn decrypt(&self, message: &[u8]) -> Result<Bytes, GssError> {
        let context = self.lock();
        let mut out = OwnedBuffer::new(context.library);
        let (mut minor, mut message, mut encrypted) = (0, input(message), 0);
        // SAFETY: as in `mic`.
        let major = unsafe {
            (context.library.functions().gss_unwrap)(
                &mut minor,
                context.raw,
                &mut message,
                out.as_mut_ptr(),
                &mut encrypted,
                none(),
            )
        };
        context.library.check("gss_unwrap", major, minor)?;
        if encrypted == 0 {
            return Err(GssError::NotEncrypted);
        }
        Ok(Bytes::copy_from_slice(out.bytes()))
    }
}

impl GssContext for KerberosContext {
    fn principal(&self) -> &str {
        &self.principal
    }

    fn get_mic(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        self.mic(message).map_err(|error| error.failure())
    }

    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssFailure> {
        self.check_mic(message, mic).map_err(|error| error.failure())
    }

    fn wrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        self.encrypt(message).map_err(|error| error.failure())
    }

    fn unwrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        self.decrypt(message).map_err(|error| error.failure())
    }
}
