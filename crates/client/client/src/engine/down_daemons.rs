//! I/O daemons that a call of this client has waited for without success. No call waits for them
//! again until the metadata server sends a new cluster map.
//!
//! Invariants:
//! 1. A daemon is added only by a call that used all its time, and only while the map says that it
//!    is down.
//! 2. Each new map empties the list: calls wait again for a daemon that was up in between.
//!
//! `contains` asserts the second half of 1; the caller knows how long it waited. `apply_map` makes
//! a new list (2).

use std::{collections::BTreeSet, sync::Mutex};

use braid_net::Driver;
use braid_types::MapEpoch;
use braid_wire::message::{
    mds::{Envelope, GetClusterMap},
    types::{ClusterMap, IodInfo, IodState},
};

use super::{Engine, mds_connection::MdsConnection, semaphore::lock};
use crate::error::Error;

#[derive(Debug, Default)]
pub(super) struct DownDaemons(Mutex<KnownDaemons>);

#[derive(Debug, Default)]
struct KnownDaemons {
    epoch: Option<MapEpoch>,
    /// The names that the metadata server uses for the daemons it waits for.
    down: BTreeSet<String>,
    unresponsive: BTreeSet<String>,
}

impl DownDaemons {
    pub(super) fn apply_map(&self, map: &ClusterMap) {
        let mut known = lock(&self.0);
        if known.epoch == Some(map.epoch) {
            return;
        }
        let down = map.iods.iter().filter(|iod| iod.state == IodState::Down).map(name).collect();
        *known = KnownDaemons { epoch: Some(map.epoch), down, unresponsive: BTreeSet::new() };
    }

    /// A call has ended after it waited for the server that the error names.
    pub(super) fn add(&self, error: &Error) {
        let Some(server) = error.server() else { return };
        let mut known = lock(&self.0);
        if known.down.contains(server) {
            known.unresponsive.insert(server.to_owned());
        }
    }

    fn contains(&self, server: &str) -> bool {
        let known = lock(&self.0);
        debug_assert!(known.unresponsive.is_subset(&known.down), "1: the map says that it is down");
        known.unresponsive.contains(server)
    }
}

impl<D: Driver> Engine<D> {
    /// Whether the daemon that delays a call is in this list, and is still down in the current map.
    pub(super) async fn is_known_down(
        self: &std::sync::Arc<Self>,
        link: &MdsConnection<D>,
        blamed: &Error,
    ) -> bool {
        let Some(server) = blamed.server().filter(|server| self.down_daemons.contains(server))
        else {
            return false;
        };
        let soon = self.attempt_deadline(self.deadline());
        let map =
            self.exchange(&link.shared, Some(&Envelope::PLAIN), &GetClusterMap {}, soon).await;
        match map {
            Ok(map) => self.apply_map(&map),
            Err(_) => return false,
        }
        self.down_daemons.contains(server)
    }
}

fn name(iod: &IodInfo) -> String {
    let address = iod.addresses.first().map_or("no address", String::as_str);
    format!("I/O daemon {} at {address}", iod.id)
}

#[cfg(test)]
mod tests {
    use braid_types::{ByteCount, IodId, Status};
    use braid_wire::message::types::Space;

    use super::*;

    fn map(epoch: u64, state: IodState) -> ClusterMap {
        let none = ByteCount(0);
        let space = Space { device: 0, total: none, free: none, available: none, files_free: 0 };
        let iod = IodInfo {
            id: IodId(2),
            addresses: vec!["h:1".into()],
            labels: Vec::new(),
            state,
            space,
        };
        ClusterMap { epoch: MapEpoch(epoch), mds: Vec::new(), iods: vec![iod] }
    }

    #[test]
    fn a_down_daemon_is_not_waited_for_until_the_map_changes() {
        let (down_daemons, server) = (DownDaemons::default(), "I/O daemon 2 at h:1");
        let waited = Error::new(Status::TryAgain, "it is down").at(server);
        down_daemons.apply_map(&map(1, IodState::Up));
        down_daemons.add(&waited);
        assert!(!down_daemons.contains(server), "the map shows it as up: it may only be slow");
        down_daemons.apply_map(&map(2, IodState::Down));
        assert!(!down_daemons.contains(server), "no call has waited for it since the map changed");
        down_daemons.add(&waited);
        down_daemons.apply_map(&map(2, IodState::Down));
        assert!(down_daemons.contains(server));
        down_daemons.apply_map(&map(4, IodState::Down));
        assert!(!down_daemons.contains(server), "it was up in between");
    }
}
