//! A group over TCP: rounds, late and lost tasks, wrong secrets, and a hostile network.

use std::{
    io::{Read, Write},
    net::{Shutdown, SocketAddr, TcpListener, TcpStream},
    thread,
    time::Duration,
};

use braid_client::{Error, Group, Result, Secret, Status, TcpGroup, refuse_all};
#[cfg(target_os = "linux")]
use braid_testbed::fork::holds_in_child;

/// Longer than any test takes.
const LONG: Duration = Duration::from_secs(60);
const SHORT: Duration = Duration::from_millis(100);

fn secret() -> Secret {
    Secret::from_bytes([7; 32])
}

fn listener() -> (TcpListener, SocketAddr) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    (listener, address)
}

fn join(address: SocketAddr, rank: u32, size: u32) -> Result<TcpGroup> {
    TcpGroup::join(address, rank, size, &secret(), LONG)
}

/// The tasks of a group, in the order of ranks; `address_of` returns the root's address for each.
fn tasks_by(size: u32, address_of: impl Fn(u32, SocketAddr) -> SocketAddr) -> Vec<TcpGroup> {
    let (listener, address) = listener();
    let others: Vec<_> = (1..size)
        .map(|rank| (rank, address_of(rank, address)))
        .map(|(rank, address)| thread::spawn(move || join(address, rank, size).unwrap()))
        .collect();
    let root = TcpGroup::listen(listener, size, &secret(), LONG).unwrap();
    [root].into_iter().chain(others.into_iter().map(|other| other.join().unwrap())).collect()
}

fn tasks(size: u32) -> Vec<TcpGroup> {
    tasks_by(size, |_, address| address)
}

/// The results of the tasks that come, in their order.
fn come<'t>(
    tasks: impl IntoIterator<Item = &'t TcpGroup>,
    time_max: Duration,
) -> Vec<Result<Vec<Vec<u8>>>> {
    thread::scope(|scope| {
        let come = |task: &'t TcpGroup| {
            scope.spawn(move || task.all_gather(&[task.rank() as u8], time_max))
        };
        let threads: Vec<_> = tasks.into_iter().map(come).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn every_task_receives_all_payloads_in_every_round() {
    for size in [1, 2, 5] {
        let tasks = tasks(size);
        assert_eq!(
            tasks.iter().map(Group::rank).collect::<Vec<_>>(),
            (0..size).collect::<Vec<_>>()
        );
        thread::scope(|scope| {
            for task in &tasks {
                scope.spawn(move || {
                    for round in 0..50u32 {
                        // Different lengths: none, some, more than a socket's buffer.
                        let bytes = |rank: u32| [0, 100, 3 << 20][((rank + round) % 3) as usize];
                        let give = |rank: u32| {
                            vec![(rank + round) as u8; if round < 45 { 10 } else { bytes(rank) }]
                        };
                        let got = task.all_gather(&give(task.rank()), LONG).unwrap();
                        assert!(
                            got == (0..size).map(give).collect::<Vec<_>>(),
                            "round {round} of {size}"
                        );
                    }
                });
            }
        });
    }
}

#[test]
fn members_wait_for_a_root_that_listens_later() {
    let (reserved, address) = listener();
    drop(reserved);
    let other = thread::spawn(move || join(address, 1, 2));
    let root = join(address, 0, 2).unwrap();
    let other = other.join().unwrap().unwrap();
    assert!(come([&root, &other], LONG).into_iter().all(|got| got.unwrap() == [[0], [1]]));
}

#[test]
fn a_task_that_never_starts_is_named_to_all_that_did() {
    let (listener, address) = listener();
    let first = thread::spawn(move || join(address, 1, 4));
    let third = thread::spawn(move || join(address, 3, 4));
    let root = TcpGroup::listen(listener, 4, &secret(), Duration::from_secs(1)).unwrap_err();
    for error in [root, first.join().unwrap().unwrap_err(), third.join().unwrap().unwrap_err()] {
        assert_eq!(error.status(), Status::Unreachable);
        assert!(error.to_string().contains("task 2 did not come"), "{error}");
    }
}

#[test]
fn a_task_that_does_not_come_to_a_round_fails_all_and_for_good() {
    let tasks = tasks(4);
    for error in come(&tasks[..3], SHORT).into_iter().map(Result::unwrap_err) {
        assert_eq!(error.status(), Status::Unreachable);
        assert!(error.to_string().contains("task 3 did not come within 0.1 s"), "{error}");
    }
    for error in come(&tasks, LONG).into_iter().map(Result::unwrap_err) {
        assert_eq!(error.status(), Status::Unreachable, "{error}");
    }
}

#[test]
fn a_root_that_does_not_come_fails_the_others() {
    let tasks = tasks(3);
    for error in come(&tasks[1..], SHORT).into_iter().map(Result::unwrap_err) {
        assert!(matches!(error.status(), Status::Unreachable | Status::ConnectionLost), "{error}");
    }
    assert!(tasks[0].all_gather(b"", LONG).is_err());
}

#[test]
fn a_task_that_is_lost_between_two_rounds_fails_all() {
    let mut tasks = tasks(4);
    assert!(come(&tasks, LONG).iter().all(Result::is_ok));
    drop(tasks.remove(2));
    for error in come(&tasks, LONG).into_iter().map(Result::unwrap_err) {
        assert_eq!(error.status(), Status::ConnectionLost, "{error}");
        assert!(error.to_string().contains("task 2 is lost"), "{error}");
    }
}

#[test]
fn waiting_tasks_are_notified_of_a_loss_while_the_root_is_busy() {
    let mut tasks = tasks(3);
    let lost = tasks.pop().unwrap();
    thread::scope(|scope| {
        let waiting = scope.spawn(|| tasks[1].all_gather(b"", LONG));
        drop(lost);
        let error = waiting.join().unwrap().unwrap_err();
        assert!(error.to_string().contains("task 2 is lost"), "{error}");
    });
}

#[test]
fn a_root_that_is_lost_fails_the_others() {
    let mut tasks = tasks(3);
    drop(tasks.remove(0));
    for error in come(&tasks, LONG).into_iter().map(Result::unwrap_err) {
        assert_eq!(error.status(), Status::ConnectionLost, "{error}");
        assert!(error.to_string().contains("task 0 is lost"), "{error}");
    }
}

#[test]
fn a_task_that_ends_after_the_last_round_does_no_harm() {
    for _ in 0..20 {
        let got: Vec<_> = tasks(3)
            .into_iter()
            .map(|task| thread::spawn(move || task.all_gather(&[task.rank() as u8], LONG)))
            .collect();
        assert!(got.into_iter().all(|got| got.join().unwrap().unwrap() == [[0], [1], [2]]));
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_after_fork_drops_its_copy_of_a_group_without_harm() {
    for rank in 0..3 {
        let mut tasks: Vec<Option<TcpGroup>> = tasks(3).into_iter().map(Some).collect();
        let lets_go = holds_in_child(|| {
            // Only in the child: afterwards all tasks of the parent still exist.
            drop(tasks[rank].take());
            true
        });
        assert!(lets_go, "task {rank}");
        assert!(
            come(tasks.iter().flatten(), LONG)
                .into_iter()
                .all(|got| got.unwrap() == [[0], [1], [2]])
        );
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_child_after_fork_cannot_meet_the_others_in_its_parents_place() {
    let tasks = tasks(2);
    for task in &tasks {
        let is_refused = || {
            let errors = [
                task.all_gather(b"child", LONG).unwrap_err(),
                refuse_all(task, &Error::new(Status::NoSpace, "full"), LONG).unwrap_err(),
            ];
            errors.iter().all(|error| {
                error.status() == Status::NoSession && error.to_string().contains("before fork")
            })
        };
        assert!(holds_in_child(is_refused), "task {}", task.rank());
    }
    assert!(come(&tasks, LONG).into_iter().all(|got| got.unwrap() == [[0], [1]]));
}

#[test]
fn a_wrong_secret_is_refused_in_both_directions() {
    let (listener, address) = listener();
    let stranger =
        thread::spawn(move || TcpGroup::join(address, 1, 2, &Secret::from_bytes([8; 32]), LONG));
    let root = TcpGroup::listen(listener, 2, &secret(), Duration::from_secs(1)).unwrap_err();
    assert_eq!(stranger.join().unwrap().unwrap_err().status(), Status::AuthenticationFailed);
    assert!(root.to_string().contains("task 1 did not come"), "{root}");
}

#[test]
fn a_rank_in_use_or_a_different_size_is_refused() {
    let (listener, address) = listener();
    let root = thread::spawn(move || TcpGroup::listen(listener, 3, &secret(), LONG));
    let other_size = join(address, 1, 2).unwrap_err();
    assert_eq!(other_size.status(), Status::Invalid);
    assert!(other_size.to_string().contains("this one has 3"), "{other_size}");
    // Of two that claim to be task 1, one is refused immediately; the other waits for the last
    // task.
    let (sender, receiver) = std::sync::mpsc::channel();
    for sender in [sender.clone(), sender] {
        thread::spawn(move || sender.send(join(address, 1, 3)).unwrap());
    }
    let refused = receiver.recv().unwrap().unwrap_err();
    assert!(refused.to_string().contains("another task 1"), "{refused}");
    let last = thread::spawn(move || join(address, 2, 3));
    let joined = receiver.recv().unwrap();
    let tasks = [root.join().unwrap(), joined, last.join().unwrap()].map(Result::unwrap);
    assert!(come(&tasks, LONG).iter().all(Result::is_ok));
    for (rank, size) in [(2, 2), (0, 0), (5, 1)] {
        assert_eq!(
            join(address, rank, size).unwrap_err().status(),
            Status::Invalid,
            "{rank} of {size}"
        );
    }
}

#[test]
fn connections_of_strangers_keep_no_task_out() {
    let (listener, address) = listener();
    let strangers: Vec<TcpStream> = (0..50)
        .map(|at| {
            let mut stranger = TcpStream::connect(address).unwrap();
            match at % 4 {
                0 => {}
                1 => stranger.write_all(b"BRDGRP01 and then noth").unwrap(),
                2 => stranger.write_all(&[0xff; 4096]).unwrap(),
                _ => stranger.shutdown(Shutdown::Both).unwrap(),
            }
            stranger
        })
        .collect();
    let other = thread::spawn(move || join(address, 1, 2));
    let root = TcpGroup::listen(listener, 2, &secret(), LONG).unwrap();
    let other = other.join().unwrap().unwrap();
    assert!(come([&root, &other], LONG).iter().all(Result::is_ok));
    drop(strangers);
}

#[test]
fn a_listener_without_the_secret_is_not_taken_for_the_root() {
    let (listener, address) = listener();
    let impostor = thread::spawn(move || {
        let (mut stream, _) = listener.accept().unwrap();
        let mut hello = [0; 48];
        stream.read_exact(&mut hello).unwrap();
        // The task's own bytes back, and more.
        stream.write_all(&[&hello[..], &[0; 16]].concat()).unwrap();
        stream
    });
    let error = join(address, 1, 2).unwrap_err();
    assert_eq!(error.status(), Status::AuthenticationFailed, "{error}");
    drop(impostor.join().unwrap());
}

/// A relay to the root that changes the byte at `position` from the task.
fn bad_wire(root: SocketAddr, position: usize) -> SocketAddr {
    let (listener, address) = listener();
    thread::spawn(move || {
        let (mut task, _) = listener.accept().unwrap();
        let mut root = TcpStream::connect(root).unwrap();
        let (mut back, mut from) = (task.try_clone().unwrap(), root.try_clone().unwrap());
        thread::spawn(move || {
            let _ = std::io::copy(&mut from, &mut back);
            let _ = back.shutdown(Shutdown::Both);
        });
        let (mut buffer, mut at) = ([0; 4096], 0);
        while let Ok(bytes @ 1..) = task.read(&mut buffer) {
            if (at..at + bytes).contains(&position) {
                buffer[position - at] ^= 0x40;
            }
            at += bytes;
            if root.write_all(&buffer[..bytes]).is_err() {
                break;
            }
        }
        let _ = root.shutdown(Shutdown::Both);
    });
    address
}

#[test]
fn bytes_that_are_changed_on_the_way_end_the_group_and_are_never_taken() {
    // Hello and proof; then kind, length, MAC, body.
    let frame = 48 + 32;
    for (position, why) in [
        (frame, "not understood"),
        (frame + 1, "lost"),
        (frame + 7, "the limit is"),
        (frame + 20, "no task of this group"),
        (frame + 41, "no task of this group"),
    ] {
        let tasks =
            tasks_by(3, |rank, root| if rank == 1 { bad_wire(root, position) } else { root });
        let got = come(&tasks, Duration::from_secs(1));
        let error = got[0].as_ref().unwrap_err().to_string();
        // For a longer length, the root waits until the task is late.
        let is_longer = position == frame + 1 && error.contains("task 1 did not come");
        assert!(error.contains(why) || is_longer, "byte {position}: {error}");
        assert!(got.iter().all(Result::is_err), "byte {position}");
    }
}

#[test]
fn more_than_a_round_holds_is_refused_and_the_others_do_not_wait() {
    let tasks = tasks(2);
    thread::scope(|scope| {
        let waiting = scope.spawn(|| tasks[0].all_gather(b"", LONG));
        let refused = tasks[1].all_gather(&vec![0; (16 << 20) + 1], LONG).unwrap_err();
        assert_eq!(refused.status(), Status::TooLarge);
        assert_eq!(waiting.join().unwrap().unwrap_err().status(), Status::ConnectionLost);
    });
}
