//! A pipe through which payload is spliced from a socket to a device, without entering user memory.
//!
//! ```text
//!   socket ──splice──┐
//!                    v
//!   begin: | prefix | payload ...... |  ──splice, in one call──> a device        send
//!                                       ──read──────────────────> a buffer       take
//! ```
//!
//! Invariants:
//! 1. The capacity of a pipe is a number of fragments, not of bytes, and a socket's fragments have
//!    at most a page. So the pipe may become full at any byte. The caller then takes out what it
//!    holds.
//! 2. No call waits for space in the pipe.
//! 3. A pipe that failed within an operation is not used again.
//!
//! No assertion checks these: the kernel decides when a pipe is full (1), `splice` gets the flag
//! not to wait (2), and `begin` and `take` refuse a broken pipe (3).

/// Minimum page size. A slot of a pipe holds one fragment of at most a page.
#[cfg(target_os = "linux")]
const PAGE_BYTES: usize = 4096;

#[cfg(target_os = "linux")]
pub use linux::Pipe;
#[cfg(not(target_os = "linux"))]
pub use other::Pipe;

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io::{self, ErrorKind},
        os::fd::{AsFd, OwnedFd},
    };

    use rustix::{
        io::Errno,
        pipe::{PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, splice},
    };

    use super::PAGE_BYTES;
    use crate::transport::{Transport, Wait};

    /// What an unprivileged process may ask for (default of `/proc/sys/fs/pipe-max-size`).
    const PIPE_BYTES: usize = 1 << 20;

    /// A pipe for payload; see the module.
    #[derive(Debug)]
    pub struct Pipe {
        from: OwnedFd,
        into: OwnedFd,
        fragments_max: usize,
        prefix_bytes: usize,
        payload_bytes: usize,
        /// Its content is unknown.
        broken: bool,
    }

    impl Pipe {
        /// An empty pipe.
        ///
        /// # Errors
        /// No descriptor is left, or the system allows no pipe of this size.
        pub fn new() -> io::Result<Self> {
            let (from, into) = pipe_with(PipeFlags::CLOEXEC)?;
            let fragments_max = fcntl_setpipe_size(&into, PIPE_BYTES)? / PAGE_BYTES;
            Ok(Self { from, into, fragments_max, prefix_bytes: 0, payload_bytes: 0, broken: false })
        }

        /// Payload bytes that fit with certainty: a socket's fragments begin and end anywhere in a
        /// page, and at least half of them are whole pages.
        pub fn usual_bytes_max(&self) -> usize {
            self.fragments_max / 2 * PAGE_BYTES
        }

        /// Puts `prefix` into an empty pipe, before the payload.
        ///
        /// # Errors
        /// The pipe is not empty, or it failed before. It cannot be used any more.
        pub fn begin(&mut self, prefix: &[u8]) -> io::Result<()> {
            if self.broken || self.prefix_bytes + self.payload_bytes > 0 {
                return Err(ErrorKind::ResourceBusy.into());
            }
            self.broken = rustix::io::write(&self.into, prefix)? != prefix.len();
            self.prefix_bytes = prefix.len();
            Ok(())
        }

        /// Payload bytes in the pipe.
        pub fn payload_bytes(&self) -> usize {
            self.payload_bytes
        }

        /// Whether [`begin`](Self::begin) may be called again.
        pub fn is_empty(&self) -> bool {
            !self.broken && self.prefix_bytes + self.payload_bytes == 0
        }

        /// Moves a prefix of the next `bytes` of a plain connection into the pipe. Returns how
        /// many; 0 when the peer closed the connection, `None` when the pipe is full.
        pub(crate) fn fill(
            &mut self,
            transport: &Transport,
            bytes: usize,
            wait: Wait,
        ) -> io::Result<Option<usize>> {
            match transport.splice_into(&self.into, bytes, wait) {
                Ok(moved) => {
                    self.payload_bytes += moved;
                    Ok(Some(moved))
                }
                Err(error) if error.kind() == ErrorKind::StorageFull => Ok(None),
                Err(error) => Err(error),
            }
        }

        /// Empties the pipe: the payload goes to the beginning of `buffer`, which must be large
        /// enough.
        ///
        /// # Errors
        /// The system's error, or the pipe failed before. It cannot be used any more.
        pub fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
            if self.broken {
                // The content is unknown, so a read could block without limit.
                return Err(ErrorKind::BrokenPipe.into());
            }
            let prefix_bytes = std::mem::take(&mut self.prefix_bytes);
            let payload_bytes = std::mem::take(&mut self.payload_bytes);
            let done = self
                .read_exact(&mut vec![0; prefix_bytes])
                .and_then(|()| self.read_exact(&mut buffer[..payload_bytes]));
            self.broken |= done.is_err();
            done
        }

        fn read_exact(&self, mut buffer: &mut [u8]) -> io::Result<()> {
            while !buffer.is_empty() {
                match rustix::io::read(&self.from, &mut *buffer) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(bytes) => buffer = &mut buffer[bytes..],
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }

        /// Moves everything, prefix and payload, to `device` in one call.
        ///
        /// # Errors
        /// The device's error. The pipe cannot be used any more.
        pub fn send(&mut self, device: impl AsFd) -> io::Result<()> {
            let bytes = self.prefix_bytes + self.payload_bytes;
            loop {
                match splice(&self.from, None, &device, None, bytes, SpliceFlags::empty()) {
                    Ok(sent) if sent == bytes => break,
                    Ok(_) => {
                        self.broken = true;
                        return Err(ErrorKind::WriteZero.into());
                    }
                    Err(Errno::INTR) => {}
                    Err(error) => {
                        self.broken = true;
                        return Err(error.into());
                    }
                }
            }
            (self.prefix_bytes, self.payload_bytes) = (0, 0);
            Ok(())
        }
    }
}

/// Other systems have no such pipe: no value of the type exists.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::{convert::Infallible, io};

    use crate::transport::{Transport, Wait};

    /// Exists on Linux only.
    #[derive(Debug)]
    pub struct Pipe(Infallible);

    impl Pipe {
        /// Payload bytes in the pipe.
        pub fn payload_bytes(&self) -> usize {
            match self.0 {}
        }

        /// Empties the pipe.
        ///
        /// # Errors
        /// None.
        pub fn take(&mut self, _: &mut [u8]) -> io::Result<()> {
            match self.0 {}
        }

        pub(crate) fn fill(
            &mut self,
            _: &Transport,
            _: usize,
            _: Wait,
        ) -> io::Result<Option<usize>> {
            match self.0 {}
        }
    }
}
