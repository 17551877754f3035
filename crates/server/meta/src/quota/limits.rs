//! How limits apply to a usage. Pure.

use braid_types::{Failure, Status, Timestamp};

use crate::record::{Quota, QuotaLimit, QuotaOwner, Usage};

impl QuotaLimit {
    /// What may not be exceeded at `now`: the hard limit, or the soft one once its grace time is
    /// over.
    pub(crate) fn effective_limit(&self, grace_seconds: u64, now: Timestamp) -> Option<u64> {
        let over = self
            .over_since
            .is_some_and(|since| now.seconds.saturating_sub(since.seconds) >= grace_seconds as i64);
        match (self.hard, self.soft.filter(|_| over)) {
            (Some(hard), Some(soft)) => Some(hard.min(soft)),
            (hard, soft) => hard.or(soft),
        }
    }

    /// Records whether `used` is above the soft limit.
    fn follow(&mut self, used: u128, now: Timestamp) {
        let over = self.soft.is_some_and(|soft| used > u128::from(soft));
        self.over_since = if over { self.over_since.or(Some(now)) } else { None };
    }
}

impl Quota {
    /// The same with its times updated for a usage.
    pub(crate) fn with_grace_updated(mut self, usage: Usage, now: Timestamp) -> Self {
        self.bytes.follow(usage.bytes, now);
        self.inodes.follow(u128::from(usage.inodes), now);
        self
    }
}

/// The error for a request above a limit.
pub(crate) fn quota_exceeded(owner: QuotaOwner, what: &str) -> Failure {
    let of = match owner {
        QuotaOwner::User(id) => format!("user {id}"),
        QuotaOwner::Group(id) => format!("group {id}"),
        QuotaOwner::Directory(_) => "the quota of the directory".to_owned(),
    };
    Failure::new(Status::QuotaExceeded, format!("{of} has no {what} left"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(seconds: i64) -> Timestamp {
        Timestamp { seconds, nanos: 0 }
    }

    #[test]
    fn a_soft_limit_becomes_hard_after_its_grace_until_usage_falls_below() {
        let soft = QuotaLimit { hard: Some(100), soft: Some(50), over_since: None };
        let quota =
            Quota { bytes: soft, inodes: QuotaLimit::default(), grace_seconds: 10, complete: true };
        let used = |bytes| Usage { bytes, inodes: 0 };
        assert_eq!(
            quota.with_grace_updated(used(50), at(1)).bytes.over_since,
            None,
            "at the limit is not above it"
        );
        let over = quota.with_grace_updated(used(51), at(1));
        assert_eq!(over.bytes.effective_limit(10, at(10)), Some(100));
        assert_eq!(over.bytes.effective_limit(10, at(11)), Some(50));
        let still = over.with_grace_updated(used(60), at(5));
        assert_eq!(still.bytes.over_since, Some(at(1)), "the time runs from the first moment");
        assert_eq!(
            still.with_grace_updated(used(10), at(99)).bytes.effective_limit(10, at(99)),
            Some(100)
        );
    }
}
