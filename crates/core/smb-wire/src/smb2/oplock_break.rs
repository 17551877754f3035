//! OPLOCK_BREAK. MS-SMB2 2.2.23, 2.2.24, 2.2.25.
//!
//! Its six bodies have three forms, distinguished by `StructureSize`: an oplock (notification,
//! acknowledgment and response are the same), the notification of a lease break, and its
//! acknowledgment, whose form the response has too.

use super::bits::bits;
use super::create::{LeaseState, OplockLevel};
use super::{Body, FileId};
use crate::cursor::{Malformed, Reader, Result, Writer};

const OPLOCK_SIZE: u16 = 24;
const LEASE_ACKNOWLEDGMENT_SIZE: u16 = 36;
const LEASE_NOTIFICATION_SIZE: u16 = 44;

bits! {
    /// 2.2.23.2, Flags.
    LeaseBreakFlags(u32) {
        /// The client must acknowledge.
        ACK_REQUIRED = 1,
    }
}

/// A break of an oplock, its acknowledgment, or the response to that. 2.2.23.1, 2.2.24.1, 2.2.25.1.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct OplockBreak {
    /// The level after it.
    pub oplock_level: OplockLevel,
    /// The open.
    pub file_id: FileId,
}

/// A break of a lease. 2.2.23.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseBreak {
    /// Counts the changes of the lease's state (SMB 3).
    pub new_epoch: u16,
    /// Flags.
    pub flags: LeaseBreakFlags,
    /// The lease.
    pub key: [u8; 16],
    /// The state before.
    pub current_state: LeaseState,
    /// The state after it.
    pub new_state: LeaseState,
}

/// The acknowledgment of a lease break, or the response to it. 2.2.24.2, 2.2.25.2.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct LeaseAcknowledgment {
    /// The lease.
    pub key: [u8; 16],
    /// The state after it.
    pub state: LeaseState,
}

/// A body of OPLOCK_BREAK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OplockBreakBody {
    /// Of an oplock, in all directions.
    Oplock(OplockBreak),
    /// From the server: a lease is broken.
    LeaseNotification(LeaseBreak),
    /// From the client, or the response to it.
    LeaseAcknowledgment(LeaseAcknowledgment),
}

impl Body for OplockBreakBody {
    fn decode(reader: &mut Reader) -> Result<Self> {
        match reader.u16()? {
            OPLOCK_SIZE => OplockBreak::decode_rest(reader).map(Self::Oplock),
            LEASE_NOTIFICATION_SIZE => LeaseBreak::decode_rest(reader).map(Self::LeaseNotification),
            LEASE_ACKNOWLEDGMENT_SIZE => {
                LeaseAcknowledgment::decode_rest(reader).map(Self::LeaseAcknowledgment)
            }
            _ => Err(Malformed("oplock break: StructureSize")),
        }
    }

    fn encode(&self, writer: &mut Writer) {
        match self {
            Self::Oplock(body) => body.encode(writer),
            Self::LeaseNotification(body) => body.encode(writer),
            Self::LeaseAcknowledgment(body) => body.encode(writer),
        }
    }
}

impl OplockBreak {
    fn decode_rest(reader: &mut Reader) -> Result<Self> {
        let oplock_level = OplockLevel(reader.u8()?);
        reader.skip(5)?;
        Ok(Self { oplock_level, file_id: FileId::decode(reader)? })
    }
}

impl Body for OplockBreak {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(OPLOCK_SIZE)?;
        Self::decode_rest(reader)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(OPLOCK_SIZE);
        writer.u8(self.oplock_level.0);
        writer.zeros(5);
        self.file_id.encode(writer);
    }
}

impl LeaseBreak {
    fn decode_rest(reader: &mut Reader) -> Result<Self> {
        let notification = Self {
            new_epoch: reader.u16()?,
            flags: LeaseBreakFlags(reader.u32()?),
            key: reader.array()?,
            current_state: LeaseState(reader.u32()?),
            new_state: LeaseState(reader.u32()?),
        };
        reader.skip(12)?;
        Ok(notification)
    }
}

impl Body for LeaseBreak {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(LEASE_NOTIFICATION_SIZE)?;
        Self::decode_rest(reader)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(LEASE_NOTIFICATION_SIZE);
        writer.u16(self.new_epoch);
        writer.u32(self.flags.0);
        writer.bytes(&self.key);
        writer.u32(self.current_state.0);
        writer.u32(self.new_state.0);
        // BreakReason, AccessMaskHint and ShareMaskHint are 0 (2.2.23.2).
        writer.zeros(12);
    }
}

impl LeaseAcknowledgment {
    fn decode_rest(reader: &mut Reader) -> Result<Self> {
        reader.skip(6)?;
        let acknowledgment = Self { key: reader.array()?, state: LeaseState(reader.u32()?) };
        reader.skip(8)?;
        Ok(acknowledgment)
    }
}

impl Body for LeaseAcknowledgment {
    fn decode(reader: &mut Reader) -> Result<Self> {
        reader.structure_size(LEASE_ACKNOWLEDGMENT_SIZE)?;
        Self::decode_rest(reader)
    }

    fn encode(&self, writer: &mut Writer) {
        writer.u16(LEASE_ACKNOWLEDGMENT_SIZE);
        writer.zeros(6);
        writer.bytes(&self.key);
        writer.u32(self.state.0);
        writer.zeros(8);
    }
}
