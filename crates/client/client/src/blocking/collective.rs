//! Collective calls of programs with threads or processes.

use std::{
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_net::Blocking;

use super::{File, block_on};
use crate::{
    engine::{
        Collective, CollectiveOptions, Next, announce_part, announce_refusal, first_refusal,
        parts_overlap,
    },
    error::{Error, Result},
    group::Group,
};

/// Takes part in a collective call of the other tasks by reporting a failure. For a task that
/// cannot make the call itself, because it has no open file or invalid arguments. The call fails in
/// all tasks, and no task waits for this one. Returns the error that all tasks return: the failure
/// of the task with the lowest rank.
///
/// # Errors
/// The group failed before all tasks came.
pub fn refuse_all(group: &dyn Group, error: &Error, time_max: Duration) -> Result<Error> {
    Ok(first_refusal(&group.all_gather(&announce_refusal(error), time_max)?))
}

impl File {
    /// Reads at a position of this task's view, together with all tasks of the group. Each task
    /// reads what [`File::read_at`] would return. Where it is faster, the I/O daemons read each
    /// byte once and in the order of their disks (`docs/adr/0015-collective-requests.md`).
    ///
    /// Each task calls this on its own open file, and all calls of a group come in the same order
    /// in every task. A task without bytes passes an empty buffer. Either all tasks succeed, or all
    /// fail with the same error.
    ///
    /// ```no_run
    /// # use braid_client::{File, Group, View};
    /// # fn example(file: &File, group: &dyn Group) -> braid_client::Result<()> {
    /// let (rank, size) = (u64::from(group.rank()), u64::from(group.size()));
    /// let mine = file.with_view(View::strided(rank * 4096, 4096, size * 4096))?;
    /// let mut buffer = vec![0; 1 << 20];
    /// let bytes = mine.read_all_at(group, &mut buffer, 0)?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// With the path, the task and the daemon, the same in all tasks; or a task was lost.
    pub fn read_all_at(
        &self,
        group: &dyn Group,
        buffer: &mut [u8],
        position: u64,
    ) -> Result<usize> {
        let options = CollectiveOptions::default();
        self.read_all_vectored_at(group, &mut [IoSliceMut::new(buffer)], position, &options)
    }

    /// As [`File::read_all_at`], into several buffers, one after the other.
    ///
    /// # Errors
    /// As [`File::read_all_at`].
    pub fn read_all_vectored_at(
        &self,
        group: &dyn Group,
        buffers: &mut [IoSliceMut<'_>],
        position: u64,
        options: &CollectiveOptions,
    ) -> Result<usize> {
        let begun =
            block_on(self.file.read_all_at(group.rank(), &self.view, position, buffers, options));
        self.meet(group, begun)
    }

    /// Writes all of `buffer` at a position of this task's view, together with all tasks of the
    /// group. Where tasks write the same bytes, those of the highest rank are stored.
    ///
    /// # Errors
    /// As [`File::read_all_at`]. After an error, any bytes of any task may have been written.
    pub fn write_all_at(&self, group: &dyn Group, buffer: &[u8], position: u64) -> Result<usize> {
        self.write_all_vectored_at(
            group,
            &[IoSlice::new(buffer)],
            position,
            &CollectiveOptions::default(),
        )
    }

    /// As [`File::write_all_at`], for several buffers, one after the other.
    ///
    /// # Errors
    /// As [`File::write_all_at`]; [`crate::Status::Invalid`] if the tasks overlap and the options
    /// refuse that.
    pub fn write_all_vectored_at(
        &self,
        group: &dyn Group,
        buffers: &[IoSlice<'_>],
        position: u64,
        options: &CollectiveOptions,
    ) -> Result<usize> {
        let begun =
            block_on(self.file.write_all_at(group.rank(), &self.view, position, buffers, options));
        self.meet(group, begun)
    }

    /// Whether two tasks of the group see the same byte of the file in the `bytes` bytes from a
    /// position of their views. All tasks of the group call it together. It transfers no data and
    /// queries no daemon. Its time grows with the number of pieces of all tasks.
    ///
    /// # Errors
    /// The group failed, or a task has refused ([`refuse_all`]).
    pub fn overlap_all(
        &self,
        group: &dyn Group,
        position: u64,
        bytes: u64,
        time_max: Duration,
    ) -> Result<bool> {
        parts_overlap(
            &group.all_gather(&announce_part(self.view.request(position, bytes)), time_max)?,
        )
    }

    /// Executes the steps with the other tasks.
    fn meet(
        &self,
        group: &dyn Group,
        (mut collective, mut mine): (Collective<'_, '_, Blocking>, Vec<u8>),
    ) -> Result<usize> {
        loop {
            let all = group.all_gather(&mine, collective.time_max())?;
            match block_on(collective.step(&all)) {
                Next::Gather(next) => mine = next,
                Next::Done(result) => return result,
            }
        }
    }
}
