//! How long bytes stay buffered does not depend on the daemons of other files.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread,
    time::Duration,
};

use crate::support::{Cluster, ROOT, create, wait_for, write};
use braid_client::{Config, LayoutHint};

/// Files: more than a few threads send at the same time.
const FILES: usize = 12;
/// Those of them that may be sent before their daemon stops.
const EARLY: u64 = 4;

#[test]
fn files_with_a_stopped_daemon_delay_no_file_of_another() {
    let mut cluster = Cluster::start(2);
    let on_one = LayoutHint { parts: Some(1), ..LayoutHint::none() };
    cluster.client().set_layout(ROOT, on_one).unwrap();
    let config = Config { timeout: Duration::from_secs(60), ..cluster.config() };
    let vfs = Arc::new(cluster.serving_mount_of(config));
    let mut of_each = [Vec::new(), Vec::new()];
    let mut tries = 0;
    // It may take a while until the server knows that the mount carries out recalls and daemons
    // grant reservations.
    wait_for(|| {
        tries += 1;
        let (_, handle) = create(&vfs, format!("{tries}").as_bytes());
        let before = cluster.written_to_each();
        write(&vfs, handle, 0, b"x");
        let is_gathered = cluster.written_to_each() == before;
        vfs.flush(handle, None).unwrap();
        let daemon = usize::from(cluster.written_to_each()[1] > before[1]);
        if is_gathered {
            of_each[daemon].push(handle);
        }
        of_each[0].len() >= FILES && !of_each[1].is_empty()
    });
    let [of_gone, of_healthy] = of_each;
    let before = cluster.written_to_each();
    of_gone.iter().for_each(|handle| write(&vfs, *handle, 1, b"y"));
    cluster.stop_daemon(0);
    let early = cluster.written_to_each()[0] - before[0];
    if early > EARLY {
        println!(
            "skipped: the machine stood still until {early} files were sent because of their age"
        );
        return;
    }
    let ended = Arc::new(AtomicBool::new(false));
    let (theirs, ends, last) = (Arc::clone(&vfs), Arc::clone(&ended), of_gone[of_gone.len() - 1]);
    // It ends after the time limit of a call.
    thread::spawn(move || {
        let _ = theirs.flush(last, None);
        ends.store(true, Ordering::Release);
    });
    write(&vfs, of_healthy[0], 1, b"z");
    wait_for(|| cluster.written_to_each()[1] > before[1]);
    assert!(
        !ended.load(Ordering::Acquire),
        "it was sent only after the time limit of a call to the stopped daemon"
    );
}
