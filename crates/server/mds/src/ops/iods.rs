//! I/O daemons: registration, heartbeats, draining.

use braid_types::{Failure, IodId, Status};
use braid_wire::message::{
    mds::{Heartbeat, HeartbeatReply, RegisterIod, RegisterIodReply, SetIodState},
    types::IodState,
};

use crate::{
    call::{Call, CallOutcome},
    core::{MdsCore, MdsState},
    session::fence::MissingFences,
};

impl MdsCore {
    pub(super) fn register_iod(&self, call: Call, r: &RegisterIod) -> CallOutcome {
        let registered = self.register(&call, r);
        CallOutcome::from(call, registered)
    }

    fn register(&self, call: &Call, r: &RegisterIod) -> Result<RegisterIodReply, Failure> {
        // One lock from the check to the record, so that two directories do not get one id. It is a
        // lock of its own, since the log is synced under it: only another registration waits for
        // that.
        let _one_at_a_time = self.registration_lock.lock().unwrap_or_else(braid_types::poisoned);
        {
            let state = self.state();
            state.cluster.check_registration(r)?;
            let peer = &call.connection.peer;
            state.cluster.check_reachable(r, &peer.address, peer.loopback)?;
        }
        let record = self.namespace.register_iod(r.directory, &r.addresses, &r.labels)?;
        // After a loss of power, an id that was returned must not be assigned to another directory.
        self.namespace.sync()?;
        let id = record.id;
        let mut state = self.state();
        state.cluster.register(
            record,
            r.space.clone(),
            r.verifier,
            r.object_bytes_max.0,
            call.received_at,
        );
        state.iod_returned = true;
        let reply = RegisterIodReply { id, state: self.heartbeat_reply(&state, id) };
        drop(state);
        self.env.link.locate(id, &r.addresses);
        call.connection.set_registered_iod(id);
        tracing::info!(%id, addresses = ?r.addresses, "an I/O daemon registered");
        Ok(reply)
    }

    pub(super) fn heartbeat(&self, call: Call, r: &Heartbeat) -> CallOutcome {
        let reply = self.record_heartbeat(&call, r);
        CallOutcome::from(call, reply)
    }

    fn record_heartbeat(&self, call: &Call, r: &Heartbeat) -> Result<HeartbeatReply, Failure> {
        let id = call
            .connection
            .registered_iod()
            .ok_or_else(|| Failure::new(Status::NoSession, "register first"))?;
        let mut state = self.state();
        let was_down = !state.cluster.is_reachable(id);
        let applied = r.fence_applied.min(state.sessions.newest_fence());
        state.cluster.heartbeat(id, r.space.clone(), r.verifier, applied, call.received_at)?;
        state.iod_returned |= was_down;
        Ok(self.heartbeat_reply(&state, id))
    }

    fn heartbeat_reply(&self, state: &MdsState, id: IodId) -> HeartbeatReply {
        let applied = state.cluster.iod(id).map_or(0, |iod| iod.fence_applied);
        let MissingFences { ranges, fence, more } = state.sessions.fences_after(applied);
        HeartbeatReply {
            epoch: self.epoch,
            epoch_min: state.sessions.epoch_min(),
            map_epoch: state.cluster.epoch(),
            now: self.env.clock.wall(),
            fence,
            fenced: ranges,
            fences_follow: more,
        }
    }

    pub(super) fn set_iod_state(&self, call: Call, r: &SetIodState) -> CallOutcome {
        let set = self.change_iod_state(r.iod, r.state);
        CallOutcome::from(call, set)
    }

    fn change_iod_state(&self, id: IodId, state: IodState) -> Result<(), Failure> {
        self.state().cluster.check_state(id, state)?;
        let stored = match state {
            IodState::Draining => braid_meta::IodState::Draining,
            _ => braid_meta::IodState::Active,
        };
        self.namespace.set_iod_state(id, stored)?;
        self.state().cluster.set_state(id, state);
        Ok(())
    }
}
