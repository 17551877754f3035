//! The header of a message. MS-SMB2 2.2.1.

use crate::cursor::{Malformed, Reader, Result, Writer};
use crate::status::NtStatus;

/// Bytes of a header.
pub const HEADER_BYTES: usize = 64;
/// The first bytes of an SMB 2 or 3 message.
pub const PROTOCOL_ID: [u8; 4] = [0xfe, b'S', b'M', b'B'];
/// The first bytes of an SMB 1 message.
pub const SMB1_PROTOCOL_ID: [u8; 4] = [0xff, b'S', b'M', b'B'];
/// Where the signature is in a header.
pub const SIGNATURE: std::ops::Range<usize> = 48..64;

/// What a message asks for. 2.2.1.2, Command.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
#[repr(u16)]
#[expect(missing_docs, reason = "the names of MS-SMB2")]
pub enum Command {
    Negotiate = 0,
    SessionSetup = 1,
    Logoff = 2,
    TreeConnect = 3,
    TreeDisconnect = 4,
    Create = 5,
    Close = 6,
    Flush = 7,
    Read = 8,
    Write = 9,
    Lock = 10,
    Ioctl = 11,
    Cancel = 12,
    Echo = 13,
    QueryDirectory = 14,
    ChangeNotify = 15,
    QueryInfo = 16,
    SetInfo = 17,
    OplockBreak = 18,
}

impl Command {
    /// All, in the order of their numbers.
    pub const ALL: [Self; 19] = [
        Self::Negotiate,
        Self::SessionSetup,
        Self::Logoff,
        Self::TreeConnect,
        Self::TreeDisconnect,
        Self::Create,
        Self::Close,
        Self::Flush,
        Self::Read,
        Self::Write,
        Self::Lock,
        Self::Ioctl,
        Self::Cancel,
        Self::Echo,
        Self::QueryDirectory,
        Self::ChangeNotify,
        Self::QueryInfo,
        Self::SetInfo,
        Self::OplockBreak,
    ];

    /// The command with this number.
    pub fn from_number(number: u16) -> Option<Self> {
        Self::ALL.get(usize::from(number)).copied()
    }
}

/// Bits of a header. 2.2.1.2, Flags.
#[derive(Clone, Copy, PartialEq, Eq, Default)]
pub struct Flags(pub u32);

impl Flags {
    /// A response.
    pub const RESPONSE: Self = Self(1);
    /// The header has an asynchronous id instead of a tree.
    pub const ASYNC: Self = Self(2);
    /// A request of a compound that continues the one before.
    pub const RELATED: Self = Self(4);
    /// The message is signed.
    pub const SIGNED: Self = Self(8);
    /// The path of a CREATE begins with a server and a share, if the share is in DFS.
    pub const DFS_OPERATIONS: Self = Self(0x1000_0000);
    /// A repeated request (3.x).
    pub const REPLAY: Self = Self(0x2000_0000);

    /// Whether all bits of `other` are set.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// The bits of both.
    #[must_use]
    pub const fn with(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl std::fmt::Debug for Flags {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Flags({:#x})", self.0)
    }
}

/// A header.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Header {
    /// Credits that the request uses.
    pub credit_charge: u16,
    /// Of a response. In a request of SMB 3 the first two bytes are a channel sequence.
    pub status: NtStatus,
    /// The number of the command; one that is not known is answered with an error.
    pub command: u16,
    /// Credits that are asked for, or granted.
    pub credits: u16,
    /// Bits.
    pub flags: Flags,
    /// Offset of the next message of a compound from this one; 0 in the last one.
    pub next_command: u32,
    /// Numbers the request on its connection.
    pub message_id: u64,
    /// With [`Flags::ASYNC`]: the number of an asynchronous request.
    pub async_id: u64,
    /// Without [`Flags::ASYNC`]: the tree.
    pub tree_id: u32,
    /// The session.
    pub session_id: u64,
    /// The signature.
    pub signature: [u8; 16],
}

impl Header {
    /// A header of a request, without a session.
    pub fn request(command: Command, message_id: u64) -> Self {
        Self {
            credit_charge: 1,
            status: NtStatus::SUCCESS,
            command: command as u16,
            credits: 1,
            flags: Flags::default(),
            next_command: 0,
            message_id,
            async_id: 0,
            tree_id: 0,
            session_id: 0,
            signature: [0; 16],
        }
    }

    /// The channel sequence of a request. 2.2.1.2.
    pub fn channel_sequence(&self) -> u16 {
        self.status.0 as u16
    }

    /// Reads it from the beginning of a message, and leaves the reader behind it.
    ///
    /// # Errors
    /// The bytes are no header of SMB 2 or 3.
    pub fn decode(reader: &mut Reader) -> Result<Self> {
        if reader.array()? != PROTOCOL_ID {
            return Err(Malformed("header: ProtocolId"));
        }
        reader.structure_size(64)?;
        let credit_charge = reader.u16()?;
        let status = NtStatus(reader.u32()?);
        let command = reader.u16()?;
        let credits = reader.u16()?;
        let flags = Flags(reader.u32()?);
        let next_command = reader.u32()?;
        let message_id = reader.u64()?;
        let (mut async_id, mut tree_id) = (0, 0);
        if flags.has(Flags::ASYNC) {
            async_id = reader.u64()?;
        } else {
            reader.skip(4)?;
            tree_id = reader.u32()?;
        }
        let session_id = reader.u64()?;
        let signature = reader.array()?;
        Ok(Self {
            credit_charge,
            status,
            command,
            credits,
            flags,
            next_command,
            message_id,
            async_id,
            tree_id,
            session_id,
            signature,
        })
    }

    /// Appends it.
    pub fn encode(&self, writer: &mut Writer) {
        writer.bytes(&PROTOCOL_ID);
        writer.u16(64);
        writer.u16(self.credit_charge);
        writer.u32(self.status.0);
        writer.u16(self.command);
        writer.u16(self.credits);
        writer.u32(self.flags.0);
        writer.u32(self.next_command);
        writer.u64(self.message_id);
        if self.flags.has(Flags::ASYNC) {
            writer.u64(self.async_id);
        } else {
            writer.u32(0);
            writer.u32(self.tree_id);
        }
        writer.u64(self.session_id);
        writer.bytes(&self.signature);
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> [u8; HEADER_BYTES] {
        let mut writer = Writer::new();
        self.encode(&mut writer);
        writer.finish().try_into().expect("a header has 64 bytes")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use bytes::Bytes;

    #[test]
    fn a_header_has_its_fields_where_the_standard_puts_them() {
        let header = Header {
            flags: Flags::RESPONSE.with(Flags::SIGNED),
            tree_id: 0x0403_0201,
            session_id: 5,
            signature: [7; 16],
            ..Header::request(Command::Read, 9)
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[..6], [0xfe, b'S', b'M', b'B', 64, 0]);
        assert_eq!((bytes[12], bytes[16], bytes[24]), (8, 9, 9));
        assert_eq!(bytes[36..40], [1, 2, 3, 4]);
        assert_eq!(bytes[SIGNATURE], [7; 16]);
        let mut reader = Reader::new(Bytes::copy_from_slice(&bytes));
        assert_eq!(Header::decode(&mut reader).unwrap(), header);
        assert_eq!(reader.position(), HEADER_BYTES);
    }

    #[test]
    fn an_asynchronous_header_has_no_tree() {
        let header = Header {
            flags: Flags::ASYNC,
            async_id: 0x0102_0304_0506_0708,
            ..Header::request(Command::ChangeNotify, 1)
        };
        let bytes = header.to_bytes();
        assert_eq!(bytes[32..40], [8, 7, 6, 5, 4, 3, 2, 1]);
        assert_eq!(Header::decode(&mut Reader::new(bytes.to_vec().into())).unwrap(), header);
    }

    #[test]
    fn what_is_no_header_is_refused() {
        let good = Header::request(Command::Echo, 0).to_bytes();
        for (at, value) in [(0, 0xff), (3, b'C'), (4, 63), (5, 1)] {
            let mut bad = good;
            bad[at] = value;
            assert!(Header::decode(&mut Reader::new(bad.to_vec().into())).is_err(), "{at}");
        }
        let short = Bytes::copy_from_slice(&good[..63]);
        assert!(Header::decode(&mut Reader::new(short)).is_err());
        assert_eq!(Command::from_number(18), Some(Command::OplockBreak));
        assert_eq!(Command::from_number(19), None);
    }
}
