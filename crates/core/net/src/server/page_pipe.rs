//! Sends pages of a mapping to a socket without a copy, through a pipe: `vmsplice`, then `splice`.
//!
//! ```text
//!   mapping: | range |    | range |  ──vmsplice──> pipe, a slot for each page ──splice──> socket
//! ```
//!
//! The socket refers to the pages of the page cache, as after `sendfile`. If the file changes
//! before the peer has received the bytes, the peer may see the change. Only Linux has this pipe.
#![cfg_attr(target_os = "linux", allow(unsafe_code))] // memory that the kernel goes on to refer to

use std::io::{self, IoSlice};

use crate::transport::{Transport, Wait};

/// Ranges that are shorter on average are copied by `sendmsg`: a pipe slot and a segment fragment
/// cost as much as copying 2 KiB (`docs/adr/0025-sending-from-a-mapping.md`).
const PIECE_BYTES_MIN: usize = 2048;
/// The pages of one frame, if its ranges begin at page boundaries. An ordinary user may have 256
/// pipes of this size.
#[cfg(target_os = "linux")]
const PIPE_BYTES: usize = 256 * 1024;

/// The pipe of one connection, created on first use.
#[derive(Debug, Default)]
pub(super) enum PagePipe {
    /// Not used so far.
    #[default]
    Unused,
    /// No descriptor or memory is left for a pipe, or the system does not allow its use.
    Refused,
    /// An open pipe, empty between two frames.
    #[cfg(target_os = "linux")]
    Pipe(linux::Pipe),
}

impl PagePipe {
    /// Whether sending these ranges through a pipe is cheaper than copying them.
    pub(super) fn is_worthwhile(pieces: usize, bytes: usize) -> bool {
        bytes >= pieces * PIECE_BYTES_MIN
    }

    /// Sends a prefix of the ranges of a mapping, which more bytes follow immediately. Returns how
    /// many bytes. The caller copies the rest: there is no pipe, or a page is missing, which the
    /// copy then reports.
    ///
    /// # Errors
    /// The connection failed and must not be used again.
    pub(super) fn send(
        &mut self,
        transport: &Transport,
        pieces: &[IoSlice<'_>],
        wait: Wait,
    ) -> (usize, io::Result<()>) {
        #[cfg(target_os = "linux")]
        {
            if matches!(self, Self::Unused) {
                *self = linux::Pipe::new().map_or(Self::Refused, Self::Pipe);
            }
            if let Self::Pipe(pipe) = self {
                let (sent, outcome) = pipe.send(transport, pieces.to_vec(), wait);
                let outcome = outcome.map(|may_go_on| {
                    if !may_go_on {
                        *self = Self::Refused;
                    }
                });
                return (sent, outcome);
            }
        }
        let _ = (transport, pieces, wait);
        (0, Ok(()))
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use std::{
        io::{self, IoSlice},
        os::fd::OwnedFd,
    };

    use rustix::{
        io::Errno,
        pipe::{IoSliceRaw, PipeFlags, SpliceFlags, fcntl_setpipe_size, pipe_with, vmsplice},
    };

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

        /// A pipe that is no pipe.
        #[cfg(test)]
        pub(super) fn of_a_file() -> io::Result<Self> {
            let file = || std::fs::File::open("/dev/null").map(OwnedFd::from);
            Ok(Self { from: file()?, into: file()? })
        }

        /// Returns how many bytes were sent, and whether the pipe may be used again.
        pub(super) fn send(
            &self,
            transport: &Transport,
            mut pieces: Vec<IoSlice<'_>>,
            wait: Wait,
        ) -> (usize, io::Result<bool>) {
            let (mut sent, mut pieces) = (0, &mut pieces[..]);
            while !pieces.is_empty() {
                let taken = match self.take(pieces) {
                    Ok(taken) => taken,
                    // The page is missing or not available now. Any other error means that the
                    // system does not allow this call.
                    Err(why) => {
                        return (
                            sent,
                            Ok(matches!(why, Errno::FAULT | Errno::NOMEM | Errno::INTR)),
                        );
                    }
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
            (sent, Ok(true))
        }

        /// Moves pages of a prefix of the ranges into the empty pipe. Returns how many bytes, at
        /// least one.
        fn take(&self, pieces: &[IoSlice<'_>]) -> Result<usize, Errno> {
            let raw: Vec<IoSliceRaw<'_>> =
                pieces.iter().take(PIECES_MAX).map(|piece| IoSliceRaw::from_slice(piece)).collect();
            // SAFETY: the kernel keeps referring to the pages after the call, and does not write to
            // them. They are pages of a file and outlive the mapping. Others may write to the file
            // meanwhile, as with `sendfile`.
            match unsafe { vmsplice(&self.into, &raw, SpliceFlags::NONBLOCK) } {
                Ok(0) => Err(Errno::FAULT),
                taken => taken,
            }
        }
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::{
        fs::File,
        io::{Read, Write},
        net::{TcpListener, TcpStream},
        os::unix::fs::FileExt,
        time::{Duration, Instant},
    };

    use memmap2::MmapOptions;

    use super::*;
    use crate::server::MappedRange;

    const PIECES: [u64; 3] = [8192, 0, 4096];
    const BYTES: usize = 2048;

    fn connection() -> (Transport, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let client =
            TcpStream::connect(listener.local_addr().expect("its address")).expect("a connection");
        (Transport::new(listener.accept().expect("it").0).expect("a transport"), client)
    }

    fn soon() -> Wait {
        Wait::Until(Instant::now() + Duration::from_secs(60))
    }

    /// A file of three pages of ones. Returns what was received; `change` runs after sending and
    /// before receiving.
    fn received(pages: &mut PagePipe, change: impl FnOnce(&File)) -> (usize, Vec<u8>) {
        let (transport, mut client) = connection();
        let mut file = tempfile::tempfile().expect("a file");
        file.write_all(&[1; 3 * 4096]).expect("written");
        let map = MmapOptions::new().len(1 << 20).map_raw_read_only(&file).expect("mapped");
        let pieces = PIECES.map(|at| MappedRange::new(&map, &file, at, BYTES).expect("in it"));
        let (sent, outcome) =
            pages.send(&transport, &pieces.each_ref().map(MappedRange::as_io_slice), soon());
        outcome.expect("sent");
        change(&file);
        drop(transport);
        let mut all = Vec::new();
        client.read_to_end(&mut all).expect("received");
        (sent, all)
    }

    #[test]
    fn pages_are_sent_and_not_copied_so_that_a_later_change_is_seen() {
        let mut pages = PagePipe::default();
        let (sent, all) = received(&mut pages, |_| {});
        assert_eq!((sent, all), (3 * BYTES, vec![1; 3 * BYTES]));
        let (sent, all) =
            received(&mut pages, |file| file.write_all_at(&[2; 4096], 0).expect("written"));
        assert_eq!((sent, all), (3 * BYTES, [[1; BYTES], [2; BYTES], [1; BYTES]].concat()));
    }

    #[test]
    fn without_a_pipe_or_a_page_the_rest_is_left_to_be_copied() {
        assert_eq!(received(&mut PagePipe::Refused, |_| {}), (0, Vec::new()));
        let mut pages = PagePipe::default();
        let (transport, _client) = connection();
        let file = tempfile::tempfile().expect("a file");
        file.write_all_at(&[1; 4096], 0).expect("written");
        let map = MmapOptions::new().len(1 << 20).map_raw_read_only(&file).expect("mapped");
        let pieces =
            [0, 65_536].map(|at| MappedRange::new(&map, &file, at, 4096).expect("in the mapping"));
        let (sent, outcome) =
            pages.send(&transport, &pieces.each_ref().map(MappedRange::as_io_slice), soon());
        outcome.expect("the connection is whole");
        assert!(sent == 4096 && matches!(pages, PagePipe::Pipe(_)), "{sent} {pages:?}");
    }

    #[test]
    fn a_pipe_that_the_system_refuses_is_not_tried_again() {
        // A file that is no pipe takes no pages, as in a sandbox that forbids `vmsplice`.
        let mut pages = PagePipe::Pipe(linux::Pipe::of_a_file().expect("a file"));
        assert_eq!(received(&mut pages, |_| {}), (0, Vec::new()));
        assert!(matches!(pages, PagePipe::Refused), "{pages:?}");
    }
}
