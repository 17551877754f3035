mod interop;

use bytes::Bytes;

use super::acceptor::message_mic;
use super::crypto::{hmac_md5, proof, rc4, response_key};
use super::initiator::response_blob;
use super::*;
use crate::auth::spnego::{Mechanism, Token, mechanism_list};
use crate::cursor::{Malformed, Reader, to_utf16};
use crate::protect::Sender;
use crate::protect::test_vectors::{LAST_RESPONSE, MESSAGES, SESSION_KEY, hex};

const SERVER_CHALLENGE: [u8; 8] = [0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef];

fn names() -> ServerNames {
    ServerNames {
        netbios_computer: "SERVER".into(),
        netbios_domain: "DOMAIN".into(),
        dns_computer: "server.example".into(),
        dns_domain: "example".into(),
    }
}

fn credentials(password: &str) -> Credentials {
    Credentials {
        user: "Üser".into(),
        domain: "Domain".into(),
        workstation: "CLIENT".into(),
        hash: nt_hash(password),
    }
}

/// The server before the last message, that message, and what the client thinks.
fn exchange(password: &str) -> (Acceptor, Vec<u8>, Authenticated) {
    let client = Initiator::new(credentials(password));
    let mut server = Acceptor::new(names(), SERVER_CHALLENGE, 1);
    let negotiate = Bytes::copy_from_slice(client.negotiate());
    let challenge = server.challenge(&negotiate).unwrap();
    let (message, logon) = client.authenticate(&challenge.into(), [9; 8], [0x55; 16]).unwrap();
    (server, message, logon)
}

fn lookup(user: &str, domain: &str) -> Option<NtHash> {
    (user == "Üser" && domain == "Domain").then(|| nt_hash("secret"))
}

/// MS-NLMP 4.2.4.
#[test]
fn responses_are_those_of_the_standards_example() {
    let hash = nt_hash("Password");
    assert_eq!(hash.0[..], hex("a4f49c406510bdcab6824ee7c30fd852"));
    let key = response_key(&hash, "User", &to_utf16("Domain"));
    assert_eq!(key[..], hex("0c868a403bfd7a93a3001ef22ef02e3f"));
    let mut pairs = AvPairs::default();
    pairs.set_text(AvId::NbDomainName, "Domain");
    pairs.set_text(AvId::NbComputerName, "Server");
    let blob = response_blob([0; 8], [0xaa; 8], &pairs);
    let (proof, base_key) = proof(&key, &SERVER_CHALLENGE, &blob);
    assert_eq!(proof[..], hex("68cd0ab851e51c96aabc927bebef6a1c"));
    assert_eq!(base_key[..], hex("8de40ccadbc14a82f15cb0ad0de95ca3"));
    assert_eq!(rc4(&base_key, [0x55; 16])[..], hex("c5dad2544fc9799094ce1ce90bc9d03e"));
    let flags = MessageFlags::BITS_128.with(MessageFlags::KEY_EXCHANGE);
    let (signing, sealing) = MessageKeys::new(&[0x55; 16], flags, Sender::Client).parts();
    assert_eq!(signing[..], hex("4788dc861b4782f35d43fd98fe1a2d39"));
    assert_eq!(sealing[..], hex("59f600973cc4960a25480a7c196e4c58"));
}

/// The logon of `protect::test_vectors`, from Windows to Windows.
#[test]
fn both_mics_of_a_logon_of_windows_are_right() {
    let buffer = |message: &str, at| Token::decode(&Bytes::from(hex(message)).slice(at..)).unwrap();
    let Token::Init(init) = buffer(MESSAGES[2], 88) else { panic!("no NegTokenInit") };
    assert_eq!(init.mechanism_list[..], mechanism_list(&[Mechanism::Ntlm]));
    let Token::Resp(request) = buffer(MESSAGES[4], 88) else { panic!("no NegTokenResp") };
    let Token::Resp(last) = buffer(LAST_RESPONSE, 72) else { panic!("no NegTokenResp") };
    let Token::Resp(challenge) = buffer(MESSAGES[3], 72) else { panic!("no NegTokenResp") };

    let (challenge, request_token) = (challenge.token.unwrap(), request.token.unwrap());
    let decoded = Challenge::decode(&challenge).unwrap();
    assert_eq!(decoded.target_name[..], to_utf16("SUT311"));
    let message = Authenticate::decode(&request_token).unwrap();
    assert_eq!(message.user[..], to_utf16("administrator"));
    assert_eq!(message.workstation[..], to_utf16("DRIVER311"));
    let session_key = hex(SESSION_KEY).try_into().unwrap();
    let negotiate = init.token.unwrap();
    let mic = message_mic(&session_key, [&negotiate, &challenge, &request_token]).unwrap();
    assert_eq!(mic, message.mic);
    for (sender, mic) in [(Sender::Client, request.mic), (Sender::Server, last.mic)] {
        let keys = MessageKeys::new(&session_key, message.flags, sender);
        assert_eq!(keys.mic(&init.mechanism_list)[..], mic.unwrap(), "{sender:?}");
    }
}

#[test]
fn a_client_with_the_password_logs_on() {
    let (server, message, client) = exchange("secret");
    let logon = server.authenticate(&message.into(), lookup).unwrap();
    assert!(logon == client, "both sides agree on names, key and flags");
    assert_eq!((logon.session_key, logon.workstation.as_str()), ([0x55; 16], "CLIENT"));
    let mic = client.message_keys(Sender::Client).mic(b"list");
    assert_eq!(logon.message_keys(Sender::Client).verify_mic(b"list", &mic), Ok(()));
    assert!(logon.message_keys(Sender::Server).verify_mic(b"list", &mic).is_err());
}

#[test]
fn unknown_users_and_wrong_passwords_fail_in_the_same_way() {
    let (server, message, _) = exchange("wrong");
    let wrong = server.authenticate(&message.into(), lookup).unwrap_err();
    let (server, message, _) = exchange("secret");
    let unknown = server.authenticate(&message.into(), |_, _| None).unwrap_err();
    assert_eq!((wrong, unknown), (LogonFailure::Denied, LogonFailure::Denied));
    assert_eq!(unknown.status(), crate::NtStatus::LOGON_FAILURE);
}

/// The hash that stands for an unknown user lets nobody in.
#[test]
fn a_hash_of_zeros_does_not_log_on_as_an_unknown_user() {
    let hash = NtHash([0; 16]);
    let client = Initiator::new(Credentials { hash, ..credentials("") });
    let mut server = Acceptor::new(names(), SERVER_CHALLENGE, 1);
    let challenge = server.challenge(&Bytes::copy_from_slice(client.negotiate())).unwrap();
    let (message, _) = client.authenticate(&challenge.into(), [9; 8], [0x55; 16]).unwrap();
    let result = server.authenticate(&message.into(), |_, _| None);
    assert_eq!(result.unwrap_err(), LogonFailure::Denied);
}

#[test]
fn a_message_changed_at_any_byte_does_not_log_on() {
    let length = exchange("secret").1.len();
    for at in 0..length {
        let (server, mut message, _) = exchange("secret");
        message[at] ^= 0x40;
        assert!(server.authenticate(&message.into(), lookup).is_err(), "byte {at}");
    }
}

#[test]
fn a_message_cut_at_any_byte_is_refused() {
    let length = exchange("secret").1.len();
    for end in 0..length {
        let (server, message, _) = exchange("secret");
        let message = Bytes::from(message).slice(..end);
        assert!(server.authenticate(&message, lookup).is_err(), "{end}");
    }
    let mut server = Acceptor::new(names(), SERVER_CHALLENGE, 1);
    let challenge = server.challenge(&Bytes::from(Negotiate { flags: all() }.encode())).unwrap();
    let challenge = Bytes::from(challenge);
    for end in 0..challenge.len() - 12 {
        assert!(Challenge::decode(&challenge.slice(..end)).is_err(), "{end}");
    }
}

fn all() -> MessageFlags {
    MessageFlags(u32::MAX)
}

fn message(nt_response: Vec<u8>, user: &str) -> Bytes {
    let message = Authenticate {
        lm_response: Bytes::new(),
        nt_response: nt_response.into(),
        domain: Bytes::new(),
        user: to_utf16(user).into(),
        workstation: Bytes::new(),
        encrypted_session_key: Bytes::new(),
        flags: MessageFlags::UNICODE.with(MessageFlags::NTLM),
        mic: [0; 16],
    };
    message.encode().into()
}

fn challenged() -> Acceptor {
    let mut server = Acceptor::new(names(), SERVER_CHALLENGE, 1);
    server.challenge(&Negotiate { flags: all() }.encode().into()).unwrap();
    server
}

#[test]
fn ntlm_version_1_is_refused_before_the_user_is_looked_up() {
    let result = challenged().authenticate(&message(vec![1; 24], "user"), |_, _| unreachable!());
    assert_eq!(result.unwrap_err(), LogonFailure::TooOld);
}

#[test]
fn no_name_and_no_proof_is_an_anonymous_logon() {
    let logon = challenged().authenticate(&message(vec![], ""), |_, _| unreachable!()).unwrap();
    assert!(logon.anonymous && logon.user.is_empty());
    let result = challenged().authenticate(&message(vec![], "user"), |_, _| unreachable!());
    assert_eq!(result.unwrap_err(), LogonFailure::TooOld, "a name without a proof");
}

#[test]
fn messages_out_of_order_are_refused() {
    let server = Acceptor::new(names(), SERVER_CHALLENGE, 1);
    let result = server.authenticate(&message(vec![], ""), lookup);
    assert_eq!(result.unwrap_err(), LogonFailure::OutOfOrder);
    let again = challenged().challenge(&Negotiate { flags: all() }.encode().into());
    assert_eq!(again.unwrap_err(), LogonFailure::OutOfOrder);
}

#[test]
fn names_longer_than_the_limit_are_refused() {
    let result = challenged().authenticate(&message(vec![], &"a".repeat(257)), lookup);
    let failure = LogonFailure::Malformed(Malformed("NTLM: name too long"));
    assert_eq!(result.unwrap_err(), failure);
}

#[test]
fn av_pairs_end_and_have_a_limit() {
    let decode = |bytes: Vec<u8>| AvPairs::decode(&mut Reader::new(bytes.into()));
    assert!(decode([5, 0, 0, 0].repeat(33)).is_err());
    assert!(decode([5, 0, 0, 0].repeat(2)).is_err(), "no end");
    assert!(decode([[5, 0, 0, 0].repeat(32), vec![0; 4]].concat()).is_ok());
}

#[test]
fn keys_of_hmac_md5_may_have_any_length() {
    // RFC 2202 2, test case 2.
    let mac = hmac_md5(b"Jefe", &[b"what do ya want ", b"for nothing?"]);
    assert_eq!(mac[..], hex("750c783e6ab0b503eaa86e310a5db738"));
}

proptest::proptest! {
    #[test]
    fn no_bytes_cause_a_panic(kind in 1_u8..4, bytes: Vec<u8>) {
        let message = Bytes::from([&SIGNATURE[..], &[kind, 0, 0, 0], &bytes].concat());
        let _ = Acceptor::new(names(), SERVER_CHALLENGE, 1).challenge(&message);
        let _ = Challenge::decode(&message);
        let _ = challenged().authenticate(&message, lookup);
    }
}
