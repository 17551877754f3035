//! Logons that other implementations wrote, and changes of single bits.

use super::*;
use crate::auth::spnego::{NegState, NegTokenResp};

/// A logon of "WORK\\User" with the password "Password" between the client and the server of
/// pyspnego 0.12, as they wrote it.
const CLIENT_FIRST: &str = "
    604806062b0601050502a03e303ca00e300c060a2b06010401823702020aa22a04284e544c4d5353500001000000
    378208e200000000280000000000000028000000000c04000000000f";
const SERVER_FIRST: &str = "
    a1819030818da0030a0103a10c060a2b06010401823702020aa27804764e544c4d53535000020000000400040038
    00000035828ae26aadd89a300331a200000000000000003a003a003c000000000c04000000000f56004d00010004
    0056004d000200160057004f0052004b00530054004100540049004f004e000300040076006d000700080044b5a3
    ccec7edd0100000000";
const CLIENT_SECOND: &str = "
    a182014530820141a0030a0101a2820124048201204e544c4d535350000300000018001800580000008c008c0070
    00000008000800fc0000000800080004010000040004000c010000100010001001000035828ae2000c0400000000
    0f97e52a8a9fa738cd5c52068c9807706100000000000000000000000000000000000000000000000049383f1070
    8ae9606d5e7a975a1251f6010100000000000044b5a3ccec7edd01790a28dc299ecb15000000000100040056004d
    000200160057004f0052004b00530054004100540049004f004e000300040076006d000700080044b5a3ccec7edd
    010900160063006900660073002f007300650072007600650072000600040002000000000000000000000057004f
    0052004b00550073006500720056004d008bcfe719065823effc62680270355429a312041001000000dbbb19a9e7
    40cfcb00000000";
const SERVER_SECOND: &str = "
    a11b3019a0030a0100a3120410010000002506cfa9d88de78d00000000";

const SESSION_KEY: &str = "0f6ca283de46ab7f32ead05349dddfdb";

/// Bytes of digits on several lines.
fn bytes(digits: &str) -> Bytes {
    hex(&digits.split_whitespace().collect::<String>()).into()
}

fn users(user: &str, domain: &str) -> Option<NtHash> {
    (user == "User" && matches!(domain, "WORK" | "Domain")).then(|| nt_hash("Password"))
}

#[test]
fn a_captured_logon_is_accepted_with_the_same_key_and_mics() {
    let Token::Init(init) = Token::decode(&bytes(CLIENT_FIRST)).unwrap() else { panic!("no Init") };
    let Token::Resp(first) = Token::decode(&bytes(SERVER_FIRST)).unwrap() else {
        panic!("no Resp")
    };
    let Token::Resp(second) = Token::decode(&bytes(CLIENT_SECOND)).unwrap() else {
        panic!("no Resp")
    };
    assert_eq!((&init.mechanisms[..], &init.mic), (&[Mechanism::Ntlm][..], &None));
    assert_eq!(init.encode(), bytes(CLIENT_FIRST));
    assert_eq!(first.encode(), bytes(SERVER_FIRST));
    assert_eq!(second.encode(), bytes(CLIENT_SECOND));

    let server = Acceptor::resume(init.token.unwrap(), first.token.unwrap());
    let logon = server.authenticate(&second.token.unwrap(), users).unwrap();
    assert_eq!((&logon.user[..], &logon.domain[..]), ("User", "WORK"));
    assert_eq!(logon.session_key[..], hex(SESSION_KEY));
    let client_keys = logon.message_keys(Sender::Client);
    assert_eq!(client_keys.verify_mic(&init.mechanism_list, &second.mic.unwrap()), Ok(()));
    let mic = logon.message_keys(Sender::Server).mic(&init.mechanism_list);
    let last = NegTokenResp {
        state: Some(NegState::AcceptCompleted),
        mic: Some(Bytes::copy_from_slice(&mic)),
        ..NegTokenResp::default()
    };
    assert_eq!(last.encode(), bytes(SERVER_SECOND));
}

/// MS-NLMP 4.2.4.3. The message has no MIC: its payload begins where a MIC would be.
#[test]
fn the_logon_of_the_standards_example_is_accepted() {
    let message = bytes(
        "4e544c4d53535000 03000000 180018006c000000 5400540084000000 0c000c0048000000
         0800080054000000 100010005c000000 10001000d8000000 358288e2 0501280a0000000f
         44006f006d00610069006e00 5500730065007200 43004f004d0050005500540045005200
         86c35097ac9cec102554764a57cccc19aaaaaaaaaaaaaaaa
         68cd0ab851e51c96aabc927bebef6a1c
         0101000000000000 0000000000000000 aaaaaaaaaaaaaaaa 00000000
         02000c00 44006f006d00610069006e00 01000c00 530065007200760065007200 0000000000000000
         c5dad2544fc9799094ce1ce90bc9d03e",
    );
    let logon = challenged().authenticate(&message, users).unwrap();
    assert_eq!((logon.session_key, logon.anonymous), ([0x55; 16], false));
    assert_eq!((&logon.domain[..], &logon.workstation[..]), ("Domain", "COMPUTER"));
}

/// Whatever user the changed message names has the right password here: the MIC alone refuses it.
#[test]
fn a_message_changed_at_any_bit_does_not_log_on() {
    let length = exchange("secret").1.len();
    for bit in 0..length * 8 {
        let (server, mut message, _) = exchange("secret");
        message[bit / 8] ^= 1 << (bit % 8);
        let result = server.authenticate(&message.into(), |_, _| Some(nt_hash("secret")));
        assert!(result.is_err(), "bit {bit}");
    }
}

#[test]
fn a_first_message_changed_at_any_bit_is_noticed_at_the_end() {
    let length = Initiator::new(credentials("secret")).negotiate().len();
    for bit in 0..length * 8 {
        let client = Initiator::new(credentials("secret"));
        let mut negotiate = client.negotiate().to_vec();
        negotiate[bit / 8] ^= 1 << (bit % 8);
        let mut server = Acceptor::new(names(), SERVER_CHALLENGE, 1);
        let Ok(challenge) = server.challenge(&negotiate.into()) else { continue };
        let (message, _) = client.authenticate(&challenge.into(), [9; 8], [0x55; 16]).unwrap();
        let result = server.authenticate(&message.into(), lookup);
        assert_eq!(result.unwrap_err(), LogonFailure::Changed, "bit {bit}");
    }
}

/// The attribute that announces the MIC is part of what the proof covers.
#[test]
fn the_announcement_of_the_mic_cannot_be_removed() {
    let (server, message, _) = exchange("secret");
    let mut message = Authenticate::decode(&message.into()).unwrap();
    let mut response = message.nt_response.to_vec();
    let flags = response.windows(4).position(|at| at == [6, 0, 4, 0]).unwrap() + 4;
    assert_eq!(response[flags], 2);
    response[flags] = 0;
    message.nt_response = response.into();
    message.mic = [0; 16];
    let result = server.authenticate(&message.encode().into(), lookup);
    assert_eq!(result.unwrap_err(), LogonFailure::Denied);
}

/// Clients with less than 128 bits or without a key exchange have other keys, the same on both
/// sides.
#[test]
fn weaker_sessions_have_the_same_keys_on_both_sides() {
    let bits = [MessageFlags::KEY_EXCHANGE, MessageFlags::BITS_128, MessageFlags::BITS_56];
    for without in 0..8_usize {
        let removed = (0..3).filter(|bit| without >> bit & 1 == 1).map(|bit| bits[bit]);
        let removed = removed.fold(MessageFlags::default(), MessageFlags::with);
        let negotiate = Negotiate { flags: MessageFlags(all().0 & !removed.0) }.encode();
        let mut server = Acceptor::new(names(), SERVER_CHALLENGE, 1);
        let challenge = Bytes::from(server.challenge(&negotiate.clone().into()).unwrap());
        let client = Initiator::resume(credentials("secret"), negotiate);
        let (message, client) = client.authenticate(&challenge, [9; 8], [0x55; 16]).unwrap();
        let server = server.authenticate(&message.into(), lookup).unwrap();
        assert_eq!(server.flags.0 & removed.0, 0, "{without}");
        assert_eq!(server.session_key, client.session_key, "{without}");
        let exchanged = server.flags.has(MessageFlags::KEY_EXCHANGE);
        assert_eq!(server.session_key == [0x55; 16], exchanged, "{without}");
        let mic = client.message_keys(Sender::Client).mic(b"list");
        assert_eq!(server.message_keys(Sender::Client).verify_mic(b"list", &mic), Ok(()));
    }
}

#[test]
fn the_case_of_the_user_is_not_significant_and_that_of_the_domain_is() {
    let key = |user, domain| response_key(&nt_hash("secret"), user, &to_utf16(domain));
    assert_eq!(key("jörg", "Domain"), key("JÖRG", "Domain"));
    assert_ne!(key("user", "Domain"), key("user", "DOMAIN"));
    // One unit of UTF-16 stays one: Windows has no capital of this letter.
    assert_ne!(key("straße", ""), key("STRASSE", ""));
}

/// An old client's message, 64 bytes without a version, a MIC and a payload.
#[test]
fn an_anonymous_client_may_end_its_message_after_the_flags() {
    let mut message = b"NTLMSSP\0\x03\0\0\0".to_vec();
    message.resize(60, 0);
    message.extend(MessageFlags::UNICODE.0.to_le_bytes());
    assert_eq!(message.len(), 64);
    let logon = challenged().authenticate(&message.into(), |_, _| unreachable!()).unwrap();
    assert!(logon.anonymous);
    assert_eq!(logon.session_key, [0; 16]);
}

#[test]
fn what_debug_shows_has_no_keys() {
    let (server, message, client) = exchange("secret");
    let logon = server.authenticate(&message.into(), lookup).unwrap();
    let shown = format!("{logon:?} {client:?} {:?}", nt_hash("secret"));
    assert!(!shown.contains("85, 85") && !shown.contains("5555"), "{shown}");
    assert_eq!(format!("{:?}", nt_hash("secret")), "NtHash");
}
