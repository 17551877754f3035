//! Limits are set, and all files are counted.

use std::{
    ops::ControlFlow,
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use rustix::io::Errno;

use super::{
    QuotaLimits, QuotaOwner, QuotaRow, counted,
    limits::{LimitFile, OWNERS_MAX},
};
use crate::{
    PoolError, Result, Union, attributes::copy_of, error::During, lookup::is_directory, node::lock,
};

/// How often all files are counted again: changes that were made directly on a disk count then.
const AGAIN: Duration = Duration::from_secs(24 * 60 * 60);

impl Union {
    /// Gives an owner limits, and counts its files. Without any limit, the owner is taken away.
    ///
    /// # Errors
    /// There are too many owners; the limits cannot be written; a branch cannot be read.
    pub fn set_quota(
        &self,
        owner: QuotaOwner,
        limits: QuotaLimits,
    ) -> std::result::Result<(), PoolError> {
        {
            let mut usage = lock(&self.quotas.usage);
            let mut changed = usage.limits();
            match limits == QuotaLimits::default() {
                true => _ = changed.remove(&owner),
                false => _ = changed.insert(owner, limits),
            }
            if changed.len() > OWNERS_MAX {
                return Err(PoolError::TooManyQuotas { max: OWNERS_MAX });
            }
            LimitFile::write(&self.quotas.path, &changed)?;
            match limits == QuotaLimits::default() {
                true => _ = usage.remove(owner),
                false => usage.set(owner, limits),
            }
            self.quotas.active.store(!usage.is_empty(), Ordering::Release);
        }
        self.count_if_due(&|| false).during(|| "counting files".to_owned())
    }

    /// The owners with limits.
    ///
    /// # Errors
    /// A branch cannot be read.
    pub fn quotas(&self) -> Result<Vec<QuotaRow>> {
        self.count_if_due(&|| false)?;
        Ok(lock(&self.quotas.usage).rows())
    }

    /// Counts all files, if that was not done for an owner, or not for a day.
    ///
    /// # Errors
    /// A branch cannot be read: then what was known stays.
    pub(crate) fn count_if_due(&self, ends: &dyn Fn() -> bool) -> Result<()> {
        if !self.quotas.are_active() {
            return Ok(());
        }
        let _counting = lock(&self.quotas.counting);
        let old = lock(&self.quotas.counted).is_none_or(|when| when.elapsed() > AGAIN);
        if !old && !lock(&self.quotas.usage).is_incomplete() {
            return Ok(());
        }
        lock(&self.quotas.usage).begin_count();
        let done = self.count_all(ends);
        lock(&self.quotas.usage).end_count(done.is_ok());
        *lock(&self.quotas.counted) = done.is_ok().then(Instant::now);
        done
    }

    fn count_all(&self, ends: &dyn Fn() -> bool) -> Result<()> {
        for branch in (0..self.branches.len()).filter(|at| self.branches[*at].is_open()) {
            let walked = self.walk_branch(branch, b"", &mut |_, stat| {
                if !is_directory(stat) {
                    let mut usage = lock(&self.quotas.usage);
                    usage.note_counted(copy_of(branch, stat), counted(stat));
                }
                if ends() { ControlFlow::Break(()) } else { ControlFlow::Continue(()) }
            })?;
            if walked.is_break() {
                return Err(Errno::CANCELED);
            }
        }
        Ok(())
    }
}
