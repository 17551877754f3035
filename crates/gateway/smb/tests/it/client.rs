//! A client that sends what it is asked to, right or wrong.

use std::io::{ErrorKind, Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use braid_smb_wire::frame::{self, FrameKind, Transform};
use braid_smb_wire::protect::{PreauthHash, Sealer, Sender, SessionKeys, Signer};
use braid_smb_wire::smb2::close::{CloseFlags, CloseRequest};
use braid_smb_wire::smb2::create::{
    CreateDisposition, CreateRequest, CreateResponse, ImpersonationLevel, ShareAccess,
};
use braid_smb_wire::smb2::negotiate::{
    Capabilities, Cipher, HashAlgorithm, NegotiateContext, NegotiateRequest, NegotiateResponse,
    SecurityMode, SigningAlgorithm,
};
use braid_smb_wire::smb2::read::{Channel, ReadFlags, ReadReply, ReadRequest};
use braid_smb_wire::smb2::tree_connect::TreeConnectRequest;
use braid_smb_wire::smb2::write::{WriteFlags, WriteRequest};
use braid_smb_wire::smb2::{Body, Command, Dialect, FileId, Flags, HEADER_BYTES, Header};
use braid_smb_wire::{NtStatus, Reader};
use bytes::Bytes;

use crate::server::Server;

/// A response.
#[derive(Clone, Debug)]
pub struct Answer {
    pub header: Header,
    pub message: Bytes,
}

impl Answer {
    pub fn status(&self) -> NtStatus {
        self.header.status
    }

    pub fn body<T: Body>(&self) -> T {
        let mut reader = Reader::new(self.message.clone());
        reader.skip(HEADER_BYTES).unwrap();
        T::decode(&mut reader).unwrap()
    }
}

/// The keys of a session.
pub struct Keys {
    pub signer: Signer,
    /// Encrypts what is sent, and decrypts what is received.
    pub sealers: Option<(Sealer, Sealer)>,
}

pub struct Client {
    stream: TcpStream,
    pub dialect: Dialect,
    pub cipher: Option<Cipher>,
    pub signing: SigningAlgorithm,
    /// Over the messages of the negotiation.
    pub preauth: PreauthHash,
    /// The number of the next message.
    pub next: u64,
    /// Credits that are asked for with each request.
    pub ask: u16,
    pub session: u64,
    pub tree: u32,
    pub keys: Option<Keys>,
    pub signs: bool,
    pub encrypts: bool,
}

impl Client {
    /// A client that has only connected.
    pub fn connect(server: &Server) -> Self {
        let stream = TcpStream::connect(server.address).unwrap();
        stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
        stream.set_nodelay(true).unwrap();
        Self {
            stream,
            dialect: Dialect::Smb202,
            cipher: None,
            signing: SigningAlgorithm::HMAC_SHA256,
            preauth: PreauthHash::default(),
            next: 0,
            ask: 64,
            session: 0,
            tree: 0,
            keys: None,
            signs: false,
            encrypts: false,
        }
    }

    /// A client of 3.1.1 that has logged on as `alice`, with a tree of the share `data`.
    pub fn ready(server: &Server) -> Self {
        Self::ready_with(server, &offer(&[Dialect::Smb311]))
    }

    /// The same, with another negotiation.
    pub fn ready_with(server: &Server, offer: &NegotiateRequest) -> Self {
        let mut client = Self::connect(server);
        client.negotiate(offer);
        assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
        assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
        client
    }

    /// Negotiates, and remembers the outcome.
    pub fn negotiate(&mut self, offer: &NegotiateRequest) -> NegotiateResponse {
        let request = self.message(Command::Negotiate, &offer.to_bytes());
        self.send(&request);
        let answer = self.answer();
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        let response: NegotiateResponse = answer.body();
        self.dialect = Dialect::from_number(response.dialect).unwrap();
        if self.dialect.is_smb3() {
            self.signing = SigningAlgorithm::AES_CMAC;
        }
        if response.capabilities.has(Capabilities::ENCRYPTION) {
            self.cipher = Some(Cipher::AES_128_CCM);
        }
        for context in &response.contexts {
            match context {
                NegotiateContext::Encryption(ciphers) => self.cipher = ciphers.first().copied(),
                NegotiateContext::Signing(algorithms) => self.signing = algorithms[0],
                _ => {}
            }
        }
        self.preauth = PreauthHash::default();
        self.preauth.update(&[&request]);
        self.preauth.update(&[&answer.message]);
        response
    }

    /// Takes the keys that follow from that of a logon.
    pub fn take_keys(&mut self, session_key: &[u8; 16], preauth: &PreauthHash) {
        let keys = SessionKeys::derive(self.dialect, session_key, preauth, self.cipher);
        let sealer = |cipher, key: &[u8]| Sealer::new(cipher, key).unwrap();
        self.keys = Some(Keys {
            signer: Signer::new(self.signing, &keys.signing).unwrap(),
            sealers: self
                .cipher
                .map(|cipher| (sealer(cipher, &keys.server_in), sealer(cipher, &keys.server_out))),
        });
    }

    /// Connects to a share. The request is signed in 3.1.1, where it has to be.
    pub fn tree_connect(&mut self, share: &str) -> NtStatus {
        let signs = self.signs;
        self.signs |= self.dialect == Dialect::Smb311 && self.keys.is_some();
        let answer = self.call(Command::TreeConnect, &tree_connect(share));
        self.signs = signs;
        self.tree = answer.header.tree_id;
        answer.status()
    }

    /// A header for the next message, which uses its number.
    pub fn header(&mut self, command: Command) -> Header {
        let header = Header {
            credits: self.ask,
            session_id: self.session,
            tree_id: self.tree,
            ..Header::request(command, self.next)
        };
        self.next += 1;
        header
    }

    /// The next message, without a signature.
    pub fn message(&mut self, command: Command, body: &[u8]) -> Vec<u8> {
        [&self.header(command).to_bytes()[..], body].concat()
    }

    /// A message with this header, signed if the client signs.
    pub fn signed(&self, mut header: Header, body: &[u8]) -> Vec<u8> {
        if self.signs {
            header.flags = header.flags.with(Flags::SIGNED);
            let keys = self.keys.as_ref().unwrap();
            keys.signer.sign(&mut header, &[body], Sender::Client).unwrap();
        }
        [&header.to_bytes()[..], body].concat()
    }

    /// Encrypts messages if the client does.
    pub fn sealed(&self, messages: &[u8]) -> Vec<u8> {
        let sealers = self.keys.as_ref().and_then(|keys| keys.sealers.as_ref());
        match sealers.filter(|_| self.encrypts) {
            Some((send, _)) => send.seal(self.session, &[messages]).unwrap(),
            None => messages.to_vec(),
        }
    }

    /// Sends a request and receives its response, which is checked.
    pub fn call(&mut self, command: Command, body: &impl Body) -> Answer {
        let header = self.header(command);
        self.call_as(header, &body.to_bytes())
    }

    /// The same with a header that was changed.
    pub fn call_as(&mut self, header: Header, body: &[u8]) -> Answer {
        let number = header.message_id;
        let message = self.signed(header, body);
        self.send(&self.sealed(&message));
        let answer = self.answer();
        assert_eq!(answer.header.message_id, number);
        answer
    }

    /// Sends requests in one frame; `true` for one that is related. Receives the responses.
    pub fn compound(&mut self, requests: &[(Command, bool, Vec<u8>)]) -> Vec<Answer> {
        let frame = self.compound_frame(requests);
        self.send(&self.sealed(&frame));
        let answers = self.answers().expect("the connection goes on");
        assert_eq!(answers.len(), requests.len());
        answers
    }

    /// The messages of a compound.
    pub fn compound_frame(&mut self, requests: &[(Command, bool, Vec<u8>)]) -> Vec<u8> {
        let mut frame = Vec::new();
        for (index, (command, related, body)) in requests.iter().enumerate() {
            let mut header = self.header(*command);
            let mut body = body.clone();
            if *related {
                header.flags = Flags::RELATED;
                (header.session_id, header.tree_id) = (u64::MAX, u32::MAX);
            }
            if index + 1 < requests.len() {
                body.resize((HEADER_BYTES + body.len()).next_multiple_of(8) - HEADER_BYTES, 0);
                header.next_command = (HEADER_BYTES + body.len()) as u32;
            }
            frame.extend(self.signed(header, &body));
        }
        frame
    }

    /// Sends a frame. It may be lost, when the server has disconnected.
    pub fn send(&mut self, frame: &[u8]) {
        self.send_raw(&[&frame::encode_length(frame.len()), frame].concat());
    }

    /// Sends bytes, which need not be a frame.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        // Refused when the server has disconnected: the caller sees that when it reads.
        let _ = self.stream.write_all(bytes);
    }

    /// Sends bytes, and ends the connection with a TCP reset: a response has arrived that nobody
    /// has read.
    pub fn reset(mut self, bytes: &[u8]) {
        let echo = self.message(Command::Echo, &braid_smb_wire::smb2::Empty.to_bytes());
        self.send(&echo);
        assert_eq!(self.stream.peek(&mut [0]).unwrap(), 1);
        self.send_raw(bytes);
    }

    /// The next frame; `None` if the server has disconnected.
    pub fn receive(&mut self) -> Option<Bytes> {
        let mut prefix = [0; 4];
        let mut frame = Vec::new();
        let read = self.stream.read_exact(&mut prefix).and_then(|()| {
            frame.resize(u32::from_be_bytes(prefix) as usize, 0);
            self.stream.read_exact(&mut frame)
        });
        match read {
            Ok(()) => Some(frame.into()),
            Err(error) => {
                assert_ne!(error.kind(), ErrorKind::WouldBlock, "no answer, no disconnection");
                None
            }
        }
    }

    /// The messages of the next frame, decrypted, with their signatures checked.
    pub fn answers(&mut self) -> Option<Vec<Answer>> {
        let mut frame = self.receive()?;
        let is_sealed = FrameKind::of(&frame).unwrap() == FrameKind::Transform;
        assert_eq!(is_sealed, self.encrypts, "a response is protected as its request");
        if is_sealed {
            let header = Transform::decode(&mut Reader::new(frame.clone())).unwrap();
            assert_eq!(header.session_id, self.session);
            let (_, receive) = self.keys.as_ref().unwrap().sealers.as_ref().unwrap();
            frame = receive.unseal(&header, &frame).unwrap().into();
        }
        let messages = frame::messages(frame).unwrap();
        Some(messages.into_iter().map(|message| self.checked(message)).collect())
    }

    fn checked(&self, message: Bytes) -> Answer {
        let header = Header::decode(&mut Reader::new(message.clone())).unwrap();
        assert!(header.flags.has(Flags::RESPONSE));
        if header.flags.has(Flags::SIGNED) && header.session_id == self.session {
            // The response that ends a logon is checked when its key is known.
            let keys = self.keys.as_ref();
            let right = |keys: &Keys| keys.signer.verify(&header, &message, Sender::Server);
            assert!(keys.is_none_or(right), "a wrong signature: {header:?}");
        }
        Answer { header, message }
    }

    /// The only message of the next frame.
    pub fn answer(&mut self) -> Answer {
        let mut answers = self.answers().expect("the connection goes on");
        assert_eq!(answers.len(), 1);
        answers.remove(0)
    }

    /// Whether the server has disconnected: nothing more arrives.
    pub fn is_disconnected(&mut self) -> bool {
        self.receive().is_none()
    }

    /// Opens or makes a file.
    pub fn open(&mut self, name: &str) -> FileId {
        let answer = self.call(Command::Create, &create(name));
        assert_eq!(answer.status(), NtStatus::SUCCESS, "{name}");
        answer.body::<CreateResponse>().file_id
    }

    /// Whether there is a file.
    pub fn has(&mut self, name: &str) -> bool {
        let request = CreateRequest { disposition: CreateDisposition::OPEN, ..create(name) };
        let answer = self.call(Command::Create, &request);
        if answer.status() == NtStatus::SUCCESS {
            let id = answer.body::<CreateResponse>().file_id;
            assert_eq!(self.call(Command::Close, &close(id)).status(), NtStatus::SUCCESS);
            return true;
        }
        assert_eq!(answer.status(), NtStatus::OBJECT_NAME_NOT_FOUND);
        false
    }

    /// The first bytes of a file.
    pub fn read(&mut self, name: &str) -> Bytes {
        let id = self.open(name);
        let answer = self.call(Command::Read, &read(id, 100));
        assert_eq!(self.call(Command::Close, &close(id)).status(), NtStatus::SUCCESS);
        match answer.status() {
            NtStatus::END_OF_FILE => Bytes::new(),
            status => {
                assert_eq!(status, NtStatus::SUCCESS);
                answer.body::<ReadReply>().data
            }
        }
    }
}

/// A NEGOTIATE with all that the client can do.
pub fn offer(dialects: &[Dialect]) -> NegotiateRequest {
    let mut request = NegotiateRequest {
        dialects: dialects.iter().map(|dialect| dialect.number()).collect(),
        security_mode: SecurityMode::SIGNING_ENABLED,
        capabilities: Capabilities::ENCRYPTION.with(Capabilities::LARGE_MTU),
        client_guid: [7; 16],
        contexts: Vec::new(),
    };
    if dialects.contains(&Dialect::Smb311) {
        let (hashes, salt) = (vec![HashAlgorithm::SHA512], Bytes::from_static(b"salt"));
        request.contexts = vec![
            NegotiateContext::PreauthIntegrity { hashes, salt },
            NegotiateContext::Encryption(vec![Cipher::AES_128_CCM, Cipher::AES_128_GCM]),
        ];
    }
    request
}

/// A TREE_CONNECT.
pub fn tree_connect(share: &str) -> TreeConnectRequest {
    TreeConnectRequest { path: format!(r"\\server\{share}"), ..TreeConnectRequest::default() }
}

/// A CREATE that opens or makes a file.
pub fn create(name: &str) -> CreateRequest {
    CreateRequest {
        impersonation: ImpersonationLevel::IMPERSONATION,
        desired_access: 0x0012_019f,
        share_access: ShareAccess(7),
        disposition: CreateDisposition::OPEN_IF,
        name: name.to_owned(),
        ..CreateRequest::default()
    }
}

pub fn close(file_id: FileId) -> CloseRequest {
    CloseRequest { flags: CloseFlags::default(), file_id }
}

pub fn write(file_id: FileId, data: impl Into<Bytes>) -> WriteRequest {
    WriteRequest {
        offset: 0,
        file_id,
        channel: Channel::default(),
        remaining_bytes: 0,
        flags: WriteFlags::default(),
        data: data.into(),
    }
}

pub fn read(file_id: FileId, length: u32) -> ReadRequest {
    ReadRequest {
        flags: ReadFlags::default(),
        length,
        offset: 0,
        file_id,
        minimum_count: 0,
        channel: Channel::default(),
        remaining_bytes: 0,
    }
}
