//! RPCSEC_GSS, with a mechanism whose keys are the names of the users.

use std::collections::hash_map::DefaultHasher;
use std::hash::{Hash, Hasher};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use braid_nfs::config::Security;
use braid_nfs::rpc::kerberos::{Kerberos, Users};
use braid_nfs::{NfsServer, Protection};
use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::results::{SecInfo, SecInfoResult, StateProtectResult};
use braid_nfs_wire::nfs4::*;
use braid_nfs_wire::rpc::auth::OpaqueAuth;
use braid_nfs_wire::rpc::gss::{
    AcceptStep, GSS_S_BAD_SIG, GssClientContext, GssContext, GssFailure, GssLimits, GssMechanism,
    GssServer, InitResult, Service, init_call,
};
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, ReplyBody};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use braid_share::Identity;
use braid_share::memory::MemoryShare;
use bytes::Bytes;

use crate::client::{CompoundResult, Connection, Session, create_args, exchange_args};
use crate::last;
use crate::server::{TestServer, config};

#[derive(Debug)]
struct TestMechanism;

#[derive(Clone, Debug)]
struct TestContext {
    user: String,
}

impl TestContext {
    fn hash(&self, message: &[u8]) -> Bytes {
        let mut hasher = DefaultHasher::new();
        (&self.user, message).hash(&mut hasher);
        Bytes::copy_from_slice(&hasher.finish().to_be_bytes())
    }
}

impl GssMechanism for TestMechanism {
    type Pending = ();
    type Context = TestContext;

    fn accept(&self, _: Option<()>, token: &[u8]) -> AcceptStep<(), TestContext> {
        let user = String::from_utf8(token.to_vec()).unwrap();
        let lifetime = Duration::from_secs(600);
        AcceptStep::Established { context: TestContext { user }, token: Bytes::new(), lifetime }
    }
}

impl GssContext for TestContext {
    fn principal(&self) -> &str {
        &self.user
    }

    fn get_mic(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        Ok(self.hash(message))
    }

    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssFailure> {
        let failure = GssFailure { major: GSS_S_BAD_SIG, minor: 0 };
        if self.hash(message) == mic { Ok(()) } else { Err(failure) }
    }

    fn wrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        let inverted: Vec<u8> = message.iter().map(|byte| !byte).collect();
        Ok([&inverted[..], &self.hash(message)].concat().into())
    }

    fn unwrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        let failure = GssFailure { major: GSS_S_BAD_SIG, minor: 0 };
        let (inverted, hash) = message.split_last_chunk::<8>().ok_or(failure)?;
        let plain: Vec<u8> = inverted.iter().map(|byte| !byte).collect();
        self.verify_mic(&plain, hash)?;
        Ok(plain.into())
    }
}

/// Every principal is user 1000, but one cannot be looked up; the number of lookups is counted.
#[derive(Debug, Default)]
struct TestUsers(AtomicU32);

impl Users for TestUsers {
    fn user(&self, principal: &str) -> io::Result<Option<Identity>> {
        self.0.fetch_add(1, Ordering::Relaxed);
        if principal == "unreachable" {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(Some(Identity { uid: 1000, gid: 1000, groups: vec![1001], checked: false }))
    }
}

/// A server whose export has these flavours.
async fn start(security: Vec<Security>) -> (TestServer, Arc<TestUsers>) {
    let mut config = config();
    config.exports[0].security = security;
    let users = Arc::new(TestUsers::default());
    let gss = GssServer::new(TestMechanism, GssLimits::default());
    let users_of_server: Arc<dyn Users> = users.clone();
    let kerberos = Kerberos::new(Arc::new(gss), users_of_server);
    let share = MemoryShare::new();
    let server = NfsServer::with_security(
        share.clone(),
        config,
        Protection { kerberos: Some(kerberos), tls: None },
    )
    .unwrap();
    (TestServer::over(share, server).await, users)
}

/// A connection of a user with a context.
struct Client {
    connection: Connection,
    gss: GssClientContext<TestContext>,
    xid: u32,
}

impl Client {
    async fn new(server: &TestServer, user: &str, service: Service) -> Self {
        let mut connection = server.connect().await;
        let token = Bytes::copy_from_slice(user.as_bytes());
        let call = init_call(7, NFS_PROGRAM, NFS_VERSION, Bytes::new(), token);
        connection.send_record(&call.to_vec()).await;
        let (body, from) = connection.receive(7).await;
        let ReplyBody::Accepted { verifier, status: AcceptStatus::Success } = body else {
            panic!("{body:?}")
        };
        let result = InitResult::from_bytes(from.rest()).unwrap();
        let context = TestContext { user: user.to_owned() };
        let window = result.sequence_window;
        let gss =
            GssClientContext::new(context, service, result.handle, window, &verifier).unwrap();
        Self { connection, gss, xid: 1000 }
    }

    /// The record of a compound, and its number in the context.
    fn record(&mut self, ops: &[ArgOp]) -> (Vec<u8>, u32) {
        self.xid += 1;
        let header = CallHeader {
            xid: self.xid,
            program: NFS_PROGRAM,
            version: NFS_VERSION,
            procedure: PROCEDURE_COMPOUND,
            credential: OpaqueAuth::none(),
            verifier: OpaqueAuth::none(),
        };
        let mut arguments = Encoder::new();
        let (tag, op_count) = (Bytes::new(), ops.len() as u32);
        CompoundHeader { tag, minor_version: 1, op_count }.encode(&mut arguments);
        ops.iter().for_each(|op| op.encode(&mut arguments));
        let (message, sequence) = self.gss.call(header, arguments).unwrap().unwrap();
        (message.to_vec(), sequence)
    }

    async fn compound(&mut self, ops: &[ArgOp]) -> CompoundResult {
        let (record, sequence) = self.record(ops);
        self.connection.send_record(&record).await;
        let (body, from) = self.connection.receive(self.xid).await;
        let ReplyBody::Accepted { verifier, status: AcceptStatus::Success } = body else {
            panic!("{body:?}")
        };
        self.gss.check_verifier(sequence, &verifier).unwrap();
        CompoundResult::decode(Decoder::new(self.gss.results(sequence, from.rest()).unwrap()))
    }

    async fn session(&mut self, exchange: ExchangeIdArgs) -> Session {
        let client = last!(ExchangeId, self.compound(&[ArgOp::ExchangeId(exchange)]).await);
        let create = create_args(client.client_id, client.sequence_id.0);
        let create = [ArgOp::CreateSession(create)];
        Session::new(client.client_id, last!(CreateSession, self.compound(&create).await))
    }
}

const SERVICES: [Service; 3] = [Service::None, Service::Integrity, Service::Privacy];

#[tokio::test]
async fn export_is_used_with_each_service_that_it_names() {
    let all = [Security::Krb5, Security::Krb5i, Security::Krb5p];
    for (named, security) in all.into_iter().enumerate() {
        let (server, _) = start(vec![security]).await;
        for (used, service) in SERVICES.into_iter().enumerate() {
            let mut client = Client::new(&server, "alice", service).await;
            let mut session = client.session(exchange_args(&format!("{used}"), 1)).await;
            let ops = session.ops([ArgOp::PutRootFh, ArgOp::GetFh]);
            let expected = if used == named { NfsStatus::Ok } else { NfsStatus::WrongSec };
            assert_eq!(client.compound(&ops).await.status, expected, "{service:?} {security:?}");
        }
    }
}

#[tokio::test]
async fn sec_info_names_kerberos_with_its_services() {
    let (server, _) = start(vec![Security::Krb5p, Security::Sys]).await;
    let mut client = Client::new(&server, "alice", Service::Privacy).await;
    let mut session = client.session(exchange_args("a", 1)).await;
    let style = SecInfoStyle::CurrentFh;
    let no_name = ArgOp::SecInfoNoName(SecInfoNoNameArgs { style });
    let ops = session.ops([ArgOp::PutRootFh, no_name]);
    let SecInfoResult(found) = last!(SecInfoNoName, client.compound(&ops).await);
    let [SecInfo::Gss(gss), SecInfo::Flavour(1)] = &found[..] else { panic!("{found:?}") };
    assert_eq!(gss.service, GssService::Privacy);
    assert_eq!(&gss.oid.der[..], b"\x2a\x86\x48\x86\xf7\x12\x01\x02\x02");
}

#[tokio::test]
async fn repeated_call_is_dropped_and_the_next_one_answered() {
    let (server, _) = start(vec![Security::Krb5]).await;
    let mut client = Client::new(&server, "alice", Service::None).await;
    let (record, _) = client.record(&[]);
    client.connection.send_record(&record).await;
    client.connection.receive(client.xid).await;
    client.connection.send_record(&record).await;
    assert_eq!(client.compound(&[]).await.status, NfsStatus::Ok);
}

#[tokio::test]
async fn clients_of_different_principals_are_different() {
    let (server, users) = start(vec![Security::Krb5]).await;
    let mut alice = Client::new(&server, "alice", Service::None).await;
    let mut session = alice.session(exchange_args("a", 1)).await;
    let mut bob = Client::new(&server, "bob", Service::None).await;
    let exchange = [ArgOp::ExchangeId(exchange_args("a", 1))];
    assert_eq!(bob.compound(&exchange).await.status, NfsStatus::ClidInUse);
    let sequence = SequenceArgs { cache_this: true, ..session.next_on(0) };
    let ops = [ArgOp::Sequence(sequence)];
    let result = alice.compound(&ops).await;
    assert_eq!(alice.compound(&ops).await, result);
    assert_eq!(bob.compound(&ops).await.status, NfsStatus::SeqFalseRetry);
    assert_eq!(users.0.load(Ordering::Relaxed), 2, "each user is looked up once");
}

#[tokio::test]
async fn call_is_delayed_while_the_users_cannot_be_looked_up() {
    let (server, users) = start(vec![Security::Krb5p]).await;
    let mut client = Client::new(&server, "unreachable", Service::Privacy).await;
    let exchange = [ArgOp::ExchangeId(exchange_args("a", 1))];
    for lookups in 1..=2 {
        let result = client.compound(&exchange).await;
        assert_eq!(result.results, [ResOp::ExchangeId(Err(NfsStatus::Delay))]);
        assert_eq!(users.0.load(Ordering::Relaxed), lookups, "a failure is not cached");
    }
}

#[tokio::test]
async fn machine_credential_protects_the_session() {
    let (server, _) = start(vec![Security::Krb5i, Security::Sys]).await;
    let mut host = Client::new(&server, "host", Service::Integrity).await;
    let protected = [OpNumber::BindConnToSession, OpNumber::DestroySession].map(OpNumber::code);
    let ops = StateProtectOps {
        must_enforce: Bitmap::of(&protected),
        must_allow: Bitmap::of(&[OpNumber::Close.code(), OpNumber::Lookup.code()]),
    };
    let state_protect = StateProtectArgs::MachineCredential(ops);
    let exchange = ExchangeIdArgs { state_protect, ..exchange_args("a", 1) };
    let granted = last!(ExchangeId, host.compound(&[ArgOp::ExchangeId(exchange.clone())]).await);
    let allowed = Bitmap::of(&[OpNumber::Close.code()]);
    let expected = StateProtectOps { must_allow: allowed, ..ops };
    assert_eq!(granted.state_protect, StateProtectResult::MachineCredential(expected));
    let mut session = host.session(exchange).await;

    let mut other = server.connect().await;
    assert_eq!(other.status(&session.ops([])).await, NfsStatus::ConnNotBoundToSession);
    let direction = ChannelDirFromClient::Fore;
    let bind = BindConnToSessionArgs { session_id: session.id, direction, use_rdma: false };
    let end = DestroySessionArgs { session_id: session.id };
    for op in [ArgOp::BindConnToSession(bind), ArgOp::DestroySession(end)] {
        assert_eq!(other.status(&[op]).await, NfsStatus::WrongCred);
    }
    let mut alice = Client::new(&server, "alice", Service::Integrity).await;
    let end = [ArgOp::DestroySession(end)];
    assert_eq!(alice.compound(&end).await.status, NfsStatus::WrongCred);
    let mut second = Client::new(&server, "host", Service::Integrity).await;
    assert_eq!(second.compound(&[ArgOp::BindConnToSession(bind)]).await.status, NfsStatus::Ok);
    assert_eq!(second.compound(&end).await.status, NfsStatus::Ok);
}

#[tokio::test]
async fn protection_of_other_operations_is_refused() {
    let (server, _) = start(vec![Security::Krb5i]).await;
    let mut host = Client::new(&server, "host", Service::Integrity).await;
    let ops = StateProtectOps {
        must_enforce: Bitmap::of(&[OpNumber::Write.code()]),
        must_allow: Bitmap::new(),
    };
    let state_protect = StateProtectArgs::MachineCredential(ops);
    let exchange = ExchangeIdArgs { state_protect, ..exchange_args("a", 1) };
    let result = host.compound(&[ArgOp::ExchangeId(exchange)]).await;
    assert_eq!(result.status, NfsStatus::Inval);
}
