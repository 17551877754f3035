//! Recalled or lost leases are given up immediately, whatever else a client waits for.

#[path = "it/support/mod.rs"]
mod support;

use std::{
    collections::{HashMap, HashSet},
    sync::{
        Arc, Mutex, OnceLock, Weak,
        atomic::{AtomicUsize, Ordering::SeqCst},
    },
    thread,
    time::Duration,
};

use braid_client::{Client, Config, LeaseHolder, LeaseMode};
use braid_vfs::{Access, CacheInvalidator, FileHandle, FileIndex, Page, Vfs, WriteAs};
use support::{Cluster, create, wait_for, write};

const FILES: usize = 40;
/// Files that are read all the time: more than are dropped in parallel.
const HOT: usize = 12;

/// A kernel that has pages of some files.
#[derive(Default)]
struct Kernel {
    has: Mutex<HashSet<FileIndex>>,
    /// Pages of these are read again as soon as they are dropped.
    hot: Mutex<HashMap<FileIndex, FileHandle>>,
    vfs: OnceLock<Weak<Vfs>>,
    itself: OnceLock<Weak<Kernel>>,
}

impl CacheInvalidator for Kernel {
    fn drop_names(&self, _: &[(FileIndex, Vec<FileIndex>)]) {}
    fn drop_attributes(&self, _: FileIndex) {}

    fn drop_data(&self, file: FileIndex, _: u64, _: u64) {
        self.has.lock().unwrap().remove(&file);
        let Some(handle) = self.hot.lock().unwrap().remove(&file) else { return };
        let (vfs, kernel) = (
            self.vfs.get().unwrap().upgrade().unwrap(),
            self.itself.get().unwrap().upgrade().unwrap(),
        );
        thread::spawn(move || read_page(&vfs, &kernel, (file, handle)));
        // Lets it begin.
        thread::sleep(Duration::from_millis(50));
    }
}

impl Kernel {
    fn has(&self, files: &[FileIndex]) -> usize {
        let has = self.has.lock().unwrap();
        files.iter().filter(|file| has.contains(file)).count()
    }
}

fn read_page(
    vfs: &Vfs,
    kernel: &Kernel,
    (file, handle): (FileIndex, FileHandle),
) -> braid_vfs::Result<()> {
    let give = |_: Page<'_>| _ = kernel.has.lock().unwrap().insert(file);
    vfs.read_page(handle, 0, &mut [0; 4096], None, give)
}

#[test]
fn lease_loss_drops_all_pages_while_calls_wait_for_daemons() {
    let mut cluster = Cluster::start(1);
    // A call that waits for a daemon does so as long as this test may take.
    let config = Config { timeout: Duration::from_secs(600), ..cluster.config() };
    let (vfs, kernel) = (
        Arc::new(Vfs::new(Client::connect(config).unwrap()).unwrap()),
        Arc::new(Kernel::default()),
    );
    vfs.serve(Arc::clone(&kernel) as Arc<dyn CacheInvalidator>).unwrap();
    kernel.vfs.set(Arc::downgrade(&vfs)).unwrap();
    kernel.itself.set(Arc::downgrade(&kernel)).unwrap();
    let made = |number: usize| {
        let (file, handle) = create(&vfs, format!("f{number}").as_bytes());
        write(&vfs, handle, 0, b"what it was");
        vfs.release(handle, None).unwrap();
        (file, vfs.open(file, Access::READ).unwrap().handle)
    };
    let cacheable: Vec<_> = (0..FILES + HOT).map(made).collect();
    let unread = made(FILES + HOT);
    let (gathers, writes) = (create(&vfs, b"gathers").1, create(&vfs, b"writes").1);
    write(&vfs, gathers, 0, b"x");
    vfs.flush(gathers, None).unwrap();
    cacheable.iter().for_each(|one| read_page(&vfs, &kernel, *one).unwrap());
    let files: Vec<FileIndex> = cacheable.iter().map(|(file, _)| *file).collect();
    cluster.stop_metadata_server(&[]);
    cluster.stop_daemons();
    assert_eq!(kernel.has(&files), FILES + HOT);
    kernel.hot.lock().unwrap().extend(cacheable[FILES..].iter().copied());
    // A page that is being read, a write, and a buffer that is being sent: each waits for the
    // daemon, and nothing waits for them.
    let (one, two, three, pages) =
        (Arc::clone(&vfs), Arc::clone(&vfs), Arc::clone(&vfs), Arc::clone(&kernel));
    let direct = WriteAs { direct: true, ..WriteAs::default() };
    let page = thread::spawn(move || read_page(&one, &pages, unread));
    let write = thread::spawn(move || two.write(writes, 0, &[7; 256 << 10], direct));
    thread::spawn(move || three.write(gathers, 1, b"nobody will see this", WriteAs::default()));
    wait_for(|| kernel.has(&files) == 0);
    assert!(!page.is_finished() && !write.is_finished(), "the drop waited for them");
}

/// A client that returns only one lease until it is released.
struct Stuck {
    gives: FileIndex,
    asked_for: AtomicUsize,
    /// Locked until it is released.
    waits: Mutex<()>,
}

impl LeaseHolder for Stuck {
    fn recall_names(&self, _: FileIndex) {}

    fn recall_data(&self, file: FileIndex, _: LeaseMode) -> LeaseMode {
        if file != self.gives {
            self.asked_for.fetch_add(1, SeqCst);
            drop(self.waits.lock().unwrap());
        }
        LeaseMode::None
    }

    fn lost_all(&self) {}
}

#[test]
fn leases_that_are_not_returned_delay_no_other() {
    const STUCK: usize = 12;
    let cluster = Cluster::start(1);
    let (client, vfs) = (cluster.client(), cluster.serving_mount());
    let files: Vec<_> =
        (0..=STUCK).map(|number| create(&vfs, format!("f{number}").as_bytes())).collect();
    let gives = files[STUCK].0;
    let holder = Arc::new(Stuck { gives, asked_for: AtomicUsize::new(0), waits: Mutex::new(()) });
    client.leases().serve(Arc::downgrade(&holder) as Weak<dyn LeaseHolder>).unwrap();
    for (file, _) in &files {
        client
            .leases()
            .ask_data(*file, LeaseMode::Write, true)
            .unwrap()
            .expect("it gets the lease");
    }
    let (waits, written) = (holder.waits.lock().unwrap(), AtomicUsize::new(0));
    thread::scope(|scope| {
        for (_, handle) in &files[..STUCK] {
            scope.spawn(|| {
                write(&vfs, *handle, 0, b"x");
                written.fetch_add(1, SeqCst);
            });
        }
        wait_for(|| holder.asked_for.load(SeqCst) == STUCK);
        write(&vfs, files[STUCK].1, 0, b"x");
        assert_eq!(written.load(SeqCst), 0, "they wait for leases that are not returned");
        drop(waits);
    });
    assert_eq!(written.load(SeqCst), STUCK);
}
