//! Ceilings of operations that consist of calls: the servers' call rates, and the time of each
//! call.

use braid_client::IodId;

use super::{Limits, RowLimit};
use crate::{
    iods::Iod,
    report::{Limit, LimitKind},
};

/// The calls of one operation, one after the other.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Calls {
    /// Calls of the metadata server that change nothing.
    pub(crate) looks: u32,
    /// Calls of the metadata server that change something.
    pub(crate) changes: u32,
    /// Calls of I/O daemons.
    pub(crate) iod: u32,
}

impl Limits {
    /// Ceilings of operations of these calls by this many tasks at a time. Each task waits for its
    /// round trips. The servers and the client's processors handle no more calls than without other
    /// work.
    pub(crate) fn calls(&self, tasks: u32, calls: Calls, iods: &[IodId]) -> Vec<RowLimit> {
        let most = |kind, count: u32| {
            let limit = self.rate(kind, None).filter(|_| count > 0)?;
            let times = if count > 1 { format!(", {count} for each") } else { String::new() };
            Some(RowLimit {
                limit: format!("{}{times}", limit.name),
                rate: limit.median() / f64::from(count),
            })
        };
        let waited = self.round_trips(tasks, calls, iods);
        let looks = most(LimitKind::MdsCalls, calls.looks);
        let changes = most(LimitKind::MdsChanges, calls.changes);
        let iod = most(LimitKind::IodCalls, calls.iod);
        [waited, looks, changes, iod].into_iter().flatten().collect()
    }

    fn round_trips(&self, tasks: u32, calls: Calls, iods: &[IodId]) -> Option<RowLimit> {
        let mds = self.rate(LimitKind::MdsRoundTrip, None).map_or(0.0, Limit::median);
        let iod = self.mean(LimitKind::RoundTrip, iods);
        let to_mds = calls.looks + calls.changes;
        let time = f64::from(to_mds) * mds + f64::from(calls.iod) * iod;
        let mut parts = Vec::new();
        if to_mds > 0 {
            parts.push(format!("{to_mds} to the metadata server"));
        }
        if calls.iod > 0 {
            parts.push(format!("{} to {}", calls.iod, self.named(LimitKind::RoundTrip, iods)));
        }
        let limit = format!("the round trips ({})", parts.join(", "));
        (time > 0.0)
            .then(|| RowLimit { limit: at_once(limit, tasks), rate: f64::from(tasks) / time })
    }

    /// Ceilings of operations on files that are created or opened; each has these parts, `(kind,
    /// how often on average)`.
    pub(crate) fn files(&self, parts: &[(LimitKind, f64)]) -> Vec<RowLimit> {
        let ceiling = |(kind, each): &(LimitKind, f64)| {
            let limit = self.rate(*kind, None)?;
            let times = if *each == 1.0 { String::new() } else { format!(", {each} for each") };
            Some(RowLimit { limit: format!("{}{times}", limit.name), rate: limit.median() / each })
        };
        parts.iter().filter_map(ceiling).collect()
    }

    /// Ceilings of operations by this many tasks at a time that each wait once for a call of this
    /// kind.
    pub(crate) fn sync_limits(
        &self,
        kind: LimitKind,
        tasks: u32,
        iods: &[IodId],
    ) -> Option<RowLimit> {
        let (time, name) = match kind {
            LimitKind::MdsForce | LimitKind::MdsRoundTrip => {
                let limit = self.rate(kind, None)?;
                (limit.median(), limit.name.clone())
            }
            _ => (self.mean(kind, iods), format!("{} {}", kind.of_one(), self.named(kind, iods))),
        };
        (time > 0.0)
            .then(|| RowLimit { limit: at_once(name, tasks), rate: f64::from(tasks) / time })
    }

    fn mean(&self, kind: LimitKind, iods: &[IodId]) -> f64 {
        let times: Vec<f64> =
            iods.iter().filter_map(|iod| self.rate(kind, Some(*iod))).map(Limit::median).collect();
        if times.is_empty() { 0.0 } else { times.iter().sum::<f64>() / times.len() as f64 }
    }

    /// The name of the daemon, or their number and the slowest one.
    fn named(&self, kind: LimitKind, iods: &[IodId]) -> String {
        let time = |iod: &IodId| self.rate(kind, Some(*iod)).map_or(0.0, Limit::median);
        let slowest = iods.iter().max_by(|a, b| time(a).total_cmp(&time(b)));
        let name =
            slowest.and_then(|iod| self.iods.iter().find(|known| known.id == *iod)).map(Iod::name);
        let name = name.unwrap_or_else(|| "I/O daemons".to_owned());
        if iods.len() > 1 { format!("{} I/O daemons, slowest {name}", iods.len()) } else { name }
    }
}

fn at_once(name: String, tasks: u32) -> String {
    if tasks > 1 { format!("{name}, {tasks} at a time") } else { name }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bottleneck::{
        find_bottleneck,
        tests::{limit, limits},
    };

    #[test]
    fn round_trips_add_up_and_name_the_slowest_daemon() {
        let both = [IodId(1), IodId(2)];
        let calls = Calls { looks: 1, changes: 1, iod: 1 };
        let ceiling = limits().round_trips(4, calls, &both).unwrap();
        assert!((ceiling.rate - 4.0 / (0.002 + 0.003)).abs() < 1e-9, "{}", ceiling.rate);
        let says = "the round trips (2 to the metadata server, 1 to 2 I/O daemons, \
                    slowest I/O daemon 2 (h2:1)), 4 at a time";
        assert_eq!(ceiling.limit, says);
        assert_eq!(limits().round_trips(1, Calls::default(), &both), None);
    }

    #[test]
    fn what_the_servers_can_answer_binds_more_tasks_than_they_have_processors() {
        let mut limits = limits();
        limits.all.push(limit(LimitKind::MdsChanges, None, 300.0));
        let calls = Calls { looks: 0, changes: 3, iod: 1 };
        let bound = find_bottleneck(50.0, &limits.calls(4, calls, &[IodId(1)])).unwrap();
        assert_eq!(
            (bound.limit.as_str(), bound.ceiling, bound.percent),
            ("MdsChanges, 3 for each", 100.0, 50.0)
        );
        let few =
            find_bottleneck(50.0, &limits.calls(4, Calls { changes: 0, ..calls }, &[IodId(1)]))
                .unwrap();
        assert!(few.limit.starts_with("the round trips (1 to I/O daemon 1"), "{}", few.limit);
    }

    #[test]
    fn a_file_is_made_no_faster_than_the_daemons_make_objects() {
        let mut limits = limits();
        limits.all.push(limit(LimitKind::MdsCreates, None, 300.0));
        limits.all.push(limit(LimitKind::IodObjects, None, 100.0));
        let parts = [
            (LimitKind::MdsCreates, 1.0),
            (LimitKind::IodObjects, 1.0),
            (LimitKind::MdsOpens, 1.0),
        ];
        let bound = find_bottleneck(90.0, &limits.files(&parts)).unwrap();
        assert_eq!(
            (bound.limit.as_str(), bound.ceiling, bound.percent),
            ("IodObjects", 100.0, 90.0)
        );
        let bound = find_bottleneck(90.0, &limits.files(&[(LimitKind::IodObjects, 0.5)])).unwrap();
        assert_eq!((bound.limit.as_str(), bound.ceiling), ("IodObjects, 0.5 for each", 200.0));
    }

    #[test]
    fn a_wait_is_named_with_its_daemon() {
        let ceiling = limits().sync_limits(LimitKind::Force, 1, &[IodId(2)]).unwrap();
        assert_eq!(
            (ceiling.rate, ceiling.limit.as_str()),
            (100.0, "a 4 KiB write and sync at I/O daemon 2 (h2:1)")
        );
    }
}
