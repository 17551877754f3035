//! Which hardware limit is the bottleneck of a result, and what part of it was reached.
//!
//! For each limit the *ceiling* of a row is the row's rate if nothing else took time. The lowest
//! ceiling is the bottleneck.

mod calls;

use braid_client::IodId;
pub(crate) use calls::Calls;

use crate::{
    iods::{Iod, on_one_device},
    report::{Bottleneck, Limit, LimitKind},
};

/// A limit's ceiling for a row, in the row's unit.
#[derive(Clone, PartialEq, Debug)]
pub(crate) struct RowLimit {
    pub(crate) limit: String,
    pub(crate) rate: f64,
}

/// The lowest ceiling, and what part of it `rate` is.
pub(crate) fn find_bottleneck(rate: f64, ceilings: &[RowLimit]) -> Option<Bottleneck> {
    let sound = ceilings.iter().filter(|ceiling| ceiling.rate.is_finite() && ceiling.rate > 0.0);
    let least = sound.min_by(|a, b| a.rate.total_cmp(&b.rate))?;
    Some(Bottleneck {
        limit: least.limit.clone(),
        ceiling: least.rate,
        percent: 100.0 * rate / least.rate,
    })
}

/// The direction of a transfer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum TransferDirection {
    /// From the client to daemons.
    Send,
    /// From daemons to the client.
    Receive,
}

/// The measured limits, and the daemons that they belong to.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    pub(crate) all: Vec<Limit>,
    pub(crate) iods: Vec<Iod>,
}

impl Limits {
    /// Adds one more sample of each limit.
    pub(crate) fn add(&mut self, sampled: Vec<Limit>) {
        for limit in sampled {
            match self
                .all
                .iter_mut()
                .find(|known| known.kind == limit.kind && known.iod == limit.iod)
            {
                Some(known) => known.samples.extend(limit.samples),
                None => self.all.push(limit),
            }
        }
    }

    /// How fast all daemons receive bytes and write them to disk, by the measured limits; bytes per
    /// second.
    pub(crate) fn fill_rate(&self) -> Option<f64> {
        let devices = on_one_device(&self.iods).len() as f64;
        let rates = self.all.iter().filter_map(|limit| match limit.kind {
            LimitKind::SendAll => Some(limit.median()),
            LimitKind::DiskWrite => Some(limit.median() * devices),
            _ => None,
        });
        rates.min_by(f64::total_cmp)
    }

    fn rate(&self, kind: LimitKind, iod: Option<IodId>) -> Option<&Limit> {
        self.all
            .iter()
            .find(|limit| limit.kind == kind && limit.iod == iod.map(|iod| u64::from(iod.0)))
    }

    /// Ceilings of transfers between the client and these daemons, with the same number of bytes
    /// for each.
    pub(crate) fn network(&self, way: TransferDirection, iods: &[IodId]) -> Vec<RowLimit> {
        let (one, all) = match way {
            TransferDirection::Send => (LimitKind::Send, LimitKind::SendAll),
            TransferDirection::Receive => (LimitKind::Receive, LimitKind::ReceiveAll),
        };
        let each = iods.iter().filter_map(|iod| self.rate(one, Some(*iod)));
        let mut ceilings: Vec<RowLimit> = each.map(|limit| times(limit, iods.len())).collect();
        if iods.len() == self.iods.len() {
            ceilings.extend(self.combined(one, all));
        }
        ceilings.extend(self.rate(LimitKind::Memory, None).map(|limit| times(limit, 1)));
        ceilings
    }

    /// The ceiling of transfers with all daemons together: the highest rate seen on the client's
    /// link, with all daemons or with one alone. Many senders may overflow the queue of the
    /// receiver's port (incast), which is no limit of the link.
    fn combined(&self, one: LimitKind, all: LimitKind) -> Option<RowLimit> {
        let together = self.rate(all, None)?;
        let alone = self.all.iter().filter(|limit| limit.kind == one);
        let alone = alone.max_by(|a, b| a.median().total_cmp(&b.median()));
        match alone.filter(|alone| alone.median() > together.median()) {
            Some(alone) => {
                let limit = format!("{}, which alone was faster than all together", alone.name);
                Some(RowLimit { limit, rate: alone.median() })
            }
            None => Some(times(together, 1)),
        }
    }

    /// Ceilings of these daemons' disks, with the same load for each daemon: bytes in order
    /// ([`LimitKind::DiskWrite`]) or syncs ([`LimitKind::DiskSync`]). Daemons on one disk share it.
    pub(crate) fn disks(&self, kind: LimitKind, iods: &[IodId]) -> Vec<RowLimit> {
        let ceiling = |(first, _): (&Iod, usize)| {
            let on_it = self
                .iods
                .iter()
                .filter(|iod| iod.device == first.device && iods.contains(&iod.id))
                .count();
            let limit = self.rate(kind, Some(first.id)).filter(|_| on_it > 0)?;
            Some(RowLimit {
                limit: limit.name.clone(),
                rate: limit.median() * iods.len() as f64 / on_it as f64,
            })
        };
        on_one_device(&self.iods).into_iter().filter_map(ceiling).collect()
    }
}

fn times(limit: &Limit, count: usize) -> RowLimit {
    RowLimit { limit: limit.name.clone(), rate: limit.median() * count as f64 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::report::Unit;

    pub(super) fn limit(kind: LimitKind, iod: Option<u64>, median: f64) -> Limit {
        let name = iod.map_or_else(|| format!("{kind:?}"), |iod| format!("{kind:?} of {iod}"));
        Limit {
            kind,
            iod,
            name,
            how: String::new(),
            unit: Unit::BytesPerSecond,
            samples: vec![median],
        }
    }

    /// Two daemons on one disk; the second has a slow network.
    pub(super) fn limits() -> Limits {
        let iod = |id: u32| Iod {
            id: IodId(id),
            address: format!("h{id}:1"),
            ordinal: 0,
            device: 7,
            available: 0,
        };
        use LimitKind as K;
        Limits {
            all: vec![
                limit(K::Memory, None, 10_000.0),
                limit(K::Send, Some(1), 1000.0),
                limit(K::Send, Some(2), 100.0),
                limit(K::SendAll, None, 900.0),
                limit(K::DiskWrite, Some(1), 60.0),
                limit(K::MdsRoundTrip, None, 0.001),
                limit(K::RoundTrip, Some(1), 0.002),
                limit(K::RoundTrip, Some(2), 0.004),
                limit(K::Force, Some(2), 0.01),
            ],
            iods: vec![iod(1), iod(2)],
        }
    }

    #[test]
    fn the_slowest_network_binds_a_stripe_and_is_named() {
        let both = [IodId(1), IodId(2)];
        let bound =
            find_bottleneck(174.0, &limits().network(TransferDirection::Send, &both)).unwrap();
        assert_eq!(
            (bound.limit.as_str(), bound.ceiling, bound.percent),
            ("Send of 2", 200.0, 87.0)
        );
    }

    #[test]
    fn all_at_once_binds_where_it_is_less_than_all_by_themselves() {
        let limits = sending([100.0, 90.0], 150.0);
        let bound =
            find_bottleneck(150.0, &limits.network(TransferDirection::Send, &[IodId(1), IodId(2)]))
                .unwrap();
        assert_eq!((bound.limit.as_str(), bound.percent), ("SendAll", 100.0));
        let alone =
            find_bottleneck(50.0, &limits.network(TransferDirection::Send, &[IodId(1)])).unwrap();
        assert_eq!(alone.limit, "Send of 1", "it says nothing about one of them");
    }

    #[test]
    fn what_one_daemon_gets_alone_the_line_carries_for_all() {
        // Incast: a link of 117 on which all daemons together reach 20.
        let limits = sending([110.0, 117.0], 20.0);
        let bound =
            find_bottleneck(117.0, &limits.network(TransferDirection::Send, &[IodId(1), IodId(2)]))
                .unwrap();
        let says = "Send of 2, which alone was faster than all together";
        assert_eq!((bound.limit.as_str(), bound.ceiling, bound.percent), (says, 117.0, 100.0));
    }

    /// Each daemon alone, and both together.
    fn sending(each: [f64; 2], all: f64) -> Limits {
        let mut limits = limits();
        for limit in &mut limits.all {
            match (limit.kind, limit.iod) {
                (LimitKind::Send, Some(iod)) => limit.samples = vec![each[iod as usize - 1]],
                (LimitKind::SendAll, _) => limit.samples = vec![all],
                _ => {}
            }
        }
        limits
    }

    #[test]
    fn daemons_on_one_disk_share_it() {
        let both = [IodId(1), IodId(2)];
        let bound = find_bottleneck(30.0, &limits().disks(LimitKind::DiskWrite, &both)).unwrap();
        assert_eq!(
            (bound.ceiling, bound.percent),
            (60.0, 50.0),
            "the disk's rate is shared by both"
        );
        let mut apart = limits();
        apart.iods[1].device = 8;
        apart.all.push(limit(LimitKind::DiskWrite, Some(2), 20.0));
        let bound = find_bottleneck(10.0, &apart.disks(LimitKind::DiskWrite, &both)).unwrap();
        assert_eq!(
            (bound.limit.as_str(), bound.ceiling),
            ("DiskWrite of 2", 40.0),
            "the slower of two disks"
        );
        let alone = find_bottleneck(10.0, &apart.disks(LimitKind::DiskWrite, &[IodId(1)])).unwrap();
        assert_eq!((alone.limit.as_str(), alone.ceiling), ("DiskWrite of 1", 60.0));
    }

    #[test]
    fn three_daemons_of_which_two_share_a_disk_wait_for_that() {
        let mut limits = limits();
        limits.iods.push(Iod { id: IodId(3), device: 8, ..limits.iods[0].clone() });
        limits.all.push(limit(LimitKind::DiskWrite, Some(3), 60.0));
        let bound =
            find_bottleneck(45.0, &limits.disks(LimitKind::DiskWrite, &[1, 2, 3].map(IodId)))
                .unwrap();
        assert_eq!(
            (bound.limit.as_str(), bound.ceiling, bound.percent),
            ("DiskWrite of 1", 90.0, 50.0)
        );
    }

    #[test]
    fn nothing_measured_binds_nothing() {
        assert_eq!(find_bottleneck(1.0, &[]), None);
        let broken = RowLimit { limit: String::new(), rate: f64::NAN };
        assert_eq!(
            find_bottleneck(1.0, &[broken, RowLimit { limit: String::new(), rate: 0.0 }]),
            None
        );
    }
}
