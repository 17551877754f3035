//! The running steps and their times, printed once a minute, so that a run of half an hour is not
//! silent.

use std::sync::Mutex;
use std::time::{Duration, Instant};

/// How often the running steps are printed.
const INTERVAL: Duration = Duration::from_secs(60);

static RUNNING: Mutex<Vec<(String, Instant)>> = Mutex::new(Vec::new());

/// A running step; it ends when this is dropped.
pub struct ProgressStep(String, Instant);

/// Starts a step.
pub fn step(name: impl Into<String>) -> ProgressStep {
    let step = ProgressStep(name.into(), Instant::now());
    running().push((step.0.clone(), step.1));
    step
}

impl ProgressStep {
    /// How long it has run.
    pub fn seconds(&self) -> f64 {
        self.1.elapsed().as_secs_f64()
    }
}

impl Drop for ProgressStep {
    fn drop(&mut self) {
        running().retain(|(name, since)| (name, since) != (&self.0, &self.1));
    }
}

/// Prints the running steps every minute until the process ends.
pub fn print_every_minute() {
    std::thread::spawn(|| {
        loop {
            std::thread::sleep(INTERVAL);
            if let Some(line) = line(&running(), Instant::now()) {
                println!("{line}");
            }
        }
    });
}

fn running() -> std::sync::MutexGuard<'static, Vec<(String, Instant)>> {
    RUNNING.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

fn line(running: &[(String, Instant)], now: Instant) -> Option<String> {
    let shown =
        |(name, since): &(String, Instant)| format!("{name} ({} s)", (now - *since).as_secs());
    let steps: Vec<String> = running.iter().map(shown).collect();
    (!steps.is_empty()).then(|| format!("       running: {}", steps.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_names_each_step_and_how_long_it_has_run() {
        let start = Instant::now();
        let now = start + Duration::from_secs(75);
        let steps = [
            ("fuzz".to_owned(), start),
            ("unit braid-cli it".to_owned(), start + Duration::from_secs(60)),
        ];
        assert_eq!(
            line(&steps, now).unwrap(),
            "       running: fuzz (75 s), unit braid-cli it (15 s)"
        );
        assert_eq!(line(&[], now), None);
    }

    #[test]
    fn a_step_is_running_until_it_is_dropped() {
        let there = || running().iter().any(|(name, _)| name == "a step of this test");
        let step = step("a step of this test");
        assert!(there());
        drop(step);
        assert!(!there());
    }
}
