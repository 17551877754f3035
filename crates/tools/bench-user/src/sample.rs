//! Samples of what several tasks do at the same time.

use std::{sync::Barrier, thread, time::Duration};

use crate::{bench::Bench, error::Result, stats::Summary};

/// One task: a thread that repeats one step. It lives as long as its sample.
pub(crate) trait Task: Send {
    /// Prepares the sample; not measured.
    fn prepare(&mut self) -> Result<()> {
        Ok(())
    }

    /// Does one step; returns its bytes or operations.
    fn step(&mut self) -> Result<u64>;

    /// Ends the sample after the last step, for example with a flush.
    fn finish(&mut self) -> Result<()> {
        Ok(())
    }

    /// Whether another step follows. `late`: the sample's or run's time is over, or the run must
    /// stop. Tasks that must all make the same number of steps agree on it here.
    /// of steps agree on it here.
    fn go_on(&mut self, late: bool) -> Result<bool> {
        Ok(!late)
    }
}

/// A task made of a closure.
pub(crate) struct Step<F>(pub(crate) F);

impl<F: FnMut() -> Result<u64> + Send> Task for Step<F> {
    fn step(&mut self) -> Result<u64> {
        (self.0)()
    }
}

/// The rate of one sample, in units of the steps per second: the work of all tasks divided by the
/// time from the common start to the end of the last task. A shorter sample before it is not
/// counted: it opens connections and presents capabilities.
pub(crate) fn rate<T: Task>(bench: &Bench<'_>, length: Duration, tasks: &mut [T]) -> Result<f64> {
    once(bench, length / 4, tasks)?;
    once(bench, length, tasks)
}

/// The rate of one sample without a warm-up, for tasks whose steps cannot be repeated.
pub(crate) fn once<T: Task>(bench: &Bench<'_>, length: Duration, tasks: &mut [T]) -> Result<f64> {
    bench.check_time()?;
    let start = Barrier::new(tasks.len());
    let run = |task: &mut T| {
        let prepared = task.prepare();
        start.wait();
        prepared?;
        let began = bench.now();
        one(bench, began + length, task).map(|amount| (amount, began, bench.now()))
    };
    let run = &run;
    let done: Result<Vec<(u64, Duration, Duration)>> = thread::scope(|scope| {
        let threads: Vec<_> = tasks.iter_mut().map(|task| scope.spawn(move || run(task))).collect();
        let joined = threads.into_iter().map(|thread| match thread.join() {
            Ok(outcome) => outcome,
            Err(panic) => std::panic::resume_unwind(panic),
        });
        // All tasks are joined before the first failure is returned.
        joined.collect::<Vec<_>>().into_iter().collect()
    });
    let done = done?;
    bench.check_stop()?;
    let began = done.iter().map(|(_, began, _)| *began).min();
    let ended = done.iter().map(|(_, _, ended)| *ended).max();
    let time = began.zip(ended).map_or(Duration::ZERO, |(began, ended)| ended - began);
    let amount: u64 = done.iter().map(|(amount, _, _)| amount).sum();
    Ok(amount as f64 / time.as_secs_f64().max(1e-9))
}

/// One task's part of a sample: at least one step.
fn one(bench: &Bench<'_>, until: Duration, task: &mut impl Task) -> Result<u64> {
    let mut amount = 0;
    loop {
        amount += task.step()?;
        let late = bench.now() >= until || bench.check_time().is_err();
        if !task.go_on(late)? {
            break;
        }
    }
    task.finish()?;
    Ok(amount)
}

/// The time of a single call in seconds: the median of a sample. For round trips and forces, where
/// the rate of many tasks does not show the wait of one.
/// nothing about how long one waits.
pub(crate) fn time(
    bench: &Bench<'_>,
    length: Duration,
    mut call: impl FnMut() -> Result<()>,
) -> Result<f64> {
    call()?;
    let until = bench.now() + length;
    let mut taken = Vec::new();
    while taken.is_empty() || bench.now() < until {
        bench.check_stop()?;
        let began = bench.now();
        call()?;
        taken.push((bench.now() - began).as_secs_f64());
    }
    Ok(Summary::of(&taken).map_or(0.0, |summary| summary.median))
}
