use super::*;

const SERVICES: [Service; 3] = [Service::None, Service::Integrity, Service::Privacy];

/// The results in a reply to the call `sequence`.
fn results(client: &Client, sequence: u32, message: Encoder) -> Bytes {
    let mut from = Decoder::new(record(message));
    let header = ReplyHeader::decode(&mut from).unwrap();
    let ReplyBody::Accepted { verifier, status: AcceptStatus::Success } = header.body else {
        panic!("{header:?}")
    };
    client.check_verifier(sequence, &verifier).expect("the verifier of this call's reply");
    client.check_verifier(sequence + 1, &verifier).expect_err("a verifier for another call");
    client.results(sequence, from.rest()).unwrap()
}

/// Whether the reply is GARBAGE_ARGS with the verifier of the call `sequence`.
fn is_garbage(client: &Client, sequence: u32, outcome: GssOutcome<TestContext>) -> bool {
    let (header, body) = reply(outcome);
    let ReplyBody::Accepted { verifier, status } = header.body else { panic!("{header:?}") };
    client.check_verifier(sequence, &verifier).unwrap();
    status == AcceptStatus::GarbageArguments && body.is_empty()
}

/// The call with its body replaced.
fn with_body(message: &Bytes, change: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let header = message.len() - CallMessage::decode(message.clone()).unwrap().arguments.len();
    let mut body = message[header..].to_vec();
    change(&mut body);
    [&message[..header], &body].concat().into()
}

#[test]
fn arguments_and_results_pass_with_every_service() {
    for service in SERVICES {
        let server = server();
        let mut client = establish(&server, "alice", service, NOW, 1);
        for text in ["", "one", &"long ".repeat(2000)] {
            let (message, sequence) = data_call(&mut client, 5, text);
            let call = execute(send(&server, &message, NOW, 0));
            assert_eq!((call.principal(), call.service()), ("alice", service));
            assert_eq!(call.arguments(), &items(text).to_vec());
            let answer = call.reply(items("answer")).unwrap();
            assert_eq!(results(&client, sequence, answer), items("answer").to_vec());
        }
    }
}

#[test]
fn only_privacy_hides_the_text_and_only_the_others_show_it() {
    for service in SERVICES {
        let server = server();
        let mut client = establish(&server, "alice", service, NOW, 1);
        let (message, _) = data_call(&mut client, 5, "secret");
        let answer =
            record(execute(send(&server, &message, NOW, 0)).reply(items("secret")).unwrap());
        for sent in [message, answer] {
            let shown = sent.windows(6).any(|window| window == b"secret");
            assert_eq!(shown, service != Service::Privacy);
        }
    }
}

#[test]
fn repeated_call_is_dropped() {
    let server = server();
    let mut client = establish(&server, "alice", Service::Integrity, NOW, 1);
    let (message, _) = data_call(&mut client, 5, "once");
    execute(send(&server, &message, NOW, 0));
    assert!(matches!(send(&server, &message, NOW, 0), GssOutcome::Drop));
}

#[test]
fn call_below_the_window_is_dropped() {
    let server = server();
    let mut client = establish(&server, "alice", Service::None, NOW, 1);
    let calls: Vec<_> =
        (0..=SEQUENCE_WINDOW).map(|xid| data_call(&mut client, xid, "call").0).collect();
    execute(send(&server, &calls[SEQUENCE_WINDOW as usize], NOW, 0));
    assert!(matches!(send(&server, &calls[0], NOW, 0), GssOutcome::Drop));
    execute(send(&server, &calls[1], NOW, 0));
}

#[test]
fn any_changed_byte_of_the_header_is_denied_or_malformed() {
    let server = server();
    let mut client = establish(&server, "alice", Service::None, NOW, 1);
    let (message, _) = data_call(&mut client, 5, "call");
    let header = message.len() - items("call").len();
    for at in 0..header {
        let mut changed = message.to_vec();
        changed[at] ^= 1;
        let Ok(call) = CallMessage::decode(changed.into()) else { continue };
        match server.receive(&call, NOW, || unreachable!("no context is created")) {
            GssOutcome::Reply(answer) => {
                let answer = ReplyHeader::from_bytes(record(answer)).unwrap();
                assert!(matches!(answer.body, ReplyBody::Denied(_)), "byte {at}: {answer:?}");
            }
            other => panic!("byte {at}: {other:?}"),
        }
    }
    execute(send(&server, &message, NOW, 0));
}

#[test]
fn forged_call_does_not_move_the_window() {
    let server = server();
    let mut client = establish(&server, "alice", Service::None, NOW, 1);
    let (message, _) = data_call(&mut client, 5, "call");
    let mut forged = message.to_vec();
    forged[24 + 8 + 10] = 0x7f; // the sequence number's third byte: far ahead
    assert_eq!(denied(send(&server, &forged.into(), NOW, 0)), AuthStatus::GssCredentialProblem);
    execute(send(&server, &message, NOW, 0));
}

#[test]
fn mic_of_another_user_is_denied() {
    let server = server();
    let alice = establish(&server, "alice", Service::None, NOW, 1);
    drop(alice);
    let context = TestContext::of("mallory");
    let verifier =
        OpaqueAuth { flavor: 6, body: context.get_mic(&SEQUENCE_WINDOW.to_be_bytes()).unwrap() };
    let handle = Bytes::from_static(&[1; HANDLE_BYTES]);
    let mut forger =
        GssClientContext::new(context, Service::None, handle, SEQUENCE_WINDOW, &verifier).unwrap();
    let (message, _) = data_call(&mut forger, 5, "call");
    assert_eq!(denied(send(&server, &message, NOW, 0)), AuthStatus::GssCredentialProblem);
}

#[test]
fn any_changed_byte_of_a_protected_body_is_garbage() {
    for service in [Service::Integrity, Service::Privacy] {
        let server = server();
        let mut client = establish(&server, "alice", service, NOW, 1);
        let (message, _) = data_call(&mut client, 5, "body");
        let bytes = CallMessage::decode(message).unwrap().arguments.len();
        for at in 0..bytes {
            let (message, sequence) = data_call(&mut client, 5, "body");
            let changed = with_body(&message, |body| body[at] ^= 1);
            let outcome = send(&server, &changed, NOW, 0);
            assert!(is_garbage(&client, sequence, outcome), "{service:?}, byte {at}");
        }
    }
}

#[test]
fn protected_body_cut_anywhere_or_longer_is_garbage() {
    for service in [Service::Integrity, Service::Privacy] {
        let server = server();
        let mut client = establish(&server, "alice", service, NOW, 1);
        let (message, _) = data_call(&mut client, 5, "body");
        let bytes = CallMessage::decode(message).unwrap().arguments.len();
        for length in (0..bytes).chain([bytes + 4]) {
            let (message, sequence) = data_call(&mut client, 5, "body");
            let changed = with_body(&message, |body| body.resize(length, 0));
            let outcome = send(&server, &changed, NOW, 0);
            assert!(is_garbage(&client, sequence, outcome), "{service:?}, {length} bytes");
        }
    }
}

#[test]
fn body_of_another_call_is_garbage() {
    for service in [Service::Integrity, Service::Privacy] {
        let server = server();
        let mut client = establish(&server, "alice", service, NOW, 1);
        let (first, _) = data_call(&mut client, 5, "first");
        let body = CallMessage::decode(first).unwrap().arguments;
        let (second, sequence) = data_call(&mut client, 6, "second");
        let mixed = with_body(&second, |own| *own = body.to_vec());
        assert!(is_garbage(&client, sequence, send(&server, &mixed, NOW, 0)), "{service:?}");
    }
}

#[test]
fn body_errors_name_their_cause() {
    let context = TestContext::of("alice");
    let body = |service| record(wrap_body(&context, service, 7, items("text")).unwrap());
    for service in [Service::Integrity, Service::Privacy] {
        let wrong = unwrap_body(&context, service, 8, body(service));
        assert_eq!(wrong, Err(BodyError::WrongSequence { body: 7, header: 8 }));
        let other = unwrap_body(&TestContext::of("bob"), service, 7, body(service));
        assert!(matches!(other, Err(BodyError::Mechanism(_))), "{other:?}");
    }
    let mut external = Encoder::new();
    external.external(100);
    let refused = wrap_body(&context, Service::Integrity, 7, external.clone());
    assert_eq!(refused.unwrap_err(), BodyError::External);
    let plain = wrap_body(&context, Service::None, 7, external).unwrap();
    assert_eq!(plain.len(), 104);
}

#[test]
fn destroyed_context_is_removed_and_its_calls_denied() {
    for service in SERVICES {
        let server = server();
        let mut client = establish(&server, "alice", service, NOW, 1);
        let (late, _) = data_call(&mut client, 5, "late");
        let destroy = record(client.destroy(header(6, 0)).unwrap().unwrap());
        let (answer, body) = reply(send(&server, &destroy, NOW, 0));
        let ReplyBody::Accepted { verifier, status } = answer.body else { panic!("{answer:?}") };
        assert_eq!((status, body), (AcceptStatus::Success, Bytes::new()));
        let mic = TestContext::of("alice").get_mic(&2u32.to_be_bytes()).unwrap();
        assert_eq!(verifier.body, mic);
        assert_eq!(server.context_counts(), (0, 0));
        assert_eq!(denied(send(&server, &late, NOW, 0)), AuthStatus::GssCredentialProblem);
    }
}

#[test]
fn call_in_execution_is_answered_after_its_context_is_destroyed() {
    let server = server();
    let mut client = establish(&server, "alice", Service::Privacy, NOW, 1);
    let (message, _) = data_call(&mut client, 5, "slow");
    let call = execute(send(&server, &message, NOW, 0));
    let destroy = record(client.destroy(header(6, 0)).unwrap().unwrap());
    reply(send(&server, &destroy, NOW, 0));
    assert!(call.reply(items("done")).is_ok());
}

/// A valid DATA or DESTROY call of alice with any credential.
fn signed(credential: &GssCredential, procedure: u32) -> Bytes {
    let mut to = Encoder::new();
    let header = CallHeader { credential: credential.to_credential(), ..header(9, procedure) };
    header.encode_signed_part(&mut to);
    let mic = TestContext::of("alice").get_mic(&to.to_vec()).unwrap();
    OpaqueAuth { flavor: 6, body: mic }.encode(&mut to);
    record(to)
}

fn credential(sequence: u32) -> GssCredential {
    GssCredential {
        procedure: GssProcedure::Data,
        sequence,
        service: Service::None.code(),
        handle: Bytes::from_static(&[1; HANDLE_BYTES]),
    }
}

#[test]
fn last_sequence_number_is_executed_and_the_next_denied() {
    let server = server();
    establish(&server, "alice", Service::None, NOW, 1);
    execute(send(&server, &signed(&credential(SEQUENCE_MAX - 1), 1), NOW, 0));
    for sequence in [SEQUENCE_MAX, u32::MAX] {
        let outcome = send(&server, &signed(&credential(sequence), 1), NOW, 0);
        assert_eq!(denied(outcome), AuthStatus::GssContextProblem);
    }
}

#[test]
fn client_stops_at_the_last_sequence_number() {
    let server = server();
    let mut client = establish(&server, "alice", Service::None, NOW, 1);
    client.skip_to(SEQUENCE_MAX - 1);
    let (message, sequence) = client.call(header(5, 1), items("last")).unwrap().unwrap();
    assert_eq!(sequence, SEQUENCE_MAX - 1);
    execute(send(&server, &record(message), NOW, 0));
    assert!(client.call(header(5, 1), items("none")).unwrap().is_none());
    assert!(client.call(header(5, 1), items("none")).unwrap().is_none());
}

#[test]
fn unknown_service_handle_and_verifier_are_denied() {
    let server = server();
    establish(&server, "alice", Service::None, NOW, 1);
    let service = GssCredential { service: 4, ..credential(1) };
    assert_eq!(denied(send(&server, &signed(&service, 1), NOW, 0)), AuthStatus::BadCredential);
    for handle in [Bytes::new(), vec![1; 15].into(), vec![1; 17].into(), vec![2; 16].into()] {
        let other = GssCredential { handle, ..credential(1) };
        let outcome = send(&server, &signed(&other, 1), NOW, 0);
        assert_eq!(denied(outcome), AuthStatus::GssCredentialProblem);
    }
    let mut plain = CallMessage::decode(signed(&credential(1), 1)).unwrap();
    plain.header.verifier.flavor = 0;
    let outcome = server.receive(&plain, NOW, || [1; HANDLE_BYTES]);
    assert_eq!(denied(outcome), AuthStatus::BadVerifier);
}

#[test]
fn destroy_of_another_procedure_is_denied() {
    let server = server();
    establish(&server, "alice", Service::None, NOW, 1);
    let destroy = GssCredential { procedure: GssProcedure::Destroy, ..credential(1) };
    assert_eq!(denied(send(&server, &signed(&destroy, 1), NOW, 0)), AuthStatus::BadCredential);
    assert_eq!(server.context_counts(), (1, 0));
}
