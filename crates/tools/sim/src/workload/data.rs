//! Calls on open files.

use braid_client::{Error, Reservation, Status};
use braid_layout::{Extent, View};

use super::{ClientWorkload, OpenFile, call::is_unknown};
use crate::{checker::CallOutcome, model::data::Change};

/// Offsets and sizes stay below this.
const BYTES_MAX: u64 = 48 * 1024;

impl ClientWorkload {
    pub(super) async fn data_step(&mut self) {
        let which = self.random.below(self.open.len() as u64) as usize;
        let open = self.open.swap_remove(which);
        let keep = match self.random.below(100) {
            0..34 => self.write(&open).await,
            34..58 => self.read(&open).await,
            58..66 => self.truncate(&open).await,
            66..71 => self.punch(&open).await,
            71..74 => self.allocate(&open).await,
            74..84 => self.sync(&open).await,
            84..92 => self.size(&open).await,
            _ => return self.close(open).await,
        };
        if keep {
            self.open.push(open);
        } else {
            self.close(open).await;
        }
    }

    fn range(&self) -> (u64, u64) {
        let from = self.random.below(BYTES_MAX);
        let longest = if self.random.chance(300_000) { 24_000 } else { 3000 };
        (from, from + 1 + self.random.below(longest))
    }

    /// A random write: plain, through a strided view, or a list of extents.
    async fn write(&self, open: &OpenFile) -> bool {
        let (from, to) = self.range();
        let value = (self.judge.number() % 250 + 1) as u8;
        let kind = self.random.below(3);
        let (group, gap) = (self.random.within(1..3000), self.random.within(1..6000));
        let ranges = match kind {
            0 => vec![(from, to)],
            1 => strided(from, group, group + gap, to - from),
            _ => {
                let middle = from + (to - from) / 2;
                vec![(from, middle + 1), (middle + 1 + gap, to + 1 + gap)]
            }
        };
        let bytes: u64 = ranges.iter().map(|(from, to)| to - from).sum();
        let buffer = vec![value; bytes as usize];
        let what = format!("write {:x} {ranges:?} = {value:#04x}", open.index);
        let change = Change::Write { by: open.handle, ranges: ranges.clone(), value };
        let on = self.judge.begin(open.index, Some(change));
        let outcome = match kind {
            0 => self.plain_write(what, open, &buffer, from).await,
            1 => match open.file.with_view(View::strided(from, group, group + gap)) {
                Ok(view) => self.call(what, view.write_at(&buffer, 0)).await,
                Err(error) => Err(error),
            },
            _ => {
                let list: Vec<Extent> = ranges.iter().map(extent).collect();
                self.call(what, open.file.write_list(&list, &[std::io::IoSlice::new(&buffer)]))
                    .await
            }
        };
        on.changed(if outcome.is_ok() { CallOutcome::Done } else { CallOutcome::Partly });
        self.goes_on(open, outcome.as_ref().err().map(braid_client::Error::status))
    }

    /// A plain write, like a mount's buffered write: with a reservation at the daemons where there
    /// is one.
    async fn plain_write(
        &self,
        what: String,
        open: &OpenFile,
        buffer: &[u8],
        from: u64,
    ) -> Result<usize, Error> {
        let mut held = Reservation::default();
        if self.random.chance(500_000)
            && open.file.reserve_space(from, buffer.len() as u64, &mut held)
        {
            return self
                .call(
                    format!("{what} with reservation"),
                    open.file.write_reserved(&mut held, buffer, from),
                )
                .await;
        }
        self.call(what, open.file.write_at(buffer, from)).await
    }

    async fn read(&self, open: &OpenFile) -> bool {
        let (from, to) = self.range();
        let wanted = to - from;
        let mut buffer = vec![0xee; wanted as usize];
        let on = self.judge.begin(open.index, None);
        let outcome = self
            .call(
                format!("read {:x} {from}..{to}", open.index),
                open.file.read_at(&mut buffer, from),
            )
            .await;
        match &outcome {
            Ok(got) => {
                buffer.truncate(*got);
                on.check_seen(|data| {
                    data.check_end_of_file(from, buffer.len() as u64, wanted)
                        .and_then(|()| data.check_bytes(from, &buffer))
                });
            }
            Err(_) => on.failed(),
        }
        self.goes_on(open, outcome.as_ref().err().map(braid_client::Error::status))
    }

    async fn truncate(&self, open: &OpenFile) -> bool {
        let size = self.random.below(BYTES_MAX);
        let change = Change::Truncate { by: Some(open.handle), size };
        let on = self.judge.begin(open.index, Some(change));
        let outcome = self
            .call(format!("truncate {:x} to {size}", open.index), open.file.set_len(size))
            .await;
        on.changed(if outcome.is_ok() { CallOutcome::Done } else { CallOutcome::Unknown });
        self.goes_on(open, outcome.as_ref().err().map(braid_client::Error::status))
    }

    async fn punch(&self, open: &OpenFile) -> bool {
        let (from, to) = self.range();
        let change = Change::Punch { by: open.handle, from, to };
        let on = self.judge.begin(open.index, Some(change));
        let call = open.file.punch_hole(from, to - from);
        let outcome = self.call(format!("punch {:x} {from}..{to}", open.index), call).await;
        on.changed(if outcome.is_ok() { CallOutcome::Done } else { CallOutcome::Unknown });
        self.goes_on(open, outcome.as_ref().err().map(braid_client::Error::status))
    }

    async fn allocate(&self, open: &OpenFile) -> bool {
        let (from, to) = self.range();
        let keep_size = self.random.chance(500_000);
        let end = if keep_size { 0 } else { to };
        let on = self.judge.begin(open.index, Some(Change::Allocate { by: open.handle, end }));
        let call = open.file.allocate(from, to - from, keep_size);
        let outcome = self
            .call(format!("allocate {:x} {from}..{to} keep {keep_size}", open.index), call)
            .await;
        on.changed(if outcome.is_ok() { CallOutcome::Done } else { CallOutcome::Partly });
        self.goes_on(open, outcome.as_ref().err().map(braid_client::Error::status))
    }

    async fn sync(&self, open: &OpenFile) -> bool {
        let losses = self.judge.mds_losses();
        let outcome =
            self.call(format!("fsync {:x} by {}", open.index, open.handle), open.file.sync()).await;
        match outcome {
            Ok(_) => {
                self.judge.mds_knows_open(open.index, losses);
                self.judge.synced(open.index, open.handle);
            }
            Err(error) => {
                self.judge.loss_reported_if(is_loss(error.status()), open.index, open.handle);
                return self.goes_on(open, Some(error.status()));
            }
        }
        true
    }

    pub(super) async fn size(&self, open: &OpenFile) -> bool {
        let losses = self.judge.mds_losses();
        let on = self.judge.begin(open.index, None);
        let outcome = self.call(format!("size of {:x}", open.index), open.file.attributes()).await;
        match &outcome {
            Ok(attributes) => {
                self.judge.mds_knows_open(open.index, losses);
                on.check_seen(|data| data.check_size(attributes.bytes.0));
            }
            Err(_) => on.failed(),
        }
        self.goes_on(open, outcome.as_ref().err().map(braid_client::Error::status))
    }

    pub(super) async fn close(&self, open: OpenFile) {
        let OpenFile { file, index, handle } = open;
        self.judge.closed(index, handle);
        let outcome = self.call(format!("close {index:x} by {handle}"), file.close()).await;
        self.judge.loss_reported_if(outcome.is_err(), index, handle);
    }

    /// Whether the open file is still usable; an unexplained error is a violation.
    fn goes_on(&self, open: &OpenFile, failed: Option<Status>) -> bool {
        match failed {
            None => true,
            Some(Status::Fenced | Status::NoSession | Status::StaleHandle) => false,
            Some(status) if is_unknown(status) => true,
            Some(status) => {
                self.judge.add_violation(
                    "I10",
                    format!("a call on open file {:x} failed with {status:?}", open.index),
                );
                false
            }
        }
    }
}

fn is_loss(status: Status) -> bool {
    matches!(status, Status::UnsyncedDataLost | Status::DiskError | Status::NoSpace)
}

fn extent(range: &(u64, u64)) -> Extent {
    Extent { offset: range.0, bytes: range.1 - range.0 }
}

/// The ranges of a strided view's first bytes.
fn strided(from: u64, group: u64, stride: u64, bytes: u64) -> Vec<(u64, u64)> {
    let at = |index: u64| {
        let start = from + index * stride;
        (start, start + group.min(bytes - index * group))
    };
    (0..bytes.div_ceil(group)).map(at).collect()
}
