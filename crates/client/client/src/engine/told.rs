//! What the daemons have told of a file that this client made and alone has written, or that an open file of a size on record was
//! not written: the metadata server, told it with a call, need not ask them (ADR 0020).
//!
//! Invariants: (1) only the open file that made the file writes it, or the server takes what is told for nothing; (2) what
//! changes the file otherwise than by a write whose reply tells, and a write of which it is not known how it ended, make
//! it unknown for good; (3) nothing is told while a write is under way: its effect may come before the answer or after.

use std::{collections::BTreeMap, sync::Mutex};

use braid_types::{IodId, PartIndex, WriteVerifier, limits::TOLD_OBJECTS_MAX};
use braid_wire::message::{
    mds::{ToldDaemon, ToldSize},
    types::ObjectInfo,
};

use super::gate::lock;

/// What is known of one open file's objects; `None`: ask the daemons.
#[derive(Debug, Default)]
pub(crate) struct Told(Mutex<Option<Known>>);

#[derive(Debug, Default)]
struct Known {
    under_way: u32,
    /// The file was there before: what is known ends with the first write.
    found: bool,
    daemons: BTreeMap<IodId, (WriteVerifier, BTreeMap<PartIndex, ObjectInfo>)>,
}

/// A write under way, each of whose replies is given to [`Told::wrote`]. Dropped before it ended, it may have done anything.
#[derive(Debug)]
pub(crate) struct Telling<'a> {
    told: &'a Told,
    ended: bool,
}

impl<'a> Telling<'a> {
    pub(crate) fn begin(told: &'a Told) -> Self {
        let mut known = lock(&told.0);
        match known.as_mut() {
            Some(Known { found: true, .. }) => *known = None,
            Some(known) => known.under_way += 1,
            None => {}
        }
        drop(known);
        Self { told, ended: false }
    }

    /// Every daemon has said that it did its part.
    pub(crate) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for Telling<'_> {
    fn drop(&mut self) {
        self.told.end(self.ended);
    }
}

impl Told {
    /// Of a file that was made just now and has no objects.
    pub(crate) fn made() -> Self {
        Self(Mutex::new(Some(Known::default())))
    }

    /// Of a file that was there, and that this handle has not written.
    pub(crate) fn found() -> Self {
        Self(Mutex::new(Some(Known { found: true, ..Known::default() })))
    }

    /// Whether something can be told, or will be.
    pub(crate) fn is_known(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// From now on the daemons must be asked.
    pub(crate) fn forget(&self) {
        *lock(&self.0) = None;
    }

    fn end(&self, whole: bool) {
        let mut known = lock(&self.0);
        match known.as_mut().filter(|_| whole) {
            Some(known) => known.under_way -= 1,
            None => *known = None,
        }
    }

    /// A daemon has written, and tells how the objects are since.
    pub(crate) fn wrote(&self, iod: IodId, verifier: WriteVerifier, objects: &[ObjectInfo]) {
        let mut table = lock(&self.0);
        let Some(known) = table.as_mut() else { return };
        let (said, parts) = known.daemons.entry(iod).or_insert_with(|| (verifier, BTreeMap::new()));
        if objects.is_empty() || *said != verifier {
            *table = None;
            return;
        }
        for object in objects {
            let kept = parts.entry(object.part).or_insert_with(|| object.clone());
            // Replies to writes at the same time may come in another order than the writes.
            kept.bytes = kept.bytes.max(object.bytes);
            kept.bytes_used = kept.bytes_used.max(object.bytes_used);
            kept.mtime = kept.mtime.max(object.mtime);
        }
        let objects: usize = known.daemons.values().map(|(_, parts)| parts.len()).sum();
        if objects > TOLD_OBJECTS_MAX {
            *table = None;
        }
    }

    /// What to tell the server of it.
    pub(crate) fn tell(&self, open_id: u64) -> Option<ToldSize> {
        let table = lock(&self.0);
        let known = table.as_ref().filter(|known| known.under_way == 0)?;
        let daemon = |(iod, (verifier, parts)): (
            &IodId,
            &(WriteVerifier, BTreeMap<PartIndex, ObjectInfo>),
        )| {
            ToldDaemon {
                iod: *iod,
                verifier: *verifier,
                objects: parts.values().cloned().collect(),
            }
        };
        Some(ToldSize { open_id, daemons: known.daemons.iter().map(daemon).collect() })
    }
}

#[cfg(test)]
mod tests {
    use braid_types::{ByteCount, Timestamp};

    use super::*;

    const IOD: IodId = IodId(3);
    const VERIFIER: WriteVerifier = WriteVerifier(1);

    fn object(part: u16, bytes: u64) -> ObjectInfo {
        let mtime = Timestamp { seconds: bytes as i64, nanos: 0 };
        ObjectInfo {
            part: PartIndex(part),
            exists: true,
            bytes: ByteCount(bytes),
            bytes_used: ByteCount(bytes),
            mtime,
        }
    }

    fn write(told: &Told, verifier: WriteVerifier, objects: &[ObjectInfo]) {
        let telling = Telling::begin(told);
        told.wrote(IOD, verifier, objects);
        telling.end();
    }

    #[test]
    fn the_latest_of_each_object_is_told_in_whatever_order_it_came() {
        let told = Told::made();
        assert_eq!(
            told.tell(7),
            Some(ToldSize { open_id: 7, daemons: Vec::new() }),
            "nobody wrote"
        );
        write(&told, VERIFIER, &[object(0, 5), object(2, 9)]);
        write(&told, VERIFIER, &[object(0, 4)]);
        let daemons = vec![ToldDaemon {
            iod: IOD,
            verifier: VERIFIER,
            objects: vec![object(0, 5), object(2, 9)],
        }];
        assert_eq!(told.tell(7), Some(ToldSize { open_id: 7, daemons }));
    }

    #[test]
    fn of_a_file_that_was_there_it_is_told_that_nobody_wrote_and_no_more() {
        let told = Told::found();
        assert_eq!(told.tell(7), Some(ToldSize { open_id: 7, daemons: Vec::new() }));
        write(&told, VERIFIER, &[object(0, 5)]);
        assert_eq!(told.tell(7), None);
    }

    #[test]
    fn nothing_is_told_while_a_write_is_under_way() {
        let told = Told::made();
        let telling = Telling::begin(&told);
        assert_eq!(told.tell(7), None);
        told.wrote(IOD, VERIFIER, &[object(0, 5)]);
        telling.end();
        assert!(told.tell(7).is_some());
    }

    #[test]
    fn what_is_not_known_for_certain_is_not_told() {
        let unknown: [fn(&Told); 5] = [
            |told| told.forget(),
            |told| drop(Telling::begin(told)),
            |told| write(told, WriteVerifier(2), &[object(0, 6)]),
            |told| write(told, VERIFIER, &[]),
            |told| {
                (0..=TOLD_OBJECTS_MAX as u16)
                    .for_each(|part| write(told, VERIFIER, &[object(part, 1)]))
            },
        ];
        for (at, make) in unknown.into_iter().enumerate() {
            let told = Told::made();
            write(&told, VERIFIER, &[object(0, 5)]);
            make(&told);
            assert_eq!(told.tell(7), None, "{at}");
            write(&told, VERIFIER, &[object(0, 5)]);
            assert_eq!(told.tell(7), None, "{at}: for good");
        }
        assert_eq!(Told::default().tell(7), None);
    }
}
