//! Signatures and encryption of a session. MS-SMB2 3.1.4.

use braid_smb_wire::frame::Transform;
use braid_smb_wire::protect::{Sealer, Sender, SessionKeys, Signer};
use braid_smb_wire::smb2::Header;
use braid_smb_wire::{Malformed, Reader};
use bytes::Bytes;

use crate::connection::negotiated::Negotiated;

/// How the messages of a session are protected.
#[derive(Debug, Default)]
pub struct Protection {
    signer: Option<Signer>,
    required: bool,
    /// Encrypts what is sent, and decrypts what is received.
    sealers: Option<(Sealer, Sealer)>,
}

impl Protection {
    /// That of a session whose user has a password. `required`: every message is signed or
    /// encrypted.
    pub fn new(negotiated: &Negotiated, keys: &SessionKeys, required: bool) -> Self {
        let sealers = negotiated.cipher.and_then(|cipher| {
            Some((Sealer::new(cipher, &keys.server_out)?, Sealer::new(cipher, &keys.server_in)?))
        });
        Self { signer: Signer::new(negotiated.signing, &keys.signing), required, sealers }
    }

    /// Whether every message is signed or encrypted.
    pub fn requires_signing(&self) -> bool {
        self.required
    }

    /// Whether messages can be signed: not those of guests, whose key everybody knows.
    pub fn can_sign(&self) -> bool {
        self.signer.is_some()
    }

    /// Whether messages can be encrypted.
    pub fn can_encrypt(&self) -> bool {
        self.sealers.is_some()
    }

    /// Signs a response, whose parts behind the header are `rest`.
    pub fn sign(&self, header: &mut Header, rest: &[&[u8]]) {
        let signed =
            self.signer.as_ref().and_then(|signer| signer.sign(header, rest, Sender::Server));
        if signed.is_none() {
            // The client refuses it.
            tracing::error!("a response was not signed");
        }
    }

    /// Whether the signature of a request is right.
    pub fn verify(&self, header: &Header, message: &[u8]) -> bool {
        self.signer.as_ref().is_some_and(|signer| signer.verify(header, message, Sender::Client))
    }

    /// The messages of an encrypted frame; `None` if it is not right.
    pub fn unseal(&self, sealed: &Sealed, frame: &[u8]) -> Option<Bytes> {
        let (_, receive) = self.sealers.as_ref()?;
        receive.unseal(&sealed.0, frame).ok().map(Bytes::from)
    }

    /// A frame with encrypted responses.
    pub fn seal(&self, session_id: u64, responses: &[Bytes]) -> Vec<Bytes> {
        let parts: Vec<&[u8]> = responses.iter().map(|part| &part[..]).collect();
        let sealed = self.sealers.as_ref().and_then(|(send, _)| send.seal(session_id, &parts).ok());
        match sealed {
            Some(frame) => vec![frame.into()],
            None => {
                tracing::error!("a response was not encrypted");
                Vec::new()
            }
        }
    }
}

/// The header of an encrypted frame.
#[derive(Clone, Copy, Debug)]
pub struct Sealed(Transform);

impl Sealed {
    /// Reads it.
    ///
    /// # Errors
    /// The bytes are none.
    pub fn read(frame: &Bytes) -> Result<Self, Malformed> {
        Transform::decode(&mut Reader::new(frame.clone())).map(Self)
    }

    /// The session whose key encrypted the frame.
    pub fn session_id(&self) -> u64 {
        self.0.session_id
    }
}
