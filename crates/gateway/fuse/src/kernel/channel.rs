//! The way an answer goes: by the descriptor that its request was read from, or by the entry of a ring that it came in.

use super::device::Device;
use super::encode::Message;
use super::uring::Slot;
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;

/// One of the two transports (docs/adr/0033).
#[derive(Clone, Debug)]
pub(super) enum Channel {
    /// `/dev/fuse`.
    Device(Arc<Device>),
    /// io_uring.
    Ring(Arc<Slot>),
}

impl Channel {
    /// An answer with its fixed part alone.
    pub(super) fn send(&self, message: Message) -> Result<(), Errno> {
        match self {
            Self::Device(device) => device.send(message),
            Self::Ring(slot) => slot.answer(message, &[]),
        }
    }

    /// An answer and data behind it, from where they lie.
    pub(super) fn send_data(&self, message: Message, data: &[IoSlice<'_>]) -> Result<(), Errno> {
        match self {
            Self::Device(device) => device.send_data(message, data),
            Self::Ring(slot) => slot.answer(message, data),
        }
    }

    /// The descriptor, for what moves an answer there by itself. A ring has none.
    pub(super) fn device(&self) -> Option<&Arc<Device>> {
        match self {
            Self::Device(device) => Some(device),
            Self::Ring(_) => None,
        }
    }

    /// Answers EINTR while the handler may still be at work, from any thread. The caller has claimed the answer.
    pub(super) fn desert(&self, unique: u64) {
        match self {
            Self::Device(device) => {
                let _ = device.send(Message::new(unique, -Errno::INTR.raw_os_error()));
            }
            Self::Ring(slot) => slot.desert(unique),
        }
    }
}
