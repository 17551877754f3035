//! Calls of a client and of an open file as operations in the background, for programs that do
//! something else meanwhile and have no async executor.

use std::{
    io::{IoSlice, IoSliceMut},
    sync::{Arc, Mutex},
};

use braid_layout::Extent;
use braid_wire::message::types::Attributes;

use super::{Client, File, PendingOperation};
use crate::{engine::CollectiveOptions, error::Result, group::Group};

impl Client {
    /// Starts an operation with a client that shares this one's connections, and returns
    /// immediately.
    ///
    /// ```no_run
    /// # fn example(client: &braid_client::Client) -> Result<(), braid_client::Error> {
    /// let made = client.start(|client| client.mkdir("/next", 0o755));
    /// // Something else meanwhile.
    /// made.wait()?;
    /// # Ok(()) }
    /// ```
    ///
    /// Sixteen operations of one client and its files run at a time. They begin in the order in
    /// which they were started; a later one may end earlier. An operation must not wait for another
    /// started operation ([`File::start_together`] may). When 4,096 operations wait already, and in
    /// a child after `fork`, the calling thread runs the operation itself.
    pub fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> PendingOperation<T> {
        let client = self.clone();
        PendingOperation::new(self.session.workers(), move || work(&client))
    }
}

impl File {
    /// Starts an operation with another handle of the same open file, with the same view and its
    /// own cursor, and returns immediately. This is the asynchronous form of every call.
    /// [`Client::start`] describes how many run at a time.
    ///
    /// ```no_run
    /// # fn example(file: &braid_client::File) -> Result<(), braid_client::Error> {
    /// let read = file.start(|file| {
    ///     let mut buffer = vec![0; 1 << 20];
    ///     file.read_at(&mut buffer, 0).map(|bytes| (buffer, bytes))
    /// });
    /// let size = file.size()?; // meanwhile
    /// let (buffer, bytes) = read.wait()?;
    /// # Ok(()) }
    /// ```
    pub fn start<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> PendingOperation<T> {
        let file = self.again();
        PendingOperation::new(self.session.workers(), move || work(&file))
    }

    /// Starts [`File::read_at`] into `buffer`, which is returned with the result.
    pub fn start_read_at<B>(
        &self,
        mut buffer: B,
        position: u64,
    ) -> PendingOperation<(Result<usize>, B)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        self.start(move |file| (file.read_at(buffer.as_mut(), position), buffer))
    }

    /// Starts [`File::write_at`] of `buffer`, which is returned with the result.
    pub fn start_write_at<B>(
        &self,
        buffer: B,
        position: u64,
    ) -> PendingOperation<(Result<usize>, B)>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        self.start(move |file| (file.write_at(buffer.as_ref(), position), buffer))
    }

    /// Starts [`File::read_list`] into `buffers`, which are returned with the result.
    pub fn start_read_list<B>(
        &self,
        extents: Vec<Extent>,
        mut buffers: Vec<B>,
    ) -> PendingOperation<(Result<usize>, Vec<B>)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        self.start(move |file| {
            let mut slices: Vec<_> =
                buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer.as_mut())).collect();
            (file.read_list(&extents, &mut slices), buffers)
        })
    }

    /// Starts [`File::write_list`] of `buffers`, which are returned with the result.
    pub fn start_write_list<B>(
        &self,
        extents: Vec<Extent>,
        buffers: Vec<B>,
    ) -> PendingOperation<(Result<usize>, Vec<B>)>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        self.start(move |file| {
            let slices: Vec<_> =
                buffers.iter().map(|buffer| IoSlice::new(buffer.as_ref())).collect();
            (file.write_list(&extents, &slices), buffers)
        })
    }

    /// As [`File::start`], on its own thread: for collective calls, in which tasks wait for each
    /// other. The calls of one group must run one after the other, also started ones: wait for one
    /// before starting the next.
    ///
    /// ```no_run
    /// # use std::sync::Arc;
    /// # use braid_client::{File, Group};
    /// # fn example(file: &File, group: Arc<dyn Group>) -> braid_client::Result<()> {
    /// let read = file.start_together(move |file| {
    ///     let mut buffer = vec![0; 1 << 20];
    ///     file.read_all_at(&*group, &mut buffer, 0).map(|bytes| (buffer, bytes))
    /// });
    /// // Something else meanwhile.
    /// let (buffer, bytes) = read.wait()?;
    /// # Ok(()) }
    /// ```
    pub fn start_together<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Self) -> T + Send + 'static,
    ) -> PendingOperation<T> {
        let file = self.again();
        PendingOperation::on_own_thread(move || work(&file))
    }

    /// Starts [`File::read_all_at`] into `buffer`, which is returned with the result; see
    /// [`File::start_together`].
    pub fn start_read_all_at<B>(
        &self,
        group: Arc<dyn Group>,
        mut buffer: B,
        position: u64,
        options: CollectiveOptions,
    ) -> PendingOperation<(Result<usize>, B)>
    where
        B: AsMut<[u8]> + Send + 'static,
    {
        self.start_together(move |file| {
            let buffers = &mut [IoSliceMut::new(buffer.as_mut())];
            (file.read_all_vectored_at(&*group, buffers, position, &options), buffer)
        })
    }

    /// Starts [`File::write_all_at`] of `buffer`, which is returned with the result; see
    /// [`File::start_together`].
    pub fn start_write_all_at<B>(
        &self,
        group: Arc<dyn Group>,
        buffer: B,
        position: u64,
        options: CollectiveOptions,
    ) -> PendingOperation<(Result<usize>, B)>
    where
        B: AsRef<[u8]> + Send + 'static,
    {
        self.start_together(move |file| {
            let buffers = [IoSlice::new(buffer.as_ref())];
            (file.write_all_vectored_at(&*group, &buffers, position, &options), buffer)
        })
    }

    /// Starts [`File::sync`].
    pub fn start_sync(&self) -> PendingOperation<Result<Attributes>> {
        self.start(Self::sync)
    }

    /// The same open file and view, with a cursor at 0.
    fn again(&self) -> Self {
        let (file, view, session) =
            (Arc::clone(&self.file), self.view.clone(), Arc::clone(&self.session));
        Self { file, view, cursor: Mutex::new(0), session }
    }
}
