//! How long the calls of programs take while a server is gone (I8): `braid-mount-test bounds`.
//!
//! ```text
//!   maker's mount: files ── ended ── measured mount: some opened ── a server fails
//!     └── all calls, each on its own file ── the server is back ── calls succeed again
//! ```
//!
//! Every call must end within the mount's time bound and a reserve for a loaded machine:
//! [`Bound::limit`]. A call that waits twice takes two bounds and fails. Its result, an answer or
//! an error, is shown in a table as in `docs/consistency.md`.

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::FileExt,
    path::{Path, PathBuf},
    sync::mpsc,
    thread,
    time::{Duration, Instant},
};

use anyhow::{Context, Result, ensure};
use braid_testbed::{
    braid::Braid,
    cluster::{Cluster, DataDirectories, Victim},
    scratch::scratch,
    wait::until,
};
use clap::Args;
use rustix::process::{Pid, Signal, kill_process};

use crate::{
    cases::{Counts, Outcome},
    stage::mount::Mount,
    suite::cannot_mount,
};

/// The time bound of the short form, as an option of the mount; the long form has the default.
const SHORT: Bound = Bound { option: Some("timeout=5s"), time: Duration::from_secs(5) };
const DEFAULT: Bound = Bound { option: None, time: Duration::from_secs(30) };

/// Files are spread over both daemons, so that each is partly unreachable without one.
const IODS: usize = 2;
/// Two stripes on each daemon.
const FILE_BYTES: usize = 4 << 20;
/// Files with a lazy open in the directory in which one of them is removed.
const LAZY_OPENS: usize = 8;
/// Maximum time until the cluster serves again: sessions are created again, and daemons register
/// again.
const RECOVERY_MAX: Duration = Duration::from_secs(90);

/// `braid-mount-test bounds`.
#[derive(Args, Clone, Debug)]
pub struct BoundsArgs {
    /// Use the default time bound of 30 s instead of 5 s
    #[arg(long)]
    full: bool,
    /// Only failures with this word in their names
    #[arg(long, value_name = "WORD")]
    only: Vec<String>,
    /// Directory of the cluster [default: in memory, where that has extended attributes]
    #[arg(long, value_name = "DIR")]
    dir: Option<PathBuf>,
}

/// The time bound of a mount.
#[derive(Clone, Copy, Debug)]
struct Bound {
    option: Option<&'static str>,
    time: Duration,
}

impl Bound {
    /// One and a half bounds: a loaded machine is slow, and two bounds are more.
    fn limit(self) -> Duration {
        self.time * 3 / 2
    }
}

/// The failed servers of a run.
struct FaultCase {
    name: &'static str,
    /// Its text in the table.
    shown: &'static str,
    victims: &'static [Victim],
    /// Whether it accepts connections without an answer; else it refuses connections.
    silent: bool,
}

const BOTH: &[Victim] = &[Victim::Mds, Victim::Iod(0), Victim::Iod(1)];
const FAULT_CASES: &[FaultCase] = &[
    FaultCase {
        name: "bounds::iod_killed",
        shown: "I/O daemon, killed",
        victims: &[Victim::Iod(1)],
        silent: false,
    },
    FaultCase {
        name: "bounds::iod_silent",
        shown: "I/O daemon, silent",
        victims: &[Victim::Iod(1)],
        silent: true,
    },
    FaultCase {
        name: "bounds::mds_killed",
        shown: "metadata server, killed",
        victims: &[Victim::Mds],
        silent: false,
    },
    FaultCase {
        name: "bounds::mds_silent",
        shown: "metadata server, silent",
        victims: &[Victim::Mds],
        silent: true,
    },
    FaultCase { name: "bounds::client_cut_off", shown: "all, silent", victims: BOTH, silent: true },
];

/// A directory on the measured mount, and files opened there before the failure.
struct PreparedDir {
    dir: PathBuf,
    open: Option<File>,
    /// Files with a lazy open.
    late: Vec<File>,
}

/// A measured call.
struct MeasuredCall {
    name: &'static str,
    /// Creates what it needs, through another mount.
    make: fn(&Path) -> io::Result<()>,
    /// Opens a file before the failure, through the measured mount.
    open: fn(&Path) -> io::Result<Option<File>>,
    call: fn(&PreparedDir) -> io::Result<()>,
}

const fn nothing(_: &Path) -> io::Result<()> {
    Ok(())
}

const fn not_open(_: &Path) -> io::Result<Option<File>> {
    Ok(None)
}

const CALLS: &[MeasuredCall] = &[
    MeasuredCall { name: "`read` of an open file", make: file, open: to_read, call: read },
    MeasuredCall {
        name: "`open` and `read`",
        make: file,
        open: not_open,
        call: |place| fs::read(f(&place.dir)).map(drop),
    },
    MeasuredCall {
        name: "`stat`",
        make: file,
        open: not_open,
        call: |place| fs::metadata(f(&place.dir)).map(drop),
    },
    MeasuredCall { name: "`readdir`", make: file, open: not_open, call: list },
    MeasuredCall { name: "`write` of 4 MiB", make: file, open: to_write, call: write },
    MeasuredCall {
        name: "`fsync` of 4 MiB",
        make: file,
        open: written,
        call: |place| opened(place)?.sync_all(),
    },
    MeasuredCall {
        name: "`write` of 100 bytes and `close`",
        make: file,
        open: to_write,
        call: write_and_close,
    },
    MeasuredCall {
        name: "create, `write`, `close`",
        make: nothing,
        open: not_open,
        call: |place| fs::write(f(&place.dir), "x"),
    },
    MeasuredCall {
        name: "`mkdir`",
        make: nothing,
        open: not_open,
        call: |place| fs::create_dir(place.dir.join("d")),
    },
    MeasuredCall {
        name: "`rename`",
        make: file,
        open: not_open,
        call: |place| fs::rename(f(&place.dir), place.dir.join("g")),
    },
    MeasuredCall {
        name: "`unlink`",
        make: file,
        open: not_open,
        call: |place| fs::remove_file(f(&place.dir)),
    },
    MeasuredCall {
        name: LATE_UNLINK,
        make: many,
        open: not_open,
        call: |place| fs::remove_file(late(&place.dir, 0)),
    },
    MeasuredCall { name: "`chmod`", make: file, open: not_open, call: chmod },
    MeasuredCall { name: "`truncate`", make: file, open: not_open, call: truncate },
    MeasuredCall { name: "`statfs`", make: nothing, open: not_open, call: space },
    MeasuredCall { name: "`flock`", make: file, open: to_write, call: flock },
];
const LATE_UNLINK: &str = "`unlink` beside 8 files that are open";

fn f(dir: &Path) -> PathBuf {
    dir.join("f")
}

fn late(dir: &Path, number: usize) -> PathBuf {
    dir.join(format!("late{number}"))
}

fn file(dir: &Path) -> io::Result<()> {
    fs::write(f(dir), vec![7; FILE_BYTES])
}

fn many(dir: &Path) -> io::Result<()> {
    (0..LAZY_OPENS).try_for_each(|number| fs::write(late(dir, number), "what it was"))
}

fn to_read(dir: &Path) -> io::Result<Option<File>> {
    File::open(f(dir)).map(Some)
}

fn to_write(dir: &Path) -> io::Result<Option<File>> {
    OpenOptions::new().write(true).open(f(dir)).map(Some)
}

fn written(dir: &Path) -> io::Result<Option<File>> {
    let file = OpenOptions::new().write(true).open(f(dir))?;
    file.write_all_at(&vec![8; FILE_BYTES], 0)?;
    Ok(Some(file))
}

fn opened(place: &PreparedDir) -> io::Result<&File> {
    place.open.as_ref().ok_or_else(|| io::Error::other("it was not opened"))
}

fn read(place: &PreparedDir) -> io::Result<()> {
    let mut buffer = vec![0; FILE_BYTES];
    opened(place)?.read_exact(&mut buffer)
}

fn list(place: &PreparedDir) -> io::Result<()> {
    fs::read_dir(&place.dir)?.try_for_each(|entry| entry.map(drop))
}

/// One call: a short write counts, since the rest would be another call.
fn write(place: &PreparedDir) -> io::Result<()> {
    opened(place)?.write_at(&vec![8; FILE_BYTES], 0).map(drop)
}

fn write_and_close(place: &PreparedDir) -> io::Result<()> {
    let mut file = opened(place)?.try_clone()?;
    file.write_all(&[8; 100])?;
    // `close` of one descriptor sends what its process wrote.
    drop(file);
    Ok(())
}

fn chmod(place: &PreparedDir) -> io::Result<()> {
    rustix::fs::chmod(f(&place.dir), rustix::fs::Mode::from(0o600)).map_err(io::Error::from)
}

fn truncate(place: &PreparedDir) -> io::Result<()> {
    OpenOptions::new().write(true).open(f(&place.dir))?.set_len(100)
}

fn space(place: &PreparedDir) -> io::Result<()> {
    rustix::fs::statvfs(&place.dir).map(drop).map_err(io::Error::from)
}

fn flock(place: &PreparedDir) -> io::Result<()> {
    rustix::fs::flock(opened(place)?, rustix::fs::FlockOperation::NonBlockingLockExclusive)
        .map_err(io::Error::from)
}

/// The results of all calls for one failure: the time and the error of each.
type Column = Vec<(Duration, Option<io::Error>)>;

/// Runs the test; returns true when nothing failed.
pub fn run(args: &BoundsArgs) -> Result<bool> {
    let mut counts = Counts::default();
    if let Some(why) = cannot_mount() {
        counts.note("the mount", Ok(Outcome::Skipped(why)), Default::default());
        println!("{}", counts.closing_line());
        return Ok(true);
    }
    let bound = if args.full { DEFAULT } else { SHORT };
    let dir =
        args.dir.clone().unwrap_or_else(scratch).join(format!("braid-mb-{}", std::process::id()));
    let wanted = |gone: &&FaultCase| {
        args.only.is_empty() || args.only.iter().any(|word| gone.name.contains(word.as_str()))
    };
    let gone: Vec<&FaultCase> = FAULT_CASES.iter().filter(wanted).collect();
    let columns = measure(&dir, bound, &gone, &mut counts)?;
    println!("{}", table(&gone, &columns));
    match counts.failed {
        0 => fs::remove_dir_all(&dir)?,
        _ => println!("kept in {}", dir.display()),
    }
    println!("{}", counts.closing_line());
    Ok(counts.failed == 0)
}

fn measure(
    dir: &Path,
    bound: Bound,
    gone: &[&FaultCase],
    counts: &mut Counts,
) -> Result<Vec<Column>> {
    fs::create_dir_all(dir)?;
    let (braid, dir) = (Braid::find()?, dir.canonicalize()?);
    let mut cluster = Cluster::start_at(&braid, &dir, DataDirectories::below(&dir, IODS))?;
    let (mds, key) = cluster.contact();
    let mut maker = Mount::start(&braid, dir.join("maker"), &mds, &key, &[])?;
    for gone in gone {
        for (number, measured) in CALLS.iter().enumerate() {
            let dir = maker.point().join(below(gone, number));
            fs::create_dir_all(&dir)?;
            (measured.make)(&dir)
                .with_context(|| format!("create what {} needs", measured.name))?;
        }
    }
    maker.stop()?;
    let mut mount =
        Mount::start(&braid, dir.join("measured"), &mds, &key, bound.option.as_slice())?;
    let mut columns = Vec::new();
    for gone in gone {
        let started = Instant::now();
        let column = match while_gone(&mut cluster, &mount, bound, gone) {
            Ok(column) => column,
            Err(error) => {
                counts.note(gone.name, Err(error), started.elapsed());
                // The next run would find the mount as this one left it.
                return Ok(columns);
            }
        };
        counts.note(gone.name, judge(&column, bound).map(Outcome::Passed), started.elapsed());
        columns.push(column);
    }
    // After any failure the mount can be ended normally.
    mount.stop()?;
    Ok(columns)
}

fn below(gone: &FaultCase, number: usize) -> PathBuf {
    PathBuf::from(gone.name.replace("::", "-")).join(number.to_string())
}

/// All calls at the same time, started when the server fails.
fn while_gone(
    cluster: &mut Cluster,
    mount: &Mount,
    bound: Bound,
    gone: &FaultCase,
) -> Result<Column> {
    let place = |number: usize| -> Result<PreparedDir> {
        let dir = mount.point().join(below(gone, number));
        let late = if CALLS[number].name == LATE_UNLINK { open_late(&dir)? } else { Vec::new() };
        let open = (CALLS[number].open)(&dir)
            .with_context(|| format!("prepare {} before the failure", CALLS[number].name))?;
        Ok(PreparedDir { open, dir, late })
    };
    let places = (0..CALLS.len()).map(place).collect::<Result<Vec<_>>>()?;
    gone.victims.iter().try_for_each(|victim| take_away(cluster, *victim, gone.silent))?;
    let running: Vec<mpsc::Receiver<_>> =
        CALLS.iter().zip(places).map(|(measured, place)| start(measured, place)).collect();
    let latest = Instant::now() + bound.time * 4;
    let ended = |ends: mpsc::Receiver<_>| {
        ends.recv_timeout(latest.saturating_duration_since(Instant::now()))
    };
    let ended: Vec<Result<_, _>> = running.into_iter().map(ended).collect();
    gone.victims.iter().try_for_each(|victim| bring_back(cluster, *victim, gone.silent))?;
    let named = |(measured, ended): (&MeasuredCall, Result<_, _>)| {
        ended.with_context(|| format!("{} hangs", measured.name))
    };
    let column = CALLS.iter().zip(ended).map(named).collect::<Result<Column>>()?;
    let dir = mount.point().join(below(gone, 0));
    until("files are created, written and read again", RECOVERY_MAX, || Ok(serves(&dir).is_ok()))?;
    Ok(column)
}

/// Uses the metadata server and all daemons: what the mount has cached answers none of it.
fn serves(dir: &Path) -> io::Result<()> {
    let new = dir.join("after");
    let file = File::create(&new)?;
    file.write_all_at(&vec![9; FILE_BYTES], 0)?;
    file.sync_all()?;
    fs::remove_file(&new)?;
    fs::read(f(dir)).map(drop)
}

/// Files whose attributes are all cached, so that the next open sends no request.
fn open_late(dir: &Path) -> Result<Vec<File>> {
    let open = |number| -> Result<File> {
        for _ in 0..3 {
            fs::read(late(dir, number))?;
        }
        Ok(File::open(late(dir, number))?)
    };
    (0..LAZY_OPENS).map(open).collect()
}

/// Starts a call in its own thread, which is abandoned when it hangs.
fn start(
    measured: &'static MeasuredCall,
    place: PreparedDir,
) -> mpsc::Receiver<(Duration, Option<io::Error>)> {
    let (ends, ended) = mpsc::channel();
    thread::spawn(move || {
        let begun = Instant::now();
        let error = (measured.call)(&place).err();
        let _ = ends.send((begun.elapsed(), error));
        drop(place.late);
    });
    ended
}

fn take_away(cluster: &mut Cluster, victim: Victim, silent: bool) -> Result<()> {
    match silent {
        true => signal(cluster, victim, Signal::STOP),
        false => {
            cluster.kill(victim);
            Ok(())
        }
    }
}

fn bring_back(cluster: &mut Cluster, victim: Victim, silent: bool) -> Result<()> {
    if silent { signal(cluster, victim, Signal::CONT) } else { cluster.restart(victim) }
}

fn signal(cluster: &Cluster, victim: Victim, signal: Signal) -> Result<()> {
    let pid = cluster.pid(victim).and_then(|pid| i32::try_from(pid).ok()).and_then(Pid::from_raw);
    Ok(kill_process(pid.context("it does not run")?, signal)?)
}

/// The longest call; an error with those that took too long.
fn judge(column: &Column, bound: Bound) -> Result<String> {
    let late = CALLS.iter().zip(column).filter(|(_, (time, _))| *time > bound.limit());
    let late: Vec<String> =
        late.map(|(measured, ended)| format!("{}: {}", measured.name, cell(ended))).collect();
    ensure!(
        late.is_empty(),
        "longer than the bound of {} s: {}",
        bound.time.as_secs(),
        late.join(", ")
    );
    let longest = column.iter().map(|(time, _)| time.as_secs_f64()).fold(0.0, f64::max);
    let failed = column.iter().filter(|(_, error)| error.is_some()).count();
    Ok(format!("{} calls, {failed} failed, the longest {longest:.1} s", column.len()))
}

fn cell((time, error): &(Duration, Option<io::Error>)) -> String {
    let seconds = time.as_secs_f64();
    match error.as_ref().map(io::Error::raw_os_error) {
        None => format!("{seconds:.1} s"),
        Some(None) => format!("{seconds:.1} s, error"),
        Some(Some(number)) => format!("{seconds:.1} s, {}", errno_name(number)),
    }
}

fn errno_name(number: i32) -> String {
    match number {
        libc::EIO => "EIO".to_owned(),
        libc::ETIMEDOUT => "ETIMEDOUT".to_owned(),
        libc::EHOSTUNREACH => "EHOSTUNREACH".to_owned(),
        libc::EAGAIN => "EAGAIN".to_owned(),
        libc::ENOENT => "ENOENT".to_owned(),
        other => format!("errno {other}"),
    }
}

/// In the form of `docs/consistency.md`.
fn table(gone: &[&FaultCase], columns: &[Column]) -> String {
    let row = |first: &str, cells: &[String]| format!("| {first} | {} |\n", cells.join(" | "));
    let names: Vec<String> =
        gone.iter().take(columns.len()).map(|gone| gone.shown.to_owned()).collect();
    let mut table = row("call", &names) + &format!("|---|{}\n", "---|".repeat(names.len()));
    for (number, measured) in CALLS.iter().enumerate() {
        table += &row(
            measured.name,
            &columns.iter().map(|column| cell(&column[number])).collect::<Vec<_>>(),
        );
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn column(longest: Duration) -> Column {
        (0..CALLS.len())
            .map(|number| (if number == 0 { longest } else { Duration::ZERO }, None))
            .collect()
    }

    #[test]
    fn one_bound_passes_and_two_bounds_fail() {
        for bound in [SHORT, DEFAULT] {
            assert!(judge(&column(bound.time + Duration::from_secs(1)), bound).is_ok());
            let why = judge(&column(bound.time * 2), bound).unwrap_err().to_string();
            assert!(why.contains(CALLS[0].name), "{why}");
        }
    }

    #[test]
    fn the_table_has_a_row_for_each_call_and_a_column_for_each_server() {
        let gone: Vec<&FaultCase> = FAULT_CASES.iter().collect();
        let mut columns: Vec<Column> =
            gone.iter().map(|_| column(Duration::from_secs(5))).collect();
        columns[1][2].1 = Some(io::Error::from_raw_os_error(libc::ETIMEDOUT));
        let table = table(&gone, &columns);
        assert_eq!(table.lines().count(), 2 + CALLS.len());
        assert!(
            table.lines().all(|line| line.matches('|').count() == 2 + FAULT_CASES.len()),
            "{table}"
        );
        assert!(table.contains("| 0.0 s, ETIMEDOUT |"), "{table}");
    }
}
