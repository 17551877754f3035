//! Measures the namespace on the embedded engine: create, stat, list, sync, start after a kill. It
//! produced the figures of `docs/adr/0002`: `cargo run --release -p braid-meta --example meta_load
//! -- DIR [FILES] [THREADS]`.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use braid_layout::{ChecksumKind, Component, Distribution, Layout, PartPlacement, Redundancy};
use braid_meta::{
    Call, CreateArgs, DirectoryDefault, Engine, EngineOptions, Identity, Namespace, Options,
    Replay, StoreError,
};
use braid_types::{
    ClusterUuid, Failure, FileIndex, FileOffset, IodId, LayoutVersion, ObjectGeneration, SessionId,
    Timestamp,
};

fn layout(_: Option<&DirectoryDefault>, _: FileIndex) -> Result<Layout, Failure> {
    let part = |n| PartPlacement { generation: ObjectGeneration(0), iods: vec![IodId(n)] };
    let distribution = Distribution::SimpleStripe { stripe_size: 1 << 20 };
    let parts = (1..=4).map(part).collect();
    let component = Component {
        start: FileOffset(0),
        end: FileOffset::MAX,
        distribution,
        first_part: 0,
        parts,
    };
    let components = vec![component];
    Ok(Layout {
        version: LayoutVersion(1),
        components,
        redundancy: Redundancy::None,
        checksum: ChecksumKind::None,
    })
}

fn name(n: u64) -> Vec<u8> {
    format!("file-{:012}", n.wrapping_mul(0x9e37_79b9_7f4a_7c15) % 1_000_000_000_000).into_bytes()
}

/// User and system time of this process in seconds; 0 without `/proc`.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> = stat.rsplit(')').next().unwrap_or("").split_whitespace().collect();
    let ticks =
        |at: usize| fields.get(at).and_then(|field| field.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn status_mib(field: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap_or("");
    line.split_whitespace().nth(1).and_then(|kib| kib.parse::<u64>().ok()).unwrap_or(0) / 1024
}

fn create(ns: &Namespace, directory: FileIndex, from: u64, count: u64, threads: u64) {
    let (began, cpu, next) = (Instant::now(), cpu_seconds(), AtomicU64::new(from));
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let next = &next;
            scope.spawn(move || {
                let who = Identity { uid: 1000, gid: 1000, ..Identity::root() };
                let mut sequence = from;
                loop {
                    let n = next.fetch_add(1, Ordering::Relaxed);
                    if n >= from + count {
                        break;
                    }
                    sequence += 1;
                    let replay =
                        Replay { session: SessionId(1), slot: thread as u32, sequence, request: n };
                    let call = Call { who: &who, now: Timestamp::now(), replay: Some(replay) };
                    let args = CreateArgs {
                        mode: 0o644.into(),
                        exclusive: true,
                        open: None,
                        place: layout,
                    };
                    ns.create(&call, directory, &name(n), args).expect("create");
                }
            });
        }
    });
    let (wall, cpu) = (began.elapsed().as_secs_f64(), cpu_seconds() - cpu);
    let each = 1e6 / count as f64;
    println!(
        "create {count:>8} from {from:>8}, {threads:>2} threads: {:6.2} us, {:6.2} us CPU each, \
         {:>8.0}/s; RssAnon {} MiB",
        wall * each,
        cpu * each,
        count as f64 / wall,
        status_mib("RssAnon")
    );
}

fn each(what: &str, count: u64, mut body: impl FnMut(u64)) {
    let began = Instant::now();
    (0..count).for_each(&mut body);
    println!("{what}: {:.2} us each", began.elapsed().as_secs_f64() * 1e6 / count as f64);
}

fn open(path: &Path, inodes: usize) -> Arc<Namespace> {
    let began = Instant::now();
    let store = match Engine::open(path, EngineOptions::default()) {
        Err(StoreError::Missing(_)) => Engine::create(path, EngineOptions::default()),
        opened => opened,
    };
    let store = Arc::new(store.expect("open the engine"));
    let _ = Namespace::format(&*store, ClusterUuid([7; 16]), 64, Timestamp::now());
    let namespace =
        Namespace::open(store, Options { cached_inodes_max: inodes, ..Options::default() })
            .expect("open the namespace");
    println!("open: {:.1} ms", began.elapsed().as_secs_f64() * 1e3);
    Arc::new(namespace)
}

fn main() {
    let mut args = std::env::args().skip(1);
    let path = args.next().expect("a directory to measure in");
    let files: u64 =
        args.next().map_or(1_000_000, |files| files.parse().expect("a number of files"));
    let threads: u64 =
        args.next().map_or(16, |threads| threads.parse().expect("a number of threads"));
    let root = Identity::root();
    let call = Call { who: &root, now: Timestamp::now(), replay: None };
    let ns = open(Path::new(&path), 65_536);
    let a = ns.mkdir(&call, FileIndex::ROOT, b"a", 0o777).expect("mkdir").file;
    let b = ns.mkdir(&call, a, b"b", 0o777).expect("mkdir").file;
    create(&ns, b, 0, 10_000, 1);
    create(&ns, b, 10_000, 100_000, threads);
    create(&ns, b, 110_000, files - 110_000, threads);
    create(&ns, b, files, 100_000, threads);
    create(&ns, b, files + 100_000, 10_000, 1);
    let path_of = |n: u64| [&b"a/b/"[..], &name(n)].concat();
    let stat = |n: u64| drop(ns.resolve(&root, FileIndex::ROOT, &path_of(n), true).expect("stat"));
    each("stat of a/b/NAME, recent names", 200_000, |n| stat(files + n % 10_000));
    each("stat of a/b/NAME, all names", 200_000, |n| stat(n.wrapping_mul(104_729) % files));
    let (began, mut cookie, mut count) = (Instant::now(), 0, 0);
    loop {
        let page = ns.readdir(&root, b, cookie, 64 << 10, false).expect("readdir");
        count += page.entries.len();
        cookie = page.entries.last().map_or(cookie, |listed| listed.entry.cookie);
        if page.end {
            break;
        }
    }
    println!("list {count} entries: {:.0}/s", count as f64 / began.elapsed().as_secs_f64());
    each("sync after one create", 50, |n| {
        let args = CreateArgs { mode: 0o644.into(), exclusive: true, open: None, place: layout };
        ns.create(&call, b, &name(10 * files + n), args).expect("create");
        ns.sync().expect("sync");
    });
    println!(
        "RssAnon {} MiB, RssFile {} MiB, {} inodes cached",
        status_mib("RssAnon"),
        status_mib("RssFile"),
        ns.cached_inodes()
    );
    drop(ns);
    open(Path::new(&path), 65_536);
}
