//! Limits of a session's channels, negotiated by CREATE_SESSION. RFC 8881 18.36.3.

use braid_nfs_wire::nfs4::NfsStatus;

/// Most slots of a session. One Linux client keeps up to 64 requests in flight by default.
pub const SLOTS_MAX: u32 = 64;
/// Slots of a session when the memory for cached replies is used up.
pub const SLOTS_MIN: u32 = 4;
/// Most operations of a compound. Linux sends up to 8, some clients 16; a compound holds its slot
/// for the time of all of them.
pub const OPERATIONS_MAX: u32 = 64;
/// Longest cached reply. The longest one of a modifying compound of Linux, an OPEN with attributes
/// and ACL, is 2.5 KiB.
pub const CACHED_REPLY_BYTES_MAX: u32 = 4096;
/// Shortest requests and replies with which a channel is of use: the RPC header, an AUTH_SYS
/// credential with few groups, and SEQUENCE.
pub const CHANNEL_BYTES_MIN: u32 = 128;
/// Fewest operations of a callback: CB_SEQUENCE and one more.
pub const BACK_OPERATIONS_MIN: u32 = 2;
/// Most callbacks of a session in flight.
const BACK_SLOTS_MAX: u32 = 16;

/// Limits of one channel. Bytes are those of whole RPC messages without record marking.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ChannelLimits {
    /// Longest request in bytes.
    pub request_bytes: u32,
    /// Longest reply in bytes.
    pub reply_bytes: u32,
    /// Longest cached reply in bytes.
    pub cached_reply_bytes: u32,
    /// Most operations of a compound.
    pub operations: u32,
    /// Number of slots.
    pub slots: u32,
}

/// The limits of the fore channel: what the client asked for, at most what this server can do.
/// `message_bytes_max` limits requests and replies, `slots_max` the slots.
///
/// # Errors
/// `TOOSMALL` if no request or reply would fit.
pub fn negotiate_fore(
    asked: ChannelLimits,
    message_bytes_max: u32,
    slots_max: u32,
) -> Result<ChannelLimits, NfsStatus> {
    if asked.request_bytes < CHANNEL_BYTES_MIN || asked.reply_bytes < CHANNEL_BYTES_MIN {
        return Err(NfsStatus::TooSmall);
    }
    let reply_bytes = asked.reply_bytes.min(message_bytes_max);
    Ok(ChannelLimits {
        request_bytes: asked.request_bytes.min(message_bytes_max),
        reply_bytes,
        cached_reply_bytes: asked.cached_reply_bytes.min(CACHED_REPLY_BYTES_MAX).min(reply_bytes),
        operations: asked.operations.clamp(1, OPERATIONS_MAX),
        slots: asked.slots.clamp(1, slots_max.clamp(1, SLOTS_MAX)),
    })
}

/// The limits of the back channel, where this server is the requester.
///
/// # Errors
/// `TOOSMALL` if no callback would fit.
pub fn negotiate_back(asked: ChannelLimits) -> Result<ChannelLimits, NfsStatus> {
    if asked.request_bytes < CHANNEL_BYTES_MIN
        || asked.reply_bytes < CHANNEL_BYTES_MIN
        || asked.operations < BACK_OPERATIONS_MIN
    {
        return Err(NfsStatus::TooSmall);
    }
    Ok(ChannelLimits {
        // Callbacks are never cached for longer than the client wants.
        slots: asked.slots.clamp(1, BACK_SLOTS_MAX),
        ..asked
    })
}
