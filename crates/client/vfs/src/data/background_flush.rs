//! How a write buffer gets to the daemons: sent by the thread that needs it there or, where daemons
//! are slow, by a thread of its own while the next buffer fills.
//!
//! ```text
//!   full, long ── the one before landed ──> background flush ─┬─ the next one is full ─> landed
//!   flush ────────────────────────────────────────────────────┴─> landed, the next one is sent
//! ```
//!
//! A file has one background flush. It ends when a thread that holds the lock of the buffer has
//! seen its result. Until then the file counts as one with buffered bytes.
//!
//! A panic of its thread ends that flush, not the mount: it left nothing half-changed behind the
//! lock of the buffer, and what it changed behind other locks poisons those (ADR 0035). Its bytes
//! count as lost.

#[cfg(test)]
mod tests;

use std::{
    sync::{Arc, Mutex, atomic::Ordering},
    thread::{self, JoinHandle},
    time::Instant,
};

use braid_client::{CallDeadline, Status};

use super::{
    FileData,
    write_coalescing::{BufferState, WriteBuffer},
};
use crate::{
    error::{Error, Result},
    mount_caches::MountCaches,
    mutex::lock,
    open::open_file::OpenFile,
};

/// A write buffer that is being sent.
#[derive(Debug)]
pub(super) struct BackgroundFlush {
    pub(super) by: Arc<OpenFile>,
    bytes: usize,
    sends: JoinHandle<Result<()>>,
}

impl MountCaches {
    /// Sends a full buffer: one with a long flush unit in the background.
    ///
    /// # Errors
    /// It could not be written, or the buffer before it. The handle that wrote it reports it, too.
    pub(super) fn send_full(
        self: &Arc<Self>,
        data: &Arc<FileData>,
        state: &mut BufferState,
    ) -> Result<()> {
        if !state.buffer.as_ref().is_some_and(|buffer| buffer.long) {
            return self.flush_buffer(data, state);
        }
        let flushed = self.wait_for_background(data, state);
        if flushed.is_err() {
            return self.send_after(data, state, flushed);
        }
        let Some(buffer) = state.buffer.take() else { return Ok(()) };
        let (by, bytes) = (Arc::clone(&buffer.handle), buffer.bytes.len());
        let buffer = Arc::new(Mutex::new(Some(buffer)));
        let (caches, theirs, to_send) = (Arc::clone(self), Arc::clone(data), Arc::clone(&buffer));
        let sends =
            move || lock(&to_send).take().map_or(Ok(()), |buffer| caches.send(&theirs, buffer));
        match thread::Builder::new().name("vfs-flight".into()).spawn(sends) {
            Ok(sends) => state.background = Some(BackgroundFlush { by, bytes, sends }),
            // No thread to be had: this one sends it.
            Err(_) => {
                state.buffer = lock(&buffer).take();
                return self.flush_buffer(data, state);
            }
        }
        Ok(())
    }

    /// Sends the buffered bytes of a file, and waits for a background flush before them.
    ///
    /// # Errors
    /// They could not be written. The handle that wrote them reports it, too.
    pub(super) fn flush_buffer(&self, data: &FileData, state: &mut BufferState) -> Result<()> {
        if state.buffer.is_none() && state.background.is_none() {
            return self.send_after(data, state, Ok(()));
        }
        let written = {
            // Bytes of earlier calls have a deadline of their own: they must not be lost because
            // this call has waited for something else.
            let _apart = CallDeadline::suspend();
            let flushed = self.wait_for_background(data, state);
            self.send_after(data, state, flushed)
        };
        match &written {
            Ok(()) => CallDeadline::restart(),
            Err(error) => error.server().into_iter().for_each(CallDeadline::blame),
        }
        written
    }

    /// Sends the buffer behind a background flush that ended with this result.
    fn send_after(
        &self,
        data: &FileData,
        state: &mut BufferState,
        flushed: Result<()>,
    ) -> Result<()> {
        let written = state.buffer.take().map_or(Ok(()), |buffer| {
            let bytes = buffer.bytes.len();
            let written = match &flushed {
                // The server was waited for already: the bytes are lost without a second wait.
                Err(error) if error.is_server_unresponsive() => {
                    self.record_loss(data, (&buffer.handle, buffer.closed), error);
                    Ok(())
                }
                _ => self.send(data, buffer),
            };
            self.buffers.release_bytes(bytes);
            written
        });
        if data.buffered.has_bytes.load(Ordering::Acquire) {
            *lock(&data.buffered.owner) = None;
            data.buffered.closed.store(false, Ordering::Release);
            data.buffered.has_bytes.store(false, Ordering::Release);
            self.buffers.ages.buffer_ended(data.file);
        }
        flushed.and(written)
    }

    /// Waits for the background flush.
    fn wait_for_background(&self, data: &FileData, state: &mut BufferState) -> Result<()> {
        let Some(BackgroundFlush { by, bytes, sends }) = state.background.take() else {
            return Ok(());
        };
        let flushed = sends.join().unwrap_or_else(|_| {
            // The panic has printed where it happened. Some of the bytes may be at the daemons.
            let error = braid_client::Error::new(
                Status::Internal,
                "a bug ended the thread that sent buffered bytes",
            );
            let error = Error::from(error);
            self.record_loss(data, (&by, false), &error);
            self.names.invalidate(&[data.file]);
            Err(error)
        });
        self.buffers.release_bytes(bytes);
        flushed
    }

    fn send(&self, data: &FileData, mut buffer: WriteBuffer) -> Result<()> {
        data.forget_created_attributes();
        let (file, began) = (buffer.handle.file.get(), Instant::now());
        // A full buffer is sent by the write that filled it, so the daemon's time is right.
        let modified = buffer.modified.filter(|_| !buffer.is_full());
        let written = file.and_then(|file| {
            Ok(file.write_reserved_modified(
                &mut buffer.reservation,
                &buffer.bytes,
                buffer.offset,
                modified,
            )?)
        });
        match &written {
            Ok(_) => self.buffers.note_sent(&buffer, began.elapsed()),
            Err(error) => self.record_loss(data, (&buffer.handle, buffer.closed), error),
        }
        // The bytes have the daemons' time now.
        self.names.invalidate(&[data.file]);
        written.map(drop)
    }

    /// Bytes of this handle, which may be closed, are lost.
    fn record_loss(&self, data: &FileData, (by, closed): (&OpenFile, bool), why: &Error) {
        by.write_error.note(why);
        self.buffers.errors.note(why);
        if closed {
            self.buffers.errors.record_closed(data.file, why);
        }
        data.set_end(None);
    }
}
