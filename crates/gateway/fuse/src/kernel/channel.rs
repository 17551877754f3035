//! How a reply is sent: through the descriptor that its request was read from, or in the ring entry
//! that it came in.

use super::device::Device;
use super::encode::Message;
use super::uring::RingEntry;
use rustix::io::Errno;
use std::io::IoSlice;
use std::sync::Arc;

/// One of the two transports (docs/adr/0033).
#[derive(Clone, Debug)]
pub(super) enum Channel {
    /// `/dev/fuse`.
    Device(Arc<Device>),
    /// io_uring.
    Ring(Arc<RingEntry>),
}

impl Channel {
    /// Sends a reply without data.
    pub(super) fn send(&self, message: Message) -> Result<(), Errno> {
        match self {
            Self::Device(device) => device.send(message),
            Self::Ring(slot) => slot.answer(message, &[]),
        }
    }

    /// Sends a reply with data, without a copy.
    pub(super) fn send_data(&self, message: Message, data: &[IoSlice<'_>]) -> Result<(), Errno> {
        match self {
            Self::Device(device) => device.send_data(message, data),
            Self::Ring(slot) => slot.answer(message, data),
        }
    }

    /// The descriptor, for callers that write a reply to it themselves. A ring has none.
    pub(super) fn device(&self) -> Option<&Arc<Device>> {
        match self {
            Self::Device(device) => Some(device),
            Self::Ring(_) => None,
        }
    }

    /// Replies EINTR while the handler may still be running, from any thread. The caller has
    /// claimed the reply.
    pub(super) fn answer_interrupted(&self, unique: u64) {
        match self {
            Self::Device(device) => {
                let _ = device.send(Message::new(unique, -Errno::INTR.raw_os_error()));
            }
            Self::Ring(slot) => slot.answer_interrupted(unique),
        }
    }
}
