//! What the FUSE layer costs by itself: a file in memory behind it, requests in front, past the
//! page cache and through it (docs/adr/0030).
//!
//! `cargo run --release -p braid-fuse --example fuse_load [SECONDS]` (root). One line per setting:
//! the mean time of an operation as its thread sees it, operations per second of all threads, and
//! CPU time of client, kernel and handler together.
#![cfg(target_os = "linux")]

use braid_fuse::kernel::abi::fopen;
use braid_fuse::kernel::mount::{MountOptions, Mounted};
use braid_fuse::kernel::{
    Attributes, Call, Entry, Handler, KernelFeatures, Opened, Operation, PoolOptions, Reply,
    Request, SpaceStat, Validity, Wanted,
};
use rustix::io::Errno;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const FILE: u64 = 2;
const FILE_BYTES: u64 = 1 << 30;
const MIB: usize = 1 << 20;

/// One file, which is full of one byte.
struct OneFile {
    /// Answers come from memory of its own instead of the worker's.
    content: Vec<u8>,
    /// How it is opened, `fopen`.
    flags: u32,
}

/// How the file is served: name, one device for each worker, flags of its opens.
const WAYS: [(&str, bool, u32); 3] = [
    ("direct", false, fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES),
    ("clone_fd", true, fopen::DIRECT_IO | fopen::PARALLEL_DIRECT_WRITES),
    ("cached", false, 0),
];

fn attributes(node: u64) -> Attributes {
    let (mode, size) = if node == FILE { (0o100_644, FILE_BYTES) } else { (0o40_755, 0) };
    Attributes { ino: node, mode, size, links: 1, ..Attributes::default() }
}

impl Handler for OneFile {
    fn init(&self, _: &KernelFeatures) -> Wanted {
        Wanted::default()
    }

    fn handle(&self, request: Request<'_>, reply: Reply, _: &mut Call<'_>) {
        let node = request.header.node;
        match request.operation {
            Operation::Lookup { name: b"file" } => {
                let (name_valid, attributes_valid) = (Validity::Always, Validity::Never);
                let attributes = attributes(FILE);
                let _ = reply.entry(&Entry {
                    node: FILE,
                    generation: 0,
                    name_valid,
                    attributes_valid,
                    attributes,
                });
            }
            Operation::Lookup { .. } => reply.error(Errno::NOENT),
            Operation::GetAttributes { .. } => reply.attributes(&attributes(node), Validity::Never),
            Operation::Open { .. } => {
                let _ = reply.opened(Opened { handle: 1, flags: self.flags, backing: None });
            }
            Operation::Read { size, .. } => reply.data(&self.content[..size as usize]),
            Operation::Write { data, .. } => reply.written(data.len() as u32),
            Operation::StatFs => reply.space(&SpaceStat::default()),
            Operation::Release { .. } | Operation::Flush { .. } => reply.ok(),
            _ => reply.error(Errno::NOSYS),
        }
    }
}

type Work = fn(&File, &mut [u8], u64);

/// Name, bytes of one operation, and one operation.
const WORKS: [(&str, usize, Work); 5] = [
    ("fstat", 0, |file, _, _| assert_eq!(file.metadata().unwrap().len(), FILE_BYTES)),
    ("read 4 KiB", 4096, |file, buffer, n| {
        file.read_exact_at(&mut buffer[..4096], n * 4096 % FILE_BYTES).unwrap()
    }),
    ("read 1 MiB", MIB, |file, buffer, n| {
        file.read_exact_at(buffer, n * MIB as u64 % FILE_BYTES).unwrap()
    }),
    ("write 4 KiB", 4096, |file, buffer, n| {
        file.write_all_at(&buffer[..4096], n * 4096 % FILE_BYTES).unwrap()
    }),
    ("write 1 MiB", MIB, |file, buffer, n| {
        file.write_all_at(buffer, n * MIB as u64 % FILE_BYTES).unwrap()
    }),
];

fn main() {
    let seconds =
        std::env::args().nth(1).map_or(1.0, |text| text.parse().expect("SECONDS is a number"));
    println!(
        "{:12} {:>7} {:>9} {:>10} {:>12} {:>10} {:>12}",
        "operation", "threads", "way", "mean us", "per s", "CPU us", "CPU s/GiB"
    );
    for (name, bytes, work) in WORKS {
        for threads in [1, 4] {
            for (way, clone_fd, flags) in WAYS {
                let pool = PoolOptions { clone_fd, ..PoolOptions::default() };
                let run = measure(pool, flags, threads, Duration::from_secs_f64(seconds), work);
                let per_gib = if bytes > 0 {
                    run.cpu / (run.count as f64 * bytes as f64 / (1u64 << 30) as f64)
                } else {
                    0.0
                };
                let count = run.count as f64;
                println!(
                    "{name:12} {threads:>7} {way:>9} {:>10.2} {:>12.0} {:>10.2} {per_gib:>12.3}",
                    run.wall * threads as f64 / count * 1e6,
                    count / run.wall,
                    run.cpu / count * 1e6,
                );
            }
        }
    }
}

struct Run {
    count: u64,
    wall: f64,
    cpu: f64,
}

fn measure(pool: PoolOptions, flags: u32, threads: usize, time: Duration, work: Work) -> Run {
    let dir = std::env::temp_dir().join(format!("fuse-load-{}", std::process::id()));
    std::fs::create_dir_all(&dir).unwrap();
    let handler = Arc::new(OneFile { content: vec![7; MIB], flags });
    let mounted = Mounted::new(&MountOptions::new("load", &dir), pool, handler).unwrap();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let (began, cpu) = (Instant::now(), cpu_seconds());
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            let (stop, count, path) = (&stop, &count, dir.join("file"));
            scope.spawn(move || {
                let file = File::options().read(true).write(true).open(path).unwrap();
                let (mut buffer, mut n) = (vec![1; MIB], thread * 97);
                while !stop.load(Ordering::Relaxed) {
                    work(&file, &mut buffer, n);
                    count.fetch_add(1, Ordering::Relaxed);
                    n += 1;
                }
            });
        }
        std::thread::sleep(time);
        stop.store(true, Ordering::Relaxed);
    });
    let run = Run {
        count: count.into_inner(),
        wall: began.elapsed().as_secs_f64(),
        cpu: cpu_seconds() - cpu,
    };
    mounted.end();
    std::fs::remove_dir(&dir).unwrap();
    run
}

/// User and system time of this process so far.
fn cpu_seconds() -> f64 {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap();
    let fields: Vec<&str> = stat.rsplit(") ").next().unwrap().split(' ').collect();
    // utime and stime, in ticks of 10 ms.
    [11, 12].iter().map(|field| fields[*field].parse::<f64>().unwrap()).sum::<f64>() / 100.0
}
