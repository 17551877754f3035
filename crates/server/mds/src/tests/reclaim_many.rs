//! A restart with many clients that have many files open: what their reclaims cost together.

use std::time::{Duration, Instant};

use braid_types::{
    FileIndex,
    limits::{GRACE_MS, RECLAIM_OPENS_MAX},
};
use braid_wire::{
    Deny, Rights,
    message::mds::{Envelope, KeyRights, MakeDirectory, Reclaim, ReclaimedOpen},
};

use super::world::{Client, World, at};

/// A client, and what it has open.
type Holder = (Client, Vec<(u64, FileIndex)>);

/// Clients that have files of their own open for writing.
fn holders(world: &mut World, clients: usize, opens: usize) -> Vec<Holder> {
    let key = world.key(KeyRights::full());
    let holder = |number| {
        let client = world.client_of(key);
        client
            .call(MakeDirectory { at: at(&format!("d{number}")), mode: 0o755, umask: 0 })
            .unwrap();
        let open = |file| {
            let opened = client.create(&format!("d{number}/f{file}"));
            (opened.open_id, opened.attributes.file)
        };
        let opened = (0..opens).map(open).collect();
        (client, opened)
    };
    (0..clients).map(holder).collect()
}

/// Each client joins its session again and reclaims what it has open: how long that takes in total.
fn reclaim_all(world: &mut World, holders: &[Holder]) -> Duration {
    let began = Instant::now();
    for (client, opened) in holders {
        let again = client.join(world).unwrap();
        let named: Vec<ReclaimedOpen> = opened
            .iter()
            .map(|(open_id, file)| {
                let (rights, deny) = (Rights::READ_WRITE, Deny::NONE);
                ReclaimedOpen { open_id: *open_id, file: *file, rights, deny }
            })
            .collect();
        let messages = named.chunks(RECLAIM_OPENS_MAX);
        let last = messages.len();
        for (at, opens) in messages.enumerate() {
            let reclaim = Reclaim {
                opens: opens.to_vec(),
                complete: at + 1 == last,
                leases: false,
                io_under_leases: true,
            };
            assert_eq!(again.call_as(Envelope::PLAIN, reclaim).unwrap(), [], "nothing is refused");
        }
    }
    began.elapsed()
}

fn restart_with(clients: usize, opens: usize) -> Duration {
    let mut world = World::new(1);
    let holders = holders(&mut world, clients, opens);
    world.restart();
    let took = reclaim_all(&mut world, &holders);
    let status = world.status();
    assert_eq!((status.open_files, status.sessions), ((clients * opens) as u64, clients as u32));
    world.pass(GRACE_MS + 1000);
    let status = world.status();
    assert_eq!((status.sessions, status.grace), (clients as u32, false), "nobody is fenced");
    println!(
        "{clients} clients with {opens} opens each were back after {:.2} s",
        took.as_secs_f64()
    );
    took
}

#[test]
fn every_client_of_a_hundred_has_its_opens_back_after_a_restart() {
    restart_with(100, 50);
}

/// The target of issue 24: `cargo test -p braid-mds --lib -- --ignored --nocapture
/// a_million_opens`.
#[test]
#[ignore = "makes a million files, which takes a minute and 3 GB"]
fn a_million_opens_of_two_thousand_clients_are_back_in_time() {
    let took = restart_with(2000, 500);
    assert!(took < Duration::from_millis(GRACE_MS), "{took:?}");
}
