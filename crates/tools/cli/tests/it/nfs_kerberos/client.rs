//! A small NFS client with tickets.

use std::{
    io::{Read, Write},
    net::TcpStream,
    path::Path,
};

use braid_gss::{InitiateStep, Initiator, Kerberos, KerberosContext};
use braid_nfs_wire::{
    nfs4::{args::*, results::SecInfo, *},
    rpc::{
        auth::OpaqueAuth,
        auth_sys::AuthSys,
        gss::{GSS_S_COMPLETE, GssClientContext, InitResult, Service, init_call},
        message::{AcceptStatus, CallHeader, ReplyBody, ReplyHeader},
        record::{RecordReader, record_header},
    },
    xdr::{Decoder, Encoder, Xdr},
};
use bytes::Bytes;

use super::unexpected;

/// The service as the client's user writes it: the host name of the mount.
const SERVICE: &str = "nfs@localhost";

/// A connection.
struct Wire {
    stream: TcpStream,
    records: RecordReader,
    xid: u32,
}

/// A client with a session.
pub struct Client {
    wire: Wire,
    gss: Option<GssClientContext<KerberosContext>>,
    session: Option<(SessionId, u32)>,
    owner: String,
}

impl Wire {
    fn new(address: &str) -> Self {
        let stream = TcpStream::connect(address).unwrap();
        Self { stream, records: RecordReader::new(), xid: 1 }
    }

    /// Sends a message and receives the reply: its verifier and results.
    fn call(&mut self, message: &Encoder) -> (OpaqueAuth, Bytes) {
        let message = message.to_vec();
        self.stream.write_all(&[&record_header(message.len())[..], &message].concat()).unwrap();
        let record = loop {
            if let Some(record) = self.records.next_record().unwrap() {
                break record;
            }
            let mut bytes = [0; 4096];
            let count = self.stream.read(&mut bytes).unwrap();
            assert!(count > 0, "the gateway closed the connection");
            self.records.feed(&bytes[..count]);
        };
        let mut from = Decoder::new(record);
        match ReplyHeader::decode(&mut from).unwrap().body {
            ReplyBody::Accepted { verifier, status: AcceptStatus::Success } => {
                (verifier, from.rest())
            }
            other => panic!("{other:?}"),
        }
    }

    fn header(&mut self) -> CallHeader {
        self.xid += 1;
        CallHeader {
            xid: self.xid,
            program: NFS_PROGRAM,
            version: NFS_VERSION,
            procedure: PROCEDURE_COMPOUND,
            credential: OpaqueAuth::none(),
            verifier: OpaqueAuth::none(),
        }
    }
}

impl Client {
    /// A client with a context of a principal. The error is the status of the mechanism.
    pub fn connect(
        address: &str,
        keytab: &Path,
        principal: &str,
        service: Service,
    ) -> Result<Self, u32> {
        let cache = format!("MEMORY:{principal}");
        let library = Kerberos::load().unwrap();
        let initiator = Initiator::from_keytab(library, keytab, principal, &cache).unwrap();
        let mut wire = Wire::new(address);
        let InitiateStep::Continue(pending, token) = initiator.begin(SERVICE).unwrap() else {
            panic!("a context without mutual authentication")
        };
        let call = init_call(1, NFS_PROGRAM, NFS_VERSION, Bytes::new(), token);
        let (verifier, body) = wire.call(&call);
        let result = InitResult::from_bytes(body).unwrap();
        if result.major != GSS_S_COMPLETE {
            return Err(result.major);
        }
        let InitiateStep::Established(context, None) = pending.step(&result.token).unwrap() else {
            panic!("the client needs another token")
        };
        let (handle, window) = (result.handle, result.sequence_window);
        let gss = GssClientContext::new(context, service, handle, window, &verifier).unwrap();
        let mut client =
            Self { wire, gss: Some(gss), session: None, owner: format!("{principal} {service:?}") };
        client.begin();
        Ok(client)
    }

    /// A client with AUTH_SYS.
    pub fn plain(address: &str) -> Self {
        let wire = Wire::new(address);
        let mut client = Self { wire, gss: None, session: None, owner: "plain".to_owned() };
        client.begin();
        client
    }

    fn compound(&mut self, ops: &[ArgOp]) -> (NfsStatus, Vec<ResOp>) {
        let mut all = Vec::new();
        if let Some((session_id, sequence)) = &mut self.session {
            *sequence += 1;
            all.push(ArgOp::Sequence(SequenceArgs {
                session_id: *session_id,
                sequence_id: SequenceId(*sequence),
                slot_id: SlotId(0),
                highest_slot_id: SlotId(0),
                cache_this: false,
            }));
        }
        all.extend_from_slice(ops);
        let mut arguments = Encoder::new();
        let (tag, op_count) = (Bytes::new(), all.len() as u32);
        CompoundHeader { tag, minor_version: 1, op_count }.encode(&mut arguments);
        all.iter().for_each(|op| op.encode(&mut arguments));
        let mut header = self.wire.header();
        let results = match &mut self.gss {
            Some(gss) => {
                let (message, sequence) = gss.call(header, arguments).unwrap().unwrap();
                let (verifier, body) = self.wire.call(&message);
                gss.check_verifier(sequence, &verifier).unwrap();
                gss.results(sequence, body).unwrap()
            }
            None => {
                let user = AuthSys {
                    stamp: 0,
                    machine_name: Bytes::from_static(b"host"),
                    uid: 1,
                    gid: 1,
                    gids: Vec::new(),
                };
                header.credential = user.to_credential();
                let mut message = Encoder::new();
                header.encode(&mut message);
                message.raw(arguments.to_vec().into());
                self.wire.call(&message).1
            }
        };
        let mut from = Decoder::new(results);
        let header = CompoundReplyHeader::decode(&mut from).unwrap();
        let results = (0..header.op_count).map(|_| ResOp::decode(&mut from).unwrap()).collect();
        (header.status, results)
    }

    /// The results of a compound that must succeed.
    fn last(&mut self, ops: &[ArgOp]) -> ResOp {
        let (status, mut results) = self.compound(ops);
        assert_eq!(status, NfsStatus::Ok, "{results:?}");
        results.pop().unwrap()
    }

    fn begin(&mut self) {
        let exchange = ExchangeIdArgs {
            client_owner: ClientOwner {
                verifier: Verifier([1; 8]),
                owner_id: self.owner.clone().into(),
            },
            flags: ExchangeIdFlags::empty(),
            state_protect: StateProtectArgs::None,
            implementation: None,
        };
        let known = match self.last(&[ArgOp::ExchangeId(exchange)]) {
            ResOp::ExchangeId(Ok(known)) => known,
            other => unexpected(&other),
        };
        let channel = ChannelAttributes {
            header_pad_size: 0,
            max_request_size: 1 << 20,
            max_response_size: 1 << 20,
            max_response_size_cached: 4096,
            max_operations: 16,
            max_requests: 1,
            rdma_ird: None,
        };
        let create = CreateSessionArgs {
            client_id: known.client_id,
            sequence: known.sequence_id,
            flags: CreateSessionFlags::empty(),
            fore_channel: channel,
            back_channel: channel,
            callback_program: 0,
            callback_security: vec![CallbackSecurity::None],
        };
        match self.last(&[ArgOp::CreateSession(create)]) {
            ResOp::CreateSession(Ok(created)) => self.session = Some((created.session_id, 0)),
            other => unexpected(&other),
        }
        self.last(&[ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })]);
    }

    /// Makes a directory in one of the root; returns its owner as the server names it.
    pub fn make_directory(
        &mut self,
        parent: &'static str,
        name: &str,
    ) -> Result<String, NfsStatus> {
        let mode = Attributes { mode: Some(0o755), ..Attributes::default() };
        let create = CreateArgs {
            object: CreateObject::Other(NfsFtype::Directory),
            name: name.to_owned().into(),
            attributes: mode.to_encoded(&mode.mask()),
        };
        let look_up = LookupArgs { name: parent.into() };
        let owner = GetAttrArgs { attributes: Bitmap::of(&[attribute::OWNER]) };
        let ops = [
            ArgOp::PutRootFh,
            ArgOp::Lookup(look_up),
            ArgOp::Create(create),
            ArgOp::GetAttr(owner),
        ];
        let (status, results) = self.compound(&ops);
        if status != NfsStatus::Ok {
            return Err(status);
        }
        match results.last() {
            Some(ResOp::GetAttr(Ok(got))) => {
                let found = Attributes::from_encoded(&got.attributes).unwrap();
                Ok(String::from_utf8(found.owner.unwrap().to_vec()).unwrap())
            }
            other => panic!("{other:?}"),
        }
    }

    /// The services of Kerberos that SECINFO names for a file of the root, in its order.
    pub fn security_of(&mut self, name: &'static str) -> Vec<u32> {
        let secinfo = ArgOp::SecInfo(SecInfoArgs { name: name.into() });
        match self.last(&[ArgOp::PutRootFh, secinfo]) {
            ResOp::SecInfo(Ok(found)) => found
                .0
                .iter()
                .map(|one| match one {
                    SecInfo::Gss(gss) => gss.service as u32,
                    SecInfo::Flavour(flavour) => panic!("flavour {flavour}"),
                })
                .collect(),
            other => unexpected(&other),
        }
    }
}
