//! Unfolds typical requests, for counting instructions:
//!
//! ```text
//! cargo build --release -p braid-layout --example unfold
//! valgrind --tool=callgrind target/release/examples/unfold contiguous
//! ```

use std::hint::black_box;

use braid_layout::{Distribution, Layout, LayoutMap, PartSet, Request, View};
use braid_types::{FileOffset, IodId, PartIndex};

const JOBS: u64 = 10_000;

fn main() {
    let layout = Layout::one(Distribution::SimpleStripe { stripe_size: 65_536 }, (1..=4).map(IodId));
    let Ok(map) = layout.map() else { return };
    let chosen = std::env::args().nth(1);
    let wanted = |name: &str| chosen.as_deref().is_none_or(|chosen| chosen == name);
    let (all, one) = (PartSet::first(4), PartSet::one(PartIndex(2)));
    if wanted("page") {
        report("page", &map, &all, |job| Request::contiguous(FileOffset(job << 12), 4096));
    }
    for (name, parts) in [("contiguous", &all), ("contiguous-one-part", &one)] {
        if wanted(name) {
            report(name, &map, parts, |job| Request::contiguous(FileOffset(job << 20), 1 << 20));
        }
    }
    for (name, parts) in [("strided", &all), ("strided-one-part", &one)] {
        if wanted(name) {
            let view = |job| View::strided(job, 4096, 65_536);
            report(name, &map, parts, |job| Request { view: view(job), start: 0, bytes: 1 << 20 });
        }
    }
}

/// Prints how many accesses the jobs came to, and the time, which is only a hint: count instructions.
fn report(name: &str, map: &LayoutMap, parts: &PartSet, request: impl Fn(u64) -> Request) {
    let begun = std::time::Instant::now();
    let mut accesses = 0;
    for job in 0..JOBS {
        let Ok(unfold) = map.unfold(&request(job), parts) else { return };
        accesses += unfold.map(black_box).count() as u64;
    }
    let nanos = begun.elapsed().as_nanos();
    println!("{name}: {JOBS} jobs, {accesses} accesses, {} ns per access", nanos / u128::from(accesses.max(1)));
}
