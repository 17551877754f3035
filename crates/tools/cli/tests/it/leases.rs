//! Leases on a real cluster: two clients cache names and attributes, and see each other's changes.
#![cfg(unix)]

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicU64, Ordering},
    },
    thread,
    time::{Duration, Instant},
};

use crate::harness::Cluster;
use braid_client::{
    Attributes, Client, FileIndex, LayoutHint, LeaseHolder, LeaseMode, LeaseOf, LeaseTicket,
    Leases, OpenOptions, RenameMode, Status,
};

/// A client that caches the children of one directory, as a mount does.
struct Cache {
    client: Client,
    leases: Leases,
    dir: FileIndex,
    /// The cache; `None` for a name that does not exist. A recall clears it.
    kept: Mutex<HashMap<String, Option<Attributes>>>,
    asked: AtomicU64,
    lost: AtomicU64,
    recalled: AtomicU64,
    layouts: AtomicU64,
}

impl LeaseHolder for Cache {
    fn recall_names(&self, dir: FileIndex) {
        assert_eq!(dir, self.dir);
        self.kept.lock().unwrap().clear();
        self.recalled.fetch_add(1, Ordering::SeqCst);
    }

    fn recall_data(&self, _: FileIndex, _: LeaseMode) -> LeaseMode {
        self.recalled.fetch_add(1, Ordering::SeqCst);
        LeaseMode::None
    }

    fn recall_layout(&self, _: FileIndex) {
        self.layouts.fetch_add(1, Ordering::SeqCst);
    }

    fn lost_all(&self) {
        self.kept.lock().unwrap().clear();
        self.lost.fetch_add(1, Ordering::SeqCst);
    }
}

impl Cache {
    fn new(cluster: &Cluster, dir: &str) -> Arc<Self> {
        let client = cluster.client();
        let leases = client.leases();
        let dir = client.stat(dir).unwrap().file;
        let cache = Arc::new(Self {
            client,
            leases,
            dir,
            kept: Mutex::default(),
            asked: AtomicU64::new(0),
            lost: AtomicU64::new(0),
            recalled: AtomicU64::new(0),
            layouts: AtomicU64::new(0),
        });
        cache.leases.serve(Arc::downgrade(&cache) as Weak<dyn LeaseHolder>).unwrap();
        cache
    }

    /// Attributes of a name, from the cache if possible.
    fn look_up(&self, name: &str) -> Option<Attributes> {
        if let Some(known) = self.kept.lock().unwrap().get(name) {
            return known.clone();
        }
        let ticket =
            self.leases.names_ticket(self.dir).or_else(|| self.leases.ask_names(self.dir).unwrap());
        self.asked.fetch_add(1, Ordering::SeqCst);
        let found = match self.client.lstat((self.dir, name)) {
            Ok(found) => Some(found),
            Err(error) if error.status() == Status::NotFound => None,
            Err(error) => panic!("{error}"),
        };
        let mut kept = self.kept.lock().unwrap();
        let held = ticket.is_some_and(|ticket| self.leases.is_valid(&ticket));
        if held && found.as_ref().is_none_or(|found| !found.uncacheable) {
            kept.insert(name.to_owned(), found.clone());
        }
        found
    }

    fn asked(&self) -> u64 {
        self.asked.load(Ordering::SeqCst)
    }
}

#[test]
fn cached_names_are_fetched_once_and_dropped_by_another_clients_change() {
    let cluster = Cluster::up(1);
    let one = cluster.client();
    one.mkdir("/d", 0o755).unwrap();
    one.mknod("/d/a", braid_client::FileKind::Fifo, 0o644, 0).unwrap();
    let cache = Cache::new(&cluster, "/d");
    for _ in 0..100 {
        assert!(cache.look_up("a").is_some());
        assert!(cache.look_up("b").is_none());
    }
    assert_eq!(cache.asked(), 2);
    one.chmod("/d/a", 0o600).unwrap();
    assert_eq!(cache.look_up("a").unwrap().mode, 0o600);
    one.rename("/d/a", "/d/b", RenameMode::Replace).unwrap();
    assert!(cache.look_up("a").is_none() && cache.look_up("b").is_some());
    one.unlink("/d/b").unwrap();
    assert!(cache.look_up("b").is_none());
    cache.client.mkdir("/d/own", 0o755).unwrap();
    assert!(
        cache.leases.names_ticket(cache.dir).is_some(),
        "what it does itself takes nothing from it"
    );
    cache.leases.return_lease(LeaseOf::Names(cache.dir)).unwrap();
    let recalled = cache.recalled.load(Ordering::SeqCst);
    one.mkdir("/d/c", 0o755).unwrap();
    assert_eq!(cache.recalled.load(Ordering::SeqCst), recalled, "it gave it back itself");
}

#[test]
fn two_clients_that_keep_names_see_every_change_of_the_other() {
    let cluster = Cluster::up(1);
    cluster.client().mkdir("/d", 0o755).unwrap();
    let caches = [Cache::new(&cluster, "/d"), Cache::new(&cluster, "/d")];
    let pause = std::sync::Barrier::new(2);
    thread::scope(|scope| {
        for me in 0..2 {
            let (mine, caches, pause) = (&caches[me], &caches, &pause);
            scope.spawn(move || {
                for turn in 0..200 {
                    let name = format!("n{turn}");
                    // Both look the name up and cache that it does not exist; then one creates it
                    // and notifies the other.
                    assert!(caches[me].look_up(&name).is_none());
                    pause.wait();
                    if turn % 2 == me {
                        mine.client.mkdir((mine.dir, &*name), 0o755).unwrap();
                    }
                    pause.wait();
                    assert!(mine.look_up(&name).is_some() || turn % 2 == me, "turn {turn} of {me}");
                    pause.wait();
                }
            });
        }
    });
    assert!(caches.iter().all(|cache| cache.lost.load(Ordering::SeqCst) == 0));
}

#[test]
fn a_lease_of_before_a_restart_is_lost_and_a_change_made_after_it_is_seen() {
    let cluster = Cluster::up(1);
    let one = cluster.client();
    one.mkdir("/d", 0o755).unwrap();
    let cache = Cache::new(&cluster, "/d");
    assert!(cache.look_up("a").is_none());
    let ticket = cache.leases.names_ticket(cache.dir).expect("held");
    cluster.restart_after(|| {});
    one.mkdir("/d/a", 0o755).unwrap();
    assert!(!cache.leases.is_valid(&ticket));
    assert!(cache.look_up("a").is_some());
    assert_eq!(cache.lost.load(Ordering::SeqCst), 1);
}

#[test]
fn data_leases_are_granted_recalled_and_shared() {
    let cluster = Cluster::up(1);
    let one = cluster.client();
    one.mkdir("/d", 0o755).unwrap();
    let (writer, reader) = (Cache::new(&cluster, "/d"), Cache::new(&cluster, "/d"));
    assert!(writer.leases.ask_names(writer.dir).unwrap().is_some());
    let options = OpenOptions::new().write(true).create(true).lease(LeaseMode::Write);
    let file = writer.client.open("/d/f", &options).unwrap();
    let ticket = file.lease().expect("nobody else has it open");
    assert_eq!((ticket.mode(), ticket.of()), (LeaseMode::Write, LeaseOf::Data(file.index())));
    let read = reader.leases.ask_data(file.index(), LeaseMode::Read, false).unwrap();
    assert_eq!(read.map(|ticket| ticket.mode()), Some(LeaseMode::Read));
    assert!(!writer.leases.is_valid(&ticket));
    assert_eq!(writer.recalled.load(Ordering::SeqCst), 1);
    let again = writer.leases.ask_data(file.index(), LeaseMode::Write, true).unwrap();
    assert_eq!(again.map(|ticket| ticket.mode()), Some(LeaseMode::Write));
    assert_eq!(reader.leases.data_ticket(file.index()), None);
}

#[test]
fn who_never_serves_recalls_is_granted_nothing() {
    let cluster = Cluster::up(1);
    let one = cluster.client();
    let leases = one.leases();
    assert_eq!(leases.ask_names(FileIndex::ROOT).unwrap(), None);
    assert_eq!(leases.names_ticket(FileIndex::ROOT), None);
    let cache = Cache::new(&cluster, "/");
    let second = cache.leases.serve(Arc::downgrade(&cache) as Weak<dyn LeaseHolder>);
    assert_eq!(second.unwrap_err().status(), Status::Exists);
}

#[test]
fn who_was_given_a_files_layout_is_told_before_it_changes() {
    let cluster = Cluster::up(2);
    let one = cluster.client();
    one.mkdir("/d", 0o755).unwrap();
    let file = one.touch("/d/f", 0o644, true, LayoutHint::none()).unwrap().attributes.file;
    let caches = [Cache::new(&cluster, "/d"), Cache::new(&cluster, "/d")];
    let given = caches
        .each_ref()
        .map(|cache| cache.leases.ask_layout(file).unwrap().expect("no lease conflicts"));
    assert_eq!(given[0].1, one.layout("/d/f").unwrap().layout.unwrap());
    one.truncate("/d/f", 0).unwrap();
    one.chmod("/d/f", 0o600).unwrap();
    assert!(
        caches[0].leases.is_valid(&given[0].0) && caches[1].leases.is_valid(&given[1].0),
        "that is not its layout"
    );
    one.set_layout("/d/f", LayoutHint { stripe_bytes: Some(65_536), ..LayoutHint::none() })
        .unwrap();
    for (cache, (ticket, layout)) in caches.iter().zip(&given) {
        assert!(!cache.leases.is_valid(ticket));
        assert_eq!(cache.layouts.load(Ordering::SeqCst), 1);
        let (_, now) = cache.leases.ask_layout(file).unwrap().expect("it was changed");
        assert!(now.version > layout.version);
    }
    caches[0].leases.return_lease(LeaseOf::Layout(file)).unwrap();
    assert_eq!(caches[0].leases.layout_ticket(file), None);
}

#[test]
fn who_left_is_asked_nothing_though_files_of_it_are_still_open() {
    let cluster = Cluster::up(1);
    let one = cluster.client();
    one.mkdir("/d", 0o755).unwrap();
    let (writer, reader) = (Cache::new(&cluster, "/d"), Cache::new(&cluster, "/d"));
    let options = OpenOptions::new().write(true).create(true).lease(LeaseMode::Write);
    // An open brings a lease to a session that caches: one that has asked for leases, or waits for
    // recalls.
    assert!(writer.leases.ask_names(writer.dir).unwrap().is_some());
    let file = writer.client.open("/d/f", &options).unwrap();
    assert!(file.lease().is_some());
    writer.client.end_session();
    // The session that left may write until every daemon refuses it. Until then others share the
    // file with it.
    let mode = |ticket: Option<LeaseTicket>| ticket.map(|ticket| ticket.mode());
    let ask = || mode(reader.leases.ask_data(file.index(), LeaseMode::Read, false).unwrap());
    let end = Instant::now() + Duration::from_secs(60);
    while ask() != Some(LeaseMode::Read) {
        assert!(Instant::now() < end, "the session that left still counts as a writer");
        reader.leases.return_lease(LeaseOf::Data(file.index())).unwrap();
        thread::sleep(Duration::from_millis(20));
    }
    assert_eq!(writer.recalled.load(Ordering::SeqCst), 0);
}
