//! The order of gateways, and what is in it.

use std::collections::HashMap;
use std::net::Ipv4Addr;

use braid_smb_wire::NtStatus;
use braid_smb_wire::frame::encode_length;
use braid_smb_wire::smb2::negotiate::NegotiateResponse;
use braid_smb_wire::smb2::{Body, Command, Flags, Header};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpListener;

use super::*;

const OWN: [u8; 16] = [1; 16];

fn gateways(names: &[&str]) -> Gateways {
    Gateways::new(&names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>())
}

fn clients() -> impl Iterator<Item = IpAddr> {
    (0..10_000).map(|number| Ipv4Addr::from(0x0a00_0000 + number).into())
}

fn fail(gateways: &Gateways, index: usize, times: usize) {
    for _ in 0..times {
        gateways.all[index].record(Err(probe::ProbeError::Late), &OWN);
    }
}

#[test]
fn clients_spread_evenly_and_each_has_the_same_order_everywhere() {
    let (one, other) = (gateways(&["a", "b", "c"]), gateways(&["C", "a:4450", "B"]));
    let mut counts = HashMap::<_, usize>::new();
    for client in clients() {
        let order = one.order(client);
        assert_eq!(order.join(" "), other.order(client).join(" ").to_lowercase(), "{client}");
        *counts.entry(order.join(" ")).or_default() += 1;
    }
    assert_eq!(counts.len(), 6, "each order of three");
    // 1,667 each; five standard deviations are 186.
    assert!(counts.values().all(|count| (1480..1854).contains(count)), "{counts:?}");
}

#[test]
fn only_clients_of_a_lost_gateway_move_and_they_come_back() {
    let gateways = gateways(&["a", "b", "c"]);
    let first = || clients().map(|client| gateways.order(client)[0]).collect::<Vec<_>>();
    let before = first();
    fail(&gateways, 1, FAILURES_MAX as usize);
    let during = first();
    let moved = before.iter().zip(&during).filter(|(before, during)| before != during);
    assert!(moved.clone().all(|(before, _)| *before == "b"));
    let to_a = moved.clone().filter(|(_, to)| **to == "a").count();
    let all = moved.count();
    assert!(during.iter().all(|to| *to != "b") && (2 * all / 5..3 * all / 5).contains(&to_a));
    gateways.all[1].record(Ok([2; 16]), &OWN);
    assert_eq!(first(), before);
}

#[test]
fn a_single_probe_without_an_answer_changes_nothing() {
    let gateways = gateways(&["a", "b"]);
    let client = Ipv4Addr::LOCALHOST.into();
    for _ in 0..3 {
        fail(&gateways, 0, FAILURES_MAX as usize - 1);
        assert_eq!(gateways.order(client).len(), 2);
        gateways.all[0].record(Ok([2; 16]), &OWN);
    }
    assert!(!gateways.own());
    gateways.all[1].record(Ok(OWN), &OWN);
    assert!(gateways.own());
    fail(&gateways, 0, FAILURES_MAX as usize);
    assert_eq!(gateways.order(client), ["b"]);
}

#[test]
fn an_address_of_ipv4_inside_ipv6_is_the_same_client() {
    let gateways = gateways(&["a", "b", "c", "d"]);
    let client = Ipv4Addr::new(10, 1, 2, 3);
    assert_eq!(gateways.order(client.into()), gateways.order(client.to_ipv6_mapped().into()));
    // The order is part of what gateways of several versions have to agree on.
    assert_eq!(gateways.order(client.into()), ["c", "b", "a", "d"]);
}

/// The outcome of a probe of a peer that sends these bytes, and then closes the connection.
async fn probe_of(answer: Vec<u8>) -> Result<[u8; 16], probe::ProbeError> {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let peer = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 100];
        stream.read_exact(&mut request).await.unwrap();
        stream.write_all(&answer).await.unwrap();
    });
    let outcome = probe::Probe::new("127.0.0.1", port, OWN).run().await;
    peer.await.unwrap();
    outcome
}

#[tokio::test]
async fn a_peer_that_is_no_smb_server_does_not_answer() {
    let body = NegotiateResponse { dialect: 0x0302, server_guid: [7; 16], ..Default::default() };
    let header = Header { flags: Flags::RESPONSE, ..Header::request(Command::Negotiate, 0) };
    let answer = |header: &Header| {
        let message = [&header.to_bytes()[..], &body.to_bytes()].concat();
        [&encode_length(message.len())[..], &message].concat()
    };
    assert_eq!(probe_of(answer(&header)).await.unwrap(), [7; 16]);
    let refused = Header { status: NtStatus::INSUFFICIENT_RESOURCES, ..header.clone() };
    let error = probe_of(answer(&refused)).await.unwrap_err().to_string();
    assert!(error.contains("STATUS_INSUFFICIENT_RESOURCES"), "{error}");
    let cut = answer(&header)[..90].to_vec();
    for answer in [Vec::new(), cut, b"HTTP/1.1 400 Bad Request".to_vec(), vec![0, 255, 255, 255]] {
        assert!(probe_of(answer.clone()).await.is_err(), "{answer:?}");
    }
    let junk = [&encode_length(200)[..], &[0xfe; 200]].concat();
    assert!(probe_of(junk).await.unwrap_err().to_string().contains("it is no SMB server"));
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_is_silent_or_has_no_name_does_not_answer() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let silent = probe::Probe::new("127.0.0.1", port, OWN).run().await;
    assert!(matches!(silent, Err(probe::ProbeError::Late)), "{silent:?}");
    let unknown = probe::Probe::new("no-such-host.invalid", 445, OWN).run().await;
    assert!(matches!(unknown, Err(probe::ProbeError::Name(_))), "{unknown:?}");
}

#[test]
fn names_and_ports_are_read() {
    assert_eq!(parse("gw1.example.org"), Some(("gw1.example.org", 445)));
    assert_eq!(parse("10.0.0.1:4450"), Some(("10.0.0.1", 4450)));
    let long = ["x"; 130].join(".");
    for entry in
        ["", ":1", "a:", "a:0", "a:65536", "a b", "a..b", ".a", "a\\b", "fe80::1", "[::1]:1", &long]
    {
        assert_eq!(parse(entry), None, "{entry:?}");
    }
}
