//! Change queries: which number of the change counter a read of a file's object times has.
//!
//! A write does not pass through the server, and two writes within one tick of a disk's clock have
//! the same time. So a query draws a new number unless the query before it (1) found every object
//! as it is now, its time to the nanosecond, and (2) came so long after that time that clock ticks
//! and the difference of the clocks cannot matter: a write after such a query has another time. So
//! a file that is open for writing and idle keeps its number, and a client that compares numbers
//! keeps its cache (ADR 0013).

use std::{
    collections::HashMap,
    hash::{DefaultHasher, Hash, Hasher},
};

use braid_types::{FileIndex, Timestamp};

use crate::{core::MdsCore, objects::IodReply};

/// Files whose last query is remembered (I9), 3 MiB. With more, all are forgotten, and new numbers
/// are drawn.
const CHANGE_QUERIES_MAX: usize = 65_536;
/// A time is old after this: clocks agree within 10 ms plus the time of a heartbeat, and a tick is
/// at most 10 ms.
const SETTLED_AGE_NANOS: i128 = 200_000_000;

/// The last query of each file's objects.
#[derive(Debug, Default)]
pub(super) struct ChangeQueries(HashMap<FileIndex, ObjectTimes>);

#[derive(Debug)]
struct ObjectTimes {
    digest: u64,
    number: u64,
    /// All times were old when they were read.
    old: bool,
}

impl ChangeQueries {
    /// The number of a query at `now` that found `answers`; a new one comes from `draw`.
    fn change_number(
        &mut self,
        file: FileIndex,
        answers: &[IodReply],
        now: Timestamp,
        draw: impl FnOnce() -> u64,
    ) -> u64 {
        let digest = digest(answers);
        if let Some(look) = self.0.get(&file).filter(|look| look.old && look.digest == digest) {
            return look.number;
        }
        if self.0.len() >= CHANGE_QUERIES_MAX {
            self.0.clear();
        }
        let infos = answers.iter().flat_map(|answer| &answer.infos).filter(|info| info.exists);
        let old =
            infos.map(|info| nanos(now) - nanos(info.mtime)).all(|age| age > SETTLED_AGE_NANOS);
        let number = draw();
        self.0.insert(file, ObjectTimes { digest, number, old });
        number
    }
}

impl MdsCore {
    /// The number of a query that found `answers`.
    pub(super) fn change_number_of(&self, file: FileIndex, answers: &[IodReply]) -> u64 {
        let now = self.env.clock.wall();
        self.state()
            .sizes
            .change_queries
            .change_number(file, answers, now, || self.namespace.next_change())
    }
}

fn nanos(time: Timestamp) -> i128 {
    i128::from(time.seconds) * 1_000_000_000 + i128::from(time.nanos)
}

fn digest(answers: &[IodReply]) -> u64 {
    let mut hasher = DefaultHasher::new();
    for IodReply { iod, verifier, infos } in answers {
        (iod.0, verifier.0, infos.len()).hash(&mut hasher);
        for info in infos {
            let Timestamp { seconds, nanos } = info.mtime;
            (info.part.0, info.exists, info.bytes.0, info.bytes_used.0, seconds, nanos)
                .hash(&mut hasher);
        }
    }
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use braid_types::{ByteCount, IodId, PartIndex, WriteVerifier};
    use braid_wire::message::types::ObjectInfo;

    use super::*;

    const FILE: FileIndex = FileIndex(5);

    fn at(ms: i64) -> Timestamp {
        Timestamp { seconds: ms / 1000, nanos: (ms % 1000) as u32 * 1_000_000 }
    }

    fn written(ms: i64) -> Vec<IodReply> {
        let bytes = ByteCount(10);
        let info = ObjectInfo {
            part: PartIndex(0),
            exists: true,
            bytes,
            bytes_used: bytes,
            mtime: at(ms),
        };
        vec![IodReply { iod: IodId(1), verifier: WriteVerifier(1), infos: vec![info] }]
    }

    #[test]
    fn objects_that_were_idle_at_the_last_query_keep_its_number() {
        let (mut looks, mut newest) = (ChangeQueries::default(), 0);
        let mut look = |answers: &[IodReply], now| {
            looks.change_number(FILE, answers, at(now), || {
                newest += 1;
                newest
            })
        };
        assert_eq!(
            (look(&written(1000), 1000), look(&written(1000), 1200)),
            (1, 2),
            "may be written in the same tick"
        );
        assert_eq!((look(&written(1000), 1201), look(&written(1000), 9000)), (3, 3));
        assert_eq!(look(&written(9001), 9001), 4);
        assert_eq!(look(&[], 9001), 5);
    }
}
