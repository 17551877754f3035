//! What a panic of a background flush does.

#[path = "../../../tests/it/support/mod.rs"]
mod support;

use self::support::{Cluster, create, read, write};
use super::*;

#[test]
fn a_panic_of_a_background_flush_is_an_error_of_its_handle_alone() {
    let cluster = Cluster::start(1);
    let vfs = cluster.serving_mount();
    let (_, handle) = create(&vfs, b"f");
    let (_, other) = create(&vfs, b"other");
    write(&vfs, handle, 0, b"abc");
    write(&vfs, other, 0, b"xyz");
    vfs.sync_all().unwrap();

    let open = vfs.file(handle).unwrap();
    let sends = thread::spawn(|| panic!("a fault that a test put here"));
    lock(&open.data.buffered.state).background =
        Some(BackgroundFlush { by: Arc::clone(&open), bytes: 0, sends });
    open.data.buffered.has_bytes.store(true, Ordering::Release);

    let told = vfs.sync(handle).unwrap_err();
    assert_eq!(told.status(), Some(Status::Internal), "{told}");
    assert!(vfs.sync_all().is_err(), "a sync of the mount reports it, too");

    // The mount goes on, and so does the file.
    assert_eq!(read(&vfs, other, 0, 3), b"xyz");
    write(&vfs, handle, 3, b"def");
    vfs.sync(handle).unwrap();
    assert_eq!(read(&vfs, handle, 0, 6), b"abcdef");
    vfs.sync_all().unwrap();
    vfs.release(handle, None).unwrap();
    vfs.release(other, None).unwrap();
}
