//! Bytes: reads, writes, holes, copies and commits.

use braid_share::{FILE_BYTES_MAX, FileIndex, Share, ShareClient, ShareFile, Status};

use crate::support::{change_of, client, create, on_both, read, refused, write};

on_both! {
    written_bytes_are_read_and_the_end_is_reported,
    a_hole_reads_as_zeros_and_is_found,
    a_file_that_shrinks_and_grows_shows_zeros,
    a_punched_range_reads_as_zeros_and_keeps_the_size,
    an_allocation_extends_the_file,
    a_copy_ends_at_the_end_of_its_source,
    offsets_past_the_largest_file_are_refused,
    the_verifier_stays_while_nothing_is_lost,
    every_write_raises_the_change_counter,
    writes_of_one_client_are_read_by_another,
}

const MIB: u64 = 1 << 20;

async fn written_bytes_are_read_and_the_end_is_reported<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    assert_eq!(read(&file, 0, 10).await, (Vec::new(), true));
    write(&file, 0, b"0123456789").await;
    assert_eq!(read(&file, 0, 5).await, (b"01234".to_vec(), false));
    assert_eq!(read(&file, 5, 5).await, (b"56789".to_vec(), true), "exactly to the end");
    assert_eq!(read(&file, 5, 50).await, (b"56789".to_vec(), true));
    assert_eq!(read(&file, 10, 1).await, (Vec::new(), true));
    assert_eq!(read(&file, 1 << 40, 1).await, (Vec::new(), true));
    assert_eq!(read(&file, 0, 0).await, (Vec::new(), false));
    write(&file, 3, b"xyz").await;
    write(&file, 3, b"").await;
    assert_eq!(read(&file, 0, 100).await.0, b"012xyz6789");
    let attributes = file.attributes().await.expect("attributes");
    assert_eq!((attributes.file, attributes.bytes.0), (file.index(), 10));
}

async fn a_hole_reads_as_zeros_and_is_found<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    // Whole stripes, so that the I/O daemons have holes, too.
    write(&file, 0, &[1; MIB as usize]).await;
    write(&file, 4 * MIB, &[2; MIB as usize]).await;
    assert_eq!(read(&file, MIB - 2, 4).await, (vec![1, 1, 0, 0], false));
    assert_eq!(read(&file, 4 * MIB - 2, 4).await, (vec![0, 0, 2, 2], false));
    let data = async |from| file.next_data(from).await.expect("an answer");
    let hole = async |from| file.next_hole(from).await.expect("an answer");
    assert_eq!((data(0).await, hole(0).await), (Some(0), Some(MIB)));
    assert_eq!((data(MIB).await, hole(MIB).await), (Some(4 * MIB), Some(MIB)));
    assert_eq!((data(4 * MIB + 5).await, hole(4 * MIB).await), (Some(4 * MIB + 5), Some(5 * MIB)));
    assert_eq!((data(5 * MIB).await, hole(5 * MIB).await), (None, None));
}

async fn a_file_that_shrinks_and_grows_shows_zeros<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    write(&file, 0, b"0123456789").await;
    assert_eq!(file.set_len(4).await.expect("a truncate").bytes.0, 4);
    assert_eq!(file.set_len(8).await.expect("an extension").bytes.0, 8);
    assert_eq!(read(&file, 0, 100).await, (b"0123\0\0\0\0".to_vec(), true));
}

async fn a_punched_range_reads_as_zeros_and_keeps_the_size<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    write(&file, 0, &[1; 10_000]).await;
    file.punch(5000, 100_000).await.expect("a hole");
    let (bytes, end) = read(&file, 4998, 100_000).await;
    assert_eq!((bytes.len(), end), (5002, true));
    assert_eq!((&bytes[..4], bytes[5001]), (&[1, 1, 0, 0][..], 0));
    assert_eq!(refused(file.punch(0, 0).await), Status::Invalid);
}

async fn an_allocation_extends_the_file<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    write(&file, 0, b"abc").await;
    file.allocate(1, 9999).await.expect("an allocation");
    assert_eq!(file.attributes().await.expect("attributes").bytes.0, 10_000);
    assert_eq!(read(&file, 0, 5).await, (b"abc\0\0".to_vec(), false));
    file.allocate(0, 10).await.expect("it is there already");
    assert_eq!(file.attributes().await.expect("attributes").bytes.0, 10_000);
}

async fn a_copy_ends_at_the_end_of_its_source<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (source, target) = (create(&client, top, "s").await, create(&client, top, "t").await);
    write(&source, 0, b"0123456789").await;
    let copied = target.copy_from(&source, 4, 2, 100).await.expect("a copy");
    assert_eq!(copied, 6);
    assert_eq!(read(&target, 0, 100).await.0, b"\0\x00456789");
    assert_eq!(target.copy_from(&source, 50, 0, 100).await.expect("past the end"), 0);
    assert_eq!(source.copy_from(&source, 0, 10, 3).await.expect("within a file"), 3);
    assert_eq!(refused(source.copy_from(&source, 0, 2, 5).await), Status::Invalid);
}

async fn offsets_past_the_largest_file_are_refused<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    let statuses = [
        refused(file.write(FILE_BYTES_MAX, "x".into(), false).await),
        refused(file.write(u64::MAX, "x".into(), false).await),
        refused(file.set_len(FILE_BYTES_MAX + 1).await),
        refused(file.allocate(FILE_BYTES_MAX, 1).await),
        refused(file.allocate(u64::MAX, u64::MAX).await),
        refused(file.punch(u64::MAX, u64::MAX).await),
    ];
    assert_eq!(statuses, [Status::TooLarge; 6]);
    assert_eq!(read(&file, u64::MAX, 10).await, (Vec::new(), true));
    assert_eq!(file.next_data(u64::MAX).await.expect("an answer"), None);
    assert_eq!(file.next_hole(u64::MAX).await.expect("an answer"), None);
}

async fn the_verifier_stays_while_nothing_is_lost<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (file, other) = (create(&client, top, "f").await, create(&client, top, "g").await);
    let one = file.write(0, "one".into(), false).await.expect("a write");
    let two = file.write(3, "two".into(), true).await.expect("a durable write");
    assert!(!one.durable && two.durable);
    let commit = file.commit().await.expect("a commit");
    assert_eq!((one.verifier, two.verifier), (commit, commit));
    let elsewhere = other.write(0, "x".into(), false).await.expect("a write");
    assert_eq!(elsewhere.verifier, commit);
    file.close().await.expect("nothing was lost");
}

async fn every_write_raises_the_change_counter<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "f").await;
    let mut last = change_of(&client, file.index()).await;
    for step in 0..4 {
        match step {
            0 => write(&file, 0, b"one").await,
            // The same bytes at the same place.
            1 => write(&file, 0, b"one").await,
            2 => drop(file.set_len(2).await.expect("a truncate")),
            _ => file.punch(0, 1).await.expect("a hole"),
        }
        let change = change_of(&client, file.index()).await;
        assert!(change > last, "step {step}");
        last = change;
    }
}

async fn writes_of_one_client_are_read_by_another<S: Share>(share: S, top: FileIndex) {
    let (one, other) = (client(&share).await, client(&share).await);
    let file = create(&one, top, "f").await;
    let target = braid_share::OpenTarget::File(file.index());
    let opened = other.open(&crate::support::root(), target, crate::support::BOTH).await;
    let same = opened.expect("an open").file;
    write(&file, 0, b"from one").await;
    assert_eq!(read(&same, 0, 100).await, (b"from one".to_vec(), true));
    write(&same, 8, b" and the other").await;
    assert_eq!(read(&file, 0, 100).await, (b"from one and the other".to_vec(), true));
    let size = one.attributes(&crate::support::root(), file.index()).await.expect("attributes");
    assert_eq!(size.bytes.0, 22, "while both write");
}
