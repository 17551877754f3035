//! Tests of share modes and removals.

use braid_smb_wire::access::AccessMask;

use super::*;

const FILE: FileIndex = FileIndex(7);
const FILE_KEY: StreamKey = StreamKey { file: FILE, stream: 0 };
const READ: u32 = AccessMask::READ_DATA.0;
const WRITE: u32 = AccessMask::WRITE_DATA.0;
const DELETE: u32 = AccessMask::DELETE.0;
const ATTRIBUTES: u32 = AccessMask::READ_ATTRIBUTES.0 | AccessMask::SYNCHRONIZE.0;

fn removal() -> Option<Removal> {
    let who = Identity { uid: 1, gid: 1, groups: Vec::new(), checked: false };
    let place = Place { dir: FileIndex(1), name: b"name".to_vec(), path: "name".to_owned() };
    Some(Removal { root: None, place, who })
}

#[test]
fn two_opens_conflict_if_one_has_what_the_other_denies() {
    let conflict = Err(NtStatus::SHARING_VIOLATION);
    // The first open, the second one, and the result.
    let cases = [
        ((READ, 7), (WRITE, 7), Ok(())),
        ((READ, 1), (READ, 1), Ok(())),
        ((READ, 1), (WRITE, 1), conflict),
        ((WRITE, 7), (READ, 1), conflict),
        ((READ, 0), (READ, 7), conflict),
        ((DELETE, 7), (READ, 3), conflict),
        ((READ, 3), (DELETE, 7), conflict),
        ((READ, 7), (DELETE, 1), Ok(())),
        ((AccessMask::EXECUTE.0, 6), (READ, 7), conflict),
        ((AccessMask::APPEND_DATA.0, 7), (READ, 5), conflict),
        ((ATTRIBUTES, 0), (READ | WRITE | DELETE, 0), Ok(())),
        ((READ | WRITE | DELETE, 0), (ATTRIBUTES, 0), Ok(())),
    ];
    for (first, second, wanted) in cases {
        let states = FileStates::default();
        let (first, second) = (Claim::new(first.0, first.1), Claim::new(second.0, second.1));
        states.open(FILE, first).unwrap();
        assert_eq!(states.open(FILE, second), wanted, "{first:?} {second:?}");
        assert_eq!(states.open(FileIndex(8), second), Ok(()), "another file");
    }
}

#[test]
fn a_closed_open_excludes_nobody_and_leaves_no_entry() {
    let states = FileStates::default();
    let alone = Claim::new(READ | WRITE, 0);
    states.open(FILE, alone).unwrap();
    assert!(states.open(FILE, alone).is_err());
    assert!(states.close(FILE_KEY, alone, None).is_none());
    assert!(states.files().is_empty());
    assert_eq!(states.open(FILE, alone), Ok(()));
}

#[test]
fn the_last_close_removes_and_no_open_comes_between() {
    let states = FileStates::default();
    let claim = Claim::new(READ | DELETE, 7);
    states.open(FILE, claim).unwrap();
    states.open(FILE, claim).unwrap();
    assert!(states.close(FILE_KEY, claim, removal()).is_none(), "one open is left");
    assert_eq!(states.open(FILE, Claim::default()), Err(NtStatus::DELETE_PENDING));
    let due = states.close(FILE_KEY, claim, None).expect("the last open");
    assert_eq!(Some(due.removal()), removal().as_ref());
    assert_eq!(states.open(FILE, claim), Err(NtStatus::DELETE_PENDING));
    assert!(states.is_delete_pending(FILE_KEY));
    drop(due);
    assert!(states.files().is_empty());
}

#[test]
fn a_removal_can_be_taken_back() {
    let states = FileStates::default();
    let claim = Claim::new(DELETE, 7);
    states.open(FILE, claim).unwrap();
    states.set_removal(FILE_KEY, removal());
    assert!(states.is_delete_pending(FILE_KEY));
    states.set_removal(FILE_KEY, None);
    assert_eq!(states.open(FILE, claim), Ok(()));
    assert_eq!(states.open_count(FILE), 2);
    assert!(states.close(FILE_KEY, claim, None).is_none());
    assert!(states.close(FILE_KEY, claim, None).is_none());
}

fn named(name: &str) -> StreamName {
    StreamName::new(name).unwrap()
}

#[test]
fn streams_have_share_modes_of_their_own() {
    let states = FileStates::default();
    let (alone, reader) = (Claim::new(READ | WRITE, 0), Claim::new(READ, 7));
    let (first, one) = states.open_stream(FILE, &named("a"), alone).unwrap();
    assert!(states.open_stream(FILE, &named("A"), reader).is_err(), "the same stream");
    let (second, _) = states.open_stream(FILE, &named("b"), alone).unwrap();
    assert_eq!(states.open(FILE, alone), Ok(()), "the bytes of the file are another stream");
    // MS-FSA leaves open what Windows does: the file is not removed under a stream.
    let remover = Claim::new(DELETE, 7);
    assert!(states.close(FILE_KEY, alone, None).is_none());
    assert_eq!(states.open(FILE, remover), Err(NtStatus::SHARING_VIOLATION));
    assert!(states.close(first, alone, None).is_none());
    assert!(states.close(second, alone, None).is_none());
    assert_eq!(states.open(FILE, remover), Ok(()));
    let (again, other) = states.open_stream(FILE, &named("a"), reader).unwrap();
    assert!(!Arc::ptr_eq(&one, &other) && again != first);
    assert!(states.close(again, reader, None).is_none());
    assert!(states.close(FILE_KEY, remover, None).is_none());
    assert!(states.is_empty());
}

#[test]
fn a_file_is_removed_after_the_last_close_of_its_streams() {
    let states = FileStates::default();
    let claim = Claim::new(READ | DELETE, 7);
    states.open(FILE, claim).unwrap();
    let (key, _) = states.open_stream(FILE, &named("a"), claim).unwrap();
    assert!(states.close(FILE_KEY, claim, removal()).is_none());
    let refused = states.open_stream(FILE, &named("b"), claim).map(drop);
    assert_eq!(refused, Err(NtStatus::DELETE_PENDING));
    let due = states.close(key, claim, removal()).expect("the stream");
    assert!(due.stream().is_some() && states.has_open_stream(FILE));
    let due = due.end().expect("the file");
    assert!(due.stream().is_none());
    assert!(due.end().is_none() && states.is_empty());
}

#[test]
fn a_stream_alone_is_removed_and_the_file_stays_open() {
    let states = FileStates::default();
    let claim = Claim::new(READ | DELETE, 7);
    states.open(FILE, claim).unwrap();
    let (key, _) = states.open_stream(FILE, &named("a"), claim).unwrap();
    states.set_removal(key, removal());
    assert!(states.is_delete_pending(key) && !states.is_delete_pending(FILE_KEY));
    let refused = states.open_stream(FILE, &named("A"), claim).map(drop);
    assert_eq!(refused, Err(NtStatus::DELETE_PENDING));
    assert!(states.close(key, claim, None).expect("the stream").end().is_none());
    assert_eq!(states.open_count(FILE), 1);
}

#[test]
fn a_renamed_stream_is_found_by_its_new_name() {
    let states = FileStates::default();
    let alone = Claim::new(READ, 0);
    let (key, shared) = states.open_stream(FILE, &named("a"), alone).unwrap();
    let (other, _) = states.open_stream(FILE, &named("b"), alone).unwrap();
    assert_eq!(states.rename_stream(key, &named("B")), Err(NtStatus::INVALID_PARAMETER));
    assert_eq!(states.rename_stream(key, &named("c")), Ok(()));
    assert_eq!(shared.name(), named("c"));
    assert!(states.check_stream(FILE, &named("C"), alone).is_err());
    assert!(states.check_stream(FILE, &named("a"), alone).is_ok());
    assert!(states.close(other, alone, None).is_none());
    assert!(states.close(key, alone, None).is_none());
    assert!(states.is_empty());
}
