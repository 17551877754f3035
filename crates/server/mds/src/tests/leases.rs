//! Leases: which change recalls which leases, which calls wait, and which sessions are ended. ADR
//! 0009.

use std::time::Duration;

use braid_types::{
    ByteCount, FileIndex, FileOffset, IodId, SessionId, Status,
    limits::{
        AWAIT_RECALLS_MS, LEASE_EXPIRES_MS, RECALL_DATA_MS, RECALL_MS, TIMEOUT_SECONDS_DEFAULT,
    },
};
use braid_wire::{
    Call as WireCall, Deny, Rights,
    message::{
        FileKind,
        lease::{LeaseGrant, LeaseKind, LeaseMode, Recall, ReturnedLease},
        mds::*,
        types::{LayoutHint, PathRef},
    },
};

use super::world::{Client, Pending, World, at, create};

/// A client that holds leases: what it has seen of its recalls.
struct Holder {
    client: Client,
    seen: u64,
}

impl Holder {
    fn new(world: &mut World) -> Self {
        Self { client: world.client(), seen: 0 }
    }

    fn names(&self, dir: FileIndex) -> Option<u64> {
        self.client.call_as(Envelope::PLAIN, LeaseNames { dir }).unwrap().map(|grant| grant.number)
    }

    fn data(&self, file: FileIndex, mode: LeaseMode) -> Pending {
        self.client.begin_as(Envelope::PLAIN, LeaseData { file, mode, exclusive: false })
    }

    fn listen(&self) -> Pending {
        self.client
            .begin_as(Envelope::PLAIN, AwaitRecalls { seen: self.seen, io_under_leases: true })
    }

    /// Recalls that the client has not seen yet.
    fn recalls(&mut self) -> Vec<Recall> {
        let recalls: Vec<Recall> =
            self.listen().take().map(|answer| answer.unwrap()).unwrap_or_default();
        self.seen = recalls.last().map_or(self.seen, |recall| recall.number);
        recalls
    }

    fn give_back(&self, recall: &Recall) {
        let Recall { number, kind, file, keep } = recall.clone();
        let leases = vec![ReturnedLease { kind, file, number, keep }];
        self.client.call_as(Envelope::PLAIN, ReturnLeases { leases }).unwrap();
    }

    /// Returns all recalled leases: their directories.
    fn return_recalled(&mut self) -> Vec<FileIndex> {
        let recalls = self.recalls();
        recalls.iter().for_each(|recall| self.give_back(recall));
        recalls.into_iter().map(|recall| recall.file).collect()
    }
}

fn file_at(client: &Client, path: &str) -> FileIndex {
    client.call(Stat { at: at(path), follow: false }).unwrap().file
}

fn make_directory(client: &Client, path: &str) -> FileIndex {
    client.call(MakeDirectory { at: at(path), mode: 0o755, umask: 0 }).unwrap().attributes.file
}

/// A world with the directories `a`, `b` and `a/sub`, the file `a/f`, and a holder of the names
/// leases of all.
struct Scene {
    world: World,
    one: Client,
    holder: Holder,
    a: FileIndex,
    b: FileIndex,
    sub: FileIndex,
    f: FileIndex,
}

fn scene() -> Scene {
    let mut world = World::new(2);
    let one = world.client();
    let (a, b) = (make_directory(&one, "a"), make_directory(&one, "b"));
    let sub = make_directory(&one, "a/sub");
    let opened = one.create("a/f");
    world.write(&opened, 100).unwrap();
    one.close(&opened);
    world.settle();
    let holder = Holder::new(&mut world);
    for dir in [FileIndex::ROOT, a, b, sub] {
        holder.names(dir).expect("nothing conflicts with it");
    }
    Scene { world, one, holder, a, b, sub, f: opened.attributes.file }
}

impl Scene {
    /// Makes a change as the other client: the leases that are recalled for it. It is done when
    /// they are returned.
    fn recalled_for<M: WireCall>(&mut self, change: M) -> Vec<FileIndex> {
        let pending = self.one.begin(1, change);
        let waits = !pending.has_come();
        let mut recalled = self.holder.return_recalled();
        assert_eq!(waits, !recalled.is_empty(), "it waits exactly for what is recalled");
        pending.take::<M::Reply>().expect("it is done").expect("and well");
        for dir in recalled
            .iter()
            .filter(|dir| self.one.call(Stat { at: PathRef::file(**dir), follow: true }).is_ok())
        {
            self.holder.names(*dir);
        }
        recalled.sort_unstable();
        recalled
    }
}

#[test]
fn every_change_recalls_the_names_leases_that_it_touches_and_no_others() {
    let mut s = scene();
    let (a, b, sub) = (s.a, s.b, s.sub);
    assert_eq!(s.recalled_for(create("a/new")), [a]);
    assert_eq!(s.recalled_for(Create { rights: None, ..create("a/plain") }), [a]);
    assert_eq!(s.recalled_for(MakeDirectory { at: at("a/dir"), mode: 0o755, umask: 0 }), [a]);
    let fifo =
        MakeNode { at: at("a/fifo"), kind: FileKind::Fifo, mode: 0o644, umask: 0, device: 0 };
    assert_eq!(s.recalled_for(fifo), [a]);
    assert_eq!(s.recalled_for(MakeSymlink { at: at("a/symlink"), target: b"f".to_vec() }), [a]);
    assert_eq!(s.recalled_for(Unlink { at: at("a/fifo") }), [a]);
    assert_eq!(s.recalled_for(RemoveDirectory { at: at("a/dir") }), [a]);
    assert_eq!(s.recalled_for(RemoveDirectory { at: at("a/sub") }), [a, sub]);
    let rename = |from, to, mode| Rename { from: at(from), to: at(to), mode };
    assert_eq!(s.recalled_for(rename("a/plain", "b/plain", RenameMode::Replace)), [a, b]);
    assert_eq!(s.recalled_for(rename("a/symlink", "b/plain", RenameMode::Exchange)), [a, b]);
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    let chmod = |path| SetAttributes { at: at(path), follow: true, changes: changes.clone() };
    assert_eq!(s.recalled_for(chmod("a/f")), [a]);
    assert_eq!(
        s.recalled_for(chmod("a")),
        [a],
        "its own attributes are its own lease's, not its parent's"
    );
    let truncate = AttributeChanges { bytes: Some(ByteCount(7)), ..AttributeChanges::none() };
    assert_eq!(
        s.recalled_for(SetAttributes { at: at("a/f"), follow: true, changes: truncate }),
        [a]
    );
    let (name, value) = (b"user.x".to_vec(), b"1".to_vec());
    let set = SetXattr { at: at("a/f"), name, value, mode: XattrMode::Either, drop_setgid: false };
    assert_eq!(s.recalled_for(set), [a]);
    assert_eq!(s.recalled_for(RemoveXattr { at: at("a/f"), name: b"user.x".to_vec() }), [a]);
    let wish = LayoutHint { parts: Some(1), ..LayoutHint::none() };
    assert_eq!(s.recalled_for(LayoutSet { at: at("b"), layout_hint: wish }), [b]);
    let write = Open {
        at: at("a/f"),
        rights: Rights::WRITE,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    assert_eq!(s.recalled_for(write.clone()), [a]);
    assert_eq!(
        s.recalled_for(write),
        [],
        "since the first open for writing nobody keeps its attributes"
    );
    let punch = PunchHole { file: s.f, offset: FileOffset(0), bytes: ByteCount(1) };
    assert_eq!(s.recalled_for(punch), [a]);
    assert_eq!(s.recalled_for(MakeLink { from: at("a/f"), to: at("b/g") }), [a, b]);
    assert_eq!(
        s.recalled_for(chmod("b/g")),
        [],
        "nobody keeps the attributes of a file with several names"
    );
}

#[test]
fn what_changes_nothing_recalls_nothing() {
    let mut s = scene();
    assert_eq!(s.recalled_for(Stat { at: at("a/f"), follow: true }), []);
    let read = Open {
        at: at("a/f"),
        rights: Rights::READ,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    assert_eq!(s.recalled_for(read), []);
    assert_eq!(
        s.recalled_for(Create { exclusive: false, rights: None, ..create("a/f") }),
        [],
        "it is there already"
    );
    assert_eq!(
        s.recalled_for(ReadDirectory {
            dir: s.a,
            cookie: 0,
            bytes_max: 4096,
            with_attributes: true
        }),
        []
    );
    assert_eq!(s.recalled_for(MakeDirectory { at: at("b/other"), mode: 0o755, umask: 0 }), [s.b]);
}

#[test]
fn while_a_change_waits_only_its_own_client_may_go_on_changing() {
    let mut s = scene();
    let third = Holder::new(&mut s.world);
    let pending = s.one.begin(1, create("a/new"));
    assert_eq!(third.names(s.a), None);
    assert_eq!(s.holder.names(s.a), None);
    s.holder.client.call(create("a/own")).expect("the holder's own change waits for nobody");
    assert!(!pending.has_come());
    assert_eq!(s.holder.return_recalled(), [s.a]);
    assert!(pending.take::<CreateReply>().expect("done").is_ok());
    assert!(third.names(s.a).is_some());
}

#[test]
fn a_recall_answers_the_waiting_request_and_repeats_until_returned() {
    let mut s = scene();
    let listening = s.holder.listen();
    let pending = s.one.begin(1, create("a/new"));
    let first: Vec<Recall> = listening.take().expect("an immediate answer").unwrap();
    assert_eq!((first.len(), first[0].file, first[0].keep), (1, s.a, LeaseMode::None));
    assert_eq!(s.holder.recalls(), first, "the answer may have been lost");
    assert!(!s.holder.listen().has_come(), "it was seen");
    s.holder.give_back(&first[0]);
    s.holder.give_back(&first[0]);
    assert!(pending.take::<CreateReply>().expect("done").is_ok());
}

#[test]
fn a_wait_for_recalls_ends_by_itself_and_counts_as_a_sign_of_life() {
    let s = scene();
    let listening = s.holder.listen();
    s.world.pass(AWAIT_RECALLS_MS + 250);
    assert_eq!(listening.take::<Vec<Recall>>().expect("it ends").unwrap(), []);
}

#[test]
fn a_second_wait_of_one_session_ends_the_first() {
    let s = scene();
    let (first, second) = (s.holder.listen(), s.holder.listen());
    assert!(first.has_come() && !second.has_come());
}

#[test]
fn an_unresponsive_holder_is_ended_and_the_change_done_after_its_lease() {
    let s = scene();
    let before = s.world.core.now();
    let mut waits = s.one.begin(1, create("a/new"));
    let mut outcomes = Vec::new();
    while s.world.core.now() - before < Duration::from_millis(RECALL_MS + LEASE_EXPIRES_MS + 5000) {
        s.world.pass(250);
        match waits.take::<CreateReply>() {
            None => {}
            Some(Ok(_)) => break,
            Some(Err(failure)) => {
                assert_eq!(failure.status, Status::TryAgain);
                outcomes.push(failure.to_string());
                waits = s.one.begin(1, create("a/new"));
            }
        }
    }
    let took = s.world.core.now() - before;
    assert!(
        took >= Duration::from_millis(LEASE_EXPIRES_MS),
        "its leases may have been valid until then: {took:?}"
    );
    assert!(took < Duration::from_millis(LEASE_EXPIRES_MS + RECALL_MS), "{took:?}");
    assert!(outcomes[0].contains("does not return its lease"), "{outcomes:?}");
    let ended = s.holder.client.call_as(Envelope::PLAIN, Renew {}).unwrap_err();
    assert_eq!(ended.status, Status::NoSession);
}

#[test]
fn a_holder_that_closes_its_session_frees_its_leases_immediately() {
    let s = scene();
    let pending = s.one.begin(1, create("a/new"));
    let listening = Holder { client: s.holder.client, seen: u64::MAX - 1 };
    let waits = listening.listen();
    listening.client.call_as(Envelope::PLAIN, CloseSession {}).unwrap();
    assert!(pending.take::<CreateReply>().expect("done").is_ok());
    assert_eq!(
        waits.take::<Vec<Recall>>().expect("an answer").unwrap_err().status,
        Status::NoSession
    );
}

#[test]
fn a_lost_reply_of_a_change_that_waited_is_answered_from_its_record() {
    let mut s = scene();
    let envelope = s.one.next();
    let first = s.one.begin_as(envelope.clone(), create("a/new"));
    let retry = s.one.begin_as(envelope.clone(), create("a/new"));
    assert_eq!(s.holder.return_recalled(), [s.a]);
    let made = first.take::<CreateReply>().expect("done").unwrap();
    assert_eq!(retry.take::<CreateReply>().expect("joined").unwrap(), made);
    assert_eq!(s.one.call_as(envelope, create("a/new")).unwrap(), made);
}

#[test]
fn after_a_restart_changes_wait_for_leases_that_may_still_be_valid() {
    let mut s = scene();
    s.world.restart();
    let one = s.one.reclaim(&mut s.world).unwrap();
    let change = one.begin(1, create("a/new"));
    assert!(one.stat("a/f").is_ok(), "reads go on");
    assert!(!change.has_come());
    let again = Holder { client: s.holder.client.join(&mut s.world).unwrap(), seen: 0 };
    assert!(!change.has_come(), "it has not reported that it holds no lease");
    assert!(!again.listen().has_come());
    assert!(change.take::<CreateReply>().expect("now it has").is_ok());
}

#[test]
fn after_a_restart_a_client_without_leases_keeps_nobody_waiting() {
    let mut s = scene();
    s.world.restart();
    let one = s.one.reclaim(&mut s.world).unwrap();
    let change = one.begin(1, create("a/new"));
    s.holder.client.reclaim(&mut s.world).unwrap();
    assert!(change.take::<CreateReply>().expect("its reclaim reports no lease").is_ok());
}

#[test]
fn after_a_restart_changes_wait_until_an_absent_holders_lease_ends() {
    let mut s = scene();
    s.world.restart();
    let one = s.one.reclaim(&mut s.world).unwrap();
    let mut change = one.begin(1, create("a/new"));
    let start = s.world.core.now();
    let done = loop {
        s.world.pass(250);
        match change.take::<CreateReply>() {
            None => {}
            Some(Ok(_)) => break s.world.core.now() - start,
            Some(Err(failure)) => {
                assert!(
                    failure.to_string().contains("may hold leases from before the restart"),
                    "{failure}"
                );
                change = one.begin(1, create("a/new"));
            }
        }
    };
    assert!(done >= Duration::from_millis(LEASE_EXPIRES_MS), "{done:?}");
    assert!(done < Duration::from_millis(LEASE_EXPIRES_MS + 1000), "{done:?}");
}

#[test]
fn a_restart_knows_an_ended_session_whose_leases_may_be_valid() {
    let mut s = scene();
    let _waits = s.one.begin(1, create("a/new"));
    while s.holder.client.call_as(Envelope::PLAIN, AgentCheck {}).is_ok() {
        s.world.pass(RECALL_MS / 4);
    }
    s.world.restart();
    let one = s.one.reclaim(&mut s.world).unwrap();
    assert!(
        !one.begin(2, create("a/other")).has_come(),
        "its last message is recent: its leases may be valid"
    );
}

#[test]
fn a_client_that_never_held_a_lease_keeps_nobody_waiting_after_a_restart() {
    let mut world = World::new(1);
    let (one, _dead) = (world.client(), world.client());
    world.restart();
    let one = one.reclaim(&mut world).unwrap();
    one.call(create("new")).unwrap();
}

#[test]
fn attributes_are_uncacheable_during_writes_and_until_the_size_is_known() {
    let mut world = World::new(2);
    let (writer, other) = (world.client(), world.client());
    let opened = writer.create("f");
    assert!(!opened.attributes.uncacheable, "nobody else knows of it");
    world.write(&opened, 100).unwrap();
    assert!(other.stat("f").unwrap().uncacheable);
    assert!(!writer.stat("f").unwrap().uncacheable);
    writer.close(&opened);
    world.pass(250);
    let known = other.stat("f").unwrap();
    assert!(!known.uncacheable && known.bytes == ByteCount(100));
    world.settle();
    assert_eq!(
        other.stat("f").unwrap().clone(),
        braid_wire::message::types::Attributes {
            bytes_used: other.stat("f").unwrap().bytes_used,
            ..known
        },
        "the recorded attributes are those that were returned before"
    );
    other.call(MakeLink { from: at("f"), to: at("g") }).unwrap();
    assert!(other.stat("f").unwrap().uncacheable, "it has two names");
    other.call(Unlink { at: at("f") }).unwrap();
    assert!(
        other.stat("g").unwrap().uncacheable,
        "where its one name is, is not known for certain"
    );
    other.call(Rename { from: at("g"), to: at("h"), mode: RenameMode::Replace }).unwrap();
    assert!(!other.stat("h").unwrap().uncacheable, "now it is");
}

fn grant(pending: &Pending) -> LeaseGrant {
    pending.take::<LeaseGrant>().expect("granted").unwrap()
}

#[test]
fn a_reader_waits_until_what_another_gathered_is_written_and_both_read_on() {
    let mut world = World::new(2);
    let (mut writer, mut reader) = (Holder::new(&mut world), Holder::new(&mut world));
    let file = writer.client.create("f").attributes.file;
    assert_eq!(grant(&writer.data(file, LeaseMode::Write)).mode, LeaseMode::Write);
    let asked = reader.data(file, LeaseMode::Read);
    assert!(!asked.has_come());
    let recalls = writer.recalls();
    assert_eq!((recalls[0].kind, recalls[0].keep), (LeaseKind::Data, LeaseMode::Read));
    writer.give_back(&recalls[0]);
    assert_eq!(grant(&asked).mode, LeaseMode::Read);
    let again = writer.data(file, LeaseMode::Write);
    assert_eq!(reader.return_recalled(), [file]);
    assert_eq!(grant(&again).mode, LeaseMode::Write);
}

#[test]
fn a_stat_waits_until_buffered_writes_are_flushed() {
    let mut world = World::new(2);
    let mut writer = Holder::new(&mut world);
    let other = world.client();
    let opened = writer.client.create("f");
    grant(&writer.data(opened.attributes.file, LeaseMode::Write));
    writer.client.stat("f").expect("its own look waits for nobody");
    let stat = other.begin(1, Stat { at: at("f"), follow: true });
    let listed = other.call(ReadDirectory {
        dir: FileIndex::ROOT,
        cookie: 0,
        bytes_max: 4096,
        with_attributes: true,
    });
    assert_eq!(listed.unwrap().entries[0].attributes, None, "a listing leaves it out");
    let recalls = writer.recalls();
    world.write(&opened, 4096).unwrap();
    writer.give_back(&recalls[0]);
    let seen = stat.take::<braid_wire::message::types::Attributes>().expect("now").unwrap();
    assert_eq!(seen.bytes, ByteCount(4096));
}

#[test]
fn a_truncate_waits_until_no_client_caches_or_buffers() {
    let mut world = World::new(2);
    let mut reader = Holder::new(&mut world);
    let other = world.client();
    let opened = other.create("f");
    world.write(&opened, 100).unwrap();
    other.close(&opened);
    world.settle();
    let file = opened.attributes.file;
    grant(&reader.data(file, LeaseMode::Read));
    let cut = other.begin(1, super::world::set_size("f", 10));
    assert!(!cut.has_come());
    assert_eq!(reader.return_recalled(), [file]);
    assert!(cut.take::<braid_wire::message::types::Attributes>().expect("now").is_ok());
}

#[test]
fn a_lease_that_was_insisted_on_is_not_lessened_by_a_crossing_open() {
    let mut world = World::new(2);
    let (mut holder, other, plain) =
        (Holder::new(&mut world), Holder::new(&mut world), world.client());
    let file = holder.client.create("f").attributes.file;
    let open =
        |rights, lease| Open { at: at("f"), rights, truncate: false, lease, deny: Deny::NONE };
    plain.call(open(Rights::READ, LeaseMode::None)).unwrap();
    let insists = LeaseData { file, mode: LeaseMode::Write, exclusive: true };
    assert_eq!(grant(&holder.client.begin_as(Envelope::PLAIN, insists)).mode, LeaseMode::Write);
    let opened = holder.client.call(open(Rights::READ_WRITE, LeaseMode::Write)).unwrap();
    assert_eq!(
        opened.lease.mode,
        LeaseMode::None,
        "the open grants nothing, and the lease stays as it was"
    );
    let asked = other.data(file, LeaseMode::Shared);
    assert!(!asked.has_come(), "an append may be in flight");
    assert_eq!(holder.return_recalled(), [file]);
    assert_eq!(grant(&asked).mode, LeaseMode::Shared);
}

#[test]
fn a_client_that_uses_no_leases_is_coherent_with_those_that_do() {
    let mut world = World::new(2);
    let mut holder = Holder::new(&mut world);
    let plain = world.client();
    let file = holder.client.create("f").attributes.file;
    grant(&holder.data(file, LeaseMode::Write));
    let open = |rights| Open {
        at: at("f"),
        rights,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    let reading = plain.begin(1, open(Rights::READ));
    assert!(!reading.has_come(), "it would not see what is gathered");
    assert_eq!(holder.return_recalled(), [file]);
    let reading = reading.take::<OpenReply>().expect("now").unwrap();
    assert_eq!(
        grant(&holder.data(file, LeaseMode::Write)).mode,
        LeaseMode::Shared,
        "nor would it later"
    );
    plain.close(&reading);
    let leases = vec![ReturnedLease {
        kind: LeaseKind::Data,
        file,
        number: u64::MAX,
        keep: LeaseMode::None,
    }];
    holder.client.call_as(Envelope::PLAIN, ReturnLeases { leases }).unwrap();
    assert_eq!(grant(&holder.data(file, LeaseMode::Read)).mode, LeaseMode::Read);
    let writing = plain.begin(1, open(Rights::WRITE));
    assert_eq!(holder.return_recalled(), [file]);
    let writing = writing.take::<OpenReply>().expect("now").unwrap();
    assert_eq!(
        grant(&holder.data(file, LeaseMode::Read)).mode,
        LeaseMode::Shared,
        "its pages would be stale"
    );
    plain.close(&writing);
}

#[test]
fn a_lease_comes_with_an_open_where_nothing_conflicts() {
    let mut world = World::new(1);
    let (one, two) = (Holder::new(&mut world), Holder::new(&mut world));
    let (quiet, other) = (one.listen(), two.listen());
    let made = one.client.call(Create { lease: LeaseMode::Read, ..create("f") }).unwrap();
    assert_eq!(made.opened.unwrap().lease.mode, LeaseMode::Read);
    let open = Open {
        at: at("f"),
        rights: Rights::WRITE,
        truncate: false,
        lease: LeaseMode::Write,
        deny: Deny::NONE,
    };
    let opened = two.client.call(open).unwrap();
    assert_eq!(opened.lease, LeaseGrant::NONE, "nor is anything recalled for it");
    assert!(!quiet.has_come() && !other.has_come());
}

#[test]
fn the_size_after_a_dead_writer_is_collected_when_its_fence_holds() {
    let mut world = World::new(2);
    let writer = Holder::new(&mut world);
    let reader = Holder::new(&mut world);
    let file = writer.client.create("f").attributes.file;
    grant(&writer.data(file, LeaseMode::Write));
    world.iods.state().dead.insert(IodId(2));
    let mut asked = reader.data(file, LeaseMode::Read);
    let start = world.core.now();
    let done = loop {
        world.pass_with(250, |id| id != 2);
        reader.client.call_as(Envelope::PLAIN, Renew {}).unwrap();
        match asked.take::<LeaseGrant>() {
            None => {}
            Some(Ok(_)) => break world.core.now() - start,
            Some(Err(_)) => asked = reader.data(file, LeaseMode::Read),
        }
    };
    assert!(done >= Duration::from_millis(LEASE_EXPIRES_MS), "{done:?}");
    assert!(done <= Duration::from_millis(LEASE_EXPIRES_MS + RECALL_MS + 1000), "{done:?}");
}

#[test]
fn a_live_holder_with_buffered_writes_gets_the_longer_recall_time() {
    let mut world = World::new(2);
    let (writer, reader) = (Holder::new(&mut world), Holder::new(&mut world));
    let file = writer.client.create("f").attributes.file;
    grant(&writer.data(file, LeaseMode::Write));
    let start = world.core.now();
    let mut asked = reader.data(file, LeaseMode::Read);
    while world.core.now() - start < Duration::from_millis(RECALL_DATA_MS - 2000) {
        world.pass(1000);
        writer.client.call_as(Envelope::PLAIN, Renew {}).unwrap();
        reader.client.call_as(Envelope::PLAIN, Renew {}).unwrap();
        if let Some(outcomes) = asked.take::<LeaseGrant>() {
            assert_eq!(outcomes.unwrap_err().status, Status::TryAgain);
            asked = reader.data(file, LeaseMode::Read);
        }
    }
    world.pass(4000);
    writer.client.call_as(Envelope::PLAIN, Renew {}).expect_err("it was given up");
}

#[test]
fn a_call_that_waits_for_a_client_fails_with_its_name() {
    let s = scene();
    let pending = s.one.begin(1, create("a/new"));
    while !pending.has_come() {
        s.world.pass(250);
    }
    let failure = pending.take::<CreateReply>().unwrap().unwrap_err();
    let SessionId(id) = s.holder.client.session;
    assert!(failure.to_string().contains(&format!("client test (session {id}")), "{failure}");
    assert_eq!(failure.status, Status::TryAgain);
}

#[test]
fn a_call_that_waits_for_a_live_client_is_served_in_time() {
    let s = scene();
    let asked = s.world.core.now();
    let mut pending = s.one.begin(1, create("a/new"));
    loop {
        match pending.take::<CreateReply>() {
            Some(Ok(_)) => break,
            // As a client does: immediately, and until its time is over.
            Some(Err(failure)) => {
                assert_eq!(failure.status, Status::TryAgain, "{failure}");
                pending = s.one.begin(1, create("a/new"));
            }
            None => {
                let _ = s.holder.client.call_as(Envelope::PLAIN, Renew {});
                s.world.pass(250);
            }
        }
        let waited = s.world.core.now() - asked;
        assert!(
            waited < Duration::from_secs(TIMEOUT_SECONDS_DEFAULT) - Duration::from_secs(1),
            "{waited:?}"
        );
    }
    assert_eq!(
        s.holder.client.call_as(Envelope::PLAIN, Renew {}).unwrap_err().status,
        Status::NoSession
    );
}

#[test]
fn leases_are_of_directories_and_of_files() {
    let s = scene();
    let names = s.holder.client.call_as(Envelope::PLAIN, LeaseNames { dir: s.f }).unwrap_err();
    assert_eq!(names.status, Status::NotDirectory);
    let data = LeaseData { file: s.a, mode: LeaseMode::Read, exclusive: false };
    assert_eq!(s.holder.client.call_as(Envelope::PLAIN, data).unwrap_err().status, Status::Invalid);
    assert_eq!(file_at(&s.one, "a/f"), s.f);
    let gone = PathRef::file(FileIndex(99_999_999));
    assert!(s.holder.client.call_as(Envelope::PLAIN, LeaseNames { dir: gone.dir }).is_err());
}

#[test]
fn a_layout_lease_is_recalled_by_a_layout_change_not_by_a_truncate() {
    let mut world = World::new(2);
    let one = world.client();
    let made = one.create("f");
    one.close(&made);
    world.settle();
    let file = made.attributes.file;
    let (mut holder, second) = (Holder::new(&mut world), Holder::new(&mut world));
    let ask =
        |holder: &Holder| holder.client.call_as(Envelope::PLAIN, LeaseLayout { file }).unwrap();
    let granted = ask(&holder).expect("nothing conflicts with it");
    assert_eq!(granted.layout, made.layout);
    one.truncate("f", 0).unwrap();
    assert!(holder.recalls().is_empty(), "the size generation is not the layout");
    let wish = LayoutHint { stripe_bytes: Some(65_536), ..LayoutHint::none() };
    let change = one.begin(1, LayoutSet { at: at("f"), layout_hint: wish });
    assert!(!change.has_come());
    assert_eq!(ask(&second), None, "it is about to change");
    let recalls = holder.recalls();
    assert_eq!(
        recalls.iter().map(|recall| (recall.kind, recall.file)).collect::<Vec<_>>(),
        [(LeaseKind::Layout, file)]
    );
    holder.give_back(&recalls[0]);
    change.take::<()>().expect("it is done").unwrap();
    let again = ask(&second).expect("it was changed");
    assert_ne!(again.layout, granted.layout);
    assert!(again.number > granted.number);
}

#[test]
fn a_client_that_does_not_return_a_layout_is_fenced() {
    let mut world = World::new(2);
    let one = world.client();
    let made = one.create("f");
    one.close(&made);
    world.settle();
    let holder = Holder::new(&mut world);
    let file = made.attributes.file;
    holder
        .client
        .call_as(Envelope::PLAIN, LeaseLayout { file })
        .unwrap()
        .expect("nothing conflicts with it");
    let wish = LayoutHint { stripe_bytes: Some(65_536), ..LayoutHint::none() };
    let set = || LayoutSet { at: at("f"), layout_hint: wish.clone() };
    let mut waited = 0;
    let mut change = one.begin(1, set());
    loop {
        match change.take::<()>() {
            Some(Ok(())) => break,
            Some(Err(failure)) => {
                assert_eq!(failure.status, Status::TryAgain);
                change = one.begin(1, set());
            }
            None => {
                world.pass(1000);
                waited += 1000;
            }
        }
        assert!(waited <= RECALL_MS + LEASE_EXPIRES_MS + 2000, "it is given up");
        one.call_as(Envelope::PLAIN, Renew {}).unwrap();
    }
    assert!(waited >= RECALL_MS);
    assert_eq!(
        holder.client.call_as(Envelope::PLAIN, Renew {}).unwrap_err().status,
        Status::NoSession
    );
}

#[test]
fn a_layout_is_recalled_when_its_objects_are_deleted_without_waiting() {
    let mut world = World::new(2);
    let one = world.client();
    let made = one.create("f");
    world.write(&made, 100).unwrap();
    one.close(&made);
    world.settle();
    let file = made.attributes.file;
    let mut holder = Holder::new(&mut world);
    holder
        .client
        .call_as(Envelope::PLAIN, LeaseLayout { file })
        .unwrap()
        .expect("nothing conflicts with it");
    one.call(Unlink { at: at("f") }).unwrap();
    world.pass(1000);
    assert_eq!(world.objects_of(file), 0);
    assert_eq!(holder.return_recalled(), [file]);
    let gone = holder.client.call_as(Envelope::PLAIN, LeaseLayout { file }).unwrap_err();
    assert_eq!(gone.status, Status::StaleHandle);
}

#[test]
fn after_a_restart_a_layout_changes_once_its_holders_have_let_go() {
    let mut world = World::new(2);
    let one = world.client();
    let made = one.create("f");
    one.close(&made);
    world.settle();
    let holder = Holder::new(&mut world);
    let file = made.attributes.file;
    holder
        .client
        .call_as(Envelope::PLAIN, LeaseLayout { file })
        .unwrap()
        .expect("nothing conflicts with it");
    world.restart();
    let one = one.reclaim(&mut world).unwrap();
    let wish = LayoutHint { stripe_bytes: Some(65_536), ..LayoutHint::none() };
    let change = one.begin(1, LayoutSet { at: at("f"), layout_hint: wish });
    assert!(!change.has_come(), "the holder may believe in it");
    holder.client.reclaim(&mut world).unwrap();
    change.take::<()>().expect("it holds no lease").unwrap();
}

#[test]
fn giving_set_ids_waits_for_writers_and_the_next_lease_says_so() {
    let mut world = World::new(1);
    let (mut writer, giver) = (Holder::new(&mut world), Holder::new(&mut world));
    let _quiet = giver.listen();
    let file = writer.client.create("f").attributes.file;
    assert!(!grant(&writer.data(file, LeaseMode::Shared)).set_ids);
    let chmod = |mode| {
        let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
        SetAttributes { at: at("f"), follow: true, changes }
    };
    giver.client.call(chmod(0o711)).expect("it gives none, and waits for nobody");
    for (mode, has) in [(0o4755, true), (0o2755, true), (0o2744, false)] {
        let given = giver.client.begin(1, chmod(mode));
        assert!(!given.has_come());
        assert_eq!(writer.return_recalled(), [file]);
        assert!(given.take::<braid_wire::message::types::Attributes>().expect("now").is_ok());
        assert_eq!(grant(&writer.data(file, LeaseMode::Shared)).set_ids, has);
    }
    let (name, value) = (b"system.posix_acl_access".to_vec(), 2_u32.to_le_bytes().to_vec());
    let list = SetXattr { at: at("f"), name, value, mode: XattrMode::Either, drop_setgid: false };
    let given = giver.client.begin(1, list);
    assert_eq!(
        writer.return_recalled(),
        [file],
        "with the group's right to execute setgid means more"
    );
    assert!(given.take::<()>().expect("now").is_ok());
    grant(&writer.data(file, LeaseMode::Shared));
    giver.client.call(chmod(0o711)).expect("none");
    let (name, value) = (braid_meta::CAPABILITY_XATTR.to_vec(), vec![1; 20]);
    let capability =
        SetXattr { at: at("f"), name, value, mode: XattrMode::Either, drop_setgid: false };
    let given = giver.client.begin(1, capability);
    assert_eq!(writer.return_recalled(), [file], "a write takes capabilities away");
    assert!(given.take::<()>().expect("now").is_ok());
    assert!(grant(&writer.data(file, LeaseMode::Shared)).set_ids);
    writer.client.call(chmod(0o4755)).expect("its own change waits for nobody");
    let open = Open {
        at: at("f"),
        rights: Rights::WRITE,
        truncate: false,
        lease: LeaseMode::Write,
        deny: Deny::NONE,
    };
    let opened = giver.client.call(open).unwrap();
    assert_eq!((opened.lease.mode, opened.lease.set_ids), (LeaseMode::Shared, true));
}

/// A user without a key of its own, and what root made: the directory `d` with mode 0700, and a
/// file beside it.
fn user_and_files(world: &mut World, mode: u32) -> (Client, FileIndex, OpenReply) {
    let root = world.client();
    let directory =
        root.call(MakeDirectory { at: at("d"), mode: 0o700, umask: 0 }).unwrap().attributes.file;
    let opened = root.call(Create { mode, ..create("f") }).unwrap().opened.unwrap();
    root.close(&opened);
    let key = world.key(KeyRights { squash: Some((7, 7)), ..KeyRights::full() });
    (world.client_of(key), directory, opened)
}

#[test]
fn a_user_who_may_not_open_a_file_gets_no_lease_of_it() {
    use LeaseMode::{Read, Shared, Write};
    // The file's mode, and the data leases that it lets its other users have.
    for (mode, allowed) in
        [(0o600, &[][..]), (0o604, &[Read, Shared]), (0o606, &[Read, Shared, Write])]
    {
        let mut world = World::new(1);
        let (user, _, made) = user_and_files(&mut world, mode);
        let file = made.attributes.file;
        for lease in [Read, Shared, Write] {
            let asked = user.call_as(
                Envelope::PLAIN,
                LeaseData { file, mode: lease, exclusive: lease == Write },
            );
            assert_eq!(
                asked.is_ok(),
                allowed.contains(&lease),
                "{lease:?} of mode {mode:o}: {asked:?}"
            );
        }
        let layout = user.call_as(Envelope::PLAIN, LeaseLayout { file });
        assert_eq!(layout.is_ok(), !allowed.is_empty(), "the layout of mode {mode:o}");
    }
}

#[test]
fn an_open_for_reading_brings_no_write_lease_without_permission() {
    let mut world = World::new(1);
    let (user, _, _) = user_and_files(&mut world, 0o644);
    Holder { client: user.join(&mut world).unwrap(), seen: 0 }.names(FileIndex::ROOT);
    let wish = |lease| Open {
        at: at("f"),
        rights: Rights::READ,
        truncate: false,
        lease,
        deny: Deny::NONE,
    };
    assert_eq!(user.call(wish(LeaseMode::Write)).unwrap().lease.mode, LeaseMode::None);
    assert_eq!(user.call(wish(LeaseMode::Read)).unwrap().lease.mode, LeaseMode::Read);
}

#[test]
fn a_client_with_the_file_open_gets_leases_whatever_its_mode_is_now() {
    let mut world = World::new(1);
    let (user, _, made) = user_and_files(&mut world, 0o666);
    let open = Open {
        at: at("f"),
        rights: Rights::WRITE,
        truncate: false,
        lease: LeaseMode::None,
        deny: Deny::NONE,
    };
    let opened = user.call(open).unwrap();
    let root = world.client();
    let changes = AttributeChanges { mode: Some(0o600), ..AttributeChanges::none() };
    root.call(SetAttributes { at: at("f"), follow: true, changes }).unwrap();
    let lease =
        || LeaseData { file: made.attributes.file, mode: LeaseMode::Write, exclusive: true };
    user.call_as(Envelope::PLAIN, lease()).unwrap();
    user.close(&opened);
    assert_eq!(
        user.call_as(Envelope::PLAIN, lease()).unwrap_err().status,
        Status::PermissionDenied
    );
}

#[test]
fn a_key_that_may_only_read_holds_no_lease_to_write() {
    let mut world = World::new(1);
    let (_, _, made) = user_and_files(&mut world, 0o644);
    let key = world.key(KeyRights { read_only: true, ..KeyRights::full() });
    let reader = world.client_of(key);
    let lease = |mode| LeaseData { file: made.attributes.file, mode, exclusive: false };
    let refused = reader.call_as(Envelope::PLAIN, lease(LeaseMode::Write)).unwrap_err();
    assert_eq!(refused.status, Status::ReadOnly);
    reader.call_as(Envelope::PLAIN, lease(LeaseMode::Read)).unwrap();
}

#[test]
fn a_names_lease_needs_permission_to_search_or_list() {
    let mut world = World::new(1);
    let (user, dir, _) = user_and_files(&mut world, 0o644);
    let root = world.client();
    for (mode, may) in [(0o700, false), (0o701, true), (0o704, true), (0o702, false)] {
        let changes = AttributeChanges { mode: Some(mode), ..AttributeChanges::none() };
        root.call(SetAttributes { at: at("d"), follow: true, changes }).unwrap();
        let asked = user.call_as(Envelope::PLAIN, LeaseNames { dir });
        assert_eq!(asked.is_ok(), may, "{mode:o}");
        if let Ok(Some(NamesGrant { number, .. })) = asked {
            let leases = vec![ReturnedLease {
                kind: LeaseKind::Names,
                file: dir,
                number,
                keep: LeaseMode::None,
            }];
            user.call_as(Envelope::PLAIN, ReturnLeases { leases }).unwrap();
        }
    }
}

/// Leases that a session holds, and opens whose reads and writes need none: an NFS client, or a
/// library with a read cache.
#[test]
fn opens_for_io_without_leases_limit_others_though_the_session_has_some() {
    let mut world = World::new(2);
    let (plain, mount) = (Holder::new(&mut world), Holder::new(&mut world));
    let file = plain.client.create("f").attributes.file;
    let asks = |io_under_leases| {
        plain.client.begin_as(Envelope::PLAIN, AwaitRecalls { seen: 0, io_under_leases })
    };
    let _waits = asks(false);
    assert_eq!(grant(&mount.data(file, LeaseMode::Write)).mode, LeaseMode::Shared);
    let _waits = asks(true);
    assert_eq!(grant(&mount.data(file, LeaseMode::Write)).mode, LeaseMode::Write, "its own");
    let _waits = asks(false);
    let again = plain.client.begin(
        1,
        Open {
            at: at("f"),
            rights: Rights::READ,
            truncate: false,
            lease: LeaseMode::None,
            deny: Deny::NONE,
        },
    );
    assert!(!again.has_come(), "another session may buffer bytes of the file");
}

#[test]
fn reclaimed_opens_for_io_without_leases_limit_others_after_a_restart() {
    for io_under_leases in [false, true] {
        let mut world = World::new(2);
        let (plain, other) = (Holder::new(&mut world), Holder::new(&mut world));
        let opened = plain.client.create("f");
        let waits = AwaitRecalls { seen: 0, io_under_leases };
        let _waits = plain.client.begin_as(Envelope::PLAIN, waits);
        world.restart();
        let other = Holder { client: other.client.reclaim(&mut world).unwrap(), seen: 0 };
        let file = opened.attributes.file;
        let pending = other.data(file, LeaseMode::Write);
        let joined = plain.client.join(&mut world).unwrap();
        let opens = vec![ReclaimedOpen {
            open_id: opened.open_id,
            file,
            rights: Rights::READ_WRITE,
            deny: Deny::NONE,
        }];
        let call = Reclaim { opens, complete: true, leases: false, io_under_leases };
        joined.call_as(Envelope::PLAIN, call).unwrap();
        let expected = if io_under_leases { LeaseMode::Write } else { LeaseMode::Shared };
        assert_eq!(grant(&pending).mode, expected);
    }
}
