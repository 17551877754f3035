//! What a server and a client do with a KDC. All run in one process, with its environment.

use std::path::Path;
use std::time::Duration;

use braid_gss::{Acceptor, GssError, InitiateStep, Initiator, Kerberos, KerberosContext};
use braid_nfs_wire::rpc::auth::OpaqueAuth;
use braid_nfs_wire::rpc::gss::{
    AcceptStep, GSS_S_COMPLETE, GssClientContext, GssContext, GssLimits, GssMechanism, GssOutcome,
    GssServer, HANDLE_BYTES, InitResult, Service, init_call,
};
use braid_nfs_wire::rpc::message::{AcceptStatus, CallHeader, CallMessage, ReplyBody, ReplyHeader};
use braid_nfs_wire::xdr::{Decoder, Encoder, Xdr};
use bytes::Bytes;

/// The server's name as clients write it.
const SERVICE: &str = "nfs@localhost";

const NOW: Duration = Duration::from_secs(1);

type Scenario = (&'static str, fn(&Path));

const SCENARIOS: &[Scenario] = &[
    ("client's names reach the server", client_names_reach_the_server),
    ("MICs are verified in both directions", mics_are_verified_in_both_directions),
    ("encrypted messages are decrypted", encrypted_messages_are_decrypted),
    ("message in clear text is refused", message_in_clear_text_is_refused),
    ("replayed token is refused", replayed_token_is_refused),
    ("token that is not Kerberos is refused", token_that_is_not_kerberos_is_refused),
    ("token for another service is refused", token_for_another_service_is_refused),
    ("keytab without the service is an error", keytab_without_the_service_is_an_error),
    ("unknown service is an error", unknown_service_is_an_error),
    ("RPC calls pass with every service", rpc_calls_pass_with_every_service),
    ("threads share a context", threads_share_a_context),
];

/// The number of scenarios.
pub const COUNT: usize = SCENARIOS.len();

/// Runs all scenarios with the KDC of this directory.
pub fn run(directory: &Path) {
    for (name, scenario) in SCENARIOS {
        println!("begins: {name}");
        scenario(directory);
        println!("passed: {name}");
    }
}

fn library() -> Kerberos {
    Kerberos::load().expect("libgssapi_krb5")
}

fn acceptor(directory: &Path) -> Acceptor {
    Acceptor::new(library(), Some(&directory.join("nfs.keytab")), "nfs").expect("the server's key")
}

fn alice(directory: &Path) -> Initiator {
    let keytab = directory.join("alice.keytab");
    Initiator::from_keytab(library(), &keytab, "alice@TEST.BRAIDFS", "MEMORY:alice")
        .expect("tickets of alice")
}

/// Both sides of a context: the client's and the server's.
fn contexts(directory: &Path) -> (KerberosContext, KerberosContext) {
    let (initiator, acceptor) = (alice(directory), acceptor(directory));
    let InitiateStep::Continue(pending, token) = initiator.begin(SERVICE).unwrap() else {
        panic!("a context without mutual authentication")
    };
    let AcceptStep::Established { context: server, token, lifetime } =
        acceptor.accept(None, &token)
    else {
        panic!("the server refuses the token")
    };
    assert!(lifetime > Duration::from_secs(60) && lifetime < Duration::from_secs(7 * 86_400));
    let InitiateStep::Established(client, None) = pending.step(&token).unwrap() else {
        panic!("the client needs another token")
    };
    (client, server)
}

/// The failure of the server's step.
fn refused(acceptor: &Acceptor, token: &[u8]) -> u32 {
    match acceptor.accept(None, token) {
        AcceptStep::Failed { failure, .. } => failure.major,
        other => panic!("not refused: {other:?}"),
    }
}

/// The client's first token for a service.
fn first_token(initiator: &Initiator, service: &str) -> Bytes {
    match initiator.begin(service).unwrap() {
        InitiateStep::Continue(_, token) => token,
        InitiateStep::Established(..) => panic!("a context without mutual authentication"),
    }
}

fn client_names_reach_the_server(directory: &Path) {
    let (_, server) = contexts(directory);
    assert_eq!(server.principal(), "alice@TEST.BRAIDFS");
    assert_eq!(server.local_user(), Some("alice"));
}

fn mics_are_verified_in_both_directions(directory: &Path) {
    let (client, server) = contexts(directory);
    for (from, to) in [(&client, &server), (&server, &client)] {
        let mic = from.mic(b"message").unwrap();
        to.check_mic(b"message", &mic).unwrap();
        // Neither repetition nor another order is an error: the sequence window sees to it.
        to.check_mic(b"message", &mic).unwrap();
        to.check_mic(b"Message", &mic).unwrap_err();
        to.check_mic(b"message", &mic[1..]).unwrap_err();
        to.check_mic(b"message", b"").unwrap_err();
        from.check_mic(b"message", &mic).expect_err("a message sent back to its sender");
    }
    let (other, _) = contexts(directory);
    let mic = other.mic(b"message").unwrap();
    server.check_mic(b"message", &mic).expect_err("a MIC of another context");
}

fn encrypted_messages_are_decrypted(directory: &Path) {
    let (client, server) = contexts(directory);
    for message in [&b""[..], b"secret message", &vec![7; 1 << 20]] {
        for (from, to) in [(&client, &server), (&server, &client)] {
            let encrypted = from.encrypt(message).unwrap();
            assert!(message.is_empty() || !encrypted.windows(7).any(|w| message.starts_with(w)));
            assert_eq!(to.decrypt(&encrypted).unwrap(), message);
            let mut changed = encrypted.to_vec();
            *changed.last_mut().unwrap() ^= 1;
            to.decrypt(&changed).unwrap_err();
            to.decrypt(&encrypted[..encrypted.len() - 1]).unwrap_err();
        }
    }
}

fn message_in_clear_text_is_refused(directory: &Path) {
    let (client, server) = contexts(directory);
    let token = client.wrap_in_clear_text(b"clear text").unwrap();
    assert!(token.windows(10).any(|window| window == b"clear text"));
    assert_eq!(server.decrypt(&token), Err(GssError::NotEncrypted));
}

fn replayed_token_is_refused(directory: &Path) {
    let (initiator, acceptor) = (alice(directory), acceptor(directory));
    let token = first_token(&initiator, SERVICE);
    assert!(matches!(acceptor.accept(None, &token), AcceptStep::Established { .. }));
    refused(&acceptor, &token);
}

fn token_that_is_not_kerberos_is_refused(directory: &Path) {
    let (initiator, acceptor) = (alice(directory), acceptor(directory));
    let token = first_token(&initiator, SERVICE);
    for length in [0, 1, 10, token.len() / 2, token.len() - 1] {
        refused(&acceptor, &token[..length]);
    }
    refused(&acceptor, b"not a token at all");
    let mut changed = token.to_vec();
    let middle = changed.len() / 2;
    changed[middle] ^= 1;
    refused(&acceptor, &changed);
}

fn token_for_another_service_is_refused(directory: &Path) {
    let token = first_token(&alice(directory), "host@localhost");
    refused(&acceptor(directory), &token);
}

fn keytab_without_the_service_is_an_error(directory: &Path) {
    let keytab = directory.join("host.keytab");
    let error = Acceptor::new(library(), Some(&keytab), "nfs").unwrap_err();
    assert!(matches!(error, GssError::Failed { .. }), "{error}");
    let missing = directory.join("missing.keytab");
    let error = Acceptor::new(library(), Some(&missing), "nfs").unwrap_err().to_string();
    assert!(error.contains("missing.keytab"), "{error}");
    let error = Acceptor::new(library(), Some(Path::new("a\0b")), "nfs").unwrap_err();
    assert_eq!(error, GssError::ZeroByte);
}

fn unknown_service_is_an_error(directory: &Path) {
    let error = alice(directory).begin("nfs@elsewhere").unwrap_err().to_string();
    assert!(error.contains("nfs/elsewhere"), "{error}");
}

fn header(xid: u32) -> CallHeader {
    CallHeader {
        xid,
        program: 100_003,
        version: 4,
        procedure: 1,
        credential: OpaqueAuth::none(),
        verifier: OpaqueAuth::none(),
    }
}

/// The message of an encoder.
fn record(message: &Encoder) -> Bytes {
    message.to_vec().into()
}

fn send(server: &GssServer<Acceptor>, message: &Encoder) -> GssOutcome<KerberosContext> {
    let call = CallMessage::decode(record(message)).unwrap();
    server.receive(&call, NOW, || [9; HANDLE_BYTES])
}

/// The verifier and the body of a successful reply.
fn success(message: &Encoder) -> (OpaqueAuth, Bytes) {
    let mut from = Decoder::new(record(message));
    match ReplyHeader::decode(&mut from).unwrap().body {
        ReplyBody::Accepted { verifier, status: AcceptStatus::Success } => (verifier, from.rest()),
        other => panic!("no success: {other:?}"),
    }
}

fn rpc_calls_pass_with_every_service(directory: &Path) {
    let server = GssServer::new(acceptor(directory), GssLimits::default());
    let initiator = alice(directory);
    for service in Service::ALL {
        let InitiateStep::Continue(pending, token) = initiator.begin(SERVICE).unwrap() else {
            panic!("a context without mutual authentication")
        };
        let outcome = send(&server, &init_call(1, 100_003, 4, Bytes::new(), token));
        let GssOutcome::Reply(message) = outcome else { panic!("{outcome:?}") };
        let (verifier, body) = success(&message);
        let result = InitResult::from_bytes(body).unwrap();
        assert_eq!(result.major, GSS_S_COMPLETE);
        let InitiateStep::Established(context, None) = pending.step(&result.token).unwrap() else {
            panic!("the client needs another token")
        };
        let (window, handle) = (result.sequence_window, result.handle);
        let mut client =
            GssClientContext::new(context, *service, handle, window, &verifier).unwrap();
        for length in [0, 1, 100_000] {
            let mut items = Encoder::new();
            items.opaque(&vec![3; length]);
            let (message, sequence) = client.call(header(2), items.clone()).unwrap().unwrap();
            let outcome = send(&server, &message);
            let GssOutcome::Execute(call) = outcome else { panic!("{outcome:?}") };
            assert_eq!(call.arguments(), &items.to_vec());
            assert_eq!(call.principal(), "alice@TEST.BRAIDFS");
            let (verifier, body) = success(&call.reply(items.clone()).unwrap());
            client.check_verifier(sequence, &verifier).unwrap();
            assert_eq!(client.results(sequence, body).unwrap(), items.to_vec());
        }
        let destroy = client.destroy(header(3)).unwrap().unwrap();
        let GssOutcome::Reply(message) = send(&server, &destroy) else { panic!("no reply") };
        success(&message);
        assert_eq!(server.context_counts(), (0, 0));
    }
}

fn threads_share_a_context(directory: &Path) {
    let (client, server) = contexts(directory);
    std::thread::scope(|scope| {
        for thread in 0..4u8 {
            let (client, server) = (&client, &server);
            scope.spawn(move || {
                for round in 0..100u8 {
                    let message = [thread, round];
                    server.check_mic(&message, &client.mic(&message).unwrap()).unwrap();
                    let encrypted = client.encrypt(&message).unwrap();
                    assert_eq!(server.decrypt(&encrypted).unwrap(), &message[..]);
                }
            });
        }
    });
}
