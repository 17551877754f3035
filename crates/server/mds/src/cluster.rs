//! The I/O daemons of the cluster as the metadata server knows them: identity, addresses, state.
//!
//! ```text
//!   register ──> up ──silent HEARTBEAT_DOWN_MS──> down ──heartbeat──> up
//!                 └──── SetIodState ──> draining ──── SetIodState ──> up
//!   any ── IodRemove ──> removed, for good: refused at registration, not asked, not waited for
//! ```
//!
//! Invariants:
//! 1. An id belongs to one directory permanently. 16 random bytes name the directory.
//! 2. The map's epoch rises with each change that a client could see, and over restarts: it is
//!    `server epoch << 32 | counter`.
//! 3. Nothing here reads the time, so that a test can set it.
//!
//! `register` asserts 1, after `check_registration` refused a daemon that would break it.
//! `bump_epoch` asserts that the counter of 2 does not overflow. The time is an argument (3).

use std::{
    collections::{BTreeMap, BTreeSet},
    net::IpAddr,
    sync::Arc,
    time::Duration,
};

use braid_layout::Layout;
use braid_meta::{IodRecord, IodState as Decided};
use braid_types::{
    ByteCount, ClusterUuid, Failure, IodId, MapEpoch, MdsEpoch, Status, WriteVerifier,
    limits::{FILE_BYTES_MAX, HEARTBEAT_DOWN_MS, HEARTBEAT_FENCED_MS},
};
use braid_wire::message::{
    mds::RegisterIod,
    types::{ClusterMap, IodInfo, IodState, Space},
};

use crate::placement::{Candidate, Candidates};

/// I/O daemons of one cluster (I9): a map of this many still fits one message.
pub const IODS_MAX: usize = 1024;
/// Addresses of one I/O daemon.
pub const IOD_ADDRESSES_MAX: usize = 16;
/// Labels of one I/O daemon.
pub const IOD_LABELS_MAX: usize = 64;
/// Bytes of one address or label.
pub const IOD_TEXT_BYTES_MAX: usize = 255;

/// An I/O daemon.
#[derive(Clone, Debug)]
pub struct Iod {
    /// The part that clients see.
    pub info: IodInfo,
    /// The random bytes of its directory.
    pub directory: [u8; 16],
    /// Its write verifier, once it has registered.
    pub verifier: Option<WriteVerifier>,
    /// When its last message arrived, on the server's monotonic clock.
    pub last_heard: Duration,
    /// It applied every fence up to this one.
    pub fence_applied: u64,
    /// Set by an administrator.
    pub draining: bool,
    /// The longest that an object can be on its disk. No limit is known until it has registered.
    pub object_bytes_max: u64,
}

/// The cluster map, and what the server knows besides.
#[derive(Debug)]
pub struct Cluster {
    uuid: ClusterUuid,
    epoch: MapEpoch,
    mds: Vec<String>,
    iods: BTreeMap<IodId, Iod>,
    candidates: Arc<Candidates>,
    removed: Arc<BTreeSet<IodId>>,
}

impl Cluster {
    /// The cluster on record. `now` counts as the last heartbeat of a recorded daemon, since it had
    /// no chance to send one yet.
    pub fn new(
        uuid: ClusterUuid,
        server: MdsEpoch,
        mds: Vec<String>,
        records: Vec<IodRecord>,
        now: Duration,
    ) -> Self {
        let iods = records
            .into_iter()
            .map(|record| (record.id, Iod::recorded(record, NO_SPACE, now)))
            .collect();
        let epoch = MapEpoch(server.0 << 32);
        let mut cluster =
            Self { uuid, epoch, mds, iods, candidates: Arc::default(), removed: Arc::default() };
        cluster.bump_epoch();
        cluster
    }

    /// The map's epoch.
    pub fn epoch(&self) -> MapEpoch {
        self.epoch
    }

    /// The cluster's id.
    pub fn uuid(&self) -> ClusterUuid {
        self.uuid
    }

    /// The daemons that placement chooses from. Cheap: made again only when something changed.
    pub fn candidates(&self) -> Arc<Candidates> {
        self.candidates.clone()
    }

    /// The map for clients.
    pub fn map(&self) -> ClusterMap {
        let iods = self.iods.values().map(|iod| iod.info.clone()).collect();
        ClusterMap { epoch: self.epoch, mds: self.mds.clone(), iods }
    }

    /// Sets the server's own addresses, once its listener has its ports.
    pub fn set_addresses(&mut self, mds: Vec<String>) {
        self.mds = mds;
        self.bump_epoch();
    }

    /// One daemon.
    pub fn iod(&self, id: IodId) -> Option<&Iod> {
        self.iods.get(&id)
    }

    /// Every daemon, in the order of the map.
    pub fn iods(&self) -> impl Iterator<Item = &Iod> {
        self.iods.values()
    }

    /// The name of a daemon in errors.
    pub fn name(&self, id: IodId) -> String {
        let at = self.iods.get(&id).and_then(|iod| iod.info.addresses.first());
        format!("I/O daemon {id} at {}", at.map_or("no address", String::as_str))
    }

    /// Whether the daemon is up, or draining.
    pub fn is_reachable(&self, id: IodId) -> bool {
        self.iods
            .get(&id)
            .is_some_and(|iod| !matches!(iod.info.state, IodState::Down | IodState::Removed))
    }

    /// Whether the daemon was removed from the cluster for good.
    pub fn is_removed(&self, id: IodId) -> bool {
        self.removed.contains(&id)
    }

    /// The daemons that were removed from the cluster for good. Cheap.
    pub fn removed(&self) -> Arc<BTreeSet<IodId>> {
        self.removed.clone()
    }

    /// The last write verifier of a daemon; `None` until it has registered since the server
    /// started.
    pub fn verifier(&self, id: IodId) -> Option<WriteVerifier> {
        self.iods.get(&id)?.verifier
    }

    /// The length that every object of a layout can have, in bytes. A file of that size fits,
    /// whatever its stripes are.
    pub fn object_bytes_max(&self, layout: &Layout) -> u64 {
        let daemons = layout.placements().flat_map(|(_, placement)| &placement.iods);
        daemons.map(|iod| self.object_bytes_max_of(*iod)).min().unwrap_or(FILE_BYTES_MAX)
    }

    /// The largest file of a layout that fits its daemons' disks, in bytes.
    ///
    /// # Errors
    /// [`Status::TooLarge`] when that is less than `size`; [`Status::Corrupted`] for an invalid
    /// layout.
    pub fn file_bytes_max(&self, layout: &Layout, size: u64) -> Result<u64, Failure> {
        let all = self.object_bytes_max(layout);
        if all >= FILE_BYTES_MAX {
            return Ok(FILE_BYTES_MAX);
        }
        let corrupted = |error| Failure::new(Status::Corrupted, format!("a layout: {error}"));
        let map = layout.map().map_err(corrupted)?;
        let too_long = |size| -> Result<Option<IodId>, Failure> {
            for (part, placement) in layout.placements() {
                let bytes = map.object_bytes(size, part).map_err(corrupted)?;
                let shorter = |iod: &&IodId| self.object_bytes_max_of(**iod) < bytes;
                if let Some(iod) = placement.iods.iter().find(shorter) {
                    return Ok(Some(*iod));
                }
            }
            Ok(None)
        };
        if size > all
            && let Some(iod) = too_long(size)?
        {
            let most = self.object_bytes_max_of(iod);
            let why = format!(
                "{size} bytes: the disk's file system has no files over {most}; \
                 try: more daemons per file"
            );
            return Err(Failure::blaming(Status::TooLarge, &self.name(iod), why));
        }
        let (mut fits, mut past) = (size.max(all), FILE_BYTES_MAX.saturating_add(1));
        while past - fits > 1 {
            let middle = fits + (past - fits) / 2;
            if too_long(middle)?.is_none() { fits = middle } else { past = middle }
        }
        Ok(fits)
    }

    fn object_bytes_max_of(&self, id: IodId) -> u64 {
        self.iods.get(&id).map_or(FILE_BYTES_MAX, |iod| iod.object_bytes_max)
    }

    /// Whether each of these daemons still has the write verifier that it had then: what it
    /// reported of its objects then is not lost.
    pub fn verifiers_unchanged(&self, then: &[(IodId, WriteVerifier)]) -> bool {
        then.iter().all(|(iod, verifier)| self.verifier(*iod) == Some(*verifier))
    }

    /// Checks the identity of a daemon that registers.
    ///
    /// # Errors
    /// [`Status::NotPermitted`] for another cluster's directory or for an id of another directory,
    /// [`Status::LimitExceeded`], [`Status::Invalid`].
    pub fn check_registration(&self, call: &RegisterIod) -> Result<(), Failure> {
        check_texts(call)?;
        if call.cluster != self.uuid {
            return Err(Failure::new(
                Status::NotPermitted,
                format!(
                    "the directory belongs to cluster {}, this is cluster {}",
                    call.cluster, self.uuid
                ),
            ));
        }
        let owner =
            self.iods.values().find(|iod| iod.directory == call.directory).map(|iod| iod.info.id);
        if let Some(removed) = owner.filter(|owner| self.is_removed(*owner)) {
            return Err(is_removed(removed));
        }
        match (call.id, owner) {
            (IodId(0), Some(_)) => Ok(()),
            (IodId(0), None) if self.iods.len() >= IODS_MAX => Err(Failure::new(
                Status::LimitExceeded,
                format!("a cluster has at most {IODS_MAX} I/O daemons"),
            )),
            (IodId(0), None) => Ok(()),
            (id, Some(owner)) if id == owner => Ok(()),
            (id, Some(owner)) => {
                Err(refused(id, &format!("its directory is that of I/O daemon {owner}")))
            }
            (id, None) if self.iods.contains_key(&id) => {
                Err(refused(id, "the id belongs to another directory"))
            }
            (id, None) => Err(refused(id, "the cluster never assigned this id; try: braid fsck")),
        }
    }

    /// Checks that a daemon on another host does not register a loopback address, which would lead
    /// each client to its own host. `peer` is the address that it connects from, `host:port`.
    ///
    /// # Errors
    /// [`Status::NotPermitted`].
    pub fn check_reachable(
        &self,
        call: &RegisterIod,
        peer: &str,
        is_loopback: bool,
    ) -> Result<(), Failure> {
        let host = |address: &str| address.rsplit_once(':').map_or("", |(host, _)| host).to_owned();
        let here = is_loopback || self.mds.iter().any(|own| host(own) == host(peer));
        let wrong = call.addresses.iter().find(|address| is_host_itself(&host(address)));
        match wrong {
            Some(address) if !here => {
                let (name, from) = (
                    if call.id.0 == 0 {
                        "an I/O daemon".into()
                    } else {
                        format!("I/O daemon {}", call.id)
                    },
                    host(peer),
                );
                let why = format!(
                    "{name} on {from} is refused: {address} is reached on its own host only; \
                     try: braid iod --listen {from}:{port}",
                    port = address.rsplit_once(':').map_or("7701", |(_, port)| port),
                );
                Err(Failure::new(Status::NotPermitted, why))
            }
            _ => Ok(()),
        }
    }

    /// Adds or updates a daemon whose record is stored.
    pub fn register(
        &mut self,
        record: IodRecord,
        space: Space,
        verifier: WriteVerifier,
        object_bytes_max: u64,
        now: Duration,
    ) {
        debug_assert!(
            self.iods.get(&record.id).is_none_or(|known| known.directory == record.uuid),
            "1: an id belongs to one directory"
        );
        let mut iod = Iod::recorded(record, space, now);
        (iod.verifier, iod.object_bytes_max) = (Some(verifier), object_bytes_max);
        let id = iod.info.id;
        let seen = |info: &IodInfo| (info.addresses.clone(), info.labels.clone(), info.state);
        let visible = self.iods.get(&id).is_none_or(|old| seen(&old.info) != seen(&iod.info));
        self.iods.insert(id, iod);
        if visible { self.bump_epoch() } else { self.refresh_candidates() }
    }

    /// A heartbeat.
    ///
    /// # Errors
    /// [`Status::NoSession`] for a daemon that must register first.
    pub fn heartbeat(
        &mut self,
        id: IodId,
        space: Space,
        verifier: WriteVerifier,
        fence_applied: u64,
        now: Duration,
    ) -> Result<(), Failure> {
        let iod = self
            .iods
            .get_mut(&id)
            .ok_or_else(|| Failure::new(Status::NoSession, "register first"))?;
        if iod.info.state == IodState::Removed {
            return Err(is_removed(id));
        }
        let was_down = iod.info.state == IodState::Down;
        let space_changed = iod.info.space != space;
        iod.last_heard = now;
        iod.verifier = Some(verifier);
        iod.fence_applied = iod.fence_applied.max(fence_applied);
        iod.info.space = space;
        iod.info.state = if iod.draining { IodState::Draining } else { IodState::Up };
        if was_down {
            self.bump_epoch();
        } else if space_changed {
            self.refresh_candidates();
        }
        Ok(())
    }

    /// The daemon confirmed a fence.
    pub fn confirm_fence(&mut self, id: IodId, fence: u64) {
        if let Some(iod) = self.iods.get_mut(&id) {
            iod.fence_applied = iod.fence_applied.max(fence);
        }
    }

    /// Marks daemons as down that were silent too long. True when something changed.
    pub fn age(&mut self, now: Duration) -> bool {
        let limit = Duration::from_millis(HEARTBEAT_DOWN_MS);
        let mut changed = false;
        for iod in self.iods.values_mut() {
            let is_shown = !matches!(iod.info.state, IodState::Down | IodState::Removed);
            if is_shown && now.saturating_sub(iod.last_heard) > limit {
                iod.info.state = IodState::Down;
                changed = true;
            }
        }
        if changed {
            self.bump_epoch();
        }
        changed
    }

    /// Checks a state that an administrator wants to set.
    ///
    /// # Errors
    /// [`Status::NotFound`]; [`Status::Invalid`] for "down", which is observed and not set.
    pub fn check_state(&self, id: IodId, state: IodState) -> Result<(), Failure> {
        if !self.iods.contains_key(&id) {
            return Err(Failure::new(Status::NotFound, format!("I/O daemon {id}")));
        }
        if self.is_removed(id) {
            return Err(Failure::new(
                Status::Invalid,
                format!("I/O daemon {id} was removed, which is for good"),
            ));
        }
        match state {
            IodState::Down => Err(Failure::new(
                Status::Invalid,
                "the state down is observed and cannot be set; try: draining",
            )),
            IodState::Removed => Err(Failure::new(Status::Invalid, "try: braid iod remove")),
            _ => Ok(()),
        }
    }

    /// Checks whether a daemon may be removed, and returns when its last message arrived. A daemon
    /// that sends another one before its removal may have new files.
    ///
    /// # Errors
    /// [`Status::NotFound`]; [`Status::Busy`] for one that is up, unless it is given up.
    pub fn check_removal(&self, id: IodId, lost: bool) -> Result<Duration, Failure> {
        let iod = self.iods.get(&id).ok_or_else(|| {
            Failure::new(
                Status::NotFound,
                format!("there is no I/O daemon {id}; try: braid status"),
            )
        })?;
        if !lost && self.is_reachable(id) {
            let why = format!(
                "{} is up; try: stop it and wait until braid status shows it as down",
                self.name(id)
            );
            return Err(Failure::new(Status::Busy, why));
        }
        Ok(iod.last_heard)
    }

    /// Removes the daemon for good. The caller has put that on record.
    pub fn remove(&mut self, id: IodId) {
        if let Some(iod) = self.iods.get_mut(&id) {
            iod.info.state = IodState::Removed;
            self.bump_epoch();
        }
    }

    /// Sets draining, or ends it. The caller has put that on record.
    pub fn set_state(&mut self, id: IodId, state: IodState) {
        if let Some(iod) = self.iods.get_mut(&id) {
            iod.draining = state == IodState::Draining;
            if iod.info.state != IodState::Down {
                iod.info.state = state;
            }
            self.bump_epoch();
        }
    }

    /// Whether a fence holds on a daemon (I4): the daemon confirmed it, or was silent for
    /// [`HEARTBEAT_FENCED_MS`] and has therefore stopped serving by itself.
    pub fn fence_holds(&self, id: IodId, fence: u64, now: Duration) -> bool {
        let limit = Duration::from_millis(HEARTBEAT_FENCED_MS);
        self.iods.get(&id).is_none_or(|iod| {
            iod.fence_applied >= fence || now.saturating_sub(iod.last_heard) > limit
        })
    }

    fn bump_epoch(&mut self) {
        self.epoch.0 += 1;
        debug_assert!(self.epoch.0 as u32 != 0, "2: the counter reached the server epoch");
        self.refresh_candidates();
    }

    fn refresh_candidates(&mut self) {
        let candidate = |iod: &Iod| Candidate {
            id: iod.info.id,
            state: iod.info.state,
            labels: iod.info.labels.clone(),
            available: iod.info.space.available.0,
            nearly_full: iod.info.space.is_nearly_full(),
        };
        let iods = self.iods.values().map(candidate).collect();
        self.candidates = Arc::new(Candidates::new(iods, &self.candidates));
        let out = self
            .iods
            .values()
            .filter(|iod| iod.info.state == IodState::Removed)
            .map(|iod| iod.info.id);
        if out.clone().count() != self.removed.len() {
            self.removed = Arc::new(out.collect());
        }
    }
}

/// The disk of a daemon that has not registered yet.
const NO_SPACE: Space = Space {
    device: 0,
    total: ByteCount(0),
    free: ByteCount(0),
    available: ByteCount(0),
    files_free: 0,
};

impl Iod {
    fn recorded(record: IodRecord, space: Space, now: Duration) -> Self {
        let draining = record.state == Decided::Draining;
        let state = match record.state {
            Decided::Active => IodState::Up,
            Decided::Removed => IodState::Removed,
            _ => IodState::Draining,
        };
        let info = IodInfo {
            id: record.id,
            addresses: record.addresses,
            labels: record.labels,
            state,
            space,
        };
        let object_bytes_max = FILE_BYTES_MAX;
        Self {
            info,
            directory: record.uuid,
            verifier: None,
            last_heard: now,
            fence_applied: 0,
            draining,
            object_bytes_max,
        }
    }
}

/// Whether a host name or address is a loopback: it means the host that uses it.
fn is_host_itself(host: &str) -> bool {
    let bare = host.trim_start_matches('[').trim_end_matches(']');
    let address = bare.parse::<IpAddr>().map(|address| address.to_canonical());
    address.map_or(bare == "localhost", |address| address.is_loopback() || address.is_unspecified())
}

fn check_texts(call: &RegisterIod) -> Result<(), Failure> {
    let texts = call.addresses.iter().chain(&call.labels);
    let fits = call.addresses.len() <= IOD_ADDRESSES_MAX
        && call.labels.len() <= IOD_LABELS_MAX
        && texts.into_iter().all(|text| text.len() <= IOD_TEXT_BYTES_MAX);
    if !fits {
        return Err(Failure::new(
            Status::LimitExceeded,
            "too many or too long addresses or labels",
        ));
    }
    if call.addresses.is_empty() {
        return Err(Failure::new(Status::Invalid, "an I/O daemon has at least one address"));
    }
    Ok(())
}

/// Refuses a removed daemon that comes back. Nothing in its directory is of use any more.
fn is_removed(id: IodId) -> Failure {
    let why = "it was removed from the cluster, and what lies in its directory belongs to no file \
               any more; try: braid iod --init with an empty directory, which joins as a new I/O \
               daemon";
    refused(id, why)
}

fn refused(id: IodId, why: &str) -> Failure {
    Failure::new(Status::NotPermitted, format!("I/O daemon {id} is refused: {why}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    const UUID: ClusterUuid = ClusterUuid(*b"0123456789abcdef");

    fn space(available: u64) -> Space {
        let bytes = ByteCount(available);
        Space { device: 1, total: ByteCount(1000), free: bytes, available: bytes, files_free: 10 }
    }

    fn call(id: u32, directory: u8) -> RegisterIod {
        RegisterIod {
            id: IodId(id),
            cluster: UUID,
            directory: [directory; 16],
            addresses: vec![format!("127.0.0.1:{}", 7000 + u16::from(directory))],
            labels: Vec::new(),
            space: space(500),
            verifier: WriteVerifier(1),
            object_bytes_max: ByteCount(FILE_BYTES_MAX),
        }
    }

    fn empty() -> Cluster {
        Cluster::new(UUID, MdsEpoch(1), vec!["127.0.0.1:1".into()], Vec::new(), Duration::ZERO)
    }

    /// What the store does with a registration: the directory keeps its id, a new one gets the
    /// next.
    fn join(cluster: &mut Cluster, call: &RegisterIod, now: Duration) -> IodId {
        cluster.check_registration(call).unwrap();
        let known =
            cluster.iods().find(|iod| iod.directory == call.directory).map(|iod| iod.info.id);
        let id = known.unwrap_or(IodId(cluster.iods().count() as u32 + 1));
        let (uuid, addresses, labels) =
            (call.directory, call.addresses.clone(), call.labels.clone());
        let record = IodRecord { id, uuid, addresses, labels, state: Decided::Active };
        cluster.register(record, call.space.clone(), call.verifier, call.object_bytes_max.0, now);
        id
    }

    #[test]
    fn an_id_is_given_once_and_stays_with_its_directory() {
        let mut cluster = empty();
        assert_eq!(join(&mut cluster, &call(0, 1), Duration::ZERO), IodId(1));
        assert_eq!(join(&mut cluster, &call(0, 2), Duration::ZERO), IodId(2));
        assert_eq!(
            join(&mut cluster, &call(0, 1), Duration::ZERO),
            IodId(1),
            "the answer was lost: asked again"
        );
        assert_eq!(join(&mut cluster, &call(2, 2), Duration::ZERO), IodId(2));
        for (id, directory) in [(1, 2), (2, 1), (1, 9), (5, 9)] {
            let refused = cluster.check_registration(&call(id, directory)).unwrap_err();
            assert_eq!(refused.status, Status::NotPermitted, "id {id} from directory {directory}");
        }
    }

    #[test]
    fn a_foreign_cluster_is_refused() {
        let foreign = RegisterIod { cluster: ClusterUuid([9; 16]), ..call(0, 1) };
        assert_eq!(empty().check_registration(&foreign).unwrap_err().status, Status::NotPermitted);
    }

    #[test]
    fn a_loopback_address_is_refused_from_another_host() {
        let mut cluster = empty();
        cluster.set_addresses(vec!["10.0.0.1:7700".into()]);
        let at = |address: &str| RegisterIod { addresses: vec![address.into()], ..call(0, 1) };
        for address in [
            "127.0.0.1:7701",
            "[::1]:7701",
            "localhost:7701",
            "[::ffff:127.0.0.1]:7701",
            "0.0.0.0:7701",
        ] {
            let refused =
                cluster.check_reachable(&at(address), "10.0.0.2:4711", false).unwrap_err();
            assert_eq!(refused.status, Status::NotPermitted);
            assert!(
                refused.detail.ends_with("; try: braid iod --listen 10.0.0.2:7701"),
                "{}",
                refused.detail
            );
            assert!(
                cluster.check_reachable(&at(address), "127.0.0.1:4711", true).is_ok(),
                "one host"
            );
            assert!(
                cluster.check_reachable(&at(address), "10.0.0.1:4711", false).is_ok(),
                "the server's own host"
            );
        }
        assert!(cluster.check_reachable(&at("10.0.0.2:7701"), "10.0.0.2:4711", false).is_ok());
    }

    #[test]
    fn a_removed_daemon_stays_out_whatever_it_says() {
        let mut cluster = empty();
        let id = join(&mut cluster, &call(0, 1), Duration::ZERO);
        assert_eq!(cluster.check_removal(id, false).unwrap_err().status, Status::Busy, "it is up");
        assert_eq!(cluster.check_removal(IodId(9), true).unwrap_err().status, Status::NotFound);
        cluster.check_removal(id, true).unwrap();
        cluster.remove(id);
        assert!(cluster.is_removed(id) && !cluster.is_reachable(id));
        let beat =
            cluster.heartbeat(id, space(1), WriteVerifier(1), 0, Duration::ZERO).unwrap_err();
        assert!(beat.detail.contains("was removed from the cluster"), "{}", beat.detail);
        for id in [0, 1] {
            let refused = cluster.check_registration(&call(id, 1)).unwrap_err();
            assert!(
                refused.status == Status::NotPermitted && refused.detail.contains("try: "),
                "{refused}"
            );
        }
        assert_eq!(cluster.check_state(id, IodState::Up).unwrap_err().status, Status::Invalid);
        cluster.age(Duration::from_secs(60));
        assert_eq!(cluster.iod(id).unwrap().info.state, IodState::Removed, "not down");
    }

    #[test]
    fn silence_shows_as_down_and_a_heartbeat_as_up_with_a_new_epoch_each() {
        let mut cluster = empty();
        let id = join(&mut cluster, &call(0, 1), Duration::ZERO);
        let epoch = cluster.epoch();
        let limit = Duration::from_millis(HEARTBEAT_DOWN_MS);
        assert!(!cluster.age(limit));
        assert!(cluster.age(limit + Duration::from_millis(1)));
        assert_eq!(cluster.iod(id).unwrap().info.state, IodState::Down);
        assert!(cluster.epoch() > epoch);
        let epoch = cluster.epoch();
        cluster.heartbeat(id, space(400), WriteVerifier(1), 0, limit * 2).unwrap();
        assert_eq!(cluster.iod(id).unwrap().info.state, IodState::Up);
        assert!(cluster.epoch() > epoch);
        let epoch = cluster.epoch();
        cluster.heartbeat(id, space(300), WriteVerifier(1), 0, limit * 2).unwrap();
        assert_eq!(cluster.epoch(), epoch, "space alone is no new map");
        assert_eq!(cluster.candidates().iods()[0].available, 300);
    }

    #[test]
    fn draining_outlasts_silence_and_down_cannot_be_set() {
        let mut cluster = empty();
        let id = join(&mut cluster, &call(0, 1), Duration::ZERO);
        assert_eq!(cluster.check_state(id, IodState::Down).unwrap_err().status, Status::Invalid);
        assert_eq!(
            cluster.check_state(IodId(9), IodState::Up).unwrap_err().status,
            Status::NotFound
        );
        cluster.set_state(id, IodState::Draining);
        cluster.age(Duration::from_secs(60));
        cluster.heartbeat(id, space(1), WriteVerifier(1), 0, Duration::from_secs(61)).unwrap();
        assert_eq!(cluster.iod(id).unwrap().info.state, IodState::Draining);
    }

    #[test]
    fn a_fence_holds_when_confirmed_or_after_the_daemon_was_silent_too_long() {
        let mut cluster = empty();
        let id = join(&mut cluster, &call(0, 1), Duration::ZERO);
        let limit = Duration::from_millis(HEARTBEAT_FENCED_MS);
        assert!(!cluster.fence_holds(id, 5, limit));
        assert!(cluster.fence_holds(id, 5, limit + Duration::from_millis(1)));
        cluster.confirm_fence(id, 5);
        assert!(cluster.fence_holds(id, 5, Duration::ZERO));
        assert!(!cluster.fence_holds(id, 6, Duration::ZERO));
        join(&mut cluster, &call(1, 1), Duration::ZERO);
        assert!(
            !cluster.fence_holds(id, 5, Duration::ZERO),
            "a daemon that restarted has forgotten"
        );
    }
}
