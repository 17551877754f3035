//! Locks by several processes on several mounts: no update is lost under them, waiting calls can be
//! interrupted, and locks of dead processes are released.

pub mod calls;
mod whole;

use anyhow::{Context, Result, ensure};

use self::calls::Space;
use crate::{
    actor::handle::{ANSWER_MAX, Handle},
    cases::{Case, Outcome, TestDirs},
};

/// Increments of the counter under locks of a process, in total.
const INCREMENTS: u64 = 12_000;
const INCREMENTS_FULL: u64 = 100_000;
/// The same for the other two kinds.
const INCREMENTS_OTHERS: u64 = 8_000;
const INCREMENTS_OTHERS_FULL: u64 = 20_000;
/// Number of processes that count.
const COUNTERS: usize = 4;

pub const CASES: &[Case] = &[
    Case {
        name: "locks::fcntl_counter_loses_no_update",
        run: |ground| counter(ground, Space::Process),
    },
    Case { name: "locks::ofd_counter_loses_no_update", run: |ground| counter(ground, Space::Open) },
    Case {
        name: "locks::flock_counter_loses_no_update",
        run: |ground| counter(ground, Space::Flock),
    },
    Case { name: "locks::a_lock_conflicts_with_one_of_another_mount", run: stands },
    Case { name: "locks::a_waiting_process_gets_the_released_lock", run: waits },
    Case { name: "locks::two_waiting_processes_are_a_deadlock", run: deadlock },
    Case { name: "locks::a_signal_ends_the_wait", run: interrupted },
    Case { name: "locks::a_waiting_process_can_be_killed", run: killed_waiting },
    Case { name: "locks::the_locks_of_a_killed_process_are_released", run: killed_holding },
    Case { name: "locks::close_releases_the_locks_of_a_process", run: closed },
    Case { name: "locks::flock_and_record_locks_do_not_conflict", run: spaces },
    Case { name: "locks::writes_over_several_daemons_are_atomic_under_a_lock", run: whole::run },
];

/// An actor on each of two mounts with the same file open; the file is its number 0.
fn pair(ground: &TestDirs, name: &str) -> Result<(Handle, Handle)> {
    let (mut one, mut other) = (Handle::start()?, Handle::start()?);
    let file = format!("lock-{name}");
    ensure!(
        one.open(&ground.first().join(&file))? == "0"
            && other.open(&ground.last().join(&file))? == "0"
    );
    Ok((one, other))
}

fn counter(ground: &TestDirs, space: Space) -> Result<Outcome> {
    let increments = match (matches!(space, Space::Process), ground.full) {
        (true, false) => INCREMENTS,
        (true, true) => INCREMENTS_FULL,
        (false, false) => INCREMENTS_OTHERS,
        (false, true) => INCREMENTS_OTHERS_FULL,
    };
    let name = format!("counter-{}", space.word());
    std::fs::write(ground.first().join(&name), 0u64.to_le_bytes())?;
    let each = increments / COUNTERS as u64;
    let mut actors: Vec<Handle> = (0..COUNTERS).map(|_| Handle::start()).collect::<Result<_>>()?;
    for (at, actor) in actors.iter_mut().enumerate() {
        actor.open(&ground.dir_of_turn(at).join(&name))?;
    }
    let started = std::time::Instant::now();
    actors
        .iter_mut()
        .try_for_each(|actor| actor.send(&["count", "0", space.word(), &each.to_string()]))?;
    for actor in &actors {
        let limit = std::time::Duration::from_secs(1200);
        let answer = actor.answer_within(limit)?.context("the counting takes over 20 minutes")?;
        ensure!(answer.starts_with("ok "), "{answer}");
    }
    let last = actors[0].must(&["read", "0", "0"])?;
    ensure!(
        last == (each * COUNTERS as u64).to_string(),
        "{increments} increments, but the counter is {last}"
    );
    let rate = increments as f64 / started.elapsed().as_secs_f64();
    Ok(Outcome::Passed(format!(
        "{increments} increments by {COUNTERS} processes, {rate:.0} a second"
    )))
}

fn stands(ground: &TestDirs) -> Result<Outcome> {
    for space in [Space::Process, Space::Open, Space::Flock] {
        let (mut one, mut other) = pair(ground, "stands")?;
        ensure!(
            one.try_lock("0", space, "alone", 5)? == "ok",
            "{space:?}: a free lock was refused"
        );
        let refused = other.try_lock("0", space, "alone", 5)?;
        ensure!(refused == "EAGAIN" || refused == "EACCES", "{space:?}: a second lock: {refused}");
        ensure!(
            other.try_lock("0", space, "shared", 5)? != "ok",
            "{space:?}: a shared lock beside an exclusive one"
        );
        if space != Space::Flock {
            ensure!(
                other.try_lock("0", space, "alone", 6)? == "ok",
                "{space:?}: another byte was refused"
            );
        }
        ensure!(
            one.try_lock("0", space, "shared", 5)? == "ok",
            "{space:?}: a lock could not be downgraded"
        );
        ensure!(
            other.try_lock("0", space, "shared", 5)? == "ok",
            "{space:?}: two shared locks conflict"
        );
    }
    let (mut one, mut other) = pair(ground, "stands")?;
    one.try_lock("0", Space::Process, "alone", 7)?;
    let holder = other.must(&["who", "0", "7", "1"])?;
    // From another mount the process is on another machine: 0 or a number of ours; never `nobody`.
    ensure!(holder != "nobody", "F_GETLK does not see the lock");
    Outcome::passed()
}

fn waits(ground: &TestDirs) -> Result<Outcome> {
    for space in [Space::Process, Space::Open, Space::Flock] {
        let (mut one, mut other) = pair(ground, "waits")?;
        one.must(&["write", "0", "100", "1"])?;
        ensure!(one.try_lock("0", space, "alone", 0)? == "ok");
        other.begin_lock("0", space, 0)?;
        other.until_it_waits()?;
        one.must(&["write", "0", "100", "2"])?;
        one.must(&["lock", "0", space.word(), "unlock", "try", "0", "1"])?;
        ensure!(other.answer()? == "ok ", "{space:?}: the lock was not granted");
        ensure!(
            other.must(&["read", "0", "100"])? == "2",
            "{space:?}: the write under the lock is not visible"
        );
    }
    Outcome::passed()
}

fn deadlock(ground: &TestDirs) -> Result<Outcome> {
    let (mut one, mut other) = pair(ground, "deadlock")?;
    ensure!(one.try_lock("0", Space::Process, "alone", 0)? == "ok");
    ensure!(other.try_lock("0", Space::Process, "alone", 1)? == "ok");
    one.begin_lock("0", Space::Process, 1)?;
    one.until_it_waits()?;
    // The last call to reach the server closes the cycle and gets the error; the other one still
    // waits.
    other.begin_lock("0", Space::Process, 0)?;
    let (told, answer) = first_answer([&one, &other])?;
    ensure!(answer == "EDEADLK", "the cycle was closed, but the answer is: {answer}");
    let (told, its_own, waits) =
        if told == 0 { (&mut one, "0", &other) } else { (&mut other, "1", &one) };
    told.must(&["lock", "0", "process", "unlock", "try", its_own, "1"])?;
    ensure!(waits.answer()? == "ok ", "the other one did not get its lock afterwards");
    Outcome::passed()
}

/// The first actor that answers, and its answer.
fn first_answer(actors: [&Handle; 2]) -> Result<(usize, String)> {
    let (started, moment) = (std::time::Instant::now(), std::time::Duration::from_millis(50));
    while started.elapsed() < ANSWER_MAX {
        for (at, actor) in actors.iter().enumerate() {
            if let Some(answer) = actor.answer_within(moment)? {
                return Ok((at, answer));
            }
        }
    }
    anyhow::bail!("neither has answered in {} s", ANSWER_MAX.as_secs())
}

fn interrupted(ground: &TestDirs) -> Result<Outcome> {
    for space in [Space::Process, Space::Open, Space::Flock] {
        let (mut one, mut other) = pair(ground, "interrupted")?;
        ensure!(one.try_lock("0", space, "alone", 0)? == "ok");
        other.begin_lock("0", space, 0)?;
        other.until_it_waits()?;
        other.interrupt()?;
        let answer = other.answer()?;
        ensure!(answer == "EINTR", "{space:?}: the wait ended with: {answer}");
        // The wait is cancelled: this process does not get the lock at its release, so a third one
        // can have it.
        one.must(&["lock", "0", space.word(), "unlock", "try", "0", "1"])?;
        ensure!(one.try_lock("0", space, "alone", 0)? == "ok", "{space:?}: a free lock is refused");
    }
    Outcome::passed()
}

fn killed_waiting(ground: &TestDirs) -> Result<Outcome> {
    for space in [Space::Process, Space::Open, Space::Flock] {
        let (mut one, mut other) = pair(ground, "killed")?;
        ensure!(one.try_lock("0", space, "alone", 0)? == "ok");
        other.begin_lock("0", space, 0)?;
        other.until_it_waits()?;
        other.kill().with_context(|| format!("{space:?}"))?;
        one.must(&["lock", "0", space.word(), "unlock", "try", "0", "1"])?;
        ensure!(
            one.try_lock("0", space, "alone", 0)? == "ok",
            "{space:?}: the dead process got the lock"
        );
    }
    Outcome::passed()
}

fn killed_holding(ground: &TestDirs) -> Result<Outcome> {
    for space in [Space::Process, Space::Open, Space::Flock] {
        let (mut one, mut other) = pair(ground, "holder")?;
        ensure!(one.try_lock("0", space, "alone", 0)? == "ok");
        other.begin_lock("0", space, 0)?;
        other.until_it_waits()?;
        one.kill().with_context(|| format!("{space:?}"))?;
        ensure!(other.answer()? == "ok ", "{space:?}: the lock of the dead process is still held");
    }
    Outcome::passed()
}

/// POSIX: closing any descriptor of the file releases all of its process's locks.
fn closed(ground: &TestDirs) -> Result<Outcome> {
    let (mut one, mut other) = pair(ground, "closed")?;
    let second = one.open(&ground.first().join("lock-closed"))?;
    ensure!(one.try_lock("0", Space::Process, "alone", 0)? == "ok");
    one.must(&["close", &second])?;
    ensure!(
        other.try_lock("0", Space::Process, "alone", 0)? == "ok",
        "a close did not release the lock of the process"
    );
    ensure!(one.try_lock("0", Space::Open, "alone", 1)? == "ok");
    let second = one.open(&ground.first().join("lock-closed"))?;
    one.must(&["close", &second])?;
    ensure!(
        other.try_lock("0", Space::Open, "alone", 1)? == "EAGAIN",
        "another close released the lock of an open file"
    );
    // FUSE releases a moment after the last close returns, so the test waits for it.
    other.begin_lock("0", Space::Open, 1)?;
    other.until_it_waits()?;
    one.must(&["close", "0"])?;
    ensure!(other.answer()? == "ok ", "its close did not release the lock of an open file");
    Outcome::passed()
}

fn spaces(ground: &TestDirs) -> Result<Outcome> {
    let (mut one, mut other) = pair(ground, "spaces")?;
    ensure!(one.try_lock("0", Space::Flock, "alone", 0)? == "ok");
    ensure!(
        other.try_lock("0", Space::Process, "alone", 0)? == "ok",
        "flock conflicts with a record lock"
    );
    Outcome::passed()
}
