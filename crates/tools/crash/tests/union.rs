//! Losses of power under a union, and that a broken promise is reported.

use std::path::Path;

use braid_crash_tests::{
    disk::{Loss, PowerCut, SurvivingShare},
    trace,
    union::{Image, Operation, Recording, Verdict},
};
use braid_testbed::scratch::scratch;

const OPERATIONS: usize = 40;
const IMAGES: usize = 40;

/// `None`, with a message, if nothing can be recorded.
fn recording(seed: u64) -> Option<(tempfile::TempDir, Recording)> {
    if let Some(why) = trace::missing() {
        println!("skipped: {why}");
        return None;
    }
    let dir = tempfile::tempdir_in(scratch()).unwrap();
    let own = Path::new(env!("CARGO_BIN_EXE_braid-union-powerloss"));
    let at = dir.path().canonicalize().unwrap().join("recording");
    let recording = Recording::make(own, &at, seed, OPERATIONS).unwrap();
    Some((dir, recording))
}

fn loss(share: SurvivingShare, seed: u64) -> Loss {
    Loss { share, volumes: None, seed, strict: false }
}

#[test]
fn after_a_loss_of_power_a_union_has_all_that_was_synced() {
    let Some((dir, recording)) = recording(7) else { return };
    let shares = [SurvivingShare::Nothing, SurvivingShare::Everything, SurvivingShare::BeforeEach];
    for image in 0..IMAGES {
        let place = recording.nth_cut(recording.cuts() * image / IMAGES);
        let mut cut = PowerCut::new(&recording.history, place.at);
        cut.keep_order_of_names();
        let loss = loss(shares[image % shares.len()], image as u64);
        let made = Image::make(&recording, place, &cut, &loss, &dir.path().join("image"));
        assert_eq!(made.unwrap().check(), Ok(()), "image {image}, {place:?}, {loss:?}");
    }
}

#[test]
fn a_synced_file_of_a_union_that_is_lost_is_reported() {
    // Nothing is synced: what the last `syncfs` covered is lost.
    let Some((dir, recording)) = recording(7) else { return };
    let synced = recording.operations.iter().rposition(|it| *it == Operation::SyncAll).unwrap();
    let place = recording.after(synced);
    let check = |forgets: bool| -> Verdict {
        let mut cut = PowerCut::new(&recording.history, place.at);
        cut.keep_order_of_names();
        if forgets {
            let done = (recording.cut_point(0).at..place.at).filter(|event| cut.is_durable(*event));
            done.collect::<Vec<_>>().into_iter().for_each(|event| cut.forget(event));
        }
        let loss = loss(SurvivingShare::Nothing, 1);
        Image::make(&recording, place, &cut, &loss, &dir.path().join("image")).unwrap().check()
    };
    assert_eq!(check(false), Ok(()));
    assert!(check(true).unwrap_err().contains("is lost"));
}
