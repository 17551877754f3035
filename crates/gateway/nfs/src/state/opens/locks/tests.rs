use braid_share::{Deny, FileIndex, FileSystemId, OpenMode, Rights};

use super::*;
use crate::config::{ExportConfig, NfsConfig, Security};
use crate::export::{ExportedFile, Exports, PseudoNode};

fn open(states: &States<()>) -> Arc<OpenState<()>> {
    let mut config = NfsConfig::new("host", [0; 32]);
    config.exports = vec![ExportConfig {
        clients: vec!["0.0.0.0/0".parse().unwrap()],
        security: vec![Security::Sys],
        ..ExportConfig::new("/")
    }];
    let exports = Exports::new(&config, FileSystemId([1; 16])).unwrap();
    let export = exports.export_at(PseudoNode::ROOT).unwrap().clone();
    let file = ExportedFile { export, file: FileIndex(7) };
    let mode = OpenMode { rights: Rights::WRITE, deny: Deny::NONE };
    let owner = Bytes::from_static(b"open");
    let index = file.file;
    states.insert_open(owner.clone(), file, (), mode);
    states.open_of(&owner, index).unwrap()
}

#[test]
fn an_unlock_in_the_middle_leaves_both_ends() {
    let mut ranges = vec![(0, 99), (200, u64::MAX)];
    subtract(&mut ranges, 10, 19);
    assert_eq!(ranges, [(0, 9), (20, 99), (200, u64::MAX)]);
    subtract(&mut ranges, 0, u64::MAX);
    assert_eq!(ranges, []);
}

#[test]
fn a_lock_state_is_not_freed_while_a_lock_uses_it() {
    let states = States::new(1);
    let open = open(&states);
    let owner = Bytes::from_static(b"owner");
    let first = states.lock_state(&owner, &open);
    first.locked(0, 9);
    let unlocked = first.unlocked(0, 9);
    drop(first);
    let second = states.lock_state(&owner, &open);
    let Known::Lock(known) = states.find(&unlocked).unwrap() else { panic!("no lock state") };
    assert_eq!(states.free_lock(&known), Err(NfsStatus::LocksHeld));
    let locked = second.locked(0, 9);
    drop(second);
    assert_eq!(states.free_lock(&known), Err(NfsStatus::LocksHeld));
    known.unlocked(0, 9);
    assert_eq!(states.free_lock(&known), Ok(()));
    assert!(states.find(&locked).is_err());
    assert!(states.use_lock(known).is_err());
}

#[test]
fn a_lock_state_of_a_failed_first_lock_is_removed() {
    let states = States::new(1);
    let open = open(&states);
    let owner = Bytes::from_static(b"owner");
    let number = states.lock_state(&owner, &open).number;
    assert_eq!(states.owner_of_number(number), None, "it has no lock state");
}

#[test]
fn a_lock_owner_has_the_same_number_after_a_restart() {
    let number = |epoch, owner: &'static [u8]| {
        let states = States::new(epoch);
        states.lock_state(&Bytes::from_static(owner), &open(&states)).number
    };
    assert_eq!(number(1, b"owner"), number(2, b"owner"));
    assert_ne!(number(1, b"owner"), number(1, b"another"));
}
