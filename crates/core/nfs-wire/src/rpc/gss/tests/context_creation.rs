use super::mechanism::LIFETIME;
use super::*;

fn init(handle: &Bytes, token: &'static str) -> Bytes {
    record(init_call(1, 100_003, 4, handle.clone(), Bytes::from_static(token.as_bytes())))
}

/// The verifier and the result of a step.
fn step(server: &Server, message: &Bytes, now: Duration) -> (OpaqueAuth, InitResult) {
    let (header, body) = reply(send(server, message, now, 7));
    let ReplyBody::Accepted { verifier, status: AcceptStatus::Success } = header.body else {
        panic!("{header:?}")
    };
    (verifier, InitResult::from_bytes(body).unwrap())
}

#[test]
fn context_of_one_step_has_a_handle_and_a_verified_window() {
    let server = server();
    let (verifier, result) = step(&server, &init(&Bytes::new(), "alice"), NOW);
    let window = SEQUENCE_WINDOW.to_be_bytes();
    assert_eq!(TestContext::of("alice").verify_mic(&window, &verifier.body), Ok(()));
    let expected = InitResult {
        handle: Bytes::from_static(&[7; HANDLE_BYTES]),
        major: GSS_S_COMPLETE,
        minor: 0,
        sequence_window: SEQUENCE_WINDOW,
        token: Bytes::from_static(b"welcome"),
    };
    assert_eq!(result, expected);
    assert_eq!(server.context_counts(), (1, 0));
}

#[test]
fn client_refuses_a_verifier_of_another_server() {
    let server = server();
    let (verifier, result) = step(&server, &init(&Bytes::new(), "mallory"), NOW);
    let context = TestContext::of("alice");
    let window = result.sequence_window;
    let refused = GssClientContext::new(context, Service::None, result.handle, window, &verifier);
    assert_eq!(refused.unwrap_err().major, GSS_S_BAD_SIG);
}

#[test]
fn context_of_two_steps_keeps_its_handle() {
    let server = server();
    let (verifier, first) = step(&server, &init(&Bytes::new(), "two-step bob"), NOW);
    assert_eq!((first.major, verifier), (GSS_S_CONTINUE_NEEDED, OpaqueAuth::none()));
    assert_eq!((&first.token[..], server.context_counts()), (&b"please confirm"[..], (0, 1)));
    let (_, second) = step(&server, &init(&first.handle, "confirm"), NOW);
    assert_eq!((second.major, &second.handle), (GSS_S_COMPLETE, &first.handle));
    assert_eq!(server.context_counts(), (1, 0));
    // The creation is complete: there is nothing to continue.
    let again = send(&server, &init(&first.handle, "confirm"), NOW, 7);
    assert_eq!(denied(again), AuthStatus::GssCredentialProblem);
}

#[test]
fn pending_context_cannot_be_used_for_calls() {
    let server = server();
    let (_, first) = step(&server, &init(&Bytes::new(), "two-step bob"), NOW);
    let context = TestContext::of("bob");
    let mic = context.get_mic(&SEQUENCE_WINDOW.to_be_bytes()).unwrap();
    let verifier = OpaqueAuth { flavor: 6, body: mic };
    let mut client =
        GssClientContext::new(context, Service::None, first.handle, SEQUENCE_WINDOW, &verifier)
            .unwrap();
    let (call, _) = data_call(&mut client, 2, "early");
    assert_eq!(denied(send(&server, &call, NOW, 0)), AuthStatus::GssCredentialProblem);
}

#[test]
fn failure_of_the_mechanism_reaches_the_client_without_a_handle() {
    let server = server();
    let (verifier, result) = step(&server, &init(&Bytes::new(), "bad"), NOW);
    let expected = InitResult {
        handle: Bytes::new(),
        major: GSS_S_FAILURE,
        minor: 7,
        sequence_window: 0,
        token: Bytes::from_static(b"error token"),
    };
    assert_eq!((verifier, result), (OpaqueAuth::none(), expected));
    assert_eq!(server.context_counts(), (0, 0));
}

#[test]
fn failed_second_step_removes_the_pending_context() {
    let server = server();
    let (_, first) = step(&server, &init(&Bytes::new(), "two-step bob"), NOW);
    let (_, second) = step(&server, &init(&first.handle, "wrong"), NOW);
    assert_eq!(second.major, GSS_S_FAILURE);
    assert_eq!(server.context_counts(), (0, 0));
}

#[test]
fn pending_contexts_expire_and_their_number_is_limited() {
    let limits = GssLimits { pending_max: 2, ..GssLimits::default() };
    let server = GssServer::new(TestMechanism, limits);
    let begin = |handle, now| {
        reply(send(&server, &init(&Bytes::new(), "two-step bob"), now, handle));
    };
    let proceed = |handle: u8, now| {
        let handle = Bytes::from(vec![handle; HANDLE_BYTES]);
        let (header, _) = reply(send(&server, &init(&handle, "confirm"), now, 0));
        matches!(header.body, ReplyBody::Accepted { .. })
    };
    let second = Duration::from_secs(1);
    begin(1, NOW);
    begin(2, NOW + second);
    begin(3, NOW + second * 2);
    assert_eq!(server.context_counts(), (0, 2));
    assert!(!proceed(1, NOW + second * 2), "the oldest is removed");
    assert!(proceed(2, NOW + second * 30), "one second before its time");
    assert!(!proceed(3, NOW + second * 32), "at its time");
}

#[test]
fn established_contexts_are_limited_and_the_least_recent_removed() {
    let limits = GssLimits { established_max: 2, ..GssLimits::default() };
    let server = GssServer::new(TestMechanism, limits);
    let second = Duration::from_secs(1);
    let mut first = establish(&server, "alice", Service::None, NOW, 1);
    let mut other = establish(&server, "bob", Service::None, NOW + second, 2);
    let (call, _) = data_call(&mut first, 2, "used");
    execute(send(&server, &call, NOW + second * 2, 0));
    establish(&server, "carol", Service::None, NOW + second * 3, 3);
    assert_eq!(server.context_counts(), (2, 0));
    let (call, _) = data_call(&mut other, 3, "removed");
    let status = denied(send(&server, &call, NOW + second * 3, 0));
    assert_eq!(status, AuthStatus::GssCredentialProblem);
    let (call, _) = data_call(&mut first, 4, "kept");
    execute(send(&server, &call, NOW + second * 3, 0));
}

#[test]
fn established_context_expires_with_its_ticket() {
    let server = server();
    let mut client = establish(&server, "alice", Service::None, NOW, 1);
    let (call, _) = data_call(&mut client, 2, "in time");
    execute(send(&server, &call, NOW + LIFETIME - Duration::from_nanos(1), 0));
    let (call, _) = data_call(&mut client, 3, "too late");
    assert_eq!(denied(send(&server, &call, NOW + LIFETIME, 0)), AuthStatus::GssCredentialProblem);
    assert_eq!(server.context_counts(), (0, 0));
}

#[test]
fn lifetime_of_the_server_is_the_upper_limit() {
    let established_lifetime = Duration::from_secs(60);
    let limits = GssLimits { established_lifetime, ..GssLimits::default() };
    let server = GssServer::new(TestMechanism, limits);
    let mut client = establish(&server, "alice", Service::None, NOW, 1);
    let (call, _) = data_call(&mut client, 2, "too late");
    assert_eq!(
        denied(send(&server, &call, NOW + established_lifetime, 0)),
        AuthStatus::GssCredentialProblem
    );
}

#[test]
fn creation_needs_the_null_procedure_and_no_verifier() {
    let server = server();
    let valid = CallMessage::decode(init(&Bytes::new(), "alice")).unwrap();
    let receive = |change: fn(&mut CallMessage)| {
        let mut call = valid.clone();
        change(&mut call);
        server.receive(&call, NOW, || [1; HANDLE_BYTES])
    };
    let procedure = receive(|call| call.header.procedure = 1);
    assert_eq!(denied(procedure), AuthStatus::BadCredential);
    let verifier = receive(|call| call.header.verifier.flavor = 6);
    assert_eq!(denied(verifier), AuthStatus::BadVerifier);
    let handle = receive(|call| {
        let mut credential = GssCredential::from_credential(&call.header.credential).unwrap();
        credential.handle = Bytes::from_static(b"mine");
        call.header.credential = credential.to_credential();
    });
    assert_eq!(denied(handle), AuthStatus::BadCredential);
    let (header, body) = reply(receive(|call| call.arguments.truncate(6)));
    let garbage = ReplyBody::Accepted {
        verifier: OpaqueAuth::none(),
        status: AcceptStatus::GarbageArguments,
    };
    assert_eq!((header.body, body), (garbage, Bytes::new()));
    assert_eq!(server.context_counts(), (0, 0));
}
