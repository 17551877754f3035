//! How limits apply to a usage. Pure.

use braid_types::{Failure, Status, Timestamp};

use crate::record::{Bound, Quota, QuotaOwner, Usage};

impl Bound {
    /// What may not be exceeded at `now`: the hard limit, or the soft one once its grace time is
    /// over.
    pub(crate) fn ceiling(&self, grace_seconds: u64, now: Timestamp) -> Option<u64> {
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
    pub(crate) fn following(mut self, usage: Usage, now: Timestamp) -> Self {
        self.bytes.follow(usage.bytes, now);
        self.inodes.follow(u128::from(usage.inodes), now);
        self
    }
}

/// The error for a request above a limit.
pub(crate) fn exceeded(owner: QuotaOwner, what: &str) -> Failure {
    let of = match owner {
        QuotaOwner::User(id) => format!("user {id}"),
        QuotaOwner::Group(id) => format!("group {id}"),
        QuotaOwner::Tree(_) => "the quota of the directory".to_owned(),
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
        let soft = Bound { hard: Some(100), soft: Some(50), over_since: None };
        let quota =
            Quota { bytes: soft, inodes: Bound::default(), grace_seconds: 10, complete: true };
        let used = |bytes| Usage { bytes, inodes: 0 };
        assert_eq!(
            quota.following(used(50), at(1)).bytes.over_since,
            None,
            "at the limit is not above it"
        );
        let over = quota.following(used(51), at(1));
        assert_eq!(over.bytes.ceiling(10, at(10)), Some(100));
        assert_eq!(over.bytes.ceiling(10, at(11)), Some(50));
        let still = over.following(used(60), at(5));
        assert_eq!(still.bytes.over_since, Some(at(1)), "the time runs from the first moment");
        assert_eq!(still.following(used(10), at(99)).bytes.ceiling(10, at(99)), Some(100));
    }
}
