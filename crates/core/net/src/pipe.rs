//! A pipe of this process, through which payload goes from a socket to a device without coming into user memory: `splice`.
//!
//! ```text
//!   socket ──splice──┐
//!                    v
//!   begin: | prefix | payload ...... |  ──splice, in one call──> a device        send
//!                                       ──read──────────────────> a buffer       take
//! ```
//!
//! Invariants: (1) a pipe has places for so many pieces, not for so many bytes, and a socket's pieces are a page or less:
//! whoever fills it may meet its end at any byte, and then takes out what is in it; (2) nothing here waits for room in the pipe;
//! (3) a pipe that failed half-way is not used again.

/// What a page is at least: a place of a pipe holds one piece of at most that.
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

    /// What an ordinary process may ask for (`/proc/sys/fs/pipe-max-size` as it comes).
    const PIPE_BYTES: usize = 1 << 20;

    /// See the module.
    #[derive(Debug)]
    pub struct Pipe {
        from: OwnedFd,
        into: OwnedFd,
        places: usize,
        prefix_bytes: usize,
        payload_bytes: usize,
        /// What is in it is not known.
        broken: bool,
    }

    impl Pipe {
        /// An empty one.
        ///
        /// # Errors
        /// No descriptor is left, or the system allows this process no large pipe.
        pub fn new() -> io::Result<Self> {
            let (from, into) = pipe_with(PipeFlags::CLOEXEC)?;
            let places = fcntl_setpipe_size(&into, PIPE_BYTES)? / PAGE_BYTES;
            Ok(Self { from, into, places, prefix_bytes: 0, payload_bytes: 0, broken: false })
        }

        /// Payload that it takes for sure to have places for, in bytes: a socket's pieces begin and end anywhere in a page, and
        /// half of them are whole pages at least.
        pub fn usual_bytes_max(&self) -> usize {
            self.places / 2 * PAGE_BYTES
        }

        /// Puts `prefix` into an empty pipe, before the payload.
        ///
        /// # Errors
        /// There is something in it, or it failed before: then it is of no use any more.
        pub fn begin(&mut self, prefix: &[u8]) -> io::Result<()> {
            if self.broken || self.prefix_bytes + self.payload_bytes > 0 {
                return Err(ErrorKind::ResourceBusy.into());
            }
            self.broken = rustix::io::write(&self.into, prefix)? != prefix.len();
            self.prefix_bytes = prefix.len();
            Ok(())
        }

        /// Payload in it, in bytes.
        pub fn payload_bytes(&self) -> usize {
            self.payload_bytes
        }

        /// Whether it can be [begun](Self::begin) again.
        pub fn is_empty(&self) -> bool {
            !self.broken && self.prefix_bytes + self.payload_bytes == 0
        }

        /// Moves a beginning of the next `bytes` of a plain connection into it: how many; 0 when the peer ended the connection,
        /// `None` when it is full.
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

        /// Takes everything out: the payload into the beginning of `buffer`, which has room for it.
        ///
        /// # Errors
        /// The system's, or the pipe failed before: it is of no use any more.
        pub fn take(&mut self, buffer: &mut [u8]) -> io::Result<()> {
            if self.broken {
                // Nobody knows what is left in it: to read it might be to wait for ever.
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

        fn read_exact(&self, mut room: &mut [u8]) -> io::Result<()> {
            while !room.is_empty() {
                match rustix::io::read(&self.from, &mut *room) {
                    Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
                    Ok(bytes) => room = &mut room[bytes..],
                    Err(Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            Ok(())
        }

        /// Moves everything, prefix and payload, to `device` in one call.
        ///
        /// # Errors
        /// The device's; the pipe is of no use any more.
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

/// There is none: nobody can make one.
#[cfg(not(target_os = "linux"))]
mod other {
    use std::{convert::Infallible, io};

    use crate::transport::{Transport, Wait};

    /// Linux alone has it.
    #[derive(Debug)]
    pub struct Pipe(Infallible);

    impl Pipe {
        /// Payload in it, in bytes.
        pub fn payload_bytes(&self) -> usize {
            match self.0 {}
        }

        /// Takes everything out.
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
