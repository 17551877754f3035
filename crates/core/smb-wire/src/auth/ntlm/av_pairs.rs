//! Attributes of the server and of a logon. MS-NLMP 2.2.2.1.

use bytes::Bytes;

use crate::cursor::{Malformed, Reader, Result, Writer, to_utf16};

/// Pairs in one list, at most; the standard has 11.
const PAIRS_MAX: usize = 32;

/// What a pair has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u16)]
pub enum AvId {
    /// The server's NetBIOS name, in UTF-16.
    NbComputerName = 1,
    /// Its domain's NetBIOS name, in UTF-16.
    NbDomainName = 2,
    /// Its DNS name, in UTF-16.
    DnsComputerName = 3,
    /// Its domain's DNS name, in UTF-16.
    DnsDomainName = 4,
    /// 32 bits; [`AvPairs::FLAG_MIC`] is one.
    Flags = 6,
    /// The server's time, in units of 100 ns since 1601.
    Timestamp = 7,
    /// The name of the service that the client uses, in UTF-16.
    TargetName = 9,
}

/// A list of pairs, in its order.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct AvPairs(Vec<(u16, Bytes)>);

impl AvPairs {
    /// In [`AvId::Flags`]: the AUTHENTICATE message has a MIC.
    pub const FLAG_MIC: u32 = 2;

    /// Reads pairs up to the one that ends the list.
    ///
    /// # Errors
    /// The list has no end, or more pairs than a logon needs.
    pub fn decode(reader: &mut Reader) -> Result<Self> {
        let mut pairs = Vec::new();
        loop {
            let (id, length) = (reader.u16()?, reader.u16()?);
            if id == 0 {
                return Ok(Self(pairs));
            }
            if pairs.len() == PAIRS_MAX {
                return Err(Malformed("NTLM: too many AV pairs"));
            }
            pairs.push((id, reader.take(usize::from(length))?));
        }
    }

    /// Appends the pairs and the end of the list.
    pub fn encode(&self, writer: &mut Writer) {
        for (id, value) in &self.0 {
            writer.u16(*id);
            writer.u16(value.len() as u16);
            writer.bytes(value);
        }
        writer.u32(0);
    }

    /// Their bytes, with the end of the list.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut writer = Writer::new();
        self.encode(&mut writer);
        writer.finish()
    }

    /// The value of the first pair with this id.
    pub fn value(&self, id: AvId) -> Option<&Bytes> {
        self.0.iter().find(|(number, _)| *number == id as u16).map(|(_, value)| value)
    }

    /// The value of [`AvId::Flags`]; 0 without that pair.
    pub fn flags(&self) -> u32 {
        let value = self.value(AvId::Flags).and_then(|value| value.first_chunk().copied());
        value.map_or(0, u32::from_le_bytes)
    }

    /// Sets a pair; a new one is the last.
    pub fn set(&mut self, id: AvId, value: impl Into<Bytes>) {
        let value = value.into();
        match self.0.iter_mut().find(|(number, _)| *number == id as u16) {
            Some((_, old)) => *old = value,
            None => self.0.push((id as u16, value)),
        }
    }

    /// Sets a pair to a text.
    pub fn set_text(&mut self, id: AvId, text: &str) {
        self.set(id, to_utf16(text));
    }
}
