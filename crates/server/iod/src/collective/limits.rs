//! Limits of collective requests: their number, their tasks, and the memory of their views, for all
//! sessions, for each session and for each user (I9). A permit is taken before a request's plans
//! are made.

use std::sync::{Arc, Mutex, MutexGuard};

use braid_types::{
    Failure, SessionId, Status,
    limits::{
        COLLECTIVE_TASKS_MAX, COLLECTIVES_MAX, COLLECTIVES_OF_SESSION_MAX, COLLECTIVES_OF_USER_MAX,
        COLLECTIVES_VIEWS_BYTES_MAX, COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX,
        COLLECTIVES_VIEWS_BYTES_OF_USER_MAX,
    },
};

use crate::connection::User;

/// The permits in use.
#[derive(Debug, Default)]
pub(super) struct CollectiveLimits {
    permits: Mutex<PermitTable>,
}

#[derive(Debug, Default)]
struct PermitTable {
    permits: Vec<PermitEntry>,
    newest: u64,
}

#[derive(Debug)]
struct PermitEntry {
    number: u64,
    session: SessionId,
    user: Option<User>,
    tasks: usize,
    bytes: usize,
}

/// A permit, until it is released or dropped.
#[must_use = "the place is free again when it is dropped"]
#[derive(Debug)]
pub(super) struct CollectivePermit {
    permits: Arc<CollectiveLimits>,
    number: u64,
}

impl CollectiveLimits {
    /// Takes a permit for a request of a session and its user, with this many tasks and view bytes.
    ///
    /// # Errors
    /// [`Status::LimitExceeded`].
    pub(super) fn take(
        self: &Arc<Self>,
        (session, user): (SessionId, Option<User>),
        tasks: usize,
        bytes: usize,
    ) -> Result<CollectivePermit, Failure> {
        let mut taken = self.lock();
        let (all, own) = (
            UsageSum::of(taken.permits.iter()),
            UsageSum::of(taken.permits.iter().filter(|held| held.session == session)),
        );
        let users =
            UsageSum::of(taken.permits.iter().filter(|held| user.is_some() && held.user == user));
        let refused = |why: String| Err(Failure::new(Status::LimitExceeded, why));
        if all.permits >= COLLECTIVES_MAX || all.tasks + tasks > COLLECTIVE_TASKS_MAX {
            return refused(format!(
                "{} collective requests of {} tasks run on this I/O daemon",
                all.permits, all.tasks
            ));
        }
        if own.permits >= COLLECTIVES_OF_SESSION_MAX {
            return refused(format!(
                "session {session} has {} collective requests on this I/O daemon",
                own.permits
            ));
        }
        if users.permits >= COLLECTIVES_OF_USER_MAX {
            return refused(format!(
                "the user has {} collective requests on this I/O daemon",
                users.permits
            ));
        }
        let views = |of: &str, sum: &UsageSum| {
            format!(
                "views of collective requests take {} bytes{of}, and would take {bytes} more",
                sum.bytes
            )
        };
        if all.bytes + bytes > COLLECTIVES_VIEWS_BYTES_MAX {
            return refused(views("", &all));
        }
        if own.bytes + bytes > COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX {
            return refused(views(&format!(" of session {session}"), &own));
        }
        if user.is_some() && users.bytes + bytes > COLLECTIVES_VIEWS_BYTES_OF_USER_MAX {
            return refused(views(" of the user", &users));
        }
        taken.newest += 1;
        let number = taken.newest;
        taken.permits.push(PermitEntry { number, session, user, tasks, bytes });
        Ok(CollectivePermit { permits: Arc::clone(self), number })
    }

    fn lock(&self) -> MutexGuard<'_, PermitTable> {
        self.permits.lock().unwrap_or_else(braid_types::poisoned)
    }
}

impl CollectivePermit {
    /// Lowers the counted view bytes to the exact number.
    pub(super) fn reduce_view_bytes(&self, bytes: usize) {
        if let Some(held) =
            self.permits.lock().permits.iter_mut().find(|held| held.number == self.number)
        {
            held.bytes = held.bytes.min(bytes);
        }
    }

    /// Releases the permit.
    pub(super) fn release(&self) {
        self.permits.lock().permits.retain(|held| held.number != self.number);
    }
}

impl Drop for CollectivePermit {
    fn drop(&mut self) {
        self.release();
    }
}

#[derive(Debug, Default)]
struct UsageSum {
    permits: usize,
    tasks: usize,
    bytes: usize,
}

impl UsageSum {
    fn of<'a>(permits: impl Iterator<Item = &'a PermitEntry>) -> Self {
        permits.fold(Self::default(), |sum, held| Self {
            permits: sum.permits + 1,
            tasks: sum.tasks + held.tasks,
            bytes: sum.bytes + held.bytes,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(taken: Result<CollectivePermit, Failure>) -> bool {
        taken.is_err_and(|failure| failure.status == Status::LimitExceeded)
    }

    #[test]
    fn a_session_has_a_share_of_the_places_and_all_together_have_all() {
        let permits = Arc::<CollectiveLimits>::default();
        let of = |session| permits.take((SessionId(session), None), 1, 0);
        let mut taken = Vec::new();
        for session in 0..4 {
            taken.extend((0..COLLECTIVES_OF_SESSION_MAX).map(|_| of(session).unwrap()));
            assert!(refused(of(session)), "the share of session {session}");
        }
        assert!(refused(of(4)), "none is left");
        taken[0].release();
        drop(taken.pop());
        let more = [of(4).unwrap(), of(5).unwrap()];
        assert!(refused(of(6)), "a place that is given back and dropped is one");
        drop(more);
    }

    #[test]
    fn a_user_with_many_sessions_leaves_half_the_places_and_memory_to_others() {
        let user = |uid| Some(User { key: braid_types::KeyId(1), uid });
        let permits = Arc::<CollectiveLimits>::default();
        let take = |session, uid, bytes| permits.take((SessionId(session), user(uid)), 1, bytes);
        let taken: Vec<_> = (0..COLLECTIVES_OF_USER_MAX as u64)
            .map(|session| take(session, 7, 0).unwrap())
            .collect();
        assert!(refused(take(99, 7, 0)));
        assert!(take(99, 8, 0).is_ok());
        drop(taken);
        let most = COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX;
        let taken: Vec<_> = (0..2).map(|session| take(session, 7, most).unwrap()).collect();
        assert!(refused(take(2, 7, 1)));
        assert!(take(2, 8, most).is_ok());
        drop(taken);
    }

    #[test]
    fn tasks_and_memory_of_views_are_bounded_before_there_are_any() {
        let permits = Arc::<CollectiveLimits>::default();
        assert!(refused(permits.take((SessionId(1), None), COLLECTIVE_TASKS_MAX + 1, 0)));
        assert!(refused(permits.take(
            (SessionId(1), None),
            1,
            COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX + 1
        )));
        let most = |session| {
            permits.take((SessionId(session), None), 1, COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX)
        };
        let taken: Vec<_> = (0..4).map(|session| most(session).unwrap()).collect();
        assert!(
            refused(permits.take((SessionId(0), None), 1, 1))
                && refused(permits.take((SessionId(9), None), 1, 1))
        );
        taken[3].reduce_view_bytes(COLLECTIVES_VIEWS_BYTES_OF_SESSION_MAX - 1);
        assert!(
            permits.take((SessionId(9), None), 1, 1).is_ok(),
            "the limit was higher than the exact number"
        );
    }
}
