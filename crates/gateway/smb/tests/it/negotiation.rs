//! Negotiation. MS-SMB2 3.3.5.3, 3.3.5.4.

use braid_smb_wire::NtStatus;
use braid_smb_wire::smb1::{SMB_2_002, SMB_2_WILDCARD};
use braid_smb_wire::smb2::negotiate::{
    Capabilities, Cipher, NegotiateContext, NegotiateRequest, NegotiateResponse, SigningAlgorithm,
};
use braid_smb_wire::smb2::{Body, Command, Dialect, Empty};

use crate::client::{Client, create, offer};
use crate::server::Server;

/// A NEGOTIATE of SMB 1, MS-CIFS 2.2.4.52.1.
fn smb1(dialects: &[&[u8]]) -> Vec<u8> {
    let mut message = b"\xffSMB\x72".to_vec();
    message.resize(32, 0);
    let strings: Vec<u8> =
        dialects.iter().flat_map(|dialect| [b"\x02", *dialect, b"\0"].concat()).collect();
    message.push(0);
    message.extend((strings.len() as u16).to_le_bytes());
    message.extend(strings);
    message
}

#[test]
fn the_newest_common_dialect_is_chosen_and_can_be_used() {
    let server = Server::new();
    for (at, dialect) in Dialect::ALL.into_iter().enumerate() {
        let mut client = Client::ready_with(&server, &offer(&Dialect::ALL[..=at]));
        assert_eq!(client.dialect, dialect);
        client.signs = true;
        client.open("file");
        let encrypts = dialect.is_smb3();
        assert_eq!(client.cipher.is_some(), encrypts);
        client.encrypts = encrypts;
        assert!(client.has("file"), "{dialect:?}");
    }
}

#[test]
fn an_unknown_dialect_is_not_supported() {
    let server = Server::new();
    for (dialects, status) in
        [(vec![0x0400], NtStatus::NOT_SUPPORTED), (vec![], NtStatus::INVALID_PARAMETER)]
    {
        let mut client = Client::connect(&server);
        let request = NegotiateRequest { dialects, ..offer(&[]) };
        assert_eq!(client.call(Command::Negotiate, &request).status(), status);
    }
}

#[test]
fn an_smb_1_client_that_offers_any_smb_2_negotiates_once_more() {
    let server = Server::new();
    let mut client = Client::connect(&server);
    client.send(&smb1(&[b"NT LM 0.12", SMB_2_002, SMB_2_WILDCARD]));
    let answer = client.answer();
    assert_eq!(answer.header.message_id, 0);
    assert_eq!(answer.body::<NegotiateResponse>().dialect, Dialect::WILDCARD);
    client.next = 1;
    client.negotiate(&offer(&Dialect::ALL));
    assert_eq!(client.dialect, Dialect::Smb311);
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
}

#[test]
fn an_smb_1_client_that_offers_2_002_has_negotiated() {
    let server = Server::new();
    let mut client = Client::connect(&server);
    client.send(&smb1(&[b"NT LM 0.12", SMB_2_002]));
    assert_eq!(client.answer().body::<NegotiateResponse>().dialect, Dialect::Smb202.number());
    client.next = 1;
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
    client.signs = true;
    assert_eq!(client.tree_connect("data"), NtStatus::SUCCESS);
}

#[test]
fn smb_1_is_not_spoken() {
    let server = Server::new();
    let mut client = Client::connect(&server);
    client.send(&smb1(&[b"NT LM 0.12"]));
    assert!(client.is_disconnected());
}

#[test]
fn a_second_negotiation_ends_the_connection() {
    let server = Server::new();
    let request = offer(&[Dialect::Smb311]);
    let mut client = Client::ready_with(&server, &request);
    let message = client.message(Command::Negotiate, &request.to_bytes());
    client.send(&message);
    assert!(client.is_disconnected());

    let mut client = Client::ready_with(&server, &request);
    client.send(&smb1(&[SMB_2_WILDCARD]));
    assert!(client.is_disconnected());

    let mut client = Client::connect(&server);
    client.send(&smb1(&[SMB_2_WILDCARD]));
    client.answer();
    client.send(&smb1(&[SMB_2_WILDCARD]));
    assert!(client.is_disconnected(), "any SMB 2 twice");
}

#[test]
fn a_command_before_the_negotiation_ends_the_connection() {
    let server = Server::new();
    for command in Command::ALL.into_iter().filter(|command| *command != Command::Negotiate) {
        let mut client = Client::connect(&server);
        let body = match command {
            Command::Create => create("made").to_bytes(),
            _ => Empty.to_bytes(),
        };
        let message = client.message(command, &body);
        client.send(&message);
        assert!(client.is_disconnected(), "{command:?}");
    }
    assert!(!Client::ready(&server).has("made"));
}

#[test]
fn smb_3_1_1_needs_a_hash_over_its_negotiation() {
    let server = Server::new();
    let mut client = Client::connect(&server);
    let mut request = offer(&[Dialect::Smb311]);
    let preauth = request.contexts.remove(0);
    let answer = client.call(Command::Negotiate, &request);
    assert_eq!(answer.status(), NtStatus::INVALID_PARAMETER);
    // Twice is refused too; once is right, and the failures before left nothing behind.
    request.contexts.extend([preauth.clone(), preauth]);
    let answer = client.call(Command::Negotiate, &request);
    assert_eq!(answer.status(), NtStatus::INVALID_PARAMETER);
    request.contexts.pop();
    client.negotiate(&request);
    assert_eq!(client.log_on("alice"), NtStatus::SUCCESS);
}

#[test]
fn gmac_and_gcm_are_preferred_whatever_the_order_of_the_client() {
    let server = Server::new();
    let mut request = offer(&[Dialect::Smb311]);
    let algorithms = [SigningAlgorithm::HMAC_SHA256, SigningAlgorithm::AES_CMAC];
    let algorithms = [&algorithms[..], &[SigningAlgorithm::AES_GMAC]].concat();
    request.contexts.push(NegotiateContext::Signing(algorithms));
    request.contexts[1] = NegotiateContext::Encryption(vec![
        Cipher::AES_256_CCM,
        Cipher::AES_128_CCM,
        Cipher::AES_256_GCM,
        Cipher::AES_128_GCM,
    ]);
    let mut client = Client::connect(&server);
    let response = client.negotiate(&request);
    assert_eq!(client.signing, SigningAlgorithm::AES_GMAC);
    assert_eq!(client.cipher, Some(Cipher::AES_128_GCM));
    assert!(!response.capabilities.has(Capabilities::ENCRYPTION), "3.1.1 has a context for it");
}
