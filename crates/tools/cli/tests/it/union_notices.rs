//! `braid union up` and `status`: what is changed directly on a disk while the union is mounted.
#![cfg(target_os = "linux")]

use std::{
    fs,
    time::{Duration, Instant},
};

use crate::union::Mounted;

/// The process keeps names for an hour if no event of a change comes.
const LONG: Duration = Duration::from_secs(60);

fn sees(mut seen: impl FnMut() -> bool) {
    let start = Instant::now();
    while !seen() {
        assert!(start.elapsed() < LONG, "not seen");
        std::thread::yield_now();
    }
}

#[test]
fn a_direct_change_is_noticed_and_status_says_where_it_is_not() {
    let Some(mut union) = Mounted::start(&[]) else { return };
    let (code, status) = union.braid("status", &["--json"]);
    assert_eq!(code, 0, "{status}");
    if !status.contains("\"not_noticed\":null") && !status.contains("\"not_noticed\": null") {
        return println!("skipped: no notices on this machine: {status}");
    }
    for name in ["dir/new", "made/below"] {
        assert!(!union.at("mnt").join(name).exists());
    }
    assert_eq!(fs::read_dir(union.at("mnt/dir")).unwrap().count(), 1);
    fs::write(union.at("disk2/dir/new"), "new").unwrap();
    sees(|| union.at("mnt/dir/new").exists());
    sees(|| fs::read_dir(union.at("mnt/dir")).unwrap().count() == 2);
    fs::create_dir(union.at("disk1/made")).unwrap();
    fs::write(union.at("disk1/made/below"), "").unwrap();
    sees(|| union.at("mnt/made/below").exists());
    // A file that is moved by the union itself keeps its size, and is changed on its new disk.
    let size = || fs::metadata(union.at("mnt/dir/new")).map(|stat| stat.len()).ok();
    assert_eq!(size(), Some(3));
    let (code, moved) = union.braid("move", &["dir/new", "--to", "disk1"]);
    assert_eq!((code, size()), (0, Some(3)), "{moved}");
    fs::write(union.at("disk1/dir/new"), "longer").unwrap();
    sees(|| size() == Some(6));
    union.kill();
    union.start_again_with(&["--no-notices"]);
    let (_, status) = union.braid("status", &[]);
    assert!(status.contains("after a second: switched off"), "{status}");
    fs::write(union.at("disk2/dir/new"), "hidden").unwrap();
    fs::write(union.at("disk2/dir/newer"), "").unwrap();
    sees(|| union.at("mnt/dir/newer").exists());
}
