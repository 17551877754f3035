//! The library on a real cluster, as a program uses it: the six calls of the 2008 paper with their
//! parameters, the cursor, and clients after `fork`.
#![cfg(unix)]

#[path = "it/harness/mod.rs"]
mod harness;

use std::{
    future::Future,
    io::{ErrorKind, Read, Seek, SeekFrom, Write},
};

use braid_client::{
    Client, Distribution, DistributionHint, Layout, LayoutHint, OpenOptions, asynchronous,
};
use braid_testbed::fork::holds_in_child;
use harness::Cluster;

fn writable() -> OpenOptions {
    OpenOptions::new().read(true).write(true).create(true)
}

fn in_a_runtime<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn open_create_write_seek_read_and_close_with_a_cursor() {
    let cluster = Cluster::up(3);
    let mut file = cluster.client().open("/f", &writable().stripe_size(4096)).unwrap();
    file.write_all(b"begin").unwrap();
    assert_eq!(file.stream_position().unwrap(), 5);
    assert_eq!(file.seek(SeekFrom::End(20_000)).unwrap(), 20_005);
    assert_eq!(file.size().unwrap(), 5, "a seek alone makes no file longer");
    file.write_all(b"end").unwrap();
    assert_eq!(file.seek(SeekFrom::Current(-3)).unwrap(), 20_005);
    let mut end = [0xee; 10];
    assert_eq!((file.read(&mut end).unwrap(), &end[..3]), (3, &b"end"[..]));
    for before in [SeekFrom::Current(-20_009), SeekFrom::End(-20_009)] {
        assert_eq!(file.seek(before).unwrap_err().kind(), ErrorKind::InvalidInput);
        assert_eq!(file.stream_position().unwrap(), 20_008, "the cursor stays where it was");
    }
    file.rewind().unwrap();
    let mut all = Vec::new();
    file.read_to_end(&mut all).unwrap();
    assert_eq!(all, [&b"begin"[..], &[0; 20_000], b"end"].concat(), "the hole reads as zeros");
    file.close().unwrap();
    assert_eq!(cluster.run(&["cat", "/f"]).stdout, all);
}

#[test]
fn the_async_face_has_the_same_cursor() {
    let cluster = Cluster::up(3);
    let config = cluster.client_config();
    let all = in_a_runtime(async {
        let client = asynchronous::Client::connect(config).await.unwrap();
        let mut file = client.open("/f", &writable().stripe_size(4096)).await.unwrap().cursor();
        file.write(b"begin").await.unwrap();
        assert_eq!(file.seek(SeekFrom::End(20_000)).await.unwrap(), 20_005);
        file.write(b"end").await.unwrap();
        assert_eq!(file.seek(SeekFrom::Current(-20_009)).await.unwrap_err().errno(), 22);
        assert_eq!(file.position(), 20_008);
        file.seek(SeekFrom::Start(0)).await.unwrap();
        let mut all = vec![0xee; 30_000];
        let bytes = file.read(&mut all).await.unwrap();
        all.truncate(bytes);
        file.into_file().close().await.unwrap();
        client.close().await;
        all
    });
    assert_eq!(all, [&b"begin"[..], &[0; 20_000], b"end"].concat());
    assert_eq!(cluster.run(&["cat", "/f"]).stdout, all);
}

/// The daemon of a file's first byte, and the daemons of all its parts.
fn placed(layout: &Layout) -> (u32, Vec<u32>) {
    let component = &layout.components[0];
    let iods: Vec<u32> = component.parts.iter().map(|part| part.iods[0].0).collect();
    (iods[usize::from(component.first_part)], iods)
}

#[test]
fn an_open_sets_stripe_size_daemons_and_distribution() {
    let cluster = Cluster::up(4);
    let client = cluster.client();
    for (first, count) in [(0, 4), (2, 3), (3, 2), (1, 1)] {
        let path = format!("/f{first}-{count}");
        let file = client
            .open(&path, &writable().stripe_size(8192).first_iod(first).iod_count(count))
            .unwrap();
        let layout = file.layout();
        assert_eq!(
            layout.components[0].distribution,
            Distribution::SimpleStripe { stripe_size: 8192 }
        );
        let (at, iods) = placed(&layout);
        // Ordinals count the usable daemons, whose ids are 1 to 4.
        assert_eq!((at, iods.len()), (u32::from(first) + 1, usize::from(count)), "{path}");
        file.write_at(&[7; 100], 0).unwrap();
        file.close().unwrap();
        let again = client.open(&path, &OpenOptions::new().read(true)).unwrap();
        assert_eq!(again.layout(), layout, "the layout is the file's, not the handle's");
        client.flush_closes().unwrap();
        // The written parts are recorded in the background after the last close of a writer.
        let shown = loop {
            let shown = cluster.ok(&["layout", "show", &path]);
            if shown.contains("(written)") {
                break shown;
            }
        };
        assert!(shown.contains(&format!("stripes of 8.0 KiB, {count} parts")), "{shown}");
        let written: Vec<&str> = shown.lines().filter(|line| line.ends_with("(written)")).collect();
        assert_eq!(written.len(), 1, "one stripe is written: {shown}");
        assert!(written[0].contains(&format!("I/O daemon {at} ")), "{shown}");
    }
}

#[test]
fn every_distribution_can_be_asked_for_at_open() {
    let cluster = Cluster::up(4);
    let client = cluster.client();
    let strips = LayoutHint {
        distribution: Some(DistributionHint::VarStrip),
        strips: vec![(0, 4096), (1, 12_288)],
        ..LayoutHint::none()
    };
    let groups = LayoutHint {
        distribution: Some(DistributionHint::Grouped),
        stripe_bytes: Some(4096),
        parts: Some(4),
        group_width: Some(2),
        group_depth: Some(3),
        ..LayoutHint::none()
    };
    let bytes = harness::noise(100_000);
    for (path, options, shown) in [
        ("/single", writable().distribution(DistributionHint::Single), "one part, 1 parts"),
        (
            "/simple",
            writable().distribution(DistributionHint::SimpleStripe).iod_count(2),
            "stripes of",
        ),
        ("/varstrip", writable().layout(strips), "strips 0:4.0 KiB 1:12.0 KiB"),
        ("/grouped", writable().layout(groups), "in groups of 2, 3 rows each, 4 parts"),
    ] {
        let mut file = client.open(path, &options).unwrap();
        file.write_all(&bytes).unwrap();
        file.rewind().unwrap();
        let mut back = Vec::new();
        file.read_to_end(&mut back).unwrap();
        assert!(back == bytes, "{path}");
        let text = cluster.ok(&["layout", "show", path]);
        assert!(text.contains(shown), "{path}: {text}");
    }
}

#[test]
fn a_child_cannot_use_its_parents_client_and_makes_its_own() {
    let cluster = Cluster::up(2);
    let config = cluster.client_config();
    let client = Client::connect(config.clone()).unwrap();
    let file = client.open("/parents", &writable()).unwrap();
    file.write_at(b"before", 0).unwrap();
    assert!(holds_in_child(move || {
        let told = |error: braid_client::Error| {
            assert!(error.to_string().contains("try: make a new client after fork"), "{error}");
        };
        told(client.stat("/parents").unwrap_err());
        told(client.open("/parents", &writable()).unwrap_err());
        told(file.read_at(&mut [0; 6], 0).unwrap_err());
        told(file.write_at(b"child!", 0).unwrap_err());
        told(file.size().unwrap_err());
        told(file.sync().unwrap_err());
        // The child drops its copies of handle and client without a message to a server.
        file.close().unwrap();
        drop(client);
        let own = Client::connect(config).unwrap();
        let mut mine = own.open("/childs", &writable()).unwrap();
        mine.write_all(b"a child's").unwrap();
        mine.sync().unwrap();
        mine.close().unwrap();
        own.stat("/parents").unwrap().bytes.0 == 6
    }));
}

#[test]
fn the_parent_goes_on_as_if_it_had_no_child() {
    let cluster = Cluster::up(2);
    let client = cluster.client();
    let file = client.open("/f", &writable()).unwrap();
    file.write_at(b"before", 0).unwrap();
    for round in 0..3 {
        assert!(holds_in_child(|| {
            let refused = client.stat("/f").is_err() && file.write_at(b"child!", 0).is_err();
            // The child drops everything that it has from the parent. SAFETY: both are read once,
            // in a process that ends without using or dropping them again.
            unsafe { drop((std::ptr::read(&raw const file), std::ptr::read(&raw const client))) };
            refused
        }));
        let mut buffer = [0; 6];
        file.read_at(&mut buffer, 0).unwrap();
        assert_eq!(&buffer, if round == 0 { b"before" } else { b"after!" });
        file.write_at(b"after!", 0).unwrap();
        client.mkdir(format!("/d{round}"), 0o755).unwrap();
    }
    file.sync().unwrap();
    file.close().unwrap();
    assert_eq!(cluster.ok(&["cat", "/f"]), "after!");
}
