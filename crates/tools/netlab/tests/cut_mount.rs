//! A host with a mount is partitioned while the mount buffers writes. Another mount continues
//! without it. What the first one sends later does not reach the file, its programs get errors, and
//! no call waits forever.
#![cfg(target_os = "linux")]

mod harness;

use std::{
    fs::{self, File, OpenOptions},
    io::{self, Read, Write},
    os::unix::fs::{FileExt, OpenOptionsExt},
    path::{Path, PathBuf},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, sync_channel},
    thread,
    time::{Duration, Instant},
};

use braid_netlab::{Host, Lab, Spec};
use braid_testbed::{mounts::is_mounted, random::noise, wait::wait_for};
use harness::{PATIENCE, lab};
use rustix::{
    fs::OFlags,
    io::Errno,
    process::{Pid, Signal, kill_process},
};

/// Over both daemons.
const BYTES: usize = 2 << 20;
/// Size of a small write: consecutive small writes are coalesced.
const SMALL: usize = 4096;
const SMALL_WRITES: usize = 16;
/// Interval between two attempts.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// A mount on a client host; its process ends when it is dropped.
struct Mount {
    process: Child,
    point: PathBuf,
    log: PathBuf,
}

impl Mount {
    fn start(lab: &Lab, client: usize) -> Self {
        let [point, log] = ["", ".log"].map(|end| lab.dir().join(format!("mount{client}{end}")));
        fs::create_dir(&point).unwrap();
        let mut command = lab.client_host(client).unwrap().command(harness::braid().path());
        command
            .args(["mount", "--foreground", "--log"])
            .args([&log, &point])
            .envs(lab.environment());
        let process = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap();
        let mut mount = Self { process, point, log };
        wait_for("it is mounted", || {
            assert_eq!(mount.process.try_wait().unwrap(), None, "it has ended: {}", mount.said());
            is_mounted(&mount.point).unwrap()
        });
        mount
    }

    fn path(&self, name: &str) -> PathBuf {
        self.point.join(name)
    }

    fn said(&self) -> String {
        fs::read_to_string(&self.log).unwrap_or_default()
    }

    /// Unmounts, as at shutdown: after it no data is unsent.
    fn ends(&mut self) {
        kill_process(Pid::from_child(&self.process), Signal::TERM).unwrap();
        wait_for("its process has ended", || self.process.try_wait().unwrap().is_some());
        assert!(!is_mounted(&self.point).unwrap());
    }
}

impl Drop for Mount {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        if is_mounted(&self.point).unwrap_or(false) {
            let _ = Command::new("umount").arg("-l").arg(&self.point).status();
        }
        if thread::panicking() {
            eprintln!("log of {}:\n{}", self.point.display(), self.said());
        }
    }
}

/// Makes a call in a thread of its own, so that a call without a reply fails the test and does not
/// hang it.
struct Pending<T> {
    what: &'static str,
    answer: Receiver<T>,
}

fn begin<T: Send + 'static>(
    what: &'static str,
    call: impl FnOnce() -> T + Send + 'static,
) -> Pending<T> {
    let (sender, answer) = sync_channel(1);
    thread::spawn(move || sender.send(call()));
    Pending { what, answer }
}

impl<T> Pending<T> {
    fn answer(self) -> T {
        let answer = self.answer.recv_timeout(PATIENCE);
        answer.unwrap_or_else(|_| panic!("{}: no answer in {} s", self.what, PATIENCE.as_secs()))
    }
}

fn with_direct(path: &Path) -> File {
    OpenOptions::new().write(true).custom_flags(OFlags::DIRECT.bits() as i32).open(path).unwrap()
}

fn read_all(file: &File) -> io::Result<Vec<u8>> {
    let mut found = vec![0; BYTES];
    file.read_exact_at(&mut found, 0)?;
    Ok(found)
}

/// Repeats the call until it succeeds: on a busy machine, a call that waits for a dead lease holder
/// may fail once.
fn until_done<T>(mut call: impl FnMut() -> io::Result<T>) -> T {
    let start = Instant::now();
    loop {
        match call() {
            Ok(done) => return done,
            Err(error) => {
                assert!(start.elapsed() < PATIENCE, "still after {} s: {error}", PATIENCE.as_secs())
            }
        }
        thread::sleep(LOOK_EVERY);
    }
}

/// Whether all data that this host has sent to daemons has arrived, also on closed connections: TCP
/// retransmits lost data at growing intervals.
fn all_has_arrived(host: &Host) -> bool {
    let to_daemons = format!(":{:04X}", Lab::PORT);
    let table = host.inside(|| Ok(fs::read_to_string("/proc/thread-self/net/tcp")?)).unwrap();
    // The fields (Documentation/networking/proc_net_tcp.rst): number, local address, remote
    // address, state, bytes unsent:unread.
    table
        .lines()
        .skip(1)
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .all(|fields| !fields[2].ends_with(&to_daemons) || fields[4].starts_with("00000000:"))
}

/// Sets the maximum interval of TCP's retransmissions on this host, on kernels with that setting
/// (6.15). Lost data then arrives soon after the partition, otherwise half a minute later.
fn tries_again_soon(host: &Host) {
    const MS: &str = "1000";
    // Without the setting the test takes longer.
    let _ = host.inside(|| Ok(fs::write("/proc/sys/net/ipv4/tcp_rto_max_ms", MS)?));
}

/// The cluster is not reachable, has declared the mount dead, or has forgotten its open file.
fn is_told<T: std::fmt::Debug>(what: &str, outcome: io::Result<T>) {
    let error = outcome.expect_err(what);
    let told = [Errno::IO, Errno::STALE, Errno::TIMEDOUT].map(Errno::raw_os_error).map(Some);
    assert!(told.contains(&error.raw_os_error()), "{what}: {error}");
}

#[test]
fn writes_of_a_partitioned_mount_are_lost_and_reported() {
    if harness::unable() || !Path::new("/dev/fuse").exists() {
        return println!("skipped: there is no lab, or no /dev/fuse");
    }
    let Some(lab) = lab(Spec { iods: 2, clients: 2, ..Spec::default() }) else { return };
    let host = lab.client_host(0).unwrap();
    tries_again_soon(host);
    let (mut cut, other) = (Mount::start(&lab, 0), Mount::start(&lab, 1));
    let plus =
        |add: u8| noise(BYTES, 1).iter().map(|byte| byte.wrapping_add(add)).collect::<Vec<u8>>();
    let [old, late, new] = [1, 2, 3].map(plus);

    let ours = OpenOptions::new()
        .read(true)
        .write(true)
        .create(true)
        .truncate(false)
        .open(cut.path("file"))
        .unwrap();
    ours.write_all_at(&old, 0).unwrap();
    // Consecutive writes: from now on the mount has the file alone, and a reservation at the
    // daemons.
    let small = |number: usize| number * SMALL..(number + 1) * SMALL;
    (0..SMALL_WRITES).for_each(|number| {
        ours.write_all_at(&old[small(number)], small(number).start as u64).unwrap()
    });
    ours.sync_all().unwrap();
    let (direct, kept) = (with_direct(&cut.path("file")), File::open(cut.path("file")).unwrap());
    assert!(read_all(&kept).unwrap() == old);
    // An ordinary program, which checks only the result of close.
    let second = File::create(cut.path("second")).unwrap();
    let mut program = Command::new("cat")
        .stdin(Stdio::piped())
        .stdout(second)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut input = program.stdin.take().unwrap();
    input.write_all(b"early\n").unwrap();
    wait_for("the file has 6 bytes", || fs::metadata(cut.path("second")).unwrap().len() == 6);

    lab.network().partition("client0").unwrap();
    let late_bytes = late[small(SMALL_WRITES)].to_vec();
    let ours = begin("a small write after the cut", move || {
        let outcome = ours.write_all_at(&late_bytes, small(SMALL_WRITES).start as u64);
        (ours, outcome)
    });
    let (ours, small_write) = ours.answer();
    println!("a small write after the cut: {small_write:?}");
    input.write_all(b"late\n").unwrap();
    let direct_write =
        begin("a write with O_DIRECT after the cut", move || direct.write_all_at(&late, 0));

    let (path, bytes) = (other.path("file"), new.clone());
    let gone_on = begin("another mount's write", move || {
        until_done(|| {
            let file = OpenOptions::new().write(true).open(&path)?;
            file.write_all_at(&bytes, 0)?;
            file.sync_all()
        });
    });
    gone_on.answer();

    // A read that starts after a write has returned sees it, or fails.
    let read = begin("a read of the mount that is cut off", move || read_all(&kept));
    println!("in flight when the partition heals: {}", !all_has_arrived(host));
    lab.network().heal("client0").unwrap();
    wait_for("all packets have arrived", || all_has_arrived(host));
    let found = read.answer();
    assert!(!found.is_ok_and(|found| found != new), "what was there before is read");
    is_told("a write that was in flight", direct_write.answer());
    let synced = begin("fsync", move || (ours.sync_all(), ours)).answer();
    is_told("fsync after the cut", synced.0);
    drop(input);
    let ended = begin("the end of a program", move || {
        let mut said = String::new();
        program.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        (program.wait().unwrap(), said)
    });
    let (status, said) = ended.answer();
    assert!(
        !status.success() && said.contains("cat:"),
        "a program whose bytes are lost ends well: {status}: {said}"
    );

    let at_the_daemons = |wanted: &[u8]| {
        let host = lab.client_host(1).unwrap();
        let found = host.inside(|| {
            let file = lab
                .connect(PATIENCE)?
                .open("/file", &braid_client::OpenOptions::new().read(true))?;
            let mut found = vec![0; BYTES + 1];
            let count = file.read_at(&mut found, 0)?;
            found.truncate(count);
            Ok(found)
        });
        assert!(found.unwrap() == wanted, "what came late is in the file");
    };
    at_the_daemons(&new);
    let log = cut.said();
    assert!(
        ["session", "fenced", "unreachable"].iter().any(|word| log.contains(word)),
        "it does not say why: {log}"
    );
    // The mount continues, with files that are opened again.
    let path = cut.path("file");
    let again = begin("a use of the mount that was cut off", move || {
        until_done(|| {
            let file = OpenOptions::new().read(true).write(true).open(&path)?;
            let found = read_all(&file)?;
            file.write_all_at(b"again", 0)?;
            file.sync_all()?;
            Ok(found)
        })
    });
    let found = again.answer();
    assert!(found[5..] == new[5..], "it reads what it had before");
    let last = [b"again", &new[5..]].concat();
    assert!(read_all(&File::open(other.path("file")).unwrap()).unwrap() == last);
    cut.ends();
    at_the_daemons(&last);
}
