//! Delegations: leases of a file as a whole. ADR 0038.

use braid_types::FileIndex;
use braid_wire::{
    Deny, Rights,
    message::{
        lease::{LeaseGrant, LeaseKind, LeaseMode, Recall, ReturnedLease},
        mds::*,
    },
};

use super::world::{Client, World, at};

/// How long a file gets no delegation after a recall, in milliseconds.
const PAUSE_MS: u64 = 30_000;

fn delegate(client: &Client, file: FileIndex, mode: LeaseMode) -> Option<u64> {
    client.call_as(Envelope::PLAIN, LeaseDelegation { file, mode }).unwrap()
}

fn open(rights: Rights) -> Open {
    Open { at: at("f"), rights, truncate: false, lease: LeaseMode::None, deny: Deny::NONE }
}

/// Returns the recalled leases: their kinds.
fn return_recalled(client: &Client, io_under_leases: bool) -> Vec<LeaseKind> {
    let recalls = client.begin_as(Envelope::PLAIN, AwaitRecalls { seen: 0, io_under_leases });
    let recalls: Vec<Recall> = recalls.take().map(|answer| answer.unwrap()).unwrap_or_default();
    for Recall { number, kind, file, .. } in recalls.clone() {
        let leases = vec![ReturnedLease { kind, file, number, keep: LeaseMode::None }];
        client.call_as(Envelope::PLAIN, ReturnLeases { leases }).unwrap();
    }
    recalls.into_iter().map(|recall| recall.kind).collect()
}

#[test]
fn a_session_that_only_holds_delegations_uses_no_data_leases() {
    let mut world = World::new(2);
    let (gateway, mount) = (world.client(), world.client());
    let file = mount.create("f").attributes.file;
    let data = |mode| {
        let call = LeaseData { file, mode, exclusive: false };
        mount.begin_as(Envelope::PLAIN, call).take::<LeaseGrant>()
    };
    let opened: OpenReply = gateway.call_as(Envelope::PLAIN, open(Rights::READ)).unwrap();
    // The mount has the file open for writing.
    assert_eq!(delegate(&gateway, file, LeaseMode::Read), None);
    gateway.close(&opened);
    assert!(
        return_recalled(&mount, true).is_empty() && return_recalled(&gateway, false).is_empty()
    );
    let granted = data(LeaseMode::Write).expect("nothing conflicts").unwrap();
    assert_eq!(granted.mode, LeaseMode::Write);
    let reading = gateway.begin(1, open(Rights::READ));
    assert!(!reading.has_come(), "it would not see what is buffered");
    assert_eq!(return_recalled(&mount, true), [LeaseKind::Data]);
    reading.take::<OpenReply>().expect("now").unwrap();
    let granted = data(LeaseMode::Write).expect("nothing conflicts").unwrap();
    assert_eq!(granted.mode, LeaseMode::Shared, "nor would it later");
}

#[test]
fn a_file_is_delegated_again_a_while_after_a_recall() {
    let mut world = World::new(2);
    let (gateway, other) = (world.client(), world.client());
    let created = other.create("f");
    let file = created.attributes.file;
    other.close(&created);
    world.settle();
    gateway.call_as(Envelope::PLAIN, open(Rights::READ)).unwrap();
    assert!(delegate(&gateway, file, LeaseMode::Read).is_some());
    let writing = other.begin(1, open(Rights::WRITE));
    assert!(!writing.has_come(), "the holder opens the file without a call");
    assert_eq!(return_recalled(&gateway, false), [LeaseKind::Delegation]);
    other.close(&writing.take::<OpenReply>().expect("now").unwrap());
    world.settle();
    assert_eq!(delegate(&gateway, file, LeaseMode::Read), None, "it would be recalled again");
    for _ in 0..PAUSE_MS / 1000 {
        world.pass(1000);
        // Signs of life.
        gateway.call_as(Envelope::PLAIN, AgentCheck {}).unwrap();
        other.call_as(Envelope::PLAIN, AgentCheck {}).unwrap();
    }
    assert!(delegate(&gateway, file, LeaseMode::Read).is_some());
}
