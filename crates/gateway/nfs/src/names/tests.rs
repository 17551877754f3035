//! Names over a user database that counts its answers and can be silent.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

use super::*;

/// Knows `alice` (1000), `7` (7) and `wide@x` (8), and groups with the same names.
#[derive(Debug)]
struct Database {
    asked: AtomicUsize,
    fails: AtomicBool,
    /// Waits for the other end, if there is one.
    silence: Mutex<Option<Receiver<()>>>,
}

impl Database {
    fn new() -> Arc<Self> {
        let (asked, fails) = Default::default();
        Arc::new(Self { asked, fails, silence: Mutex::new(None) })
    }

    fn asked(&self) -> usize {
        self.asked.load(Ordering::SeqCst)
    }

    /// Gives no answer before the sender is dropped.
    fn fall_silent(&self) -> Sender<()> {
        let (end, silence) = channel();
        *self.silence.lock().unwrap() = Some(silence);
        end
    }

    fn answer(&self) -> io::Result<()> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        if let Some(silence) = self.silence.lock().unwrap().take() {
            let _ = silence.recv();
        }
        match self.fails.load(Ordering::SeqCst) {
            true => Err(io::ErrorKind::NotConnected.into()),
            false => Ok(()),
        }
    }
}

impl UserDatabase for Database {
    fn number(&self, kind: NameKind, name: &str) -> io::Result<Option<u32>> {
        self.answer()?;
        Ok((name == "alice").then_some(if kind == NameKind::User { 1000 } else { 100 }))
    }

    fn name(&self, _: NameKind, number: u32) -> io::Result<Option<String>> {
        self.answer()?;
        let name = match number {
            1000 => "alice",
            7 => "7",
            8 => "wide@x",
            _ => return Ok(None),
        };
        Ok(Some(name.to_owned()))
    }
}

fn names(domain: Option<&str>) -> (Names, Arc<Database>) {
    let database = Database::new();
    (Names::new(domain.map(str::to_owned), Some(database.clone() as _)), database)
}

#[tokio::test]
async fn names_of_the_own_domain_and_numbers_are_understood() {
    let (without, _) = names(None);
    let (with, _) = names(Some("example.org"));
    let unknown = Err(NfsStatus::BadOwner);
    for (text, without_domain, with_domain) in [
        ("1000", Ok(1000), Ok(1000)),
        ("1000@other.org", Ok(1000), Ok(1000)),
        ("root", Ok(0), Ok(0)),
        ("root@example.org", Ok(0), Ok(0)),
        ("root@other.org", Ok(0), unknown),
        ("alice", Ok(1000), Ok(1000)),
        ("alice@example.org", unknown, Ok(1000)),
        ("alice@EXAMPLE.ORG", unknown, Ok(1000)),
        ("alice@other.org", unknown, unknown),
        ("alice@example.org@other.org", unknown, unknown),
        ("bob", unknown, unknown),
        ("01", unknown, unknown),
        ("4294967296", unknown, unknown),
        ("alice\0", unknown, unknown),
        ("@example.org", Err(NfsStatus::Inval), Err(NfsStatus::Inval)),
        ("", Err(NfsStatus::Inval), Err(NfsStatus::Inval)),
    ] {
        assert_eq!(without.number(NameKind::User, text.as_bytes()).await, without_domain, "{text}");
        assert_eq!(with.number(NameKind::User, text.as_bytes()).await, with_domain, "{text}");
    }
    assert_eq!(with.number(NameKind::Group, b"alice").await, Ok(100), "a group of this name");
    assert_eq!(with.number(NameKind::User, b"\xff").await, Err(NfsStatus::Inval));
    let long = "a".repeat(NAME_BYTES_MAX + 1);
    assert_eq!(with.number(NameKind::User, long.as_bytes()).await, unknown);
    let alone = Names::new(Some("example.org".to_owned()), None);
    assert_eq!(alone.number(NameKind::User, b"alice").await, unknown);
    assert_eq!(alone.text(NameKind::User, 1000).await, "1000");
}

#[tokio::test]
async fn names_are_sent_with_the_domain_only() {
    let (without, database) = names(None);
    assert_eq!(without.text(NameKind::User, 1000).await, "1000");
    assert_eq!(database.asked(), 0);
    let (with, _) = names(Some("example.org"));
    for (number, expected) in [
        (1000, "alice@example.org"),
        (9, "9"),
        (7, "7"),
        (8, "8"),
        (u64::MAX, "18446744073709551615"),
    ] {
        assert_eq!(with.text(NameKind::User, number).await, expected);
    }
}

#[tokio::test(start_paused = true)]
async fn answers_are_cached_for_a_while() {
    let (names, database) = names(Some("example.org"));
    let ask = async || {
        let found = names.number(NameKind::User, b"alice").await;
        (found, names.number(NameKind::User, b"bob").await, database.asked())
    };
    assert_eq!(ask().await, (Ok(1000), Err(NfsStatus::BadOwner), 2));
    assert_eq!(ask().await, (Ok(1000), Err(NfsStatus::BadOwner), 2), "cached");
    tokio::time::advance(MISSING_CACHED).await;
    assert_eq!(ask().await, (Ok(1000), Err(NfsStatus::BadOwner), 3), "bob is asked for again");
    tokio::time::advance(NAME_CACHED).await;
    assert_eq!(ask().await, (Ok(1000), Err(NfsStatus::BadOwner), 5), "both are");
}

#[tokio::test]
async fn invented_names_do_not_displace_those_of_users() {
    let cache = Cache::default();
    cache.insert(0, Some(0));
    (1..=3 * NAMES_MAX).for_each(|name| cache.insert(name, None));
    assert_eq!(cache.get(&0), Some(Some(0)));
    assert!(cache.0.lock().unwrap().len() <= NAMES_MAX);
    (1..=3 * NAMES_MAX).for_each(|name| cache.insert(name, Some(name)));
    assert!(cache.0.lock().unwrap().len() <= NAMES_MAX);
}

#[tokio::test]
async fn a_database_that_fails_is_no_answer() {
    let (names, database) = names(Some("example.org"));
    database.fails.store(true, Ordering::SeqCst);
    assert_eq!(names.number(NameKind::User, b"alice").await, Err(NfsStatus::Delay));
    assert_eq!(names.text(NameKind::User, 1000).await, "1000");
    database.fails.store(false, Ordering::SeqCst);
    assert_eq!(names.number(NameKind::User, b"alice").await, Ok(1000), "it was not cached");
    assert_eq!(names.text(NameKind::User, 1000).await, "alice@example.org");
}

#[tokio::test]
async fn a_silent_database_delays_no_call_for_long() {
    let (names, database) = names(Some("example.org"));
    let end = database.fall_silent();
    // The clock runs only for the names, whose thread waits for this test.
    tokio::time::pause();
    let waited = tokio::join!(names.number(NameKind::User, b"alice"), async {
        // The event loop runs meanwhile.
        tokio::time::advance(LOOKUP_WAIT + Duration::from_millis(1)).await;
    });
    assert_eq!(waited.0, Err(NfsStatus::Delay));
    let asked = database.asked();
    assert_eq!(names.text(NameKind::User, 1000).await, "1000");
    assert_eq!(names.number(NameKind::User, b"bob").await, Err(NfsStatus::Delay));
    assert_eq!(database.asked(), asked, "nobody waits for it again");
    drop(end);
    tokio::time::advance(SILENT_FOR).await;
    tokio::time::resume();
    assert_eq!(names.number(NameKind::User, b"alice").await, Ok(1000));
}
