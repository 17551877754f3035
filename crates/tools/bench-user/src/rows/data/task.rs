//! One task of a data row: its part of the file, a request at a time. Reads check what was written.

use std::time::Duration;

use braid_client::{Group, ThreadGroup, View};

use super::Data;
use crate::{
    error::Result,
    pace::PacedFile,
    rows::{Random, files::TaskFile},
    sample::Task,
};

/// Maximum time that tasks wait for each other between two collective calls.
const MEET: Duration = Duration::from_secs(120);

pub(super) struct DataTask {
    data: Data,
    rank: u64,
    pub(super) file: TaskFile,
    /// The view of the task.
    view: PacedFile,
    group: Option<ThreadGroup>,
    buffer: Vec<u8>,
    random: Random,
    /// Number of requests.
    made: u64,
    requests: u64,
}

impl DataTask {
    pub(super) fn new(
        data: Data,
        rank: u64,
        file: TaskFile,
        group: Option<ThreadGroup>,
    ) -> Result<Self> {
        let view = match data.piece.filter(|_| data.shared) {
            Some(piece) => {
                let piece = piece as u64;
                View::strided(rank * piece, piece, u64::from(data.tasks) * piece)
            }
            None => View::whole(),
        };
        let stream = data.stream_bytes(file.bytes);
        let requests = stream / data.request as u64;
        assert!(requests > 0, "`bytes_min` has space for a request of each task");
        let buffer = file.content.buffer(data.request);
        let view = file.file.with_view(view)?;
        Ok(Self {
            data,
            rank,
            view,
            group,
            buffer,
            random: Random::new(rank),
            made: 0,
            requests,
            file,
        })
    }

    /// The next position in the task's stream.
    fn next_position(&mut self) -> u64 {
        let number = if self.data.random {
            self.random.below(self.requests)
        } else {
            self.made % self.requests
        };
        self.made += 1;
        number * self.data.request as u64
    }

    /// The file offset of a byte of the task's stream.
    fn offset(&self, position: u64) -> u64 {
        let (data, tasks) = (&self.data, u64::from(self.data.tasks));
        match data.piece.filter(|_| data.shared) {
            Some(piece) => {
                let piece = piece as u64;
                self.rank * piece + position / piece * tasks * piece + position % piece
            }
            None => self.start() + position,
        }
    }

    /// The start of its extent.
    fn start(&self) -> u64 {
        if self.data.shared { self.rank * self.requests * self.data.request as u64 } else { 0 }
    }

    /// The position in the view for a position of the stream.
    fn place(&self, position: u64) -> u64 {
        if self.data.piece.is_some() { position } else { self.start() + position }
    }

    fn write(&mut self, position: u64) -> Result<()> {
        let mut buffer = std::mem::take(&mut self.buffer);
        let block = self.file.content.block();
        self.file.content.stamp(&mut buffer, |at| self.offset(position + (at * block) as u64));
        let place = self.place(position);
        let written = match &self.group {
            Some(group) => self.view.write_all_at(group, &buffer, place),
            None => self.view.write_at(&buffer, place),
        };
        self.buffer = buffer;
        written.map(drop)
    }

    fn read(&mut self, position: u64) -> Result<()> {
        let place = self.place(position);
        let bytes = match &self.group {
            Some(group) => self.view.read_all_at(group, &mut self.buffer, place)?,
            None => self.view.read_at(&mut self.buffer, place)?,
        };
        let content = &self.file.content;
        let offset = |at: usize| self.offset(position + (at * content.block()) as u64);
        let short = (bytes < self.buffer.len()).then(|| self.offset(position + bytes as u64));
        match short.or_else(|| content.find_wrong_stamp(&self.buffer, offset)) {
            Some(wrong) => Err(self.file.wrong(wrong)),
            None => Ok(()),
        }
    }
}

impl Task for DataTask {
    fn step(&mut self) -> Result<u64> {
        // Bytes written twice before a flush reach the disk only once.
        if self.data.flush && self.made > 0 && self.made.is_multiple_of(self.requests) {
            self.file.file.sync()?;
        }
        let position = self.next_position();
        if self.data.write {
            self.write(position)?
        } else {
            self.read(position)?
        }
        Ok(if self.data.is_counted() { 1 } else { self.data.request as u64 })
    }

    fn finish(&mut self) -> Result<()> {
        if self.data.flush {
            self.file.file.sync()?;
        }
        Ok(())
    }

    fn go_on(&mut self, late: bool) -> Result<bool> {
        let Some(group) = &self.group else { return Ok(!late) };
        let all = group.all_gather(&[u8::from(late)], MEET)?;
        Ok(all.iter().all(|one| one != &[1]))
    }
}
