//! Signatures and encryption. MS-SMB2 3.3.5.2.1, 3.3.5.2.4.

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb2::negotiate::{
    Cipher, NegotiateContext, NegotiateRequest, SigningAlgorithm,
};
use braid_smb_wire::smb2::{Body, Command, Dialect, Empty, Flags};

use crate::client::{Client, create, offer, tree_connect, write};
use crate::logon::Logon;
use crate::server::Server;

const CIPHERS: [Cipher; 4] =
    [Cipher::AES_128_CCM, Cipher::AES_128_GCM, Cipher::AES_256_CCM, Cipher::AES_256_GCM];

/// Negotiations, one for each algorithm for signatures.
fn signing_offers() -> Vec<NegotiateRequest> {
    let with = |algorithm| {
        let mut request = offer(&[Dialect::Smb311]);
        request.contexts.push(NegotiateContext::Signing(vec![algorithm]));
        request
    };
    let algorithms =
        [SigningAlgorithm::HMAC_SHA256, SigningAlgorithm::AES_CMAC, SigningAlgorithm::AES_GMAC];
    let mut offers: Vec<_> = algorithms.into_iter().map(with).collect();
    offers.extend([Dialect::Smb202, Dialect::Smb210, Dialect::Smb302].map(|one| offer(&[one])));
    offers
}

fn with_cipher(cipher: Cipher) -> NegotiateRequest {
    let mut request = offer(&[Dialect::Smb311]);
    request.contexts[1] = NegotiateContext::Encryption(vec![cipher]);
    request
}

/// A client whose session requires signatures, because it asked for that.
fn signing(server: &Server, offer: &NegotiateRequest) -> Client {
    let mut client = Client::connect(server);
    client.negotiate(offer);
    let logon = Logon { security_mode: 2, ..Logon::of("alice") };
    assert_eq!(client.log_on_as(logon).status(), NtStatus::SUCCESS);
    client.signs = true;
    assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
    client
}

#[test]
fn an_unsigned_request_has_no_effect_where_signatures_are_required() {
    let server = Server::new();
    for offer in signing_offers() {
        let mut client = signing(&server, &offer);
        client.signs = false;
        let answer = client.call(Command::Create, &create("made"));
        assert_eq!(answer.status(), NtStatus::ACCESS_DENIED);
        let answer = client.call(Command::Logoff, &Empty);
        assert_eq!(answer.status(), NtStatus::ACCESS_DENIED);
        client.signs = true;
        assert!(!client.has("made"), "{:?}", client.signing);
    }
}

#[test]
fn signatures_are_required_where_the_server_requires_them() {
    let server = Server::with(|config| config.require_signing = true);
    let mut client = Client::connect(&server);
    client.negotiate(&offer(&[Dialect::Smb210]));
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
    assert_eq!(client.tree_connect("data"), NtStatus::ACCESS_DENIED);
    client.signs = true;
    assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
}

#[test]
fn a_user_of_3_1_1_connects_to_a_share_by_a_protected_request_only() {
    let server = Server::new();
    for (signs, encrypts, served) in
        [(false, false, false), (true, false, true), (false, true, true)]
    {
        let mut client = Client::connect(&server);
        client.negotiate(&offer(&[Dialect::Smb311]));
        assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
        (client.signs, client.encrypts) = (signs, encrypts);
        let header = client.header(Command::TreeConnect);
        let message = client.signed(header, &tree_connect("data").to_bytes());
        client.send(&client.sealed(&message));
        assert_eq!(client.answers().is_some(), served, "{signs} {encrypts}");
    }
    // Before 3.1.1 only the session decides.
    Client::ready_with(&server, &offer(&[Dialect::Smb302])).open("file");
}

#[test]
fn a_request_that_was_changed_anywhere_has_no_effect() {
    let server = Server::new();
    for offer in signing_offers() {
        // Also of a session that does not require signatures: what is signed is checked.
        for mut client in [signing(&server, &offer), Client::ready_with(&server, &offer)] {
            client.signs = true;
            // In the signature, the credits asked for, the name and the disposition.
            for at in [48, 63, 14, 64 + 36, 64 + 56] {
                let header = client.header(Command::Create);
                let mut message = client.signed(header, &create("made").to_bytes());
                message[at] ^= 1;
                client.send(&message);
                assert_eq!(client.answer().status(), NtStatus::ACCESS_DENIED, "{at}");
            }
            assert!(!client.has("made"));
        }
    }
}

#[test]
fn every_response_of_a_session_that_signs_is_signed() {
    let server = Server::new();
    for offer in signing_offers() {
        let mut client = signing(&server, &offer);
        let answers = [
            client.call(Command::Create, &create("file")),
            client.call(Command::Create, &create(r"a\b")),
            client.call(Command::Echo, &Empty),
        ];
        assert!(answers[1].status().is_error());
        // The client has checked the signatures.
        assert!(answers.iter().all(|answer| answer.header.flags.has(Flags::SIGNED)));
    }
}

#[test]
fn a_response_that_is_sent_back_ends_the_connection() {
    let server = Server::new();
    for offer in signing_offers() {
        let mut client = signing(&server, &offer);
        let answer = client.call(Command::Echo, &Empty);
        client.send(&answer.message);
        assert!(client.is_disconnected());
    }
}

#[test]
fn a_message_that_is_replayed_ends_the_connection() {
    let server = Server::new();
    for offer in signing_offers() {
        let mut client = signing(&server, &offer);
        let id = client.open("file");
        let header = client.header(Command::Write);
        let message = client.signed(header, &write(id, "old").to_bytes());
        client.send(&message);
        assert_eq!(client.answer().status(), NtStatus::SUCCESS);
        assert_eq!(client.call(Command::Write, &write(id, "new")).status(), NtStatus::SUCCESS);
        client.send(&message);
        assert!(client.is_disconnected());
        assert_eq!(&Client::ready(&server).read("file")[..], b"new");
    }
}

#[test]
fn each_cipher_carries_requests_and_responses() {
    let server = Server::new();
    for cipher in CIPHERS {
        let mut client = Client::ready_with(&server, &with_cipher(cipher));
        assert_eq!(client.cipher, Some(cipher));
        client.encrypts = true;
        let id = client.open("file");
        let data = format!("{cipher:?}");
        let answer = client.call(Command::Write, &write(id, data.clone()));
        assert_eq!(answer.status(), NtStatus::SUCCESS);
        assert_eq!(&client.read("file")[..], data.as_bytes());
    }
}

#[test]
fn an_encrypted_share_refuses_requests_that_are_not() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    client.signs = true;
    assert_eq!(client.tree_connect("secret"), NtStatus::SUCCESS);
    let answer = client.call(Command::Create, &create("made"));
    assert_eq!(answer.status(), NtStatus::ACCESS_DENIED);
    client.encrypts = true;
    assert!(!client.has("made"));
    client.open("made");
    // A client that cannot encrypt does not get it.
    let mut client = Client::ready_with(&server, &offer(&[Dialect::Smb210]));
    assert_eq!(client.tree_connect("secret"), NtStatus::ACCESS_DENIED);
}

#[test]
fn a_frame_that_was_changed_or_has_another_key_ends_the_connection() {
    let server = Server::new();
    for cipher in CIPHERS {
        // A byte of the signature, the nonce, the size, the session and the messages.
        for at in [4, 20, 36, 44, 52, 60, 100] {
            let mut client = Client::ready_with(&server, &with_cipher(cipher));
            client.encrypts = true;
            let message = client.message(Command::Create, &create("made").to_bytes());
            let mut frame = client.sealed(&message);
            frame[at] ^= 1;
            client.send(&frame);
            assert!(client.is_disconnected(), "{cipher:?} {at}");
        }
        // The key of another session of the same user.
        let other = Client::ready_with(&server, &with_cipher(cipher));
        let mut client = Client::ready_with(&server, &with_cipher(cipher));
        client.keys = other.keys;
        client.encrypts = true;
        let message = client.message(Command::Create, &create("made").to_bytes());
        client.send(&client.sealed(&message));
        assert!(client.is_disconnected());
    }
    assert!(!Client::ready(&server).has("made"));
}

#[test]
fn a_frame_for_a_session_of_another_connection_ends_this_one_only() {
    let server = Server::new();
    let mut one = Client::ready(&server);
    let mut other = Client::ready(&server);
    one.encrypts = true;
    // It is right, but it is sent on another connection.
    let message = one.message(Command::Create, &create("made").to_bytes());
    other.send(&one.sealed(&message));
    assert!(other.is_disconnected());
    one.next -= 1;
    assert!(!one.has("made"), "the session goes on");
}

#[test]
fn one_key_decrypts_only_requests_of_its_own_session() {
    let server = Server::new();
    let mut client = Client::ready(&server);
    client.encrypts = true;
    let mut header = client.header(Command::Create);
    header.session_id ^= 1;
    let answer = client.call_as(header, &create("made").to_bytes());
    assert_eq!(answer.status(), NtStatus::USER_SESSION_DELETED);
    assert!(!client.has("made"));
}
