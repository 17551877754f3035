//! Histories of calls by NFS clients, clients of the library, and mounts: is there an order of the
//! calls that explains every answer?
//!
//! ```text
//!   gateway 0 ── clients 0, 2 ─┐  words of a file, by gateway and by pNFS
//!   gateway 1 ── clients 1, 3 ─┼─ the size of a file             ── an order of the calls?
//!   library   ── clients 4, 5 ─┤  a name that moves, a lock
//!   mounts    ── clients 6, 7 ─┘
//! ```
//!
//! While another client has a file open, a mount caches nothing of it. So in every second round the
//! clients open the file with the words for each call.
//!
//! By hand: `BRAID_NFS_HISTORY=SEED,ROUNDS,CALLS`.

use std::{net::SocketAddr, path::Path, sync::Barrier, time::Instant};

use braid_client::{
    Client, Config, File, LockRange, LockRequest, LockSpace, OpenOptions, RenameMode, Status,
};
use braid_mount_tests::linearizability::{Specification, TimedCall, find_order};
use braid_nfs_wire::nfs4::{NfsStatus, StableHow};
use braid_testbed::nfs::{NfsError, NfsFile, NfsLayout, NfsMount};
use braid_types::Random;
use bytes::Bytes;

use super::{NfsProcesses, history_mounts::MountActor};

/// Words around the end of stripes of 1 MiB, so that two daemons have some.
const WORDS: [u64; 6] = [0, 8, (1 << 20) - 8, 1 << 20, (1 << 20) + 8, 3 << 20];
const NFS_CLIENTS: usize = 4;
const LIBRARY_CLIENTS: usize = 2;
const SEED: u64 = 1;
const CALLS: u64 = 250;

/// Objects: the words, then these.
const SIZE: usize = WORDS.len();
const NAME: usize = SIZE + 1;
const LOCK: usize = NAME + 1;

#[derive(Clone, Debug)]
enum Call {
    Write(u64),
    Read(u64),
    /// Whether the name was there and moved.
    Rename {
        from: u64,
        moved: bool,
    },
    /// Whether the name is there.
    Look {
        name: u64,
        found: bool,
    },
    /// Whether a client got the lock.
    Lock {
        client: usize,
        granted: bool,
    },
    Unlock,
}

/// A register; of a name, which one exists; of a lock, its owner or 0.
#[derive(Debug)]
struct Object;

impl Specification for Object {
    type State = u64;
    type Call = Call;

    fn next(state: &u64, call: &Call) -> Vec<u64> {
        let next = match *call {
            Call::Write(value) => Some(value),
            Call::Read(value) => (value == *state).then_some(value),
            Call::Rename { from, moved: true } => (*state == from).then_some(1 - from),
            Call::Rename { from, moved: false } => (*state != from).then_some(*state),
            Call::Look { name, found } => ((*state == name) == found).then_some(*state),
            Call::Lock { client, granted: true } => (*state == 0).then_some(client as u64 + 1),
            Call::Lock { granted: false, .. } => (*state != 0).then_some(*state),
            Call::Unlock => Some(0),
        };
        next.into_iter().collect()
    }
}

/// A client, with all files open. The words are not open where each call opens them.
enum Actor {
    Nfs {
        mount: Box<NfsMount>,
        words: Option<NfsFile>,
        files: [NfsFile; 2],
        layout: Option<NfsLayout>,
    },
    Library {
        client: Client,
        words: Option<File>,
        files: [File; 2],
    },
    Mount(MountActor),
}

pub(super) const WORDS_FILE: &str = "words";
pub(super) const FILES: [&str; 2] = ["size", "lock"];

impl Actor {
    fn nfs(gateway: SocketAddr, number: usize, seed: u64, keeps_open: bool) -> Self {
        let mut mount = NfsMount::new(gateway, &format!("client {number} of {seed}")).unwrap();
        let root = mount.root.clone();
        let files = FILES.map(|name| mount.open(&root, name, true).unwrap());
        let words = keeps_open.then(|| mount.open(&root, WORDS_FILE, true).unwrap());
        // Half of the clients use pNFS.
        let pnfs = words.as_ref().filter(|_| number < 2);
        let layout = pnfs.map(|words| mount.layout(words, true).unwrap());
        Self::Nfs { mount: Box::new(mount), words, files, layout }
    }

    fn library(config: &Config, keeps_open: bool) -> Self {
        let client = Client::connect(config.clone()).unwrap();
        let options = OpenOptions::new().read(true).write(true).create(true);
        let files = FILES.map(|name| client.open(format!("/{name}").as_str(), &options).unwrap());
        let words = keeps_open.then(|| library_words(&client));
        Self::Library { client, words, files }
    }

    fn write(&mut self, offset: u64, value: u64) {
        let data = Bytes::copy_from_slice(&value.to_be_bytes());
        match self {
            Self::Nfs { mount, words: Some(words), layout: Some(layout), .. } => {
                mount.direct_write((words, layout), offset, data).map(drop).unwrap();
            }
            Self::Nfs { mount, words, .. } => with_nfs_words(mount, words, |mount, words| {
                let (count, _) = mount.write(words, offset, data, StableHow::Unstable).unwrap();
                assert_eq!(count, 8);
            }),
            Self::Library { client, words, .. } => {
                let opened = words.is_none().then(|| library_words(client));
                let words = words.as_ref().or(opened.as_ref()).unwrap();
                words.write_at(&data, offset).unwrap();
            }
            Self::Mount(mount) => mount.write(offset, &data),
        }
    }

    fn read(&mut self, offset: u64) -> u64 {
        let bytes: Vec<u8> = match self {
            Self::Nfs { mount, words: Some(words), layout: Some(layout), .. } => {
                mount.direct_read((words, layout), offset, 8).unwrap().into()
            }
            Self::Nfs { mount, words, .. } => with_nfs_words(mount, words, |mount, words| {
                mount.read(words, offset, 8).unwrap().into()
            }),
            Self::Library { client, words, .. } => {
                let opened = words.is_none().then(|| library_words(client));
                let words = words.as_ref().or(opened.as_ref()).unwrap();
                let mut bytes = vec![0; 8];
                let read = words.read_at(&mut bytes, offset).unwrap();
                bytes.truncate(read);
                bytes
            }
            Self::Mount(mount) => mount.read(offset, 8),
        };
        u64::from_be_bytes(bytes.try_into().expect("8 bytes: the file is longer"))
    }

    fn set_size(&mut self, bytes: u64) {
        match self {
            Self::Nfs { mount, files, .. } => mount.set_size(&files[0], bytes).unwrap(),
            Self::Library { files, .. } => drop(files[0].set_len(bytes).unwrap()),
            Self::Mount(mount) => mount.set_size(bytes),
        }
    }

    fn size(&mut self) -> u64 {
        match self {
            Self::Nfs { mount, files, .. } => mount.size(&files[0].handle).unwrap(),
            Self::Library { client, .. } => client.stat("/size").unwrap().bytes.0,
            Self::Mount(mount) => mount.size(),
        }
    }

    /// Moves the name if it is there. A mount only looks: Linux looks up the two names of a rename
    /// one after the other, and answers by itself if both lead to one file (docs/consistency.md).
    fn rename(&mut self, from: u64) -> Call {
        let (old, new) = (format!("name{from}"), format!("name{}", 1 - from));
        let moved = match self {
            Self::Mount(mount) => return Call::Look { name: from, found: mount.has(&old) },
            Self::Nfs { mount, .. } => {
                let root = mount.root.clone();
                match mount.rename(&root, &old, &new) {
                    Ok(()) => true,
                    Err(NfsError::Status(NfsStatus::NoEnt)) => false,
                    Err(error) => panic!("rename: {error}"),
                }
            }
            Self::Library { client, .. } => {
                let (old, new) = (format!("/{old}"), format!("/{new}"));
                match client.rename(old.as_str(), new.as_str(), RenameMode::Replace) {
                    Ok(()) => true,
                    Err(error) if error.status() == Status::NotFound => false,
                    Err(error) => panic!("rename: {error}"),
                }
            }
        };
        Call::Rename { from, moved }
    }

    fn lock(&mut self) -> bool {
        match self {
            Self::Nfs { mount, files, .. } => mount.lock(&mut files[1], 5, 10).unwrap(),
            Self::Library { client, files, .. } => {
                let (file, space, owner) = (files[1].index(), LockSpace::Range, 1);
                let (pid, start, last, exclusive) = (1, 5, 14, true);
                let lock = LockRequest { file, space, owner, pid, start, last, exclusive };
                client.try_lock_range(&lock).unwrap().is_none()
            }
            Self::Mount(mount) => mount.lock(5, 10),
        }
    }

    fn unlock(&mut self) {
        match self {
            Self::Nfs { mount, files, .. } => mount.unlock(&mut files[1], 5, 10).unwrap(),
            Self::Library { client, files, .. } => {
                let (file, space) = (files[1].index(), LockSpace::Range);
                let range = LockRange { file, space, owner: 1, start: 5, last: 14 };
                client.unlock_range(&range).unwrap();
            }
            Self::Mount(mount) => mount.unlock(5, 10),
        }
    }
}

/// The open file with the words, or one that is closed after the call.
fn with_nfs_words<T>(
    mount: &mut NfsMount,
    words: &Option<NfsFile>,
    call: impl FnOnce(&mut NfsMount, &NfsFile) -> T,
) -> T {
    if let Some(words) = words {
        return call(mount, words);
    }
    let root = mount.root.clone();
    let opened = mount.open(&root, WORDS_FILE, true).unwrap();
    let done = call(mount, &opened);
    mount.close(&opened).unwrap();
    done
}

fn library_words(client: &Client) -> File {
    let options = OpenOptions::new().read(true).write(true).create(true);
    client.open(format!("/{WORDS_FILE}").as_str(), &options).unwrap()
}

/// Random calls of one client, with their times.
fn play(
    actor: &mut Actor,
    client: usize,
    mut random: Random,
    calls: u64,
    start: Instant,
) -> Vec<TimedCall<Call>> {
    let mut record = Vec::new();
    let mut locked = false;
    for number in 0..=calls {
        let invoked = start.elapsed().as_nanos() as u64;
        let (object, call) = match random.below(100) {
            // The lock is free at the end.
            _ if number == calls && locked => {
                actor.unlock();
                locked = false;
                (LOCK, Call::Unlock)
            }
            0..35 => {
                let word = random.below(WORDS.len() as u64) as usize;
                let value = (client as u64 + 1) << 32 | number;
                actor.write(WORDS[word], value);
                (word, Call::Write(value))
            }
            35..70 => {
                let word = random.below(WORDS.len() as u64) as usize;
                (word, Call::Read(actor.read(WORDS[word])))
            }
            70..76 => {
                let bytes = random.below(5) * 700_000;
                actor.set_size(bytes);
                (SIZE, Call::Write(bytes))
            }
            76..82 => (SIZE, Call::Read(actor.size())),
            82..90 => {
                let from = random.below(2);
                (NAME, actor.rename(from))
            }
            _ if locked => {
                actor.unlock();
                locked = false;
                (LOCK, Call::Unlock)
            }
            _ => {
                locked = actor.lock();
                (LOCK, Call::Lock { client, granted: locked })
            }
        };
        let returned = start.elapsed().as_nanos() as u64;
        record.push(TimedCall { object, thread: client, invoked, returned, call });
    }
    record
}

fn check(record: &[TimedCall<Call>]) -> Result<(), String> {
    for object in 0..=LOCK {
        let calls: Vec<_> = record.iter().filter(|call| call.object == object).collect();
        find_order::<Object>(0, &calls).map_err(|why| format!("object {object}: {why}"))?;
    }
    Ok(())
}

/// Seed, rounds and calls of each client.
fn sizes(rounds: u64) -> (u64, u64, u64) {
    let Ok(given) = std::env::var("BRAID_NFS_HISTORY") else { return (SEED, rounds, CALLS) };
    let mut numbers = given.split(',').map(|number| number.parse().expect("SEED,ROUNDS,CALLS"));
    let mut next = || numbers.next().expect("SEED,ROUNDS,CALLS");
    (next(), next(), next())
}

/// Rounds of random calls by clients of two gateways, of the library, and of these mounts.
pub(super) fn run(rounds: u64, processes: &NfsProcesses, mounts: &[&Path]) {
    let (first_seed, rounds, calls) = sizes(rounds);
    let config = processes.library();
    for seed in first_seed..first_seed + rounds {
        println!("BRAID_NFS_HISTORY={seed},1,{calls}");
        let keeps_open = seed % 2 == 1;
        let gateway = |number: usize| processes.gateways[number % 2].address;
        let mut actors: Vec<_> = (0..NFS_CLIENTS)
            .map(|number| Actor::nfs(gateway(number), number, seed, keeps_open))
            .chain((0..LIBRARY_CLIENTS).map(|_| Actor::library(&config, keeps_open)))
            .collect();
        // The state that all objects begin with.
        for offset in WORDS {
            actors[0].write(offset, 0);
        }
        actors[0].set_size(0);
        if seed == first_seed {
            let options = OpenOptions::new().write(true).create(true);
            let Some(Actor::Library { client, .. }) = actors.last() else { unreachable!() };
            drop(client.open("/name0", &options).unwrap());
        } else {
            actors[0].rename(1);
        }
        let of_mount = |point: &&Path| Actor::Mount(MountActor::new(point, keeps_open));
        actors.extend(mounts.iter().map(of_mount));
        let (start, barrier) = (Instant::now(), Barrier::new(actors.len()));
        let record: Vec<_> = std::thread::scope(|scope| {
            let threads: Vec<_> = actors
                .iter_mut()
                .enumerate()
                .map(|(client, actor)| {
                    let random = Random::new(seed << 8 | client as u64);
                    let barrier = &barrier;
                    scope.spawn(move || {
                        barrier.wait();
                        play(actor, client, random, calls, start)
                    })
                })
                .collect();
            threads.into_iter().flat_map(|thread| thread.join().unwrap()).collect()
        });
        check(&record).unwrap_or_else(|why| panic!("seed {seed}: {why}"));
        // Counter-test: a read of a client that returns what it read before, after it has read
        // something newer, is found. The last clients are mounts, if there are some.
        let stale = with_stale_read(record, actors.len() - 1);
        assert!(check(&stale).is_err(), "seed {seed}: a stale read was not found");
    }
}

/// The record with one more read of a word by a client, of a value that it had seen replaced.
fn with_stale_read(mut record: Vec<TimedCall<Call>>, client: usize) -> Vec<TimedCall<Call>> {
    let reads = |word: usize| {
        let of_word =
            record.iter().filter(move |call| (call.object, call.thread) == (word, client));
        let mut reads: Vec<_> = of_word
            .filter_map(|call| match call.call {
                Call::Read(value) => Some((call.invoked, value)),
                _ => None,
            })
            .collect();
        reads.sort_unstable();
        reads
    };
    let mut words = (0..WORDS.len()).map(reads);
    let older = words.find_map(|reads| {
        let (_, last) = *reads.last()?;
        reads.iter().map(|(_, value)| *value).find(|value| *value != last)
    });
    let value = older.expect("a client reads two values of one word");
    let word = (0..WORDS.len()).find(|word| reads(*word).iter().any(|read| read.1 == value));
    let object = word.expect("the word with this value");
    let invoked = record.iter().map(|call| call.returned).max().expect("calls") + 1;
    let call = Call::Read(value);
    record.push(TimedCall { object, thread: client, invoked, returned: invoked + 1, call });
    record
}

#[test]
fn calls_of_nfs_clients_and_the_library_have_an_order() {
    run(1, &NfsProcesses::start(2, 2), &[]);
}
