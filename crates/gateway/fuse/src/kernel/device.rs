//! An open `/dev/fuse` that belongs to a mount.

use super::encode::Message;
use rustix::io::Errno;
use std::io::IoSlice;
use std::os::fd::{AsRawFd, OwnedFd};

/// Slices that one `writev` takes (`IOV_MAX`), less one for the header.
const SLICES_MAX: usize = 1023;

/// One descriptor. A reply must be written to the descriptor that its request was read from: each
/// has its own list of pending requests.
#[derive(Debug)]
pub(super) struct Device {
    fd: OwnedFd,
}

impl Device {
    pub(super) fn new(fd: OwnedFd) -> Self {
        Self { fd }
    }

    pub(super) fn fd(&self) -> &OwnedFd {
        &self.fd
    }

    /// The number of the connection in `fusectl`. Kernels before 6.16 do not show it.
    pub(super) fn number(&self) -> Option<u32> {
        let known =
            std::fs::read_to_string(format!("/proc/self/fdinfo/{}", self.fd.as_raw_fd())).ok()?;
        known.lines().find_map(|line| line.strip_prefix("fuse_connection:")?.trim().parse().ok())
    }

    /// Writes a message in one call: the kernel accepts all of it or nothing.
    pub(super) fn send(&self, mut message: Message) -> Result<(), Errno> {
        retry(|| rustix::io::write(&self.fd, message.finish(0)))
    }

    /// Writes a message with data, without a copy.
    pub(super) fn send_data(
        &self,
        mut message: Message,
        data: &[IoSlice<'_>],
    ) -> Result<(), Errno> {
        if data.len() > SLICES_MAX {
            let whole: Vec<u8> = data.iter().flat_map(|slice| slice.iter().copied()).collect();
            return self.send_data(message, &[IoSlice::new(&whole)]);
        }
        let mut slices = Vec::with_capacity(data.len() + 1);
        slices.push(IoSlice::new(message.finish(data.iter().map(|slice| slice.len()).sum())));
        slices.extend_from_slice(data);
        retry(|| rustix::io::writev(&self.fd, &slices))
    }
}

fn retry(mut write: impl FnMut() -> Result<usize, Errno>) -> Result<(), Errno> {
    loop {
        match write() {
            Ok(_whole) => return Ok(()),
            Err(Errno::INTR) => {}
            Err(error) => return Err(error),
        }
    }
}
