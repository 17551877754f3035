use super::process::deadly;
use super::*;
use std::sync::atomic::AtomicUsize;

fn register(table: &Arc<Interrupts>, unique: u64) -> Interrupt {
    let interrupt = Interrupt::new(0, None);
    table.register(unique, &interrupt);
    interrupt
}

fn counter() -> (Arc<AtomicUsize>, impl Fn() + Send + Sync + 'static) {
    let count = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&count);
    (count, move || {
        counted.fetch_add(1, Ordering::SeqCst);
    })
}

#[test]
fn an_interrupt_after_its_request_wakes_the_waiting_thread() {
    let table = Arc::new(Interrupts::default());
    let interrupt = register(&table, 8);
    let (count, wake) = counter();
    let _guard = interrupt.on_signal(wake);
    table.interrupt(6);
    assert_eq!((interrupt.signalled(), count.load(Ordering::SeqCst)), (false, 0));
    table.interrupt(8);
    assert_eq!((interrupt.signalled(), count.load(Ordering::SeqCst)), (true, 1));
}

#[test]
fn an_interrupt_before_its_request_is_kept_for_it() {
    let table = Arc::new(Interrupts::default());
    table.interrupt(8);
    assert!(!register(&table, 6).signalled());
    assert!(register(&table, 8).signalled());
    assert!(!register(&table, 8 + 2 * SHARDS as u64).signalled());
}

#[test]
fn a_wait_that_begins_after_the_signal_is_woken_too() {
    let table = Arc::new(Interrupts::default());
    table.interrupt(8);
    let interrupt = register(&table, 8);
    let (count, wake) = counter();
    let _guard = interrupt.on_signal(wake);
    assert_eq!(count.load(Ordering::SeqCst), 1);
}

#[test]
fn a_dropped_guard_removes_its_callback() {
    let table = Arc::new(Interrupts::default());
    let interrupt = register(&table, 8);
    let (count, wake) = counter();
    drop(interrupt.on_signal(wake));
    table.interrupt(8);
    assert_eq!(count.load(Ordering::SeqCst), 0);
}

#[test]
fn interrupts_of_answered_requests_take_bounded_memory() {
    let table = Arc::new(Interrupts::default());
    for unique in (0..1_000_000).step_by(2) {
        table.interrupt(unique);
    }
    let count: usize = table.shards.iter().map(|shard| lock(shard).early.len()).sum();
    assert_eq!(count, SHARDS * EARLY_MAX);
}

#[test]
fn only_signals_that_end_the_process_are_deadly() {
    let status = |pending: &str, shared: &str, blocked: &str, ignored: &str, caught: &str| {
        format!(
            "Name:\tx\nSigPnd:\t{pending}\nShdPnd:\t{shared}\nSigBlk:\t{blocked}\n\
             SigIgn:\t{ignored}\nSigCgt:\t{caught}\n"
        )
    };
    let none = "0000000000000000";
    let (kill, quit, user) = ("0000000000000100", "0000000000000004", "0000000000000200");
    assert!(deadly(&status(kill, none, none, none, none)));
    assert!(deadly(&status(none, kill, none, none, none)));
    assert!(deadly(&status(none, quit, none, none, none)));
    assert!(!deadly(&status(none, quit, quit, none, none)), "blocked");
    assert!(!deadly(&status(none, quit, none, quit, none)), "ignored");
    assert!(!deadly(&status(none, quit, none, none, quit)), "handled");
    assert!(!deadly(&status(user, user, none, none, user)));
    assert!(!deadly(""));
}

#[test]
fn a_signal_without_an_interrupt_is_found_at_the_second_check() {
    let table = Arc::new(Interrupts::default());
    // A process that is stopped keeps its signals pending.
    let mut child = std::process::Command::new("sleep").arg("60").spawn().unwrap();
    let pid = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let status = || std::fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
    while !status().contains(") T ") {
        std::thread::yield_now();
    }
    let interrupt = Interrupt::new(child.id(), None);
    table.register(8, &interrupt);
    let first = table.look_for_signals(&HashSet::new());
    assert!(first.contains(&8));
    let second = table.look_for_signals(&first);
    assert!(second.contains(&8) && !interrupt.signalled(), "there is none yet");
    rustix::process::kill_process(pid, rustix::process::Signal::TERM).unwrap();
    assert!(table.look_for_signals(&second).is_empty());
    assert!(interrupt.signalled());
    child.kill().unwrap();
    child.wait().unwrap();
}
