//! Queries of several I/O daemons: sends all of them, and continues when each daemon has answered
//! or was waited for long enough.
//!
//! Invariant: each query of [`MdsCore::query_iods_within`] is in [`PendingQueries`] until it is
//! answered or given up. The thread that removes it from there calls its continuation, so that
//! happens once.

use std::{
    collections::{BTreeMap, HashMap},
    sync::{Arc, Mutex, MutexGuard},
    time::Duration,
};

use braid_net::{Answer, NetError};
use braid_types::{Failure, IodId, Status};
use braid_wire::{Call as WireCall, decode_outcome};

use crate::core::MdsCore;

/// Each daemon's reply, in the order of the calls.
pub(crate) type Replies<R> = Vec<(IodId, Result<R, Failure>)>;
type OnGiveUp = Box<dyn FnOnce(&Arc<MdsCore>, Failure) + Send>;
type QueryGroupDone<R> = Box<dyn FnOnce(&Arc<MdsCore>, Replies<R>) + Send>;

/// Queries that are given up when their daemon goes down, or when they are too old. At most as many
/// as the daemons' queues hold (I9).
#[derive(Default)]
pub(crate) struct PendingQueries {
    next: u64,
    waiting: BTreeMap<u64, IodQuery>,
}

struct IodQuery {
    iod: IodId,
    asked_at: Duration,
    wait_time: Duration,
    give_up: OnGiveUp,
}

struct QueryGroup<R> {
    left: usize,
    replies: Vec<(IodId, Option<Result<R, Failure>>)>,
    done: Option<QueryGroupDone<R>>,
}

impl MdsCore {
    /// Queries each daemon; `done` gets every reply. A daemon that is down is not asked: its reply
    /// is an error that names it, without delay (I8). No lock may be held here.
    pub(crate) fn query_iods<M>(
        self: &Arc<Self>,
        calls: Vec<(IodId, M)>,
        done: impl FnOnce(&Arc<Self>, Replies<M::Reply>) + Send + 'static,
    ) where
        M: WireCall + 'static,
        M::Reply: Send + 'static,
    {
        self.query_each(calls, None, done);
    }

    /// As [`MdsCore::query_iods`], for queries that may be carried out after they were given up. A
    /// daemon that goes down in the meantime is not waited for, nor any daemon for longer than
    /// `wait_time`, whatever its link does (I8).
    pub(crate) fn query_iods_within<M>(
        self: &Arc<Self>,
        calls: Vec<(IodId, M)>,
        wait_time: Duration,
        done: impl FnOnce(&Arc<Self>, Replies<M::Reply>) + Send + 'static,
    ) where
        M: WireCall + 'static,
        M::Reply: Send + 'static,
    {
        self.query_each(calls, Some(wait_time), done);
    }

    fn query_each<M>(
        self: &Arc<Self>,
        calls: Vec<(IodId, M)>,
        wait_time: Option<Duration>,
        done: impl FnOnce(&Arc<Self>, Replies<M::Reply>) + Send + 'static,
    ) where
        M: WireCall + 'static,
        M::Reply: Send + 'static,
    {
        if calls.is_empty() {
            return done(self, Vec::new());
        }
        let replies = calls.iter().map(|(iod, _)| (*iod, None)).collect();
        let gather = Arc::new(Mutex::new(QueryGroup {
            left: calls.len(),
            replies,
            done: Some(Box::new(done)),
        }));
        for (at, (iod, message)) in calls.into_iter().enumerate() {
            let (me, gather) = (self.clone(), gather.clone());
            if let Some(down) = self.unreachable_reason(iod) {
                me.add_reply(&gather, at, Err(down));
                continue;
            }
            let number = wait_time.map(|wait_time| {
                let gather = gather.clone();
                let give_up = move |core: &Arc<Self>, why| core.add_reply(&gather, at, Err(why));
                self.queries().insert(IodQuery {
                    iod,
                    asked_at: self.now(),
                    wait_time,
                    give_up: Box::new(give_up),
                })
            });
            let answered = move |answer| {
                if number.is_some_and(|number| me.queries().waiting.remove(&number).is_none()) {
                    return;
                }
                let reply = me.read_reply::<M>(iod, answer);
                me.add_reply(&gather, at, reply);
            };
            self.env.link.call(iod, M::OP, message.to_bytes(), Box::new(answered));
        }
    }

    fn add_reply<R: Send>(
        self: &Arc<Self>,
        gather: &Mutex<QueryGroup<R>>,
        at: usize,
        reply: Result<R, Failure>,
    ) {
        let mut all = gather.lock().unwrap_or_else(braid_types::poisoned);
        all.left -= 1;
        all.replies[at].1 = Some(reply);
        if all.left > 0 {
            return;
        }
        let (done, replies) = (all.done.take(), std::mem::take(&mut all.replies));
        drop(all);
        if let Some(done) = done {
            done(
                self,
                replies.into_iter().filter_map(|(iod, reply)| Some((iod, reply?))).collect(),
            );
        }
    }

    /// Gives up queries of daemons that are down, and queries that are too old.
    pub(crate) fn expire_queries(self: &Arc<Self>, now: Duration) {
        let asked: Vec<IodId> =
            self.queries().waiting.values().map(|question| question.iod).collect();
        let down: HashMap<IodId, Failure> = asked
            .into_iter()
            .filter_map(|iod| Some((iod, self.unreachable_reason(iod)?)))
            .collect();
        let is_late =
            |question: &mut IodQuery| now.saturating_sub(question.asked_at) > question.wait_time;
        let is_given_up = |_: &u64, question: &mut IodQuery| {
            down.contains_key(&question.iod) || is_late(question)
        };
        let given_up: Vec<IodQuery> =
            self.queries().waiting.extract_if(.., is_given_up).map(|(_, it)| it).collect();
        for IodQuery { iod, asked_at: since, give_up, .. } in given_up {
            let waited = now.saturating_sub(since).as_secs_f64();
            let is_late = || {
                Failure::blaming(
                    Status::TryAgain,
                    &self.iod_name(iod),
                    format!("it did not answer in {waited:.1} s"),
                )
            };
            give_up(self, down.get(&iod).cloned().unwrap_or_else(is_late));
        }
    }

    fn unreachable_reason(&self, iod: IodId) -> Option<Failure> {
        let state = self.state();
        let name = || state.cluster.name(iod);
        if state.cluster.is_removed(iod) {
            return Some(Failure::blaming(
                Status::ObjectLost,
                &name(),
                "it was removed from the cluster",
            ));
        }
        (!state.cluster.is_reachable(iod))
            .then(|| Failure::blaming(Status::TryAgain, &name(), "it is down"))
    }

    fn iod_name(&self, iod: IodId) -> String {
        self.state().cluster.name(iod)
    }

    fn queries(&self) -> MutexGuard<'_, PendingQueries> {
        self.iod_queries.lock().unwrap_or_else(braid_types::poisoned)
    }

    fn read_reply<M: WireCall>(
        &self,
        iod: IodId,
        answer: Result<Answer, NetError>,
    ) -> Result<M::Reply, Failure> {
        let name = || self.iod_name(iod);
        let unanswered = |error: NetError| {
            let name = name();
            // The reason follows the name, which the error's text contains too.
            let why = error.to_string().replace(&name, "it");
            Failure::blaming(Status::TryAgain, &name, why)
        };
        let body = answer.map_err(unanswered)?.body;
        match decode_outcome::<M::Reply>(&body) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => {
                let status = if failure.status == Status::NotServing {
                    Status::TryAgain
                } else {
                    failure.status
                };
                Err(Failure::blaming(status, &name(), failure))
            }
            Err(error) => {
                Err(Failure::blaming(Status::Internal, &name(), format!("{}: {error}", M::NAME)))
            }
        }
    }
}

impl PendingQueries {
    fn insert(&mut self, question: IodQuery) -> u64 {
        self.next += 1;
        self.waiting.insert(self.next, question);
        self.next
    }
}

impl std::fmt::Debug for PendingQueries {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Asked({} waiting)", self.waiting.len())
    }
}
