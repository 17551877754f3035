//! Collective calls of async programs. The program supplies the function that exchanges bytes
//! between its tasks.

use std::io::{IoSlice, IoSliceMut};

use braid_net::Driver;

use super::File;
use crate::{
    engine::{Collective, CollectiveOptions, Next},
    error::Result,
};

impl<D: Driver> File<D> {
    /// Reads at a position of this task's view, together with all tasks; this is task `rank`. See
    /// [`crate::File::read_all_at`].
    ///
    /// `all_gather` passes bytes to all tasks, and returns those of each, in the order of ranks. It
    /// is awaited several times, equally often in every task. It must fail when a task is lost or
    /// does not come within the time that it allows. When it fails for one task, it should fail for
    /// all.
    ///
    /// ```no_run
    /// # use braid_client::{CollectiveOptions, Result, asynchronous::File};
    /// # async fn all_gather(mine: Vec<u8>) -> Result<Vec<Vec<u8>>> { Ok(vec![mine]) }
    /// # async fn example(file: &File<braid_net::Tokio>) -> Result<()> {
    /// let mut buffer = vec![0; 1 << 20];
    /// let options = CollectiveOptions::default();
    /// let bytes = file.read_all_at(0, all_gather, &mut buffer, 0, &options).await?;
    /// # Ok(()) }
    /// ```
    ///
    /// # Errors
    /// With the path, the task and the daemon; the same in all tasks.
    pub async fn read_all_at<G, F>(
        &self,
        rank: u32,
        all_gather: G,
        buffer: &mut [u8],
        position: u64,
        options: &CollectiveOptions,
    ) -> Result<usize>
    where
        G: FnMut(Vec<u8>) -> F,
        F: Future<Output = Result<Vec<Vec<u8>>>>,
    {
        let buffers = &mut [IoSliceMut::new(buffer)];
        meet(self.file.read_all_at(rank, &self.view, position, buffers, options).await, all_gather)
            .await
    }

    /// Writes all of `buffer` at a position of this task's view, together with all tasks; otherwise
    /// as [`File::read_all_at`].
    ///
    /// # Errors
    /// As [`File::read_all_at`]. After an error, any bytes of any task may have been written.
    pub async fn write_all_at<G, F>(
        &self,
        rank: u32,
        all_gather: G,
        buffer: &[u8],
        position: u64,
        options: &CollectiveOptions,
    ) -> Result<usize>
    where
        G: FnMut(Vec<u8>) -> F,
        F: Future<Output = Result<Vec<Vec<u8>>>>,
    {
        let buffers = &[IoSlice::new(buffer)];
        meet(self.file.write_all_at(rank, &self.view, position, buffers, options).await, all_gather)
            .await
    }
}

/// Executes the steps with the other tasks.
async fn meet<D, G, F>(
    (mut collective, mut mine): (Collective<'_, '_, D>, Vec<u8>),
    mut all_gather: G,
) -> Result<usize>
where
    D: Driver,
    G: FnMut(Vec<u8>) -> F,
    F: Future<Output = Result<Vec<Vec<u8>>>>,
{
    loop {
        let all = all_gather(mine).await?;
        match collective.step(&all).await {
            Next::Gather(next) => mine = next,
            Next::Done(result) => return result,
        }
    }
}
