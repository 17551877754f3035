//! Clients that stay connected and acknowledge nothing.

use tokio::time::Instant;

use super::recalls::another;
use super::*;

const FILES: u8 = 4;

fn name(number: u8) -> String {
    format!("file{number}")
}

/// A CREATE with a lease of a file that has a key of its own.
fn numbered(number: u8) -> CreateRequest {
    CreateRequest { name: name(number), ..leased(BOTH, [number; 16], ALL) }
}

/// A server with files that a client caches, the client, and what it is notified of.
async fn caching() -> (Arc<SmbServer<MemoryShare>>, Client, Notices) {
    let server = server().await;
    let (one, notices) = session_of(&server, (1, 1)).await;
    for number in 0..FILES {
        let response = one.create(numbered(number)).await.unwrap();
        assert_eq!(lease_of(&response).state, ALL);
    }
    (server, one, notices)
}

/// Looks at all files, one after the other, as `ls -l` does. Returns the seconds of each look.
async fn look(mount: MemoryClient) -> Vec<u64> {
    let mut waits = Vec::new();
    for number in 0..FILES {
        let begun = Instant::now();
        let name = name(number);
        mount.look_up(&Identity::root(), FileIndex::ROOT, name.as_bytes()).await.unwrap();
        waits.push(begun.elapsed().as_secs());
    }
    waits
}

#[tokio::test(start_paused = true)]
async fn a_silent_client_delays_others_twice_whatever_it_caches() {
    let (server, one, _notices) = caching().await;
    let mount = another(&server).await;
    assert_eq!(look(mount).await, [20, 20, 0, 0]);
    // It caches nothing more, also in another session and with an oplock.
    let (two, _) = session_of(&server, (1, 2)).await;
    for client in [&one, &two] {
        assert_eq!(lease_of(&client.create(numbered(9)).await.unwrap()).state, NONE);
    }
    one.put("fresh", b"", 0o666).await;
    let oplock = CreateRequest {
        oplock_level: OplockLevel::BATCH,
        ..request("fresh", BOTH, CreateDisposition::OPEN)
    };
    assert_eq!(one.create(oplock).await.unwrap().oplock_level, OplockLevel::NONE);
    // Another machine does.
    let (other, _) = client_of(&server, 2).await;
    assert_eq!(lease_of(&other.create(numbered(20)).await.unwrap()).state, ALL);
}

#[tokio::test(start_paused = true)]
async fn a_slow_client_writes_what_it_has_buffered_of_other_files() {
    let (server, one, mut notices) = caching().await;
    let mount = another(&server).await;
    let looking = tokio::spawn(look(mount));
    assert_eq!(notices.lease().await, ([0; 16], ALL, RH, true));
    // It misses this one. The others are taken back together.
    let mut broken = Vec::new();
    for _ in 1..FILES {
        let (key, from, to, must) = notices.lease().await;
        assert_eq!((from, to, must), (ALL, NONE, true));
        broken.push(key[0]);
    }
    broken.sort_unstable();
    assert_eq!(broken, [1, 2, 3]);
    for key in broken {
        let body = acknowledgement([key; 16], NONE);
        assert_eq!(one.acknowledge(body), Ok(body));
    }
    assert_eq!(looking.await.unwrap(), [20, 0, 0, 0]);
    // It is granted leases again.
    assert_eq!(lease_of(&one.create(numbered(9)).await.unwrap()).state, ALL);
}

#[tokio::test(start_paused = true)]
async fn a_client_is_granted_nothing_after_two_missed_breaks_in_a_row() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let mount = another(&server).await;
    let mut granted = Vec::new();
    for (number, acknowledges) in [(0, false), (1, true), (2, false), (3, false), (4, false)] {
        granted.push(lease_of(&one.create(numbered(number)).await.unwrap()).state);
        let (mount, name) = (mount.clone(), name(number));
        let looking = tokio::spawn(async move {
            mount.look_up(&Identity::root(), FileIndex::ROOT, name.as_bytes()).await.unwrap();
        });
        if acknowledges {
            let (key, ..) = notices.lease().await;
            one.acknowledge(acknowledgement(key, NONE)).unwrap();
        } else if granted[usize::from(number)] != NONE {
            notices.lease().await;
        }
        looking.await.unwrap();
    }
    assert_eq!(granted, [ALL, ALL, ALL, ALL, NONE]);
}
