//! The checks can fail: a broken promise is reported.

use std::path::{Path, PathBuf};

use braid_crash_tests::{
    disk::{Loss, PowerCut, SurvivingShare},
    kill::Rounds,
    load::Operation,
    power::{Image, Recording, operations},
    trace,
};
use braid_testbed::{braid::Braid, cluster::Victim, ports::Ports, scratch::scratch};

const OPERATIONS: usize = 60;

/// A recording and the directory that holds it and its images; `None`, with a message, if nothing
/// can be recorded.
fn recording() -> Option<(tempfile::TempDir, Recording)> {
    if let Some(why) = trace::missing() {
        println!("skipped: {why}");
        return None;
    }
    let dir = tempfile::tempdir_in(scratch()).unwrap();
    let (braid, own) = (Braid::find().unwrap(), Path::new(env!("CARGO_BIN_EXE_braid-powerloss")));
    let ports = Ports::take(1).unwrap();
    let at = dir.path().canonicalize().unwrap().join("recording");
    let seed = (1..).find(|seed| synced_write(&operations(*seed, OPERATIONS)).is_some()).unwrap();
    let recording = Recording::make(&braid, own, &at, seed, OPERATIONS, ports.all()[0]).unwrap();
    Some((dir, recording))
}

/// The first write that is immediately followed by a sync of its file.
fn synced_write(operations: &[Operation]) -> Option<usize> {
    let follows = |at: &usize| match (&operations[*at], operations.get(at + 1)) {
        (Operation::Write { path, .. }, Some(Operation::Sync(synced))) => path == synced,
        _ => false,
    };
    (0..operations.len()).find(follows)
}

/// The result of the image right after an operation, if nothing unsynced is left and `forgotten`
/// counts as unsynced.
fn verdict(
    recording: &Recording,
    dir: &Path,
    after: usize,
    forgotten: &[usize],
) -> Result<usize, String> {
    let place = recording.after(after);
    let mut cut = PowerCut::new(&recording.history, place.at);
    for event in forgotten {
        assert!(cut.is_durable(*event), "a forgotten change was promised");
        cut.forget(*event);
    }
    let loss = Loss { share: SurvivingShare::Nothing, volumes: None, seed: 1, strict: true };
    Image::make(recording, place, &cut, &loss, &dir.join("image")).unwrap().check()
}

#[test]
fn a_synced_write_that_is_lost_is_reported() {
    let Some((dir, recording)) = recording() else { return };
    let write = synced_write(&recording.operations).unwrap();
    assert_eq!(verdict(&recording, dir.path(), write + 1, &[]), Ok(write + 2));
    let events = recording.writes_during(write, "iod");
    let why = verdict(&recording, dir.path(), write + 1, &events[..1]).unwrap_err();
    assert!(why.contains("I6"), "{why}");
}

#[test]
fn a_forced_log_that_is_lost_is_reported() {
    let Some((dir, recording)) = recording() else { return };
    let write = synced_write(&recording.operations).unwrap();
    let made = recording.operations[..write]
        .iter()
        .rposition(|operation| matches!(operation, Operation::Create(_)));
    let mut events = recording.writes_during(made.expect("a file was made"), "mds");
    events.truncate(1);
    let why = verdict(&recording, dir.path(), write + 1, &events).unwrap_err();
    // The metadata server knows what was synced, and does not start without it (I6).
    assert!(why.contains("was synced"), "{why}");
}

#[test]
fn an_object_lost_while_its_daemon_is_down_is_reported() {
    let dir = tempfile::tempdir_in(scratch()).unwrap();
    let (braid, own) = (Braid::find().unwrap(), Path::new(env!("CARGO_BIN_EXE_braid-crash")));
    let mut rounds = Rounds::start(&braid, own, dir.path(), 3).unwrap();
    rounds.round().unwrap();
    rounds.check().unwrap();
    rounds.cluster().kill(Victim::Iod(0));
    for object in objects(&dir.path().join("iod0/objects")) {
        std::fs::remove_file(object).unwrap();
    }
    rounds.cluster().restart(Victim::Iod(0)).unwrap();
    let why = rounds.check().unwrap_err();
    assert!(why.contains("(I"), "{why}");
}

fn objects(directory: &Path) -> Vec<PathBuf> {
    let hashed = std::fs::read_dir(directory).unwrap().map(|entry| entry.unwrap().path());
    hashed
        .flat_map(|below| std::fs::read_dir(below).unwrap())
        .map(|entry| entry.unwrap().path())
        .collect()
}
