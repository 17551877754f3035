//! The size report of a file: the object states that the daemons reported to the file's sole
//! writer, or the fact that an open file with a recorded size was not written. When the metadata
//! server receives it with a call, it need not query the daemons (ADR 0020).
//!
//! Invariants:
//! 1. Only the handle that made the file writes it. Otherwise the server ignores the report.
//! 2. The state becomes unknown for good by any change other than a write with a reply, and by a
//!    write with an unknown outcome.
//! 3. Nothing is reported while a write is in flight: it may take effect before or after the call.
//!
//! `end` asserts 3 for the count. Nothing makes an unknown state known again (2): only a new handle
//! has a known one. 1 is checked by the server.

use std::{collections::BTreeMap, sync::Mutex};

use braid_types::{IodId, PartIndex, WriteVerifier, limits::REPORTED_OBJECTS_MAX};
use braid_wire::message::{
    mds::{DaemonReport, SizeReport},
    types::ObjectInfo,
};

use super::semaphore::lock;

/// What is known of one open file's objects. `None`: the daemons must be queried.
#[derive(Debug, Default)]
pub(crate) struct SizeReportState(Mutex<Option<ReportedObjects>>);

#[derive(Debug, Default)]
struct ReportedObjects {
    in_flight: u32,
    /// The file existed before the open: the state ends with the first write.
    existed: bool,
    daemons: BTreeMap<IodId, (WriteVerifier, BTreeMap<PartIndex, ObjectInfo>)>,
}

/// A write in flight; each of its replies is passed to [`SizeReportState::record_write`]. If it is
/// dropped before its end, its outcome is unknown.
#[derive(Debug)]
pub(crate) struct PendingWrite<'a> {
    state: &'a SizeReportState,
    ended: bool,
}

impl<'a> PendingWrite<'a> {
    pub(crate) fn begin(state: &'a SizeReportState) -> Self {
        let mut known = lock(&state.0);
        match known.as_mut() {
            Some(ReportedObjects { existed: true, .. }) => *known = None,
            Some(known) => known.in_flight += 1,
            None => {}
        }
        drop(known);
        Self { state, ended: false }
    }

    /// Every daemon has confirmed its part.
    pub(crate) fn end(mut self) {
        self.ended = true;
    }
}

impl Drop for PendingWrite<'_> {
    fn drop(&mut self) {
        self.state.end(self.ended);
    }
}

impl SizeReportState {
    /// For a new file, which has no objects.
    pub(crate) fn of_new_file() -> Self {
        Self(Mutex::new(Some(ReportedObjects::default())))
    }

    /// For an existing file that this handle has not written.
    pub(crate) fn of_existing_file() -> Self {
        Self(Mutex::new(Some(ReportedObjects { existed: true, ..ReportedObjects::default() })))
    }

    /// Whether a report exists, now or after the writes in flight.
    pub(crate) fn is_known(&self) -> bool {
        lock(&self.0).is_some()
    }

    /// Makes the state unknown for good.
    pub(crate) fn invalidate(&self) {
        *lock(&self.0) = None;
    }

    fn end(&self, whole: bool) {
        let mut known = lock(&self.0);
        match known.as_mut().filter(|_| whole) {
            Some(known) => {
                debug_assert!(known.in_flight > 0, "3: a write that ends is counted");
                known.in_flight -= 1;
            }
            None => *known = None,
        }
    }

    /// A daemon has written, and reports its objects.
    pub(crate) fn record_write(&self, iod: IodId, verifier: WriteVerifier, objects: &[ObjectInfo]) {
        let mut table = lock(&self.0);
        let Some(known) = table.as_mut() else { return };
        let (known_verifier, parts) =
            known.daemons.entry(iod).or_insert_with(|| (verifier, BTreeMap::new()));
        if objects.is_empty() || *known_verifier != verifier {
            *table = None;
            return;
        }
        for object in objects {
            let entry = parts.entry(object.part).or_insert_with(|| object.clone());
            // Replies to concurrent writes may arrive in another order than the writes took effect.
            entry.bytes = entry.bytes.max(object.bytes);
            entry.bytes_used = entry.bytes_used.max(object.bytes_used);
            entry.mtime = entry.mtime.max(object.mtime);
        }
        let objects: usize = known.daemons.values().map(|(_, parts)| parts.len()).sum();
        if objects > REPORTED_OBJECTS_MAX {
            *table = None;
        }
    }

    /// The report to the metadata server.
    pub(crate) fn report(&self, open_id: u64) -> Option<SizeReport> {
        let table = lock(&self.0);
        let known = table.as_ref().filter(|known| known.in_flight == 0)?;
        let daemon = |(iod, (verifier, parts)): (
            &IodId,
            &(WriteVerifier, BTreeMap<PartIndex, ObjectInfo>),
        )| {
            DaemonReport {
                iod: *iod,
                verifier: *verifier,
                objects: parts.values().cloned().collect(),
            }
        };
        Some(SizeReport { open_id, daemons: known.daemons.iter().map(daemon).collect() })
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

    fn write(state: &SizeReportState, verifier: WriteVerifier, objects: &[ObjectInfo]) {
        let pending = PendingWrite::begin(state);
        state.record_write(IOD, verifier, objects);
        pending.end();
    }

    #[test]
    fn the_latest_state_of_each_object_is_reported_in_any_order() {
        let state = SizeReportState::of_new_file();
        assert_eq!(
            state.report(7),
            Some(SizeReport { open_id: 7, daemons: Vec::new() }),
            "nobody wrote"
        );
        write(&state, VERIFIER, &[object(0, 5), object(2, 9)]);
        write(&state, VERIFIER, &[object(0, 4)]);
        let daemons = vec![DaemonReport {
            iod: IOD,
            verifier: VERIFIER,
            objects: vec![object(0, 5), object(2, 9)],
        }];
        assert_eq!(state.report(7), Some(SizeReport { open_id: 7, daemons }));
    }

    #[test]
    fn an_existing_file_is_reported_only_as_not_written() {
        let state = SizeReportState::of_existing_file();
        assert_eq!(state.report(7), Some(SizeReport { open_id: 7, daemons: Vec::new() }));
        write(&state, VERIFIER, &[object(0, 5)]);
        assert_eq!(state.report(7), None);
    }

    #[test]
    fn nothing_is_reported_while_a_write_is_in_flight() {
        let state = SizeReportState::of_new_file();
        let pending = PendingWrite::begin(&state);
        assert_eq!(state.report(7), None);
        state.record_write(IOD, VERIFIER, &[object(0, 5)]);
        pending.end();
        assert!(state.report(7).is_some());
    }

    #[test]
    fn an_uncertain_state_is_not_reported() {
        let unknown: [fn(&SizeReportState); 5] = [
            |state| state.invalidate(),
            |state| drop(PendingWrite::begin(state)),
            |state| write(state, WriteVerifier(2), &[object(0, 6)]),
            |state| write(state, VERIFIER, &[]),
            |state| {
                (0..=REPORTED_OBJECTS_MAX as u16)
                    .for_each(|part| write(state, VERIFIER, &[object(part, 1)]))
            },
        ];
        for (at, make) in unknown.into_iter().enumerate() {
            let state = SizeReportState::of_new_file();
            write(&state, VERIFIER, &[object(0, 5)]);
            make(&state);
            assert_eq!(state.report(7), None, "{at}");
            write(&state, VERIFIER, &[object(0, 5)]);
            assert_eq!(state.report(7), None, "{at}: for good");
        }
        assert_eq!(SizeReportState::default().report(7), None);
    }
}
