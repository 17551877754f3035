//! Histories of calls by NFS clients and clients of the library: is there an order of the calls
//! that explains every answer?
//!
//! ```text
//!   gateway 0 ── clients 0, 2 ─┐  words of a file, by gateway and by pNFS
//!   gateway 1 ── clients 1, 3 ─┼─ the size of a file             ── an order of the calls?
//!   library   ── clients 4, 5 ─┘  a name that moves, a lock
//! ```
//!
//! By hand: `BRAID_NFS_HISTORY=SEED,ROUNDS,CALLS`.

use std::{
    net::SocketAddr,
    sync::Barrier,
    time::{Duration, Instant},
};

use braid_client::{
    Client, Config, Credential, File, LockRange, LockRequest, LockSpace, OpenOptions, RenameMode,
    Status,
};
use braid_mount_tests::linearizability::{Specification, TimedCall, find_order};
use braid_nfs_wire::nfs4::{NfsStatus, StableHow};
use braid_testbed::nfs::{NfsError, NfsFile, NfsLayout, NfsMount};
use braid_types::Random;
use bytes::Bytes;

use super::NfsProcesses;

/// Words around the end of stripes of 1 MiB, so that two daemons have some.
const WORDS: [u64; 6] = [0, 8, (1 << 20) - 8, 1 << 20, (1 << 20) + 8, 3 << 20];
const CLIENTS: usize = 6;
/// Clients of the library among them; the others are NFS clients.
const LIBRARY_CLIENTS: usize = 2;
const SEED: u64 = 1;
const ROUNDS: u64 = 1;
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
            Call::Lock { client, granted: true } => (*state == 0).then_some(client as u64 + 1),
            Call::Lock { granted: false, .. } => (*state != 0).then_some(*state),
            Call::Unlock => Some(0),
        };
        next.into_iter().collect()
    }
}

/// A client, with all files open.
enum Actor {
    Nfs { mount: Box<NfsMount>, files: [NfsFile; 3], layout: Option<NfsLayout> },
    Library { client: Client, files: [File; 3] },
}

const FILES: [&str; 3] = ["words", "size", "lock"];

impl Actor {
    fn nfs(gateway: SocketAddr, number: usize, seed: u64) -> Self {
        let mut mount = NfsMount::new(gateway, &format!("client {number} of {seed}")).unwrap();
        let root = mount.root.clone();
        let files = FILES.map(|name| mount.open(&root, name, true).unwrap());
        // Half of the clients use pNFS.
        let layout = (number < 2).then(|| mount.layout(&files[0], true).unwrap());
        Self::Nfs { mount: Box::new(mount), files, layout }
    }

    fn library(config: &Config) -> Self {
        let client = Client::connect(config.clone()).unwrap();
        let options = OpenOptions::new().read(true).write(true).create(true);
        let files = FILES.map(|name| client.open(format!("/{name}").as_str(), &options).unwrap());
        Self::Library { client, files }
    }

    fn write(&mut self, offset: u64, value: u64) {
        let data = Bytes::copy_from_slice(&value.to_be_bytes());
        match self {
            Self::Nfs { mount, files, layout: Some(layout) } => {
                mount.direct_write((&files[0], layout), offset, data).map(drop).unwrap();
            }
            Self::Nfs { mount, files, layout: None } => {
                let (count, _) = mount.write(&files[0], offset, data, StableHow::Unstable).unwrap();
                assert_eq!(count, 8);
            }
            Self::Library { files, .. } => {
                files[0].write_at(&data, offset).unwrap();
            }
        }
    }

    fn read(&mut self, offset: u64) -> u64 {
        let bytes: Vec<u8> = match self {
            Self::Nfs { mount, files, layout: Some(layout) } => {
                mount.direct_read((&files[0], layout), offset, 8).unwrap().into()
            }
            Self::Nfs { mount, files, layout: None } => {
                mount.read(&files[0], offset, 8).unwrap().into()
            }
            Self::Library { files, .. } => {
                let mut bytes = vec![0; 8];
                let read = files[0].read_at(&mut bytes, offset).unwrap();
                bytes.truncate(read);
                bytes
            }
        };
        u64::from_be_bytes(bytes.try_into().expect("8 bytes: the file is longer"))
    }

    fn set_size(&mut self, bytes: u64) {
        match self {
            Self::Nfs { mount, files, .. } => mount.set_size(&files[1], bytes).unwrap(),
            Self::Library { files, .. } => drop(files[1].set_len(bytes).unwrap()),
        }
    }

    fn size(&mut self) -> u64 {
        match self {
            Self::Nfs { mount, files, .. } => mount.size(&files[1].handle).unwrap(),
            Self::Library { client, .. } => client.stat("/size").unwrap().bytes.0,
        }
    }

    /// Moves the name; `false` if it is not there.
    fn rename(&mut self, from: u64) -> bool {
        let (old, new) = (format!("name{from}"), format!("name{}", 1 - from));
        match self {
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
        }
    }

    fn lock(&mut self) -> bool {
        match self {
            Self::Nfs { mount, files, .. } => mount.lock(&mut files[2], 5, 10).unwrap(),
            Self::Library { client, files } => {
                let (file, space, owner) = (files[2].index(), LockSpace::Range, 1);
                let (pid, start, last, exclusive) = (1, 5, 14, true);
                let lock = LockRequest { file, space, owner, pid, start, last, exclusive };
                client.try_lock_range(&lock).unwrap().is_none()
            }
        }
    }

    fn unlock(&mut self) {
        match self {
            Self::Nfs { mount, files, .. } => mount.unlock(&mut files[2], 5, 10).unwrap(),
            Self::Library { client, files } => {
                let (file, space) = (files[2].index(), LockSpace::Range);
                let range = LockRange { file, space, owner: 1, start: 5, last: 14 };
                client.unlock_range(&range).unwrap();
            }
        }
    }
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
                (NAME, Call::Rename { from, moved: actor.rename(from) })
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

fn library_config(processes: &NfsProcesses) -> Config {
    let shown = processes.cluster.ok(&["--json", "config", "explain"]);
    let settings: serde_json::Value = serde_json::from_str(&shown).unwrap();
    let mut settings = settings.as_array().unwrap().iter();
    let mds = settings.find(|setting| setting["setting"] == "cluster.mds").unwrap();
    let key = std::path::Path::new(&processes.cluster.config).with_file_name("keys/client.key");
    let mut config =
        Config::new([mds["value"].as_str().unwrap()], Credential::from_key_file(key).unwrap());
    config.timeout = Duration::from_secs(60);
    config
}

/// Seed, rounds and calls of each client.
fn sizes() -> (u64, u64, u64) {
    let Ok(given) = std::env::var("BRAID_NFS_HISTORY") else { return (SEED, ROUNDS, CALLS) };
    let mut numbers = given.split(',').map(|number| number.parse().expect("SEED,ROUNDS,CALLS"));
    let mut next = || numbers.next().expect("SEED,ROUNDS,CALLS");
    (next(), next(), next())
}

#[test]
fn calls_of_nfs_clients_and_the_library_have_an_order() {
    let (first_seed, rounds, calls) = sizes();
    let processes = NfsProcesses::start(2, 2);
    let config = library_config(&processes);
    for seed in first_seed..first_seed + rounds {
        println!("BRAID_NFS_HISTORY={seed},1,{calls}");
        let mut actors: Vec<_> = (0..CLIENTS - LIBRARY_CLIENTS)
            .map(|number| Actor::nfs(processes.gateways[number % 2].address, number, seed))
            .chain((0..LIBRARY_CLIENTS).map(|_| Actor::library(&config)))
            .collect();
        // The state that all objects begin with.
        for offset in WORDS {
            actors[0].write(offset, 0);
        }
        actors[0].set_size(0);
        if seed == first_seed {
            let options = OpenOptions::new().write(true).create(true);
            let Actor::Library { client, .. } = &actors[CLIENTS - 1] else { unreachable!() };
            drop(client.open("/name0", &options).unwrap());
        } else {
            actors[0].rename(1);
        }
        let (start, barrier) = (Instant::now(), Barrier::new(CLIENTS));
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
        let mut stale = record;
        // Counter-test: a read of a value that nobody wrote is found.
        let read = stale.iter_mut().find(|call| matches!(call.call, Call::Read(_))).unwrap();
        read.call = Call::Read(u64::MAX);
        assert!(check(&stale).is_err());
    }
}
