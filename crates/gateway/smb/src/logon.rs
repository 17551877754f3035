//! A logon that has not ended: from the first SESSION_SETUP to the last. MS-SMB2 3.3.5.5, MS-SPNG.
//!
//! ```text
//!   client: mechanisms, [NTLM NEGOTIATE]   ->   NTLM CHALLENGE
//!   client: NTLM AUTHENTICATE, [MIC]       ->   a user, [MIC]
//! ```

use braid_smb_wire::auth::ntlm::{Acceptor, Authenticated, NtHash, ServerNames};
use braid_smb_wire::auth::spnego::{Mechanism, NegState, NegTokenResp, Token};
use braid_smb_wire::protect::{PreauthHash, Sender};
use bytes::Bytes;
use tokio::time::Instant;

/// A logon that has not ended.
#[derive(Debug)]
pub struct PendingLogon {
    /// Over the messages of the negotiation and of the logon, for 3.1.1.
    preauth: Option<PreauthHash>,
    acceptor: Acceptor,
    /// Whether the client wraps its tokens in SPNEGO.
    wrapped: bool,
    /// The list of mechanisms, as the client has sent it, if NTLM was not its first choice: then
    /// the list must be authenticated (RFC 4178 5).
    list: Option<Bytes>,
    must_authenticate_list: bool,
    /// Whether the next token proves that the client knows a password.
    challenged: bool,
    /// When it began: the oldest is forgotten first.
    pub begun: Instant,
}

/// What follows from a token.
#[derive(Debug)]
pub enum Step {
    /// The client sends another token.
    Continue(Box<PendingLogon>, Vec<u8>),
    /// The client has authenticated, or has not.
    End(Outcome),
}

/// The end of a logon.
#[derive(Debug)]
pub struct Outcome {
    /// The user, or why there is none.
    pub result: Result<Authenticated, Refused>,
    /// The last token of the server.
    pub token: Vec<u8>,
    /// Over the messages of the negotiation and of the logon, for 3.1.1.
    pub preauth: PreauthHash,
}

/// Why a logon failed, for the log; a client does not learn it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Refused {
    /// The user that the client named.
    pub user: String,
    /// Why.
    pub why: String,
}

impl Refused {
    /// A client that has sent no user.
    pub fn protocol(why: &'static str) -> Self {
        Self { user: String::new(), why: why.to_owned() }
    }
}

impl PendingLogon {
    /// A logon whose first token has not been read. `now` is a FILETIME.
    pub fn new(
        names: ServerNames,
        challenge: [u8; 8],
        now: u64,
        preauth: Option<PreauthHash>,
    ) -> Self {
        Self {
            preauth,
            acceptor: Acceptor::new(names, challenge, now),
            wrapped: true,
            list: None,
            must_authenticate_list: false,
            challenged: false,
            begun: Instant::now(),
        }
    }

    /// Adds a message to the hash, if the dialect has one.
    pub fn hash(&mut self, message: &[&[u8]]) {
        if let Some(hash) = &mut self.preauth {
            hash.update(message);
        }
    }

    /// Whether the next token proves that the client knows a password, or does not.
    pub fn checks_password(&self) -> bool {
        self.challenged
    }

    /// Reads a token. `lookup` gives the hash of a user's password.
    pub fn step(
        mut self: Box<Self>,
        token: &Bytes,
        lookup: impl FnOnce(&str) -> Option<NtHash>,
    ) -> Step {
        let decoded = match Token::decode(token) {
            Ok(decoded) => decoded,
            Err(_) => return self.refuse("a token that is no SPNEGO and no NTLM"),
        };
        let (ntlm, mic) = match decoded {
            Token::RawNtlm(token) => {
                self.wrapped = false;
                (Some(token), None)
            }
            Token::Init(init) => {
                let mechanisms = init.mechanisms;
                if !mechanisms.contains(&Mechanism::Ntlm) {
                    return self.refuse("the client offers no NTLM");
                }
                let is_first = mechanisms.first() == Some(&Mechanism::Ntlm);
                self.must_authenticate_list = !is_first;
                self.list = Some(init.mechanism_list);
                // The first token is for the first mechanism.
                (init.token.filter(|_| is_first), None)
            }
            Token::Resp(response) => (response.token, response.mic),
        };
        let Some(ntlm) = ntlm else {
            return self.choose_ntlm();
        };
        match message_type(&ntlm) {
            Some(1) => self.challenge(&ntlm),
            Some(3) if self.challenged => self.authenticate(&ntlm, mic.as_deref(), lookup),
            _ => self.refuse("a token that is no message of NTLM"),
        }
    }

    /// The client preferred another mechanism, and is asked for a token of NTLM.
    fn choose_ntlm(self: Box<Self>) -> Step {
        if self.list.is_none() {
            return self.refuse("a response without a token");
        }
        let token = NegTokenResp {
            state: Some(NegState::RequestMic),
            mechanism: Some(Mechanism::Ntlm),
            token: None,
            mic: None,
        };
        Step::Continue(self, token.encode())
    }

    fn challenge(mut self: Box<Self>, negotiate: &Bytes) -> Step {
        let Ok(challenge) = self.acceptor.challenge(negotiate) else {
            return self.refuse("a wrong NEGOTIATE of NTLM");
        };
        self.challenged = true;
        let token = if self.wrapped {
            let token = NegTokenResp {
                state: Some(NegState::AcceptIncomplete),
                mechanism: Some(Mechanism::Ntlm),
                token: Some(challenge.into()),
                mic: None,
            };
            token.encode()
        } else {
            challenge
        };
        Step::Continue(self, token)
    }

    fn authenticate(
        self: Box<Self>,
        message: &Bytes,
        mic: Option<&[u8]>,
        lookup: impl FnOnce(&str) -> Option<NtHash>,
    ) -> Step {
        let Self { preauth, acceptor, wrapped, list, must_authenticate_list, .. } = *self;
        let preauth = preauth.unwrap_or_default();
        let mut named = String::new();
        let found = acceptor.authenticate(message, |user, _| {
            user.clone_into(&mut named);
            lookup(user)
        });
        let mut result = match found {
            Ok(user) => Ok(user),
            Err(failure) => Err(Refused { user: named, why: failure.to_string() }),
        };
        let mut own_mic = None;
        if let (Ok(user), Some(list)) = (&result, &list)
            && !user.anonymous
        {
            let is_right = match mic {
                Some(mic) => user.message_keys(Sender::Client).verify_mic(list, mic).is_ok(),
                None => !must_authenticate_list,
            };
            if is_right {
                let keys = user.message_keys(Sender::Server);
                own_mic = mic.map(|_| Bytes::copy_from_slice(&keys.mic(list)));
            } else {
                let user = user.user.clone();
                let why = "the list of mechanisms was changed in flight".to_owned();
                result = Err(Refused { user, why });
            }
        }
        let state = match result {
            Ok(_) => NegState::AcceptCompleted,
            Err(_) => NegState::Reject,
        };
        let token = match wrapped {
            true => {
                let state = Some(state);
                NegTokenResp { state, mechanism: None, token: None, mic: own_mic }.encode()
            }
            false => Vec::new(),
        };
        Step::End(Outcome { result, token, preauth })
    }

    fn refuse(self, why: &'static str) -> Step {
        let preauth = self.preauth.unwrap_or_default();
        Step::End(Outcome { result: Err(Refused::protocol(why)), token: Vec::new(), preauth })
    }
}

/// The type of a message of NTLM. MS-NLMP 2.2.1.
fn message_type(token: &[u8]) -> Option<u32> {
    let number = token.strip_prefix(b"NTLMSSP\0")?.first_chunk()?;
    Some(u32::from_le_bytes(*number))
}
