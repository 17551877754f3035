//! I/O daemons: registration, heartbeats, draining.

use std::sync::PoisonError;

use braid_types::{Failure, IodId, Status};
use braid_wire::message::{
    mds::{Heartbeat, HeartbeatReply, RegisterIod, RegisterIodReply, SetIodState},
    types::IodState,
};

use crate::{
    call::{Call, Flow},
    core::{MdsCore, State},
    session::fence::Missing,
};

impl MdsCore {
    pub(super) fn register_iod(&self, call: Call, r: &RegisterIod) -> Flow {
        let registered = self.register(&call, r);
        Flow::from(call, registered)
    }

    fn register(&self, call: &Call, r: &RegisterIod) -> Result<RegisterIodReply, Failure> {
        // One lock from the check to the record, so that two directories do not get one id. It is a
        // lock of its own, since the log is synced under it: only another registration waits for
        // that.
        let _one_at_a_time = self.registering.lock().unwrap_or_else(PoisonError::into_inner);
        {
            let state = self.state();
            state.cluster.check_registration(r)?;
            let peer = &call.connection.peer;
            state.cluster.check_reachable(r, &peer.address, peer.loopback)?;
        }
        let record = self.names.register_iod(r.directory, &r.addresses, &r.labels)?;
        // After a loss of power, an id that was returned must not be assigned to another directory.
        self.names.sync()?;
        let id = record.id;
        let mut state = self.state();
        state.cluster.register(
            record,
            r.space.clone(),
            r.verifier,
            r.object_bytes_max.0,
            call.came,
        );
        state.daemon_back = true;
        let reply = RegisterIodReply { id, state: self.heartbeat_reply(&state, id) };
        drop(state);
        self.env.link.locate(id, &r.addresses);
        call.connection.set_iod(id);
        tracing::info!(%id, addresses = ?r.addresses, "an I/O daemon registered");
        Ok(reply)
    }

    pub(super) fn heartbeat(&self, call: Call, r: &Heartbeat) -> Flow {
        let reply = self.beat(&call, r);
        Flow::from(call, reply)
    }

    fn beat(&self, call: &Call, r: &Heartbeat) -> Result<HeartbeatReply, Failure> {
        let id = call
            .connection
            .iod()
            .ok_or_else(|| Failure::new(Status::NoSession, "register first"))?;
        let mut state = self.state();
        let was_down = !state.cluster.is_heard(id);
        let applied = r.fence_applied.min(state.sessions.newest_fence());
        state.cluster.heartbeat(id, r.space.clone(), r.verifier, applied, call.came)?;
        state.daemon_back |= was_down;
        Ok(self.heartbeat_reply(&state, id))
    }

    fn heartbeat_reply(&self, state: &State, id: IodId) -> HeartbeatReply {
        let applied = state.cluster.iod(id).map_or(0, |iod| iod.fence_applied);
        let Missing { ranges, fence, more } = state.sessions.fences_after(applied);
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

    pub(super) fn set_iod_state(&self, call: Call, r: &SetIodState) -> Flow {
        let set = self.change_iod_state(r.iod, r.state);
        Flow::from(call, set)
    }

    fn change_iod_state(&self, id: IodId, state: IodState) -> Result<(), Failure> {
        self.state().cluster.check_state(id, state)?;
        let stored = match state {
            IodState::Draining => braid_meta::IodState::Draining,
            _ => braid_meta::IodState::Active,
        };
        self.names.set_iod_state(id, stored)?;
        self.state().cluster.set_state(id, state);
        Ok(())
    }
}
