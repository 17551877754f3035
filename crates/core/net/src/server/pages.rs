//! A pipe through which pages of a mapping go to a socket without being copied: `vmsplice`, then `splice`.
//!
//! ```text
//!   mapping: | piece |    | piece |    | piece |  ──vmsplice──> pipe, a place for each page ──splice──> socket
//! ```
//!
//! The socket refers to the page cache's own pages, as after `sendfile`: what changes in the file before the peer has received it may be
//! seen. Elsewhere than on Linux there is none.
#![cfg_attr(target_os = "linux", allow(unsafe_code))] // memory that the kernel goes on to refer to

use std::io::{self, IoSlice};

use crate::transport::{Transport, Wait};

/// Pieces that are shorter on average are copied by `sendmsg`: a place in the pipe and in a segment costs as much as copying 2 KiB
/// (`docs/adr/0025-pieces-are-sent-from-a-mapping.md`).
const PIECE_BYTES_MIN: usize = 2048;
/// A frame's pages, if its pieces begin with pages; an ordinary user may have 256 pipes of so many.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 256 * 1024;

/// The pipe of one connection, made when first needed.
#[derive(Debug, Default)]
pub(super) enum Pages {
    /// Not needed so far.
    #[default]
    Unused,
    /// There are no descriptors or pages for one.
    Refused,
    /// It is there, and empty between two frames.
    #[cfg(target_os = "linux")]
    Pipe(linux::Pipe),
}

impl Pages {
    /// Whether these pieces are best sent so.
    pub(super) fn are_worth_it(pieces: usize, bytes: usize) -> bool {
        bytes >= pieces * PIECE_BYTES_MIN
    }

    /// Sends pieces of a mapping; how many bytes, and whether all were. `None`: there is no pipe, and nothing was sent.
    pub(super) fn send(
        &mut self,
        transport: &Transport,
        pieces: &mut [IoSlice<'_>],
        wait: Wait,
    ) -> Option<(usize, io::Result<()>)> {
        #[cfg(target_os = "linux")]
        {
            if matches!(self, Self::Unused) {
                *self = linux::Pipe::new().map_or(Self::Refused, Self::Pipe);
            }
            if let Self::Pipe(pipe) = self {
                return Some(pipe.send(transport, pieces, wait));
            }
        }
        let _ = (transport, pieces, wait);
        None
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io::{self, IoSlice},
        os::fd::OwnedFd,
    };

    use rustix::pipe::{IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, vmsplice};

    use super::PIPE_BYTES;
    use crate::transport::{PIECES_MAX, Transport, Wait};

    #[derive(Debug)]
    pub(in crate::server) struct Pipe {
        from: OwnedFd,
        into: OwnedFd,
    }

    impl Pipe {
        pub(super) fn new() -> io::Result<Self> {
            let (from, into) = pipe_with(PipeFlags::CLOEXEC)?;
            fcntl_setpipe_size(&into, PIPE_BYTES)?;
            Ok(Self { from, into })
        }

        /// A failure of the connection leaves something in it: the connection is not used again.
        pub(super) fn send(
            &self,
            transport: &Transport,
            mut pieces: &mut [IoSlice<'_>],
            wait: Wait,
        ) -> (usize, io::Result<()>) {
            let mut sent = 0;
            while !pieces.is_empty() {
                let taken = match self.take(pieces) {
                    Ok(taken) => taken,
                    Err(error) => return (sent, Err(error)),
                };
                IoSlice::advance_slices(&mut pieces, taken);
                let mut left = taken;
                while left > 0 {
                    match transport.splice_from(&self.from, left, !pieces.is_empty(), wait) {
                        Ok(0) => return (sent, Err(io::ErrorKind::WriteZero.into())),
                        Ok(moved) => (left, sent) = (left - moved, sent + moved),
                        Err(error) => return (sent, Err(error)),
                    }
                }
            }
            (sent, Ok(()))
        }

        /// Takes pages of a beginning of the pieces into the empty pipe; how many bytes.
        fn take(&self, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
            let raw: Vec<IoSliceRaw<'_>> =
                pieces.iter().take(PIECES_MAX).map(|piece| IoSliceRaw::from_slice(piece)).collect();
            // SAFETY: the kernel refers to the pages after the call, and does not write to them; they are pages of a file, which
            // outlast the mapping. That others write to the file meanwhile is what `sendfile` allows, too.
            match unsafe { vmsplice(&self.into, &raw, SpliceFlags::NONBLOCK) } {
                Ok(0) => Err(io::ErrorKind::WriteZero.into()),
                taken => Ok(taken?),
            }
        }
    }
}
