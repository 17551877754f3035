//! A channel between plaintext and a socket, which each call passes in. It never waits itself.

use std::{
    fmt,
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    open::{DIRECT_BYTES_MIN, OpenedRecord, RecordOpener},
    seal::Sealer,
};

/// Sealed bytes up to this size wait for what follows: the header of a frame is not sent alone.
const HELD_BYTES_MAX: usize = 4096;

/// A TLS channel; see the module.
pub(crate) struct Channel {
    sealer: Mutex<Sealer>,
    /// Used by the receiving side only.
    opener: Mutex<RecordOpener>,
    /// The peer asked for a new key (RFC 8446 section 4.6.3).
    update_asked: AtomicBool,
}

impl Channel {
    pub(super) fn new(sealer: Sealer, opener: RecordOpener) -> Self {
        Self {
            sealer: Mutex::new(sealer),
            opener: Mutex::new(opener),
            update_asked: AtomicBool::new(false),
        }
    }

    #[cfg(test)]
    pub(super) fn set_records_per_key(&self, records: u64) {
        lock(&self.sealer).set_records_per_key(records);
    }

    /// Decrypts into `pieces`. Returns 0 at the end of the channel. Calls `recv` for ciphertext
    /// only when there is no plaintext left.
    pub(crate) fn recv(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        mut recv: impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut opener = lock(&self.opener);
        let wanted = pieces.iter().map(|piece| piece.len()).sum();
        if wanted == 0 {
            return Ok(0);
        }
        let mut direct = 0;
        loop {
            if let Some(bytes) = self.decrypt(&mut opener, pieces, direct)? {
                return Ok(bytes);
            }
            match self.refill(&mut opener, pieces, wanted, &mut recv) {
                // the peer closed without an alert: the frame layer knows whether a frame is
                // incomplete
                Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                filled => direct = filled?,
            }
        }
    }

    /// Receives more. Returns how much plaintext is now in the first of `pieces`.
    fn refill(
        &self,
        opener: &mut RecordOpener,
        pieces: &mut [IoSliceMut<'_>],
        wanted: usize,
        recv: &mut impl FnMut(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        match pieces.first_mut().filter(|piece| piece.len() >= DIRECT_BYTES_MIN) {
            Some(buffer) => {
                let (bytes, update_asked) = opener.refill_into(buffer, recv)?;
                self.update_asked.fetch_or(update_asked, Ordering::Relaxed);
                Ok(bytes)
            }
            None => {
                opener.refill(wanted, &mut |buffer: &mut [u8]| {
                    recv(&mut [IoSliceMut::new(buffer)])
                })?;
                Ok(0)
            }
        }
    }

    /// As much plaintext as is available and fits, including the `done` bytes in the first slice.
    /// `None` when more must be received first.
    fn decrypt(
        &self,
        opener: &mut RecordOpener,
        pieces: &mut [IoSliceMut<'_>],
        mut done: usize,
    ) -> io::Result<Option<usize>> {
        let mut at = done;
        for piece in pieces {
            while at < piece.len() {
                match opener.copy_to(piece, at) {
                    0 => match opener.open()? {
                        OpenedRecord::Nothing => return Ok((done > 0).then_some(done)),
                        OpenedRecord::End => return Ok(Some(done)),
                        OpenedRecord::Updated { asked } => {
                            self.update_asked.fetch_or(asked, Ordering::Relaxed);
                        }
                        OpenedRecord::Data => {}
                    },
                    bytes => (at, done) = (at + bytes, done + bytes),
                }
            }
            at = 0;
        }
        Ok(Some(done))
    }

    /// Whether there may be plaintext without reading the socket.
    pub(crate) fn has_received(&self) -> bool {
        lock(&self.opener).has_received()
    }

    /// Encrypts a prefix of `pieces` and sends it with the nonblocking `send`. Returns how many
    /// plaintext bytes were taken. The next call first sends the ciphertext that `send` did not
    /// take, and small ciphertext that was held back because `more` follows.
    pub(crate) fn send(
        &self,
        pieces: &[IoSlice<'_>],
        more: bool,
        send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.seal(|sealer| sealer.take(pieces), more, send)
    }

    /// As [`Channel::send`], with plaintext that `read` puts into the given slices.
    pub(crate) fn send_from(
        &self,
        length: usize,
        read: impl FnOnce(&mut [IoSliceMut<'_>]) -> io::Result<usize>,
        send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.seal(|sealer| sealer.take_from(length, read), false, send)
    }

    fn seal(
        &self,
        take: impl FnOnce(&mut Sealer) -> io::Result<usize>,
        more: bool,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut sealer = lock(&self.sealer);
        if sealer.unsent().len() > HELD_BYTES_MAX {
            flush(&mut sealer, &mut send)?;
        }
        if self.update_asked.swap(false, Ordering::Relaxed) {
            sealer.update_key()?;
        }
        let taken = take(&mut sealer)?;
        if more && sealer.unsent().len() <= HELD_BYTES_MAX {
            return Ok(taken);
        }
        match flush(&mut sealer, &mut send) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what is already encrypted.
    pub(crate) fn flush(&self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        flush(&mut lock(&self.sealer), &mut send)
    }

    /// Whether encrypted bytes wait to be sent.
    pub(crate) fn has_unsent(&self) -> bool {
        !lock(&self.sealer).unsent().is_empty()
    }
}

impl fmt::Debug for Channel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Channel") // no secrets
    }
}

fn flush(sealer: &mut Sealer, send: &mut impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
    while !sealer.unsent().is_empty() {
        match send(sealer.unsent())? {
            0 => return Err(ErrorKind::WriteZero.into()),
            bytes => sealer.sent(bytes),
        }
    }
    Ok(())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
