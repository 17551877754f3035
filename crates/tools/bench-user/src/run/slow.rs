//! Whole runs on a file system with slow calls, measured by a simulated clock.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Mutex,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use braid_client::{
    Error, IodId, OpenOptions, Status, ThreadGroup, View,
    message::iod::{DiskRates, DiskWork, MeasureDisk},
};

use super::*;
use crate::{iods::Iod, options::OPTIONS_DEFAULT, subject::OpenedFile};

const MINUTE: Duration = Duration::from_secs(60);

/// Advances with each call of the file system, and a little whenever it is read.
#[derive(Default)]
struct ManualClock(AtomicU64);

impl ManualClock {
    fn go_on(&self, time: Duration) -> Duration {
        let time = time.as_nanos() as u64;
        Duration::from_nanos(self.0.fetch_add(time, Ordering::Relaxed) + time)
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Duration {
        self.go_on(Duration::from_millis(1))
    }
}

type Files = BTreeMap<String, Arc<Mutex<Vec<u8>>>>;

/// One daemon that does one thing at a time, for all callers.
struct SlowSystem {
    clock: Arc<ManualClock>,
    call: Duration,
    files: Mutex<Files>,
    directories: Mutex<BTreeSet<String>>,
}

impl SlowSystem {
    fn new(call: Duration) -> Self {
        let directories = Mutex::new(BTreeSet::from(["/".to_owned()]));
        Self { clock: Arc::default(), call, files: Mutex::default(), directories }
    }

    fn takes(&self) {
        self.clock.go_on(self.call);
    }

    fn bytes_of(&self, path: &str) -> Arc<Mutex<Vec<u8>>> {
        Arc::clone(self.files.lock().unwrap().entry(path.to_owned()).or_default())
    }
}

fn not_found() -> BenchError {
    Error::new(Status::NotFound, "there is no such name").into()
}

impl Subject for SlowSystem {
    fn iods(&self) -> Result<Vec<Iod>> {
        self.takes();
        Ok(vec![Iod {
            id: IodId(1),
            address: "slow:1".into(),
            ordinal: 0,
            device: 1,
            available: 1 << 40,
        }])
    }

    fn available(&self) -> Result<u64> {
        self.takes();
        Ok(1 << 40)
    }

    fn measure_disk(&self, _: IodId, _: &MeasureDisk) -> Result<DiskRates> {
        self.takes();
        let work = DiskWork { amount: 1 << 20, nanos: 1_000_000_000 };
        Ok(DiskRates {
            written: work.clone(),
            random_writes: work.clone(),
            syncs: work.clone(),
            random_reads: work.clone(),
            read: work,
        })
    }

    fn open(&self, path: &str, _: &OpenOptions) -> Result<Box<dyn OpenedFile>> {
        self.takes();
        Ok(Box::new(SlowFile {
            clock: Arc::clone(&self.clock),
            call: self.call,
            bytes: self.bytes_of(path),
            view: View::whole(),
        }))
    }

    fn mkdir(&self, path: &str) -> Result<()> {
        self.takes();
        match self.directories.lock().unwrap().insert(path.to_owned()) {
            true => Ok(()),
            false => Err(Error::new(Status::Exists, "it is there").into()),
        }
    }

    fn touch(&self, path: &str) -> Result<()> {
        self.takes();
        self.bytes_of(path);
        Ok(())
    }

    fn lstat(&self, path: &str) -> Result<u64> {
        self.takes();
        let files = self.files.lock().unwrap();
        Ok(files.get(path).map_or(0, |bytes| bytes.lock().unwrap().len() as u64))
    }

    fn rename(&self, from: &str, to: &str) -> Result<()> {
        self.takes();
        let mut files = self.files.lock().unwrap();
        let bytes = files.remove(from).ok_or_else(not_found)?;
        files.insert(to.to_owned(), bytes);
        Ok(())
    }

    fn chmod(&self, _: &str, _: u32) -> Result<()> {
        self.takes();
        Ok(())
    }

    fn sync_directory(&self, _: &str) -> Result<()> {
        self.takes();
        Ok(())
    }

    fn unlink(&self, path: &str) -> Result<()> {
        self.takes();
        self.files.lock().unwrap().remove(path).map(drop).ok_or_else(not_found)
    }

    fn rmdir(&self, path: &str) -> Result<()> {
        self.takes();
        assert!(self.names(path).is_empty(), "{path} is not empty");
        match self.directories.lock().unwrap().remove(path) {
            true => Ok(()),
            false => Err(not_found()),
        }
    }

    fn list(&self, path: &str) -> Result<Vec<(String, bool)>> {
        self.takes();
        Ok(self.names(path))
    }
}

impl SlowSystem {
    fn names(&self, path: &str) -> Vec<(String, bool)> {
        let path = format!("{}/", path.trim_end_matches('/'));
        let below = |name: &String| {
            let name =
                name.strip_prefix(&path).filter(|name| !name.is_empty() && !name.contains('/'));
            name.map(str::to_owned)
        };
        let (files, directories) = (self.files.lock().unwrap(), self.directories.lock().unwrap());
        let files = files.keys().filter_map(below).map(|name| (name, false));
        files.chain(directories.iter().filter_map(below).map(|name| (name, true))).collect()
    }
}

struct SlowFile {
    clock: Arc<ManualClock>,
    call: Duration,
    bytes: Arc<Mutex<Vec<u8>>>,
    view: View,
}

impl SlowFile {
    /// The file ranges of `bytes` bytes from a position of the view: offset and length of each.
    fn runs(&self, at: u64, bytes: usize) -> Vec<(usize, usize)> {
        let request =
            braid_layout::Request { view: self.view.clone(), start: at, bytes: bytes as u64 };
        let extents = request.extents().unwrap();
        extents.map(|extent| (extent.offset as usize, extent.bytes as usize)).collect()
    }
}

impl OpenedFile for SlowFile {
    fn write_at(&self, mut bytes: &[u8], at: u64) -> Result<usize> {
        self.clock.go_on(self.call);
        let (whole, mut file) = (bytes.len(), self.bytes.lock().unwrap());
        for (offset, length) in self.runs(at, whole) {
            let (now, rest) = bytes.split_at(length);
            let room = file.len().max(offset + length);
            file.resize(room, 0);
            file[offset..offset + length].copy_from_slice(now);
            bytes = rest;
        }
        Ok(whole)
    }

    fn read_at(&self, bytes: &mut [u8], at: u64) -> Result<usize> {
        self.clock.go_on(self.call);
        let file = self.bytes.lock().unwrap();
        let mut done = 0;
        for (offset, length) in self.runs(at, bytes.len()) {
            let found = &file[offset.min(file.len())..(offset + length).min(file.len())];
            bytes[done..done + found.len()].copy_from_slice(found);
            done += found.len();
        }
        Ok(done)
    }

    fn write_all_at(&self, _: &ThreadGroup, bytes: &[u8], at: u64) -> Result<usize> {
        self.write_at(bytes, at)
    }

    fn read_all_at(&self, _: &ThreadGroup, bytes: &mut [u8], at: u64) -> Result<usize> {
        self.read_at(bytes, at)
    }

    fn sync(&self) -> Result<()> {
        self.clock.go_on(self.call);
        Ok(())
    }

    fn size(&self) -> Result<u64> {
        self.clock.go_on(self.call);
        Ok(self.bytes.lock().unwrap().len() as u64)
    }

    fn with_view(&self, view: View) -> Result<Box<dyn OpenedFile>> {
        Ok(Box::new(Self {
            clock: Arc::clone(&self.clock),
            call: self.call,
            bytes: Arc::clone(&self.bytes),
            view,
        }))
    }

    fn iods(&self) -> Vec<IodId> {
        vec![IodId(1)]
    }

    fn close(self: Box<Self>) -> Result<()> {
        self.clock.go_on(self.call);
        Ok(())
    }
}

/// A quick run, which must leave no files. Returns its time and its results.
fn quick(call: Duration, change: impl Fn(&mut Options)) -> (Duration, Report) {
    let slow = SlowSystem::new(call);
    let mut options = Options { quick: true, samples: 4, bytes_max: 8 << 20, ..OPTIONS_DEFAULT };
    change(&mut options);
    let clock: Arc<dyn Clock> = Arc::clone(&slow.clock) as Arc<dyn Clock>;
    let report = run_on(&slow, clock, &options, "host", &AtomicBool::new(false), &|_| {})
        .expect("it ends well");
    assert!(slow.files.lock().unwrap().is_empty(), "files are left");
    assert_eq!(slow.directories.lock().unwrap().len(), 1, "directories are left");
    (slow.clock.now(), report)
}

#[test]
fn a_quick_run_ends_within_a_minute_whatever_a_call_takes() {
    for milliseconds in [30, 200, 1000, 3000] {
        let (took, report) = quick(Duration::from_millis(milliseconds), |_| {});
        assert!(took < MINUTE, "calls of {milliseconds} ms: it took {took:?}");
        assert!(report.seconds <= took.as_secs_f64());
        let rows = report.rows.len() + report.left_out.len();
        assert_eq!(rows, 18, "each row was measured or is listed as left out");
    }
}

#[test]
fn a_quick_run_with_rows_of_many_calls_ends_within_a_minute_too() {
    for row in [
        "mdtest",
        "mixed-write",
        "postmark",
        "oltp",
        "small-create",
        "small-unlink",
        "collective-read",
    ] {
        let (took, _) =
            quick(Duration::from_millis(500), |options| options.only = vec![row.to_owned()]);
        assert!(took < MINUTE, "{row}: it took {took:?}");
    }
}

#[test]
fn rows_are_measured_though_the_limits_are_slow() {
    let (_, report) = quick(Duration::from_millis(200), |_| {});
    assert!(!report.rows.is_empty() && report.rows.iter().all(|row| !row.samples.is_empty()));
    assert_eq!(report.rows[0].name, "sequential-write");
}

#[test]
fn one_that_is_not_quick_takes_as_long_as_it_takes() {
    let (took, report) = quick(Duration::from_millis(200), |options| {
        (options.quick, options.row_time) = (false, Duration::from_millis(20))
    });
    assert!(took > MINUTE && report.left_out.is_empty(), "{took:?}");
}
