//! Polling, where nothing reports that a condition holds.

use std::time::{Duration, Instant};

use anyhow::{Result, ensure};

/// Pause after the first look; each is twice as long as the one before, up to the longest.
const PAUSE_FIRST: Duration = Duration::from_millis(1);
const PAUSE_MAX: Duration = Duration::from_millis(20);
/// The longest pause of a test, which may act at each look.
const TEST_PAUSE_MAX: Duration = Duration::from_millis(2);
/// Longer than any step of a test takes on a busy machine.
const TEST_LIMIT: Duration = Duration::from_secs(120);

/// Polls until the condition holds; returns how long that took.
///
/// # Errors
/// An error of the condition ends the wait. After `limit` the error names the condition, `what`.
pub fn until(what: &str, limit: Duration, holds: impl FnMut() -> Result<bool>) -> Result<Duration> {
    poll(what, limit, PAUSE_MAX, holds)
}

/// Polls until the condition of a test holds.
///
/// # Panics
/// After 120 s; the message names the condition, `what`.
pub fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    if let Err(error) = poll(what, TEST_LIMIT, TEST_PAUSE_MAX, || Ok(holds())) {
        panic!("{error}");
    }
}

fn poll(
    what: &str,
    limit: Duration,
    pause_max: Duration,
    mut holds: impl FnMut() -> Result<bool>,
) -> Result<Duration> {
    let (started, mut pause) = (Instant::now(), PAUSE_FIRST);
    while !holds()? {
        ensure!(started.elapsed() < limit, "not true after {} s: {what}", limit.as_secs());
        std::thread::sleep(pause);
        pause = pause_max.min(pause * 2);
    }
    Ok(started.elapsed())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_ends_with_its_condition_or_names_it() {
        let mut looks = 0;
        let mut third = || {
            looks += 1;
            Ok(looks == 3)
        };
        until("the third look", Duration::from_secs(60), &mut third).unwrap();
        let error = until("pigs fly", Duration::ZERO, || Ok(false)).unwrap_err();
        assert_eq!(error.to_string(), "not true after 0 s: pigs fly");
        let error = until("x", Duration::ZERO, || anyhow::bail!("broken")).unwrap_err();
        assert_eq!(error.to_string(), "broken");
    }
}
