//! Collective calls of programs with threads or processes.

use std::{
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_net::Blocking;

use super::{File, block_on};
use crate::{
    engine::{
        Collective, CollectiveOptions, Next, announce_part, announce_refusal, parts_overlap,
        refused_by,
    },
    error::{Error, Result},
    group::Group,
};

/// Takes part in the collective call that the other tasks make, with a failure: for a task that cannot make it itself, since it has no
/// open file, or what it was given makes no sense. The call fails in all tasks, and nobody waits for this one. Returns what the others
/// see: the failure of the lowest rank that has one.
///
/// # Errors
/// The tasks did not meet.
pub fn refuse_all(group: &dyn Group, error: &Error, time_max: Duration) -> Result<Error> {
    Ok(refused_by(&group.all_gather(&announce_refusal(error), time_max)?))
}

impl File {
    /// Reads at a position of this task's view, all tasks of the group together: what each gets is what [`File::read_at`] gives, but
    /// the I/O daemons read each byte once and in the order of their disks, where that is the faster way
    /// (`docs/adr/0015-collective-requests.md`).
    ///
    /// Each task calls it on its own open file, in the same order as other calls of the group. A task without bytes calls
    /// it with an empty buffer. All end with success, or all with one failure.
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
    /// With the path, the task and the daemon; the same in all tasks. That a task was lost.
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

    /// Writes all of `buffer` at a position of this task's view, all tasks of the group together. Where tasks write the same bytes,
    /// those of the highest rank are in the file after it.
    ///
    /// # Errors
    /// As [`File::read_all_at`]. After one, any of the bytes of any task may have been written.
    pub fn write_all_at(&self, group: &dyn Group, buffer: &[u8], position: u64) -> Result<usize> {
        self.write_all_vectored_at(
            group,
            &[IoSlice::new(buffer)],
            position,
            &CollectiveOptions::default(),
        )
    }

    /// As [`File::write_all_at`], of several buffers, one after the other.
    ///
    /// # Errors
    /// As [`File::write_all_at`]; [`crate::Status::Invalid`] when the tasks overlap and are not to.
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

    /// Whether two tasks of the group see the same byte of the file in `bytes` bytes from a position of their views; all tasks of the group
    /// call it together. It moves nothing and asks no daemon: it takes time for the pieces of all tasks.
    ///
    /// # Errors
    /// The tasks did not meet, or one has refused ([`refuse_all`]).
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

    /// Goes through the steps with the other tasks.
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
