//! Asks several I/O daemons at once and goes on when all have answered.

use std::sync::{Arc, Mutex, PoisonError};

use braid_net::{Answer, NetError};
use braid_types::{Failure, IodId, Status};
use braid_wire::{Call as WireCall, decode_outcome};

use crate::core::MdsCore;

/// Each daemon's reply, in the order asked.
pub(crate) type Replies<R> = Vec<(IodId, Result<R, Failure>)>;
type Done<R> = Box<dyn FnOnce(&Arc<MdsCore>, Replies<R>) + Send>;

struct Gather<R> {
    left: usize,
    replies: Vec<(IodId, Option<Result<R, Failure>>)>,
    done: Option<Done<R>>,
}

impl MdsCore {
    /// Asks each daemon; `done` gets every reply. A daemon that is down is not asked: its reply is an error
    /// that names it, at once (I8). No lock may be held here.
    pub(crate) fn ask_all<M>(
        self: &Arc<Self>,
        calls: Vec<(IodId, M)>,
        done: impl FnOnce(&Arc<Self>, Replies<M::Reply>) + Send + 'static,
    ) where
        M: WireCall + 'static,
        M::Reply: Send + 'static,
    {
        if calls.is_empty() {
            return done(self, Vec::new());
        }
        let replies = calls.iter().map(|(iod, _)| (*iod, None)).collect();
        let gather = Arc::new(Mutex::new(Gather { left: calls.len(), replies, done: Some(Box::new(done)) }));
        for (at, (iod, message)) in calls.into_iter().enumerate() {
            let (me, gather) = (self.clone(), gather.clone());
            if let Some(down) = self.down(iod) {
                me.gathered(&gather, at, Err(down));
                continue;
            }
            let answered = move |answer| {
                let reply = me.read_reply::<M>(iod, answer);
                me.gathered(&gather, at, reply);
            };
            self.env.link.call(iod, M::OP, message.to_bytes(), Box::new(answered));
        }
    }

    fn gathered<R: Send>(self: &Arc<Self>, gather: &Mutex<Gather<R>>, at: usize, reply: Result<R, Failure>) {
        let mut all = gather.lock().unwrap_or_else(PoisonError::into_inner);
        all.left -= 1;
        all.replies[at].1 = Some(reply);
        if all.left > 0 {
            return;
        }
        let (done, replies) = (all.done.take(), std::mem::take(&mut all.replies));
        drop(all);
        if let Some(done) = done {
            done(self, replies.into_iter().filter_map(|(iod, reply)| Some((iod, reply?))).collect());
        }
    }

    fn down(&self, iod: IodId) -> Option<Failure> {
        let state = self.state();
        let heard = state.cluster.is_heard(iod);
        (!heard).then(|| Failure::new(Status::TryAgain, format!("{} is down", state.cluster.name(iod))))
    }

    fn read_reply<M: WireCall>(&self, iod: IodId, answer: Result<Answer, NetError>) -> Result<M::Reply, Failure> {
        let body = answer.map_err(|error| Failure::new(Status::TryAgain, error.to_string()))?.body;
        let name = || self.state().cluster.name(iod);
        match decode_outcome::<M::Reply>(&body) {
            Ok(Ok(reply)) => Ok(reply),
            Ok(Err(failure)) => {
                let status = if failure.status == Status::NotServing { Status::TryAgain } else { failure.status };
                Err(Failure::new(status, format!("{}: {failure}", name())))
            }
            Err(error) => Err(Failure::new(Status::Internal, format!("{}: {}: {error}", name(), M::NAME))),
        }
    }
}
