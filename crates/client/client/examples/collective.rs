//! Tasks that share one file, and read and write it together: each has 4 KiB of every 16 KiB.
//! Prints the time of each mode.
//!
//! ```sh
//! cargo run --release -p braid-client --example collective -- \
//!     MDS_ADDRESS KEY_FILE [MIB] [PIECE_BYTES] [TASKS] [ROUNDS] [MODE] [read|write]
//! ```
//!
//! The tasks here are threads, each with its own session, that exchange bytes in memory. Processes
//! can use any other means (MPI, sockets): they only have to implement [`Group`].

use std::{
    io::{IoSlice, IoSliceMut},
    sync::{Barrier, Mutex},
    time::{Duration, Instant},
};

use braid_client::{
    Client, CollectiveMode, CollectiveOptions, Config, Credential, File, Group, OpenOptions,
    Result, View,
};

/// One task of a group of threads.
struct Task<'g> {
    rank: usize,
    given: &'g Mutex<Vec<Vec<u8>>>,
    all_are_there: &'g Barrier,
}

impl Group for Task<'_> {
    fn rank(&self) -> u32 {
        self.rank as u32
    }

    fn size(&self) -> u32 {
        self.given.lock().unwrap().len() as u32
    }

    // For an example: waits forever for a lost task.
    fn all_gather(&self, mine: &[u8], _: Duration) -> Result<Vec<Vec<u8>>> {
        self.given.lock().unwrap()[self.rank] = mine.to_vec();
        self.all_are_there.wait();
        let all = self.given.lock().unwrap().clone();
        self.all_are_there.wait();
        Ok(all)
    }
}

fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [mds, key, ..] = &arguments[..] else {
        return Err("usage: collective MDS_ADDRESS KEY_FILE [MIB] …".into());
    };
    let number =
        |at: usize, default: u64| arguments.get(at).map_or(Ok(default), |text| text.parse());
    let (mib, piece, tasks, rounds) =
        (number(2, 64)?, number(3, 4096)?, number(4, 4)?, number(5, 3)?);
    let each = (mib << 20) / tasks / piece * piece;
    let config = Config::new([mds.as_str()], Credential::from_key_file(key)?);
    let options = OpenOptions::new().read(true).write(true).create(true);
    let open = |rank: u64| -> Result<File> {
        // Its own session, like a process.
        let file = Client::connect(config.clone())?.open("/collective", &options)?;
        file.with_view(View::strided(rank * piece, piece, tasks * piece))
    };
    let files = (0..tasks).map(open).collect::<Result<Vec<_>>>()?;
    let (given, all_are_there) =
        (Mutex::new(vec![Vec::new(); tasks as usize]), Barrier::new(tasks as usize));
    let group: Vec<Task<'_>> = (0..tasks as usize)
        .map(|rank| Task { rank, given: &given, all_are_there: &all_are_there })
        .collect();
    let modes = [CollectiveMode::Independent, CollectiveMode::Server, CollectiveMode::Auto];
    let only = arguments.get(6);
    let does = |what| arguments.get(7).is_none_or(|only| only == what);
    let (reads, writes) = (does("read"), does("write"));
    for round in 0..rounds {
        for mode in
            modes.into_iter().filter(|mode| only.is_none_or(|only| format!("{mode:?}") == *only))
        {
            let options = CollectiveOptions { mode, ..CollectiveOptions::default() };
            let mut buffers: Vec<Vec<u8>> =
                (0..tasks).map(|rank| vec![rank as u8 + round as u8; each as usize]).collect();
            let written = timed(&group, &files, &mut buffers, |task, file, buffer| {
                let buffer = if writes { &buffer[..] } else { &[] };
                file.write_all_vectored_at(task, &[IoSlice::new(buffer)], 0, &options)
            });
            let read = timed(&group, &files, &mut buffers, |task, file, buffer| {
                let buffer = if reads { &mut buffer[..] } else { &mut [] };
                buffer.fill(0xff);
                file.read_all_vectored_at(task, &mut [IoSliceMut::new(buffer)], 0, &options)
            });
            let right = (0..)
                .zip(&buffers)
                .all(|(rank, buffer)| buffer.iter().all(|byte| *byte == rank + round as u8));
            let rate = |time: Duration| (each * tasks) as f64 / time.as_secs_f64() / 1e6;
            println!(
                "{mode:?}: written {:.0} MB/s, read {:.0} MB/s, right: {right}",
                rate(written),
                rate(read)
            );
        }
    }
    Ok(())
}

/// Runs a call in all tasks at the same time. Returns the time of the slowest.
fn timed(
    group: &[Task<'_>],
    files: &[File],
    buffers: &mut [Vec<u8>],
    call: impl Fn(&Task<'_>, &File, &mut Vec<u8>) -> Result<usize> + Sync,
) -> Duration {
    let call = &call;
    std::thread::scope(|scope| {
        let run = |((task, file), buffer): ((&'_ Task<'_>, &'_ File), &'_ mut Vec<u8>)| {
            task.all_are_there.wait();
            let begun = Instant::now();
            call(task, file, buffer).expect("the call");
            begun.elapsed()
        };
        let parts = group.iter().zip(files).zip(buffers);
        let threads: Vec<_> = parts.map(|part| scope.spawn(move || run(part))).collect();
        threads.into_iter().map(|thread| thread.join().expect("a task")).max().unwrap_or_default()
    })
}
