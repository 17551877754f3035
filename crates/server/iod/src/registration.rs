//! How the daemon joins the cluster and stays in it: when to register, when to send a heartbeat,
//! and what to do with the reply.
//!
//! ```text
//!              connection made             answer
//!   away ───── RegisterIod ─────> joined ─────────> heartbeat every HEARTBEAT_MS
//!    ^  ^        refused: again     │ ^                 │
//!    │  └── after HEARTBEAT_MS ─────┘ └─ fences in it:  │ lost, refused
//!    └──────────────────────────── confirm immediately ─┘
//! ```
//!
//! It is a state machine: time and replies in, messages and [`HeartbeatActions`] out.
//!
//! Invariants:
//! 1. A heartbeat reports a fence as applied only after [`Registration::confirm_fence`] was called
//!    for it (I4).
//! 2. Service is granted until [`HEARTBEAT_STOP_MS`] after the answered message was *sent*, never
//!    longer.
//! 3. While more fences follow, service neither begins nor is extended.
//! 4. A new connection begins with [`RegisterIod`]: heartbeats do not name the daemon.
//!
//! No assertion checks these, since each has one place that could break it: `confirm_fence` alone
//! raises `fence_applied` (1), `heartbeat_answered` counts from `sent_at` (2) and grants nothing
//! while fences follow (3), and `failed` resets `joined` (4).

use std::time::Duration;

use braid_types::{
    ByteCount, ClusterUuid, Failure, IodId, MdsEpoch, Status, Timestamp, WriteVerifier,
    limits::{HEARTBEAT_MS, HEARTBEAT_STOP_MS},
};
use braid_wire::message::{
    mds::{Heartbeat, HeartbeatReply, RegisterIod, RegisterIodReply, SessionRange},
    types::Space,
};

const INTERVAL: Duration = Duration::from_millis(HEARTBEAT_MS);
const SERVE: Duration = Duration::from_millis(HEARTBEAT_STOP_MS);

/// What the daemon reports when it registers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct RegistrationInfo {
    /// The cluster of its directory.
    pub cluster: ClusterUuid,
    /// Random bytes that identify its directory.
    pub directory: [u8; 16],
    /// Where it listens, `host:port`.
    pub addresses: Vec<String>,
    /// `key=value`.
    pub labels: Vec<String>,
    /// The longest that an object can be on its disk, in bytes.
    pub object_bytes_max: u64,
}

/// What a heartbeat reports.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeartbeatInfo {
    /// Free space of the disk.
    pub space: Space,
    /// The write verifier (I6).
    pub verifier: WriteVerifier,
}

/// What to do next.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum RegistrationStep {
    /// Nothing before this moment.
    Wait(Duration),
    /// Send this and report the reply to [`Registration::registered`] or [`Registration::failed`].
    Register(RegisterIod),
    /// Send this and report the reply to [`Registration::heartbeat_answered`] or
    /// [`Registration::failed`].
    Heartbeat(Heartbeat),
}

/// What a reply asks of the daemon, in this order: store the id, apply the fence, call
/// [`Registration::confirm_fence`], serve.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HeartbeatActions {
    /// The daemon's id, in the reply to a registration.
    pub id: Option<IodId>,
    /// Sessions to fence.
    pub fenced: Vec<SessionRange>,
    /// The lowest valid epoch of capabilities.
    pub epoch_min: MdsEpoch,
    /// Number of the newest fence in the list.
    pub fence: u64,
    /// Data may be served until this moment. `None` while more fences follow: nothing changes then.
    pub serve_until: Option<Duration>,
    /// The time of the metadata server's clock.
    pub mds_now: Timestamp,
}

/// The state machine. Its moments are monotonic times since any fixed start.
#[derive(Debug)]
pub struct Registration {
    introduction: RegistrationInfo,
    id: IodId,
    joined: bool,
    next_at: Duration,
    sent_at: Duration,
    fence_applied: u64,
}

impl Registration {
    /// A daemon that has not sent anything yet; `id` is 0 when it never registered.
    pub fn new(introduction: RegistrationInfo, id: IodId) -> Self {
        let (next_at, sent_at) = (Duration::ZERO, Duration::ZERO);
        Self { introduction, id, joined: false, next_at, sent_at, fence_applied: 0 }
    }

    /// The daemon's id; 0 before the first reply.
    pub fn id(&self) -> IodId {
        self.id
    }

    /// What to do at `now`. A message is counted as sent at `now`.
    pub fn next(
        &mut self,
        now: Duration,
        vitals: impl FnOnce() -> HeartbeatInfo,
    ) -> RegistrationStep {
        if now < self.next_at {
            return RegistrationStep::Wait(self.next_at);
        }
        self.sent_at = now;
        self.next_at = now + INTERVAL;
        let HeartbeatInfo { space, verifier } = vitals();
        if self.joined {
            return RegistrationStep::Heartbeat(Heartbeat {
                space,
                verifier,
                fence_applied: self.fence_applied,
            });
        }
        let RegistrationInfo { cluster, directory, addresses, labels, object_bytes_max } =
            self.introduction.clone();
        let (id, object_bytes_max) = (self.id, ByteCount(object_bytes_max));
        RegistrationStep::Register(RegisterIod {
            id,
            cluster,
            directory,
            addresses,
            labels,
            space,
            verifier,
            object_bytes_max,
        })
    }

    /// The metadata server accepted the daemon.
    ///
    /// # Errors
    /// [`Status::Invalid`] when the reply has id 0 or changes an assigned id.
    pub fn registered(&mut self, reply: RegisterIodReply) -> Result<HeartbeatActions, Failure> {
        if reply.id == IodId(0) || (self.id != IodId(0) && self.id != reply.id) {
            let detail =
                format!("the metadata server gave id {}, this daemon is {}", reply.id, self.id);
            return Err(Failure::new(Status::Invalid, detail));
        }
        self.id = reply.id;
        self.joined = true;
        Ok(HeartbeatActions { id: Some(reply.id), ..self.heartbeat_answered(reply.state) })
    }

    /// The metadata server answered a heartbeat.
    pub fn heartbeat_answered(&mut self, reply: HeartbeatReply) -> HeartbeatActions {
        let HeartbeatReply { epoch_min, now, fence, fenced, fences_follow, .. } = reply;
        let serve_until = (!fences_follow).then_some(self.sent_at + SERVE);
        HeartbeatActions { id: None, fenced, epoch_min, fence, serve_until, mds_now: now }
    }

    /// This fence, from a reply's [`HeartbeatActions`], holds. If it is a newer one, the next
    /// message, which reports it, is due immediately.
    pub fn confirm_fence(&mut self, fence: u64) {
        if fence > self.fence_applied {
            self.fence_applied = fence;
            self.next_at = self.sent_at;
        }
    }

    /// There was no reply, or a refusal, or the connection ended: register again after the
    /// interval.
    pub fn failed(&mut self) {
        self.joined = false;
    }
}

#[cfg(test)]
mod tests {
    use braid_types::{ConnectionId, MapEpoch, SessionId};

    use super::*;
    use crate::{connections::ConnectionTable, slice_admission::SliceAdmission};

    fn new() -> Registration {
        let introduction = RegistrationInfo {
            cluster: ClusterUuid([1; 16]),
            directory: [2; 16],
            addresses: vec![],
            labels: vec![],
            object_bytes_max: 1 << 44,
        };
        Registration::new(introduction, IodId(0))
    }

    fn vitals() -> HeartbeatInfo {
        let space = Space {
            device: 1,
            total: ByteCount(10),
            free: ByteCount(6),
            available: ByteCount(5),
            files_free: 3,
        };
        HeartbeatInfo { space, verifier: WriteVerifier(9) }
    }

    fn answer(fence: u64, fenced: &[u64]) -> HeartbeatReply {
        HeartbeatReply {
            epoch: MdsEpoch(2),
            epoch_min: MdsEpoch(1),
            map_epoch: MapEpoch(1),
            now: Timestamp::default(),
            fence,
            fenced: fenced
                .iter()
                .map(|id| SessionRange { first: SessionId(*id), last: SessionId(*id) })
                .collect(),
            fences_follow: false,
        }
    }

    fn at(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn joined_at(now: Duration) -> Registration {
        let mut registration = new();
        assert!(matches!(registration.next(now, vitals), RegistrationStep::Register(_)));
        registration.registered(RegisterIodReply { id: IodId(4), state: answer(0, &[]) }).unwrap();
        registration
    }

    #[test]
    fn registers_first_then_sends_a_heartbeat_every_interval() {
        let mut registration = joined_at(at(0));
        assert_eq!(registration.next(at(1), vitals), RegistrationStep::Wait(at(HEARTBEAT_MS)));
        assert!(matches!(
            registration.next(at(HEARTBEAT_MS), vitals),
            RegistrationStep::Heartbeat(_)
        ));
        assert_eq!(registration.id(), IodId(4));
    }

    #[test]
    fn keeps_trying_while_the_metadata_server_is_not_there() {
        let mut registration = new();
        for round in 0..50 {
            let now = at(round * HEARTBEAT_MS);
            let RegistrationStep::Register(message) = registration.next(now, vitals) else {
                panic!("round {round}")
            };
            assert_eq!((message.id, message.object_bytes_max), (IodId(0), ByteCount(1 << 44)));
            registration.failed();
            assert!(
                matches!(registration.next(now, vitals), RegistrationStep::Wait(_)),
                "not in a busy loop"
            );
        }
    }

    #[test]
    fn registers_again_with_its_id_after_a_lost_connection() {
        let mut registration = joined_at(at(0));
        registration.failed();
        let RegistrationStep::Register(message) = registration.next(at(HEARTBEAT_MS), vitals)
        else {
            panic!()
        };
        assert_eq!(message.id, IodId(4));
    }

    #[test]
    fn a_fence_is_confirmed_at_once_and_only_after_it_was_applied() {
        let mut registration = joined_at(at(0));
        let _ = registration.next(at(HEARTBEAT_MS), vitals);
        let orders = registration.heartbeat_answered(answer(7, &[3]));
        assert_eq!(orders.fenced, [SessionRange { first: SessionId(3), last: SessionId(3) }]);
        assert!(matches!(registration.next(at(HEARTBEAT_MS), vitals), RegistrationStep::Wait(_)));
        registration.confirm_fence(orders.fence);
        let RegistrationStep::Heartbeat(message) = registration.next(at(HEARTBEAT_MS + 1), vitals)
        else {
            panic!()
        };
        assert_eq!(message.fence_applied, 7);
    }

    #[test]
    fn while_fences_follow_it_confirms_at_once_and_does_not_begin_to_serve() {
        let mut registration = new();
        let _ = registration.next(at(0), vitals);
        let state = HeartbeatReply { fences_follow: true, ..answer(7, &[3]) };
        let orders = registration.registered(RegisterIodReply { id: IodId(4), state }).unwrap();
        assert_eq!(orders.serve_until, None);
        registration.confirm_fence(orders.fence);
        assert!(matches!(
            registration.next(at(1), vitals),
            RegistrationStep::Heartbeat(message) if message.fence_applied == 7
        ));
        assert_eq!(
            registration.heartbeat_answered(answer(8, &[5])).serve_until,
            Some(at(1) + SERVE)
        );
    }

    #[test]
    fn service_stops_at_a_time_after_the_last_answered_message() {
        let admission = SliceAdmission::not_serving(ConnectionTable::default());
        let caller = |session| {
            ConnectionTable::default().add(ConnectionId::default(), Some(SessionId(session)))
        };
        let serves = |now| admission.begin_slice(&caller(1), MdsEpoch(1), now).is_ok();
        let mut registration = new();
        let _ = registration.next(at(500), vitals);
        let orders = registration
            .registered(RegisterIodReply { id: IodId(1), state: answer(0, &[]) })
            .unwrap();
        admission.serve_until(orders.serve_until);
        assert!(serves(at(500 + HEARTBEAT_STOP_MS - 1)));
        assert!(!serves(at(500 + HEARTBEAT_STOP_MS)));

        registration.failed();
        let _ = registration.next(at(60_000), vitals);
        let orders = registration
            .registered(RegisterIodReply { id: IodId(1), state: answer(1, &[8]) })
            .unwrap();
        admission.fence_ranges(
            orders.fenced.iter().map(|range| (range.first, range.last)),
            orders.epoch_min,
        );
        admission.serve_until(orders.serve_until);
        assert!(serves(at(60_001)), "serves again after a good answer");
        assert!(
            admission.begin_slice(&caller(8), MdsEpoch(1), at(60_001)).is_err(),
            "and its fences hold by then"
        );
    }

    #[test]
    fn an_id_that_was_given_is_never_exchanged() {
        let mut registration = joined_at(at(0));
        for id in [0, 5] {
            let refused =
                registration.registered(RegisterIodReply { id: IodId(id), state: answer(0, &[]) });
            assert_eq!(refused.unwrap_err().status, Status::Invalid);
        }
    }
}
