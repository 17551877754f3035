//! Disk space that I/O daemons reserve for bytes that this client buffers
//! (`docs/adr/0014-disk-space-reservations.md`).
//!
//! ```text
//!   granted, as known ──┬─ held by a Reservation, ─┬─ written ──> released, reported with the next
//!   from replies        │  for bytes in memory  │              call
//!                       │                       └─ dropped ──> spare
//!                       └─ spare ── 5 s unused ──> released, reported by ReturnReservation
//! ```
//!
//! Invariants:
//! 1. A daemon reserves at least `granted - released`. Both sums only rise within a term, and each
//!    term has a number.
//! 2. Space is used only for as long as the last reply allows, counted from when its request was
//!    sent.
//! 3. The reservation of a write is released when the write ends, whatever its outcome.
//! 4. A client without reservations pays no more than one load.
//!
//! `account.rs` asserts 1 where an account is sent, and checks 2 in `take`. `UsedReservation`
//! releases when it is dropped (3), and `has_message` is the one load (4).

mod account;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use braid_net::{Driver, Exchange};
use braid_types::IodId;
use braid_wire::{
    Call, Rights, Wire, decode_outcome,
    message::iod::{ReservationAccount, ReturnReservation},
};

pub(crate) use account::{DaemonReservation, ReservationRequest};

use super::{
    Engine, OpenFile,
    pool::{Pool, PooledConnection},
    semaphore::lock,
};

/// Space is reserved in steps of the file, so that most consecutive writes find it reserved
/// already.
const STEP_BYTES: u64 = 64 << 10;
/// The longest delay of others by the return of space. What is not returned expires.
const RETURN_TIMEOUT: Duration = Duration::from_secs(1);

/// Space reserved for a contiguous range of a file at every daemon that stores it. When dropped,
/// the space is free for other writes of this client; see [`OpenFile::reserve_space`].
#[derive(Debug, Default)]
pub struct Reservation {
    start: u64,
    end: u64,
    parts: Vec<DaemonShare>,
}

#[derive(Debug)]
struct DaemonShare {
    iod: IodId,
    reservation: Arc<DaemonReservation>,
    bytes: u64,
}

/// The reservation of bytes that are being written. Released when dropped.
#[derive(Debug)]
pub(super) struct UsedReservation(Reservation);

impl Reservation {
    /// Whether it covers these bytes of its file.
    pub fn covers(&self, offset: u64, bytes: u64) -> bool {
        bytes == 0
            || (self.start <= offset
                && offset.checked_add(bytes).is_some_and(|end| end <= self.end))
    }

    fn add(&mut self, iod: IodId, reservation: &Arc<DaemonReservation>, bytes: u64) {
        match self.parts.iter_mut().find(|part| part.iod == iod) {
            Some(part) => part.bytes += bytes,
            None => {
                self.parts.push(DaemonShare { iod, reservation: Arc::clone(reservation), bytes })
            }
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.parts.iter().for_each(|part| part.reservation.put_back(part.bytes));
    }
}

impl UsedReservation {
    pub(super) fn of(held: &mut Reservation) -> Self {
        Self(std::mem::take(held))
    }

    /// The bytes reserved at one daemon.
    pub(super) fn at(&self, iod: IodId) -> u64 {
        self.0.parts.iter().find(|part| part.iod == iod).map_or(0, |part| part.bytes)
    }
}

impl Drop for UsedReservation {
    fn drop(&mut self) {
        self.0.parts.drain(..).for_each(|part| part.reservation.release(part.bytes));
    }
}

impl<D: Driver> OpenFile<D> {
    /// Reserves space for buffered bytes of the file at every daemon that stores them. `true`:
    /// `held` covers them, and writing them within 10 s does not fail on a full disk. Never waits.
    /// `false`: too little space is reserved now, and `held` is unchanged; write the bytes through,
    /// which requests more.
    ///
    /// `held` belongs to this file and to one contiguous range: bytes between its range and these
    /// are reserved, too.
    pub fn reserve_space(&self, offset: u64, bytes: u64, held: &mut Reservation) -> bool {
        if held.covers(offset, bytes) {
            return true;
        }
        let Some(end) =
            offset.checked_add(bytes).and_then(|end| end.checked_next_multiple_of(STEP_BYTES))
        else {
            return false;
        };
        if !self.rights().allow(Rights::WRITE) || !self.engine().is_ours() {
            return false;
        }
        let start = offset - offset % STEP_BYTES;
        // An existing range is extended at both ends.
        let (old, new) = match held.parts.is_empty() {
            true => ((start, start), (start, end)),
            false => ((held.start, held.end), (start.min(held.start), end.max(held.end))),
        };
        let (grant, now) = (self.state(), self.engine().driver().now());
        let mut more = Reservation::default();
        for (low, high) in [(new.0, old.0), (old.1, new.1)] {
            // A range that the layout cannot map is refused when it is written.
            let Ok(costs) = grant.map.bytes_per_target(low, high) else { return false };
            for (target, bytes) in costs {
                let reservation = &grant.pools[target].reservation;
                if !reservation.take(bytes, now) {
                    return false;
                }
                more.add(grant.map.targets()[target].iod, reservation, bytes);
            }
        }
        (held.start, held.end) = new;
        more.parts.drain(..).for_each(|part| held.add(part.iod, &part.reservation, part.bytes));
        true
    }
}

impl<D: Driver> Engine<D> {
    /// Returns space that was not used for long, or `all` space that is not held.
    pub(crate) async fn return_reservations(self: &Arc<Self>, all: bool) {
        // In the order of the daemons, so that a simulated run is reproducible.
        let pools: BTreeMap<IodId, Arc<Pool<D>>> =
            lock(&self.pools).iter().map(|(iod, pool)| (*iod, Arc::clone(pool))).collect();
        let deadline = self.driver.now().saturating_add(RETURN_TIMEOUT.min(self.config.timeout));
        // The space of an abandoned write is released. But the daemon must not learn that while it
        // may still execute the write.
        for pool in pools.into_values().filter(|pool| pool.abandoned.is_empty()) {
            let Some(account) = pool.reservation.to_return(self.driver.now(), all) else {
                continue;
            };
            // An unresponsive daemon must not delay others for long. The rest is returned next
            // time, or expires.
            if self.return_to(&pool, account, deadline).await.is_none() {
                return;
            }
        }
    }

    async fn return_to(
        self: &Arc<Self>,
        pool: &Pool<D>,
        account: ReservationAccount,
        deadline: Duration,
    ) -> Option<()> {
        let (pool_permit, pooled) = pool.checkout(self, deadline).await.ok()?;
        let PooledConnection { connection, meta } = *pooled;
        let mut connections = [connection];
        let body = ReturnReservation { account: account.clone() }.to_bytes();
        let op = ReturnReservation::OP;
        let mut batch = [Exchange {
            connection: 0,
            op,
            body,
            send: Vec::new(),
            recv: Vec::new(),
            outcome: None,
        }];
        let silence_max = deadline.saturating_sub(self.driver.now());
        self.driver.exchange(&mut connections, &mut batch, silence_max).await;
        let [connection] = connections;
        match batch[0].outcome.take() {
            Some(Ok(answer)) => {
                pool_permit.put_back(Box::new(PooledConnection { connection, meta }));
                // A refusal means that the daemon has reserved nothing for us.
                decode_outcome::<()>(&answer.body)
                    .is_ok()
                    .then(|| pool.reservation.returned(&account))
            }
            _ => {
                pool_permit.drop_connection(connection, &meta);
                None
            }
        }
    }
}
