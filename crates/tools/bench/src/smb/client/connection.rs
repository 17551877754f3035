//! A connection with one session and one share.

use std::{
    io::{IoSlice, Read as _, Write as _},
    net::{SocketAddr, TcpStream},
    time::Duration,
};

use anyhow::{Context, Result, bail, ensure};
use braid_smb_wire::{
    NtStatus, Reader,
    auth::{
        ntlm::{Credentials, Initiator, nt_hash},
        spnego::{Mechanism, NegTokenInit, NegTokenResp, Token, mechanism_list},
    },
    frame::{self, FrameKind, Transform},
    protect::{PreauthHash, Sealer, Sender, SessionKeys, Signer},
    smb2::{
        Body, Command, Dialect, Flags, HEADER_BYTES, Header,
        negotiate::{
            Capabilities, Cipher, HashAlgorithm, NegotiateContext, NegotiateRequest,
            NegotiateResponse, SecurityMode, SigningAlgorithm,
        },
        session_setup::{SessionSetupRequest, SessionSetupResponse},
        tree_connect::TreeConnectRequest,
    },
};
use bytes::Bytes;

/// The user of all clients, and its password.
pub const USER: &str = "root";
/// See [`USER`].
pub const PASSWORD: &str = "a password of the bench";
/// The share of all servers.
pub const SHARE: &str = "bench";
/// How it logs on.
const MECHANISMS: [Mechanism; 1] = [Mechanism::Ntlm];
/// The cipher, which every server of 3.1.1 has.
const CIPHER: Cipher = Cipher::AES_128_GCM;
/// Maximum time for an answer.
const ANSWER_TIME_MAX: Duration = Duration::from_secs(60);
/// Largest frame: 1 MiB of data, and headers.
const FRAME_BYTES_MAX: usize = (1 << 20) + 4096;
/// Credits that each request asks for.
const CREDITS: u16 = 256;

/// What protects messages after the logon.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Protection {
    /// Nothing.
    None,
    /// AES-128-GCM.
    Encrypted,
}

impl Protection {
    /// Both.
    pub const ALL: [Self; 2] = [Self::None, Self::Encrypted];

    /// For names of measures.
    pub fn word(self) -> &'static str {
        if self == Self::None { "plain" } else { "encrypted" }
    }
}

/// A response.
#[derive(Debug)]
pub struct Answer {
    pub header: Header,
    message: Bytes,
}

impl Answer {
    /// The body of a response that succeeded.
    ///
    /// # Errors
    /// Another status, or a malformed body.
    pub fn body<T: Body>(&self) -> Result<T> {
        self.succeeded()?;
        let mut reader = Reader::new(self.message.clone());
        reader.skip(HEADER_BYTES)?;
        Ok(T::decode(&mut reader)?)
    }

    /// Refuses every status but success.
    pub fn succeeded(&self) -> Result<()> {
        let Header { status, command, .. } = self.header;
        ensure!(status == NtStatus::SUCCESS, "command {command} failed: {status:?}");
        Ok(())
    }
}

/// See the module.
pub struct Connection {
    stream: TcpStream,
    next_message: u64,
    credits: u32,
    session: u64,
    tree: u32,
    signer: Option<Signer>,
    /// Encrypts what is sent, and decrypts what is received.
    sealers: Option<(Sealer, Sealer)>,
    encrypts: bool,
    /// The frame that arrives.
    frame: Vec<u8>,
}

impl Connection {
    /// Logs on, and connects to the share [`SHARE`]. Each client has a GUID of its own, made from
    /// `number`.
    ///
    /// # Errors
    /// The server cannot be reached, refuses the logon, or has no SMB 3.1.1 with AES-128-GCM.
    pub fn new(server: SocketAddr, number: u64, protection: Protection) -> Result<Self> {
        let stream = TcpStream::connect(server).with_context(|| format!("connect to {server}"))?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(ANSWER_TIME_MAX))?;
        let mut connection = Self {
            stream,
            next_message: 0,
            credits: 1,
            session: 0,
            tree: 0,
            signer: None,
            sealers: None,
            encrypts: false,
            frame: Vec::new(),
        };
        let preauth = connection.negotiate(number)?;
        connection.log_on(preauth).context("log on")?;
        connection.connect_tree().context("connect to the share")?;
        connection.encrypts = protection == Protection::Encrypted;
        Ok(connection)
    }

    fn negotiate(&mut self, number: u64) -> Result<(PreauthHash, SigningAlgorithm)> {
        let mut client_guid = [0xb5; 16];
        client_guid[..8].copy_from_slice(&number.to_le_bytes());
        let request = NegotiateRequest {
            dialects: vec![Dialect::Smb311.number()],
            security_mode: SecurityMode::SIGNING_ENABLED,
            capabilities: Capabilities::LARGE_MTU.with(Capabilities::ENCRYPTION),
            client_guid,
            contexts: vec![
                NegotiateContext::PreauthIntegrity {
                    hashes: vec![HashAlgorithm::SHA512],
                    salt: Bytes::from_static(b"bench"),
                },
                NegotiateContext::Encryption(vec![CIPHER]),
                NegotiateContext::Signing(vec![SigningAlgorithm::AES_GMAC]),
            ],
        };
        let mut preauth = PreauthHash::default();
        let answer = self.call_hashed(Command::Negotiate, &request, &mut preauth)?;
        let response: NegotiateResponse = answer.body()?;
        preauth.update(&[&answer.message]);
        let mut signing = SigningAlgorithm::AES_CMAC;
        let mut cipher = None;
        for context in &response.contexts {
            match context {
                NegotiateContext::Signing(chosen) => {
                    signing = *chosen.first().context("no signing algorithm was chosen")?;
                }
                NegotiateContext::Encryption(chosen) => cipher = chosen.first().copied(),
                _ => {}
            }
        }
        ensure!(response.dialect == Dialect::Smb311.number(), "the server has no SMB 3.1.1");
        ensure!(cipher == Some(CIPHER), "the server does not encrypt with AES-128-GCM");
        Ok((preauth, signing))
    }

    /// NTLMv2 in SPNEGO. MS-SMB2 3.2.4.2.3.
    fn log_on(&mut self, (mut preauth, signing): (PreauthHash, SigningAlgorithm)) -> Result<()> {
        let credentials = Credentials {
            user: USER.to_owned(),
            domain: String::new(),
            workstation: "BENCH".to_owned(),
            hash: nt_hash(PASSWORD),
        };
        let ntlm = Initiator::new(credentials);
        let first = NegTokenInit {
            mechanisms: MECHANISMS.to_vec(),
            token: Some(Bytes::copy_from_slice(ntlm.negotiate())),
            ..NegTokenInit::default()
        };
        let answer = self.set_up(first.encode(), &mut preauth)?;
        let status = answer.header.status;
        ensure!(status == NtStatus::MORE_PROCESSING_REQUIRED, "no challenge: {status:?}");
        preauth.update(&[&answer.message]);
        self.session = answer.header.session_id;
        let mut reader = Reader::new(answer.message);
        reader.skip(HEADER_BYTES)?;
        let token = SessionSetupResponse::decode(&mut reader)?.security_buffer;
        let Token::Resp(NegTokenResp { token: Some(challenge), .. }) = Token::decode(&token)?
        else {
            bail!("the server sent no challenge");
        };
        // The server's nonces suffice for a bench; these need not be random.
        let (token, user) = ntlm.authenticate(&challenge, [3; 8], [4; 16])?;
        // Samba wants the MIC of the list of mechanisms, though it has only one.
        let mic = user.message_keys(Sender::Client).mic(&mechanism_list(&MECHANISMS));
        let mic = Some(Bytes::copy_from_slice(&mic));
        let last = NegTokenResp { token: Some(token.into()), mic, ..NegTokenResp::default() };
        let answer = self.set_up(last.encode(), &mut preauth)?;
        answer.succeeded()?;
        let key = &user.session_key;
        let keys = SessionKeys::derive(Dialect::Smb311, key, &preauth, Some(CIPHER));
        let sealer = |key| Sealer::new(CIPHER, key).context("a key of the wrong length");
        self.signer = Some(Signer::new(signing, &keys.signing).context("unknown signing")?);
        self.sealers = Some((sealer(&keys.server_in)?, sealer(&keys.server_out)?));
        Ok(())
    }

    fn set_up(&mut self, token: Vec<u8>, preauth: &mut PreauthHash) -> Result<Answer> {
        let request = SessionSetupRequest {
            security_mode: SecurityMode::SIGNING_ENABLED.0 as u8,
            security_buffer: token.into(),
            ..SessionSetupRequest::default()
        };
        self.call_hashed(Command::SessionSetup, &request, preauth)
    }

    /// The request is signed, as 3.1.1 wants it (MS-SMB2 3.3.5.7).
    fn connect_tree(&mut self) -> Result<()> {
        let path = format!(r"\\bench\{SHARE}");
        let body = TreeConnectRequest { path, ..TreeConnectRequest::default() }.to_bytes();
        let mut header = self.header(Command::TreeConnect, 1);
        header.flags = Flags::SIGNED;
        let signer = self.signer.as_ref().context("no logon")?;
        signer.sign(&mut header, &[&body], Sender::Client).context("sign")?;
        self.send(&header, &[&body])?;
        let answer = self.receive()?;
        answer.succeeded()?;
        self.tree = answer.header.tree_id;
        Ok(())
    }

    fn call_hashed(
        &mut self,
        command: Command,
        body: &impl Body,
        preauth: &mut PreauthHash,
    ) -> Result<Answer> {
        let (header, body) = (self.header(command, 1), body.to_bytes());
        preauth.update(&[&header.to_bytes(), &body]);
        self.send(&header, &[&body])?;
        self.receive()
    }

    /// The header of the next request, which uses this many credits.
    pub fn header(&mut self, command: Command, charge: u16) -> Header {
        let header = Header {
            credit_charge: charge,
            credits: CREDITS,
            session_id: self.session,
            tree_id: self.tree,
            ..Header::request(command, self.next_message)
        };
        self.next_message += u64::from(charge);
        self.credits = self.credits.saturating_sub(charge.into());
        header
    }

    /// Whether the server has granted this many credits.
    pub fn has_credits(&self, charge: u16) -> bool {
        self.credits >= u32::from(charge)
    }

    /// Sends a request in a frame of its own. Long data are a part, and are not copied without
    /// encryption.
    pub fn send(&mut self, header: &Header, body: &[&[u8]]) -> Result<()> {
        let header = header.to_bytes();
        let message: Vec<&[u8]> =
            std::iter::once(&header[..]).chain(body.iter().copied()).collect();
        self.send_messages(&message)
    }

    /// Sends messages in one frame, in parts.
    pub fn send_messages(&mut self, parts: &[&[u8]]) -> Result<()> {
        let sealed = match &self.sealers {
            Some((sealer, _)) if self.encrypts => sealer.seal(self.session, parts)?,
            _ => Vec::new(),
        };
        let parts: Vec<&[u8]> = if self.encrypts { vec![&sealed] } else { parts.to_vec() };
        let length = frame::encode_length(parts.iter().map(|part| part.len()).sum());
        let mut slices: Vec<IoSlice<'_>> =
            std::iter::once(&length[..]).chain(parts).map(IoSlice::new).collect();
        let mut slices = &mut slices[..];
        while !slices.is_empty() {
            let count = self.stream.write_vectored(slices)?;
            ensure!(count > 0, "the server has disconnected");
            IoSlice::advance_slices(&mut slices, count);
        }
        Ok(())
    }

    /// The next frame, decrypted.
    fn receive_frame(&mut self) -> Result<()> {
        let mut prefix = [0; frame::LENGTH_BYTES];
        self.stream.read_exact(&mut prefix).context("wait for an answer")?;
        let length = frame::decode_length(prefix, FRAME_BYTES_MAX)?;
        if self.frame.len() < length {
            self.frame.resize(length, 0);
        }
        self.stream.read_exact(&mut self.frame[..length])?;
        self.frame.truncate(length);
        if FrameKind::of(&self.frame)? == FrameKind::Transform {
            let head = Bytes::copy_from_slice(&self.frame[..length.min(Transform::BYTES)]);
            let header = Transform::decode(&mut Reader::new(head))?;
            let (_, sealer) = self.sealers.as_ref().context("encrypted before the logon")?;
            self.frame = sealer.unseal(&header, &self.frame)?;
        } else {
            ensure!(!self.encrypts, "an answer was not encrypted");
        }
        Ok(())
    }

    /// The header and body of the next response, as they are; nothing is copied. An interim
    /// response is skipped (MS-SMB2 3.2.5.1.5).
    pub fn receive_raw(&mut self) -> Result<(Header, &[u8])> {
        loop {
            self.receive_frame()?;
            let head = self.frame.get(..HEADER_BYTES).context("a short answer")?;
            let header = Header::decode(&mut Reader::new(Bytes::copy_from_slice(head)))?;
            self.credits += u32::from(header.credits);
            if header.status != NtStatus::PENDING {
                return Ok((header, &self.frame[HEADER_BYTES..]));
            }
        }
    }

    /// The next response, alone in its frame.
    pub fn receive(&mut self) -> Result<Answer> {
        let mut answers = self.receive_compound()?;
        ensure!(answers.len() == 1, "{} responses to one request", answers.len());
        Ok(answers.remove(0))
    }

    /// The responses of the next frame.
    pub fn receive_compound(&mut self) -> Result<Vec<Answer>> {
        loop {
            self.receive_frame()?;
            let messages = frame::messages(Bytes::copy_from_slice(&self.frame))?;
            let mut answers = Vec::with_capacity(messages.len());
            for message in messages {
                let header = Header::decode(&mut Reader::new(message.clone()))?;
                self.credits += u32::from(header.credits);
                answers.push(Answer { header, message });
            }
            if answers.iter().all(|answer| answer.header.status != NtStatus::PENDING) {
                return Ok(answers);
            }
        }
    }
}
