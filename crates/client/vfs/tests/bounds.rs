//! One deadline for a program's call and all servers that are asked for it (I8), with servers that
//! do not answer.

#[path = "it/support/mod.rs"]
mod support;

use std::{
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
        mpsc,
    },
    thread,
    time::{Duration, Instant},
};

use braid_client::{Client, Config, LeaseHolder, LeaseMode};
use braid_vfs::{
    Access, FileHandle, FileIndex, LookupResult, OpenAs, Opened, Page, Status, Vfs, WriteAs,
};
use support::{Cluster, ROOT, create, wait_for};

/// The time limit of calls of these mounts.
const BOUND: Duration = Duration::from_secs(4);
/// A call that takes longer has used a second deadline, or the default one.
const LATE: Duration = Duration::from_secs(7);
/// Servers that were waited for a moment ago are not waited for again: that takes less than half
/// the limit.
const AT_ONCE: Duration = Duration::from_secs(2);

fn config(cluster: &Cluster) -> Config {
    Config { timeout: BOUND, ..cluster.config() }
}

/// How long a failing call takes, made as a gateway makes it.
fn in_vain<T>(
    vfs: &Vfs,
    call: impl FnOnce() -> braid_vfs::Result<T>,
) -> (Duration, braid_vfs::Error) {
    let _bound = vfs.bound();
    let begun = Instant::now();
    let Err(error) = call() else { panic!("it succeeded") };
    (begun.elapsed(), error)
}

/// A file of the mount that its writer has closed.
fn made(creator: &Vfs, name: &[u8]) -> FileIndex {
    let (file, handle) = create(creator, name);
    creator.write(handle, 0, b"what it was", WriteAs::default()).unwrap();
    creator.release(handle, None).unwrap();
    file
}

fn open(vfs: &Vfs, file: FileIndex) -> Opened {
    vfs.open(file, OpenAs::from(Access::READ)).unwrap()
}

fn page(vfs: &Vfs, handle: FileHandle) -> braid_vfs::Result<Vec<u8>> {
    let give = |page: Page<'_>| match page {
        Page::Bytes(bytes) => bytes.to_vec(),
        Page::Piped(_) => panic!("no pipe was given"),
    };
    vfs.read_page(handle, 0, &mut [0; 64], None, give)
}

/// These files, cached on a mount and opened lazily there.
fn open_lazily(creator: &Vfs, reader: &Vfs, count: usize) -> Vec<(FileIndex, FileHandle)> {
    let names: Vec<Vec<u8>> = (0..count).map(|at| format!("late{at}").into_bytes()).collect();
    let files: Vec<FileIndex> = names.iter().map(|name| made(creator, name)).collect();
    let open = |(file, name): (&FileIndex, &Vec<u8>)| {
        let mut handle = None;
        // Once the close has arrived and the size is recorded, its attributes are cached.
        wait_for(|| {
            let opened = open(reader, *file);
            let LookupResult::Found(found) = reader.look_up(ROOT, name).unwrap() else {
                panic!("it is there")
            };
            match opened.may_cache_pages
                && reader.reply_cacheable(&found.leases, |cacheable| cacheable.attributes)
            {
                true => handle = Some(opened.handle),
                false => reader.release(opened.handle, None).unwrap(),
            }
            handle.is_some()
        });
        // The handle that showed this was opened before the attributes were cached.
        reader.release(handle.unwrap(), None).unwrap();
        (*file, self::open(reader, *file).handle)
    };
    files.iter().zip(&names).map(open).collect()
}

#[test]
fn a_page_and_its_retry_by_the_kernel_end_within_one_deadline() {
    let mut cluster = Cluster::start(1);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount_of(config(&cluster)));
    let opened = open(&two, made(&one, b"f"));
    wait_for(|| page(&two, opened.handle).is_ok());
    cluster.stop_daemons();
    let (first, error) = in_vain(&two, || page(&two, opened.handle));
    assert!(first < LATE, "{first:?}");
    assert!(error.to_string().contains("I/O daemon"), "{error}");
    // Read-ahead has failed: the kernel asks for the single page.
    let (second, error) = in_vain(&two, || page(&two, opened.handle));
    assert!(second < AT_ONCE, "{second:?}");
    assert!(error.to_string().contains("I/O daemon"), "{error}");
}

#[test]
fn a_lookup_without_a_metadata_server_ends_within_one_deadline() {
    let mut cluster = Cluster::start(1);
    let mount = cluster.serving_mount_of(config(&cluster));
    cluster.stop_mds();
    let (time, error) = in_vain(&mount, || mount.look_up(ROOT, b"f"));
    assert!(time < LATE, "{time:?}");
    assert!(error.to_string().contains("metadata server"), "{error}");
    let handle = mount.open_directory(ROOT).unwrap();
    let (time, _) = in_vain(&mount, || mount.read_directory(handle, 0, 10, false));
    assert!(time < AT_ONCE, "asked again a moment later: {time:?}");
    let (time, _) = in_vain(&mount, || mount.attributes(ROOT, None));
    assert!(time < LATE, "{time:?}");
}

#[test]
fn unlink_and_rename_with_lazy_opens_end_within_one_deadline() {
    let mut cluster = Cluster::start(1);
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount_of(config(&cluster)));
    let late = open_lazily(&one, &two, 5);
    cluster.stop_mds();
    let (time, error) = in_vain(&two, || two.unlink(ROOT, b"late0"));
    assert!(time < LATE, "{time:?}");
    assert!(error.to_string().contains("metadata server"), "{error}");
    let replace = braid_vfs::RenameMode::Replace;
    let (time, _) = in_vain(&two, || two.rename((ROOT, b"late1"), (ROOT, b"late2"), replace));
    assert!(time < LATE, "{time:?}");
    // None was forgotten: when the server is back, this mount opens them before it removes a name.
    cluster.start_mds();
    wait_for(|| match two.unlink(ROOT, b"late0") {
        Ok(()) => true,
        Err(error) => error.status() == Some(Status::NotFound),
    });
    (1..5).for_each(|at| one.unlink(ROOT, format!("late{at}").as_bytes()).unwrap());
    for (_, handle) in late {
        assert_eq!(page(&two, handle).unwrap(), b"what it was");
    }
}

/// A slow connection to the metadata server.
struct Relay {
    address: String,
    delay_ms: Arc<AtomicU64>,
}

impl Relay {
    fn to(server: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let (address, delay_ms) =
            (listener.local_addr().unwrap().to_string(), Arc::new(AtomicU64::new(0)));
        let delay = Arc::clone(&delay_ms);
        thread::spawn(move || {
            for client in listener.incoming().flatten() {
                let Ok(server) = TcpStream::connect(&server) else { return };
                for (from, to) in [(&client, &server), (&server, &client)] {
                    let (from, to, delay) =
                        (from.try_clone().unwrap(), to.try_clone().unwrap(), Arc::clone(&delay));
                    thread::spawn(move || pass_on(from, to, &delay));
                }
            }
        });
        Self { address, delay_ms }
    }
}

fn pass_on(mut from: TcpStream, mut to: TcpStream, delay_ms: &AtomicU64) {
    let mut buffer = vec![0; 1 << 16];
    to.set_nodelay(true).unwrap();
    while let Ok(bytes @ 1..) = from.read(&mut buffer) {
        thread::sleep(Duration::from_millis(delay_ms.load(Ordering::Relaxed)));
        if to.write_all(&buffer[..bytes]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
}

#[test]
fn lazy_opens_over_a_slow_link_are_sent_within_a_recall() {
    // In sequence they would take three times as long.
    const FILES: usize = 600;
    const ONE_WAY_MS: u64 = 20;
    let cluster = Cluster::start(1);
    let relay = Relay::to(cluster.config().mds[0].clone());
    let far = Config { mds: vec![relay.address.clone()], ..cluster.config() };
    let (one, two) = (cluster.serving_mount(), cluster.serving_mount_of(far));
    let late = open_lazily(&one, &two, FILES);
    let before = cluster.calls();
    relay.delay_ms.store(ONE_WAY_MS, Ordering::Relaxed);
    one.unlink(ROOT, b"late0").unwrap();
    relay.delay_ms.store(0, Ordering::Relaxed);
    assert!(cluster.calls() - before >= FILES as u64, "they were opened lazily");
    for (_, handle) in late {
        assert_eq!(page(&two, handle).unwrap(), b"what it was", "the session was not lost");
    }
}

/// Blocks a recall of names until it is released.
struct InHand {
    recalled: mpsc::Sender<()>,
    let_go: Mutex<mpsc::Receiver<()>>,
    lost: mpsc::Sender<()>,
}

impl LeaseHolder for InHand {
    fn recall_names(&self, _: FileIndex) {
        let _ = self.recalled.send(());
        let _ = self.let_go.lock().unwrap().recv();
    }

    fn recall_data(&self, _: FileIndex, _: LeaseMode) -> LeaseMode {
        LeaseMode::None
    }

    fn lost_all(&self) {
        let _ = self.lost.send(());
    }
}

#[test]
fn a_client_that_is_cut_off_drops_all_caches_during_a_recall() {
    let mut cluster = Cluster::start(1);
    let client = cluster.client();
    let ((recalled, is_recalled), (let_go, wait), (lost, is_lost)) =
        (mpsc::channel(), mpsc::channel(), mpsc::channel());
    let holder = Arc::new(InHand { recalled, let_go: Mutex::new(wait), lost });
    client.leases().serve(Arc::downgrade(&holder) as Weak<dyn LeaseHolder>).unwrap();
    let other = cluster.mount();
    let make = |name: &[u8]| other.make_directory(support::USER, ROOT, name, 0o755, 0);
    // It has this directory's names, too, whose lease is not recalled.
    let cacheable = make(b"kept").unwrap().attributes.file;
    for directory in [cacheable, ROOT] {
        wait_for(|| client.leases().ask_names(directory).unwrap().is_some());
    }
    thread::scope(|scope| {
        scope.spawn(|| make(b"d"));
        is_recalled.recv().unwrap();
        cluster.stop_mds();
        // It is not released before: a thread that waits for it would wait forever.
        is_lost
            .recv_timeout(Duration::from_secs(60))
            .expect("everything is dropped when leases are not valid any more");
        let_go.send(()).unwrap();
        cluster.start_mds();
    });
}

/// A lease holder that counts the recalls that it has carried out.
struct Counting(mpsc::Sender<()>);

impl LeaseHolder for Counting {
    fn recall_names(&self, _: FileIndex) {
        let _ = self.0.send(());
    }

    fn recall_data(&self, _: FileIndex, _: LeaseMode) -> LeaseMode {
        LeaseMode::None
    }

    fn lost_all(&self) {}
}

#[test]
fn recalls_of_names_of_several_directories_are_carried_out_and_returned() {
    let cluster = Cluster::start(1);
    let client: Client = cluster.client();
    let (carried, count) = mpsc::channel();
    let holder = Arc::new(Counting(carried));
    client.leases().serve(Arc::downgrade(&holder) as Weak<dyn LeaseHolder>).unwrap();
    let other = cluster.mount();
    let make = |directory, name: &[u8]| {
        other.make_directory(support::USER, directory, name, 0o755, 0).unwrap()
    };
    let directories: Vec<FileIndex> =
        (0..40).map(|at| make(ROOT, format!("d{at}").as_bytes()).attributes.file).collect();
    directories
        .iter()
        .for_each(|dir| wait_for(|| client.leases().ask_names(*dir).unwrap().is_some()));
    thread::scope(|scope| {
        for directory in &directories {
            scope.spawn(|| make(*directory, b"below"));
        }
    });
    (0..40).for_each(|_| count.recv_timeout(Duration::from_secs(60)).unwrap());
}
