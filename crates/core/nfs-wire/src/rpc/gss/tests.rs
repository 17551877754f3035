//! A client and a server over a mechanism of this test, and messages changed in between.

mod context_creation;
mod credential;
mod data;
mod mechanism;
mod window;

use std::time::Duration;

use bytes::Bytes;

use self::mechanism::{TestContext, TestMechanism};
use super::*;
use crate::rpc::auth::{AuthStatus, OpaqueAuth};
use crate::rpc::message::{AcceptStatus, CallHeader, CallMessage, Denied, ReplyBody, ReplyHeader};
use crate::xdr::{Decoder, Encoder, Xdr};

type Server = GssServer<TestMechanism>;
type Client = GssClientContext<TestContext>;

const NOW: Duration = Duration::from_secs(1000);

fn server() -> Server {
    GssServer::new(TestMechanism, GssLimits::default())
}

/// The message of an encoder.
fn record(message: Encoder) -> Bytes {
    message.to_vec().into()
}

/// A header whose credential the client replaces.
fn header(xid: u32, procedure: u32) -> CallHeader {
    CallHeader {
        xid,
        program: 100_003,
        version: 4,
        procedure,
        credential: OpaqueAuth::none(),
        verifier: OpaqueAuth::none(),
    }
}

/// Items to send: a counted string.
fn items(text: &str) -> Encoder {
    let mut to = Encoder::new();
    to.opaque(text.as_bytes());
    to
}

/// Passes a message to the server; new contexts get a handle of this byte.
fn send(server: &Server, message: &Bytes, now: Duration, handle: u8) -> GssOutcome<TestContext> {
    let call = CallMessage::decode(message.clone()).expect("a call's header");
    server.receive(&call, now, || [handle; HANDLE_BYTES])
}

/// The header and body of a reply that the server sends by itself.
fn reply(outcome: GssOutcome<TestContext>) -> (ReplyHeader, Bytes) {
    let GssOutcome::Reply(message) = outcome else { panic!("no reply: {outcome:?}") };
    let mut from = Decoder::new(record(message));
    let header = ReplyHeader::decode(&mut from).expect("a reply's header");
    (header, from.rest())
}

/// The status of a denied call.
fn denied(outcome: GssOutcome<TestContext>) -> AuthStatus {
    match reply(outcome).0.body {
        ReplyBody::Denied(Denied::Auth(status)) => status,
        other => panic!("not denied: {other:?}"),
    }
}

/// The call to execute.
fn execute(outcome: GssOutcome<TestContext>) -> ProtectedCall<TestContext> {
    let GssOutcome::Execute(call) = outcome else { panic!("not executed: {outcome:?}") };
    call
}

/// A context of this user, established in one step.
fn establish(server: &Server, user: &str, service: Service, now: Duration, handle: u8) -> Client {
    let token = Bytes::copy_from_slice(user.as_bytes());
    let message = record(init_call(1, 100_003, 4, Bytes::new(), token));
    let (header, body) = reply(send(server, &message, now, handle));
    let ReplyBody::Accepted { verifier, status: AcceptStatus::Success } = header.body else {
        panic!("{header:?}")
    };
    let result = InitResult::from_bytes(body).unwrap();
    assert_eq!(result.major, GSS_S_COMPLETE);
    GssClientContext::new(
        TestContext::of(user),
        service,
        result.handle,
        result.sequence_window,
        &verifier,
    )
    .expect("the server's verifier")
}

/// A call of procedure 1 with this text, and its sequence number.
fn data_call(client: &mut Client, xid: u32, text: &str) -> (Bytes, u32) {
    let (message, sequence) = client.call(header(xid, 1), items(text)).unwrap().unwrap();
    (record(message), sequence)
}
