//! SPNEGO: which mechanism a client and a server use, and the tokens of that mechanism. RFC 4178,
//! MS-SPNG.

use bytes::Bytes;

use super::der::{DerReader, element};
use crate::cursor::{Malformed, Result};

/// Mechanisms in one list, at most.
const MECHANISMS_MAX: usize = 16;

const OID: u8 = 0x06;
const OCTET_STRING: u8 = 0x04;
const ENUMERATED: u8 = 0x0a;
const GENERAL_STRING: u8 = 0x1b;
const SEQUENCE: u8 = 0x30;
/// Of the token that begins a GSS-API exchange (RFC 2743 3.1).
const APPLICATION_0: u8 = 0x60;

const SPNEGO_OID: &[u8] = &[0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
const NTLMSSP_OID: &[u8] = &[0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a];
const KERBEROS_OID: &[u8] = &[0x2a, 0x86, 0x48, 0x86, 0xf7, 0x12, 0x01, 0x02, 0x02];
const MS_KERBEROS_OID: &[u8] = &[0x2a, 0x86, 0x48, 0x82, 0xf7, 0x12, 0x01, 0x02, 0x02];

/// MS-SPNG 3.2.5.2: the text that a server of Windows sends.
const HINT: &[u8] = b"not_defined_in_RFC4178@please_ignore";

const fn context(number: u8) -> u8 {
    0xa0 | number
}

/// A way to log on.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Mechanism {
    /// NTLM (MS-NLMP).
    Ntlm,
    /// Kerberos 5 (RFC 4121).
    Kerberos,
    /// Kerberos 5 with the wrong identifier of Windows 2000, which clients still send.
    MsKerberos,
    /// Another: the contents of its object identifier.
    Other(Bytes),
}

impl Mechanism {
    fn from_oid(oid: &[u8]) -> Self {
        match oid {
            NTLMSSP_OID => Self::Ntlm,
            KERBEROS_OID => Self::Kerberos,
            MS_KERBEROS_OID => Self::MsKerberos,
            _ => Self::Other(Bytes::copy_from_slice(oid)),
        }
    }

    fn oid(&self) -> &[u8] {
        match self {
            Self::Ntlm => NTLMSSP_OID,
            Self::Kerberos => KERBEROS_OID,
            Self::MsKerberos => MS_KERBEROS_OID,
            Self::Other(oid) => oid,
        }
    }
}

/// How far an exchange is. RFC 4178 4.2.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum NegState {
    /// The logon succeeded.
    AcceptCompleted = 0,
    /// Another token is expected.
    AcceptIncomplete = 1,
    /// The logon failed.
    Reject = 2,
    /// As `AcceptIncomplete`, and the list of mechanisms needs its MIC.
    RequestMic = 3,
}

/// The first token of a client. RFC 4178 4.2.1.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NegTokenInit {
    /// Mechanisms of the sender, its preferred one first.
    pub mechanisms: Vec<Mechanism>,
    /// A token of the first mechanism.
    pub token: Option<Bytes>,
    /// MIC of [`NegTokenInit::mechanism_list`].
    pub mic: Option<Bytes>,
    /// The list as the sender encoded it: what the MICs of both sides cover. The encoder ignores
    /// it.
    pub mechanism_list: Bytes,
}

/// Each later token of both sides. RFC 4178 4.2.2.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct NegTokenResp {
    /// How far the exchange is.
    pub state: Option<NegState>,
    /// The mechanism that the server has chosen; only in its first answer.
    pub mechanism: Option<Mechanism>,
    /// A token of the mechanism.
    pub token: Option<Bytes>,
    /// MIC of the list of mechanisms.
    pub mic: Option<Bytes>,
}

/// A security buffer of SESSION_SETUP.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Token {
    /// The first token.
    Init(NegTokenInit),
    /// A later token.
    Resp(NegTokenResp),
    /// An NTLM message without SPNEGO.
    RawNtlm(Bytes),
}

impl Token {
    /// Reads it.
    ///
    /// # Errors
    /// The bytes are neither a token of SPNEGO nor an NTLM message.
    pub fn decode(bytes: &Bytes) -> Result<Self> {
        if bytes.starts_with(super::ntlm::SIGNATURE) {
            return Ok(Self::RawNtlm(bytes.clone()));
        }
        let (tag, contents, _) = DerReader::new(bytes).element()?;
        match tag {
            APPLICATION_0 => {
                let mut reader = DerReader::new(contents);
                if reader.expect(OID)? != SPNEGO_OID {
                    return Err(Malformed("SPNEGO: another GSS-API mechanism"));
                }
                let init = reader.expect(context(0))?;
                NegTokenInit::decode(bytes, init).map(Self::Init)
            }
            // MS-SPNG 3.1.5.1: accepted without the frame of GSS-API too.
            0xa0 => NegTokenInit::decode(bytes, contents).map(Self::Init),
            0xa1 => NegTokenResp::decode(bytes, contents).map(Self::Resp),
            _ => Err(Malformed("SPNEGO: token")),
        }
    }
}

/// The DER of a list of mechanisms, as [`NegTokenInit::encode`] writes it.
pub fn mechanism_list(mechanisms: &[Mechanism]) -> Vec<u8> {
    let oids: Vec<u8> = mechanisms.iter().flat_map(|one| element(OID, one.oid())).collect();
    element(SEQUENCE, &oids)
}

/// The token of the NEGOTIATE response: the mechanisms that the server offers (NegTokenInit2,
/// MS-SPNG 2.2.1).
pub fn server_offer(mechanisms: &[Mechanism]) -> Vec<u8> {
    let hint = element(context(0), &element(GENERAL_STRING, HINT));
    let mut fields = element(context(0), &mechanism_list(mechanisms));
    fields.extend(element(context(3), &element(SEQUENCE, &hint)));
    initial_token(&fields)
}

fn initial_token(fields: &[u8]) -> Vec<u8> {
    let mut contents = element(OID, SPNEGO_OID);
    contents.extend(element(context(0), &element(SEQUENCE, fields)));
    element(APPLICATION_0, &contents)
}

fn optional_octets(number: u8, value: Option<&Bytes>) -> Vec<u8> {
    let field = |value: &Bytes| element(context(number), &element(OCTET_STRING, value));
    value.map(field).unwrap_or_default()
}

/// The octets of a field, as a slice of the token.
fn octets(token: &Bytes, field: &[u8]) -> Result<Bytes> {
    let contents = DerReader::new(field).expect(OCTET_STRING)?;
    // `slice_ref` of an empty slice is an empty `Bytes`.
    Ok(token.slice_ref(contents))
}

impl NegTokenInit {
    /// Reads the contents of its tag `[0]`; `token` is what `contents` is part of.
    fn decode(token: &Bytes, contents: &[u8]) -> Result<Self> {
        let mut fields = DerReader::new(DerReader::new(contents).expect(SEQUENCE)?);
        let mut init = Self::default();
        while !fields.is_empty() {
            let (tag, field, _) = fields.element()?;
            match tag {
                0xa0 => init.decode_list(token, field)?,
                0xa2 => init.token = Some(octets(token, field)?),
                // RFC 4178 has the MIC here, MS-SPNG 2.2.1 hints and the MIC in `[4]`.
                0xa3 if field.first() != Some(&SEQUENCE) => init.mic = Some(octets(token, field)?),
                0xa4 => init.mic = Some(octets(token, field)?),
                _ => {}
            }
        }
        Ok(init)
    }

    fn decode_list(&mut self, token: &Bytes, field: &[u8]) -> Result<()> {
        let (tag, contents, whole) = DerReader::new(field).element()?;
        if tag != SEQUENCE {
            return Err(Malformed("SPNEGO: mechTypes"));
        }
        self.mechanism_list = token.slice_ref(whole);
        let mut oids = DerReader::new(contents);
        while !oids.is_empty() {
            if self.mechanisms.len() == MECHANISMS_MAX {
                return Err(Malformed("SPNEGO: too many mechanisms"));
            }
            self.mechanisms.push(Mechanism::from_oid(oids.expect(OID)?));
        }
        Ok(())
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = element(context(0), &mechanism_list(&self.mechanisms));
        fields.extend(optional_octets(2, self.token.as_ref()));
        fields.extend(optional_octets(3, self.mic.as_ref()));
        initial_token(&fields)
    }
}

impl NegTokenResp {
    fn decode(token: &Bytes, contents: &[u8]) -> Result<Self> {
        let mut fields = DerReader::new(DerReader::new(contents).expect(SEQUENCE)?);
        let mut response = Self::default();
        while !fields.is_empty() {
            let (tag, field, _) = fields.element()?;
            match tag {
                0xa0 => response.state = Some(state(DerReader::new(field).expect(ENUMERATED)?)?),
                0xa1 => {
                    let oid = DerReader::new(field).expect(OID)?;
                    response.mechanism = Some(Mechanism::from_oid(oid));
                }
                0xa2 => response.token = Some(octets(token, field)?),
                0xa3 => response.mic = Some(octets(token, field)?),
                _ => {}
            }
        }
        Ok(response)
    }

    /// Its bytes.
    pub fn encode(&self) -> Vec<u8> {
        let mut fields = Vec::new();
        if let Some(state) = self.state {
            fields.extend(element(context(0), &element(ENUMERATED, &[state as u8])));
        }
        if let Some(mechanism) = &self.mechanism {
            fields.extend(element(context(1), &element(OID, mechanism.oid())));
        }
        fields.extend(optional_octets(2, self.token.as_ref()));
        fields.extend(optional_octets(3, self.mic.as_ref()));
        element(context(1), &element(SEQUENCE, &fields))
    }
}

fn state(contents: &[u8]) -> Result<NegState> {
    match contents {
        [0] => Ok(NegState::AcceptCompleted),
        [1] => Ok(NegState::AcceptIncomplete),
        [2] => Ok(NegState::Reject),
        [3] => Ok(NegState::RequestMic),
        _ => Err(Malformed("SPNEGO: negState")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn init() -> NegTokenInit {
        let mechanisms = vec![Mechanism::MsKerberos, Mechanism::Kerberos, Mechanism::Ntlm];
        NegTokenInit {
            mechanism_list: mechanism_list(&mechanisms).into(),
            mechanisms,
            token: Some(Bytes::from_static(b"token")),
            mic: Some(Bytes::from_static(&[9; 16])),
        }
    }

    fn response() -> NegTokenResp {
        NegTokenResp {
            state: Some(NegState::AcceptIncomplete),
            mechanism: Some(Mechanism::Ntlm),
            token: Some(vec![5; 300].into()),
            mic: Some(Bytes::from_static(&[9; 16])),
        }
    }

    #[test]
    fn an_offer_of_ntlm_has_the_bytes_of_the_standard() {
        let mut golden = vec![0x60, 0x48, 0x06, 0x06, 0x2b, 0x06, 0x01, 0x05, 0x05, 0x02];
        golden.extend([0xa0, 0x3e, 0x30, 0x3c, 0xa0, 0x0e, 0x30, 0x0c, 0x06, 0x0a]);
        golden.extend([0x2b, 0x06, 0x01, 0x04, 0x01, 0x82, 0x37, 0x02, 0x02, 0x0a]);
        golden.extend([0xa3, 0x2a, 0x30, 0x28, 0xa0, 0x26, 0x1b, 0x24]);
        golden.extend(HINT);
        assert_eq!(server_offer(&[Mechanism::Ntlm]), golden);
        let Token::Init(offer) = Token::decode(&golden.into()).unwrap() else { panic!("no Init") };
        assert_eq!((offer.mechanisms, offer.mic), (vec![Mechanism::Ntlm], None));
    }

    #[test]
    fn tokens_survive_both_directions() {
        assert_eq!(Token::decode(&init().encode().into()), Ok(Token::Init(init())));
        assert_eq!(Token::decode(&response().encode().into()), Ok(Token::Resp(response())));
        let empty = NegTokenResp::default();
        assert_eq!(Token::decode(&empty.encode().into()), Ok(Token::Resp(empty)));
        let raw = Bytes::from_static(b"NTLMSSP\0\x01\0\0\0");
        assert_eq!(Token::decode(&raw), Ok(Token::RawNtlm(raw)));
    }

    #[test]
    fn a_token_cut_at_any_byte_is_refused() {
        for bytes in [Bytes::from(init().encode()), response().encode().into()] {
            for length in 0..bytes.len() {
                assert!(Token::decode(&bytes.slice(..length)).is_err(), "{length}");
            }
        }
    }

    #[test]
    fn more_mechanisms_than_the_limit_are_refused() {
        let list = |count| NegTokenInit { mechanisms: vec![Mechanism::Ntlm; count], ..init() };
        assert!(Token::decode(&list(MECHANISMS_MAX).encode().into()).is_ok());
        assert!(Token::decode(&list(MECHANISMS_MAX + 1).encode().into()).is_err());
    }

    proptest::proptest! {
        #[test]
        fn no_bytes_cause_a_panic(bytes: Vec<u8>, first in 0x60_u8..0xa2) {
            let _ = Token::decode(&[vec![first], bytes].concat().into());
        }
    }
}
