//! A channel between plaintext and a socket that is given to each call. It never waits itself.

use std::{
    fmt,
    io::{self, ErrorKind, IoSlice, IoSliceMut},
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
};

use super::{
    open::{Opened, Opener},
    seal::Sealer,
};

/// See the module.
pub(crate) struct Channel {
    sealer: Mutex<Sealer>,
    /// The receiver's alone.
    opener: Mutex<Opener>,
    /// The peer asked for a new key (RFC 8446 section 4.6.3).
    update_asked: AtomicBool,
}

impl Channel {
    pub(super) fn new(sealer: Sealer, opener: Opener) -> Self {
        Self { sealer: Mutex::new(sealer), opener: Mutex::new(opener), update_asked: AtomicBool::new(false) }
    }

    #[cfg(test)]
    pub(super) fn set_records_per_key(&self, records: u64) {
        lock(&self.sealer).set_records_per_key(records);
    }

    /// Decrypts into `pieces`; 0 at the end of the channel. `recv` is asked for ciphertext only when there is
    /// nothing to give without it.
    pub(crate) fn recv(
        &self,
        pieces: &mut [IoSliceMut<'_>],
        mut recv: impl FnMut(&mut [u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut opener = lock(&self.opener);
        if pieces.iter().all(|piece| piece.is_empty()) {
            return Ok(0);
        }
        loop {
            match self.decrypt(&mut opener, pieces)? {
                Some(bytes) => return Ok(bytes),
                None => match opener.refill(&mut recv) {
                    // the peer ended without saying so: the frames above know whether one is cut
                    Err(error) if error.kind() == ErrorKind::UnexpectedEof => return Ok(0),
                    filled => filled?,
                },
            }
        }
    }

    /// As much plaintext as there is and fits; `None` when more must be received first.
    fn decrypt(&self, opener: &mut Opener, pieces: &mut [IoSliceMut<'_>]) -> io::Result<Option<usize>> {
        let mut done = 0;
        for piece in pieces {
            let mut at = 0;
            while at < piece.len() {
                match opener.give(piece, at) {
                    0 => match opener.open()? {
                        Opened::Data => {}
                        Opened::Updated { asked } => {
                            self.update_asked.fetch_or(asked, Ordering::Relaxed);
                        }
                        Opened::Nothing => return Ok((done > 0).then_some(done)),
                        Opened::End => return Ok(Some(done)),
                    },
                    bytes => (at, done) = (at + bytes, done + bytes),
                }
            }
        }
        Ok(Some(done))
    }

    /// Whether there may be plaintext to give without asking the socket.
    pub(crate) fn has_received(&self) -> bool {
        lock(&self.opener).has_received()
    }

    /// Encrypts a beginning of `pieces` and sends what `send`, which does not wait, takes; how many bytes
    /// of plaintext were taken. What `send` did not take is sent first by the next call.
    pub(crate) fn send(
        &self,
        pieces: &[IoSlice<'_>],
        send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.seal(|sealer| sealer.take(pieces), send)
    }

    /// As [`Channel::send`] with plaintext that `read` puts where it is told.
    pub(crate) fn send_from(
        &self,
        length: usize,
        read: impl FnMut(&mut [u8]) -> io::Result<usize>,
        send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        self.seal(|sealer| sealer.take_from(length, read), send)
    }

    fn seal(
        &self,
        take: impl FnOnce(&mut Sealer) -> io::Result<usize>,
        mut send: impl FnMut(&[u8]) -> io::Result<usize>,
    ) -> io::Result<usize> {
        let mut sealer = lock(&self.sealer);
        flush(&mut sealer, &mut send)?;
        if self.update_asked.swap(false, Ordering::Relaxed) {
            sealer.update_key()?;
            flush(&mut sealer, &mut send)?;
        }
        let taken = take(&mut sealer)?;
        match flush(&mut sealer, &mut send) {
            Err(error) if error.kind() != ErrorKind::WouldBlock => Err(error),
            _ => Ok(taken),
        }
    }

    /// Sends what is encrypted already.
    pub(crate) fn flush(&self, mut send: impl FnMut(&[u8]) -> io::Result<usize>) -> io::Result<()> {
        flush(&mut lock(&self.sealer), &mut send)
    }

    /// Whether something encrypted waits to be sent.
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
