//! Security descriptors. MS-DTYP 2.4.2 to 2.4.6; section numbers are its.
//!
//! ```text
//!   SecurityDescriptor = header | audit list | access list | owner | group  (self-relative, 2.4.6)
//!   Acl = header | Ace...      Ace = type, flags, size | mask | Sid           (2.4.5, 2.4.4)
//! ```
//!
//! An entry of another type than "allow" and "deny" is kept as its bytes.

use bytes::Bytes;

use crate::access::AccessMask;
use crate::bits::bits;
use crate::cursor::{Malformed, Reader, Result, Writer};

/// Sub-authorities of a SID. 2.4.2.
pub const SUB_AUTHORITIES_MAX: usize = 15;
/// Entries of an access list that are read: its size has 16 bits, and an entry at least 8 bytes.
pub const ACES_MAX: usize = 65_535 / 8;
/// Bytes of the header of a security descriptor.
const HEADER_BYTES: usize = 20;
/// Bytes of the header of an access list.
const ACL_HEADER_BYTES: usize = 8;
/// Bytes of an entry before its body.
const ACE_HEADER_BYTES: usize = 4;

/// Names a user or a group. 2.4.2.
#[derive(Clone, PartialEq, Eq, Hash, Debug, Default)]
pub struct Sid {
    /// The authority that gave the numbers; 48 bits.
    authority: u64,
    sub_authorities: Vec<u32>,
}

impl Sid {
    /// A SID with an authority (its lower 48 bits) and at most [`SUB_AUTHORITIES_MAX`] numbers;
    /// those behind them are left out.
    pub fn new(authority: u64, sub_authorities: &[u32]) -> Self {
        let count = sub_authorities.len().min(SUB_AUTHORITIES_MAX);
        let sub_authorities = sub_authorities[..count].to_vec();
        Self { authority: authority & 0xffff_ffff_ffff, sub_authorities }
    }

    /// `S-1-1-0`: everyone.
    pub fn everyone() -> Self {
        Self::new(1, &[0])
    }

    /// `S-1-3-0`: in an entry that is inherited, the owner of what inherits it.
    pub fn creator_owner() -> Self {
        Self::new(3, &[0])
    }

    /// `S-1-3-1`: in an entry that is inherited, the group of what inherits it.
    pub fn creator_group() -> Self {
        Self::new(3, &[1])
    }

    /// `S-1-22-1-UID`: a user of Unix without a user of Windows, as Samba names it.
    pub fn unix_user(uid: u32) -> Self {
        Self::new(22, &[1, uid])
    }

    /// `S-1-22-2-GID`: a group of Unix without a group of Windows, as Samba names it.
    pub fn unix_group(gid: u32) -> Self {
        Self::new(22, &[2, gid])
    }

    /// The authority.
    pub fn authority(&self) -> u64 {
        self.authority
    }

    /// The numbers behind the authority.
    pub fn sub_authorities(&self) -> &[u32] {
        &self.sub_authorities
    }

    /// Its bytes: 8 to 68.
    pub fn encoded_bytes(&self) -> usize {
        8 + 4 * self.sub_authorities.len()
    }

    /// Reads it.
    ///
    /// # Errors
    /// It is too short, has another revision than 1, or more than 15 numbers.
    pub fn decode(reader: &mut Reader) -> Result<Self> {
        if reader.u8()? != 1 {
            return Err(Malformed("SID: revision"));
        }
        let count = usize::from(reader.u8()?);
        if count > SUB_AUTHORITIES_MAX {
            return Err(Malformed("SID: too many sub-authorities"));
        }
        // 2.4.1.1: the authority is the one number in the order of the network.
        let [a, b, c, d, e, f] = reader.array()?;
        let authority = u64::from_be_bytes([0, 0, a, b, c, d, e, f]);
        let sub_authorities = (0..count).map(|_| reader.u32()).collect::<Result<_>>()?;
        Ok(Self { authority, sub_authorities })
    }

    /// Appends it.
    pub fn encode(&self, writer: &mut Writer) {
        writer.u8(1);
        writer.u8(self.sub_authorities.len() as u8);
        writer.bytes(&self.authority.to_be_bytes()[2..]);
        for number in &self.sub_authorities {
            writer.u32(*number);
        }
    }
}

impl std::fmt::Display for Sid {
    /// `S-1-5-32-544`; an authority of more than 32 bits is hexadecimal. 2.4.2.1.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.authority >> 32 == 0 {
            write!(f, "S-1-{}", self.authority)?;
        } else {
            write!(f, "S-1-{:#014x}", self.authority)?;
        }
        self.sub_authorities.iter().try_for_each(|number| write!(f, "-{number}"))
    }
}

impl std::str::FromStr for Sid {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self> {
        let malformed = Malformed("SID: not S-1-...");
        let mut parts = text.strip_prefix("S-1-").ok_or(malformed)?.split('-');
        let authority = parts.next().unwrap_or_default();
        let authority = match authority.strip_prefix("0x") {
            Some(digits) => u64::from_str_radix(digits, 16),
            None => authority.parse(),
        };
        let authority = authority.ok().filter(|number| number >> 48 == 0).ok_or(malformed)?;
        let numbers: Vec<u32> =
            parts.map(|part| part.parse().map_err(|_| malformed)).collect::<Result<_>>()?;
        if numbers.len() > SUB_AUTHORITIES_MAX {
            return Err(Malformed("SID: too many sub-authorities"));
        }
        Ok(Self::new(authority, &numbers))
    }
}

bits! {
    /// Flags of an entry of an access list. 2.4.4.1.
    pub struct AceFlags(u8) {
        /// New files below inherit it.
        OBJECT_INHERIT = 0x1,
        /// New directories below inherit it.
        CONTAINER_INHERIT = 0x2,
        /// What inherits it does not pass it on.
        NO_PROPAGATE_INHERIT = 0x4,
        /// It is for what inherits it only.
        INHERIT_ONLY = 0x8,
        /// It was inherited.
        INHERITED = 0x10,
        /// An audit entry: accesses that are allowed.
        SUCCESSFUL_ACCESS = 0x40,
        /// An audit entry: accesses that are refused.
        FAILED_ACCESS = 0x80,
    }
}

/// What an entry of an access list does. 2.4.4.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum AceKind {
    /// Allows. 2.4.4.2.
    Allow {
        /// What is allowed.
        mask: AccessMask,
        /// To whom.
        sid: Sid,
    },
    /// Denies. 2.4.4.4.
    Deny {
        /// What is denied.
        mask: AccessMask,
        /// To whom.
        sid: Sid,
    },
    /// Another type.
    Other {
        /// Its number.
        kind: u8,
        /// What follows the header of the entry.
        body: Bytes,
    },
}

/// An entry of an access list.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Ace {
    /// Flags.
    pub flags: AceFlags,
    /// What it does.
    pub kind: AceKind,
}

impl Ace {
    const ALLOW: u8 = 0;
    const DENY: u8 = 1;

    /// An entry that allows.
    pub fn allow(sid: Sid, mask: AccessMask, flags: AceFlags) -> Self {
        Self { flags, kind: AceKind::Allow { mask, sid } }
    }

    /// An entry that denies.
    pub fn deny(sid: Sid, mask: AccessMask, flags: AceFlags) -> Self {
        Self { flags, kind: AceKind::Deny { mask, sid } }
    }

    /// Its bytes, a multiple of 4. 2.4.4.1, AceSize.
    fn encoded_bytes(&self) -> usize {
        match &self.kind {
            AceKind::Allow { sid, .. } | AceKind::Deny { sid, .. } => {
                ACE_HEADER_BYTES + 4 + sid.encoded_bytes()
            }
            AceKind::Other { body, .. } => ACE_HEADER_BYTES + body.len().next_multiple_of(4),
        }
    }

    fn decode(reader: &mut Reader) -> Result<Self> {
        let kind = reader.u8()?;
        let flags = AceFlags(reader.u8()?);
        let size = usize::from(reader.u16()?);
        let length = size.checked_sub(ACE_HEADER_BYTES).ok_or(Malformed("ACE: AceSize"))?;
        let body = reader.take(length)?;
        let kind = match kind {
            Self::ALLOW | Self::DENY => {
                let mut body = Reader::new(body);
                let mask = AccessMask(body.u32()?);
                let sid = Sid::decode(&mut body)?;
                match kind {
                    Self::ALLOW => AceKind::Allow { mask, sid },
                    _ => AceKind::Deny { mask, sid },
                }
            }
            kind => AceKind::Other { kind, body },
        };
        Ok(Self { flags, kind })
    }

    fn encode(&self, writer: &mut Writer) {
        let end = writer.position() + self.encoded_bytes();
        let header = |writer: &mut Writer, kind| {
            writer.u8(kind);
            writer.u8(self.flags.0);
            writer.u16(self.encoded_bytes() as u16);
        };
        match &self.kind {
            AceKind::Allow { mask, sid } | AceKind::Deny { mask, sid } => {
                let is_allow = matches!(self.kind, AceKind::Allow { .. });
                header(writer, if is_allow { Self::ALLOW } else { Self::DENY });
                writer.u32(mask.0);
                sid.encode(writer);
            }
            AceKind::Other { kind, body } => {
                header(writer, *kind);
                writer.bytes(body);
            }
        }
        writer.zeros(end - writer.position());
    }
}

/// An access list. 2.4.5.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Acl {
    /// Its entries. A list without any allows nothing.
    pub aces: Vec<Ace>,
}

impl Acl {
    fn decode(reader: &mut Reader) -> Result<Self> {
        // 2.4.5: 2, or 4 with entries for objects of a directory service. Windows takes 3 as well,
        // which smbcacls sends.
        if !matches!(reader.u8()?, 2..=4) {
            return Err(Malformed("ACL: AclRevision"));
        }
        reader.skip(1)?;
        let size = usize::from(reader.u16()?);
        let count = usize::from(reader.u16()?);
        reader.skip(2)?;
        let length = size.checked_sub(ACL_HEADER_BYTES).ok_or(Malformed("ACL: AclSize"))?;
        let mut entries = Reader::new(reader.take(length)?);
        if count > length / ACE_HEADER_BYTES || count > ACES_MAX {
            return Err(Malformed("ACL: AceCount"));
        }
        let aces = (0..count).map(|_| Ace::decode(&mut entries)).collect::<Result<_>>()?;
        Ok(Self { aces })
    }

    /// Appends the list; entries that the 16 bits of its size cannot count are left out, from the
    /// end.
    fn encode(&self, writer: &mut Writer) {
        let mut size = ACL_HEADER_BYTES;
        let fitting = self.aces.iter().take_while(|ace| {
            size += ace.encoded_bytes();
            size <= usize::from(u16::MAX)
        });
        let count = fitting.count().min(ACES_MAX);
        let aces = &self.aces[..count];
        let size = ACL_HEADER_BYTES + aces.iter().map(Ace::encoded_bytes).sum::<usize>();
        let is_basic =
            |ace: &Ace| !matches!(ace.kind, AceKind::Other { kind: 5..=8 | 11 | 12, .. });
        writer.u8(if aces.iter().all(is_basic) { 2 } else { 4 });
        writer.u8(0);
        writer.u16(size as u16);
        writer.u16(count as u16);
        writer.u16(0);
        aces.iter().for_each(|ace| ace.encode(writer));
    }
}

bits! {
    /// What a security descriptor has. 2.4.6, Control.
    pub struct Control(u16) {
        /// The owner was not set by a user.
        OWNER_DEFAULTED = 0x1,
        /// The group was not set by a user.
        GROUP_DEFAULTED = 0x2,
        /// It has an access list, or none that allows everything.
        DACL_PRESENT = 0x4,
        /// The access list was not set by a user.
        DACL_DEFAULTED = 0x8,
        /// It has an audit list.
        SACL_PRESENT = 0x10,
        /// What is below is to inherit the access list.
        DACL_AUTO_INHERIT_REQUIRED = 0x100,
        /// What is below is to inherit the audit list.
        SACL_AUTO_INHERIT_REQUIRED = 0x200,
        /// The access list was inherited.
        DACL_AUTO_INHERITED = 0x400,
        /// The audit list was inherited.
        SACL_AUTO_INHERITED = 0x800,
        /// The access list inherits nothing.
        DACL_PROTECTED = 0x1000,
        /// The audit list inherits nothing.
        SACL_PROTECTED = 0x2000,
        /// All parts follow the header.
        SELF_RELATIVE = 0x8000,
    }
}

/// The owner of a file, and what users may do with it. 2.4.6.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct SecurityDescriptor {
    /// Flags. Those of which parts there are, are made from the fields when it is encoded; but
    /// [`Control::DACL_PRESENT`] without a list allows everything.
    pub control: Control,
    /// The owner.
    pub owner: Option<Sid>,
    /// The group.
    pub group: Option<Sid>,
    /// The audit list.
    pub sacl: Option<Acl>,
    /// The access list.
    pub dacl: Option<Acl>,
}

impl SecurityDescriptor {
    /// Reads it from a buffer.
    ///
    /// # Errors
    /// It is not self-relative, or a part does not follow its format or is not in the buffer.
    pub fn from_bytes(bytes: Bytes) -> Result<Self> {
        let mut reader = Reader::new(bytes);
        if reader.u8()? != 1 {
            return Err(Malformed("security descriptor: Revision"));
        }
        reader.skip(1)?;
        let control = Control(reader.u16()?);
        if !control.has(Control::SELF_RELATIVE) {
            return Err(Malformed("security descriptor: not self-relative"));
        }
        let (owner, group) = (reader.u32()?, reader.u32()?);
        let (sacl, dacl) = (reader.u32()?, reader.u32()?);
        // 2.4.6: an offset counts only if its flag is set.
        let sacl = if control.has(Control::SACL_PRESENT) { sacl } else { 0 };
        let dacl = if control.has(Control::DACL_PRESENT) { dacl } else { 0 };
        Ok(Self {
            control,
            owner: part(&reader, owner, Sid::decode)?,
            group: part(&reader, group, Sid::decode)?,
            sacl: part(&reader, sacl, Acl::decode)?,
            dacl: part(&reader, dacl, Acl::decode)?,
        })
    }

    /// Its bytes.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut control = self.control.with(Control::SELF_RELATIVE).without(Control::SACL_PRESENT);
        if self.sacl.is_some() {
            control = control.with(Control::SACL_PRESENT);
        }
        if self.dacl.is_some() {
            control = control.with(Control::DACL_PRESENT);
        }
        let mut writer = Writer::new();
        writer.u8(1);
        writer.u8(0);
        writer.u16(control.0);
        let offsets = writer.position();
        writer.zeros(HEADER_BYTES - offsets);
        let [owner, group, sacl, dacl] = [0, 4, 8, 12].map(|offset| offsets + offset);
        append(&mut writer, sacl, self.sacl.as_ref(), Acl::encode);
        append(&mut writer, dacl, self.dacl.as_ref(), Acl::encode);
        append(&mut writer, owner, self.owner.as_ref(), Sid::encode);
        append(&mut writer, group, self.group.as_ref(), Sid::encode);
        writer.finish()
    }
}

/// The part at an offset; none at 0.
fn part<T>(
    reader: &Reader,
    offset: u32,
    decode: impl FnOnce(&mut Reader) -> Result<T>,
) -> Result<Option<T>> {
    if offset == 0 {
        return Ok(None);
    }
    let mut part = Reader::new(reader.message().clone());
    part.skip(offset as usize)?;
    decode(&mut part).map(Some)
}

/// Appends a part, and its offset to the field at `field`.
fn append<T>(writer: &mut Writer, field: usize, part: Option<&T>, encode: fn(&T, &mut Writer)) {
    if let Some(part) = part {
        writer.set_u32(field, writer.position() as u32);
        encode(part, writer);
    }
}

#[cfg(test)]
#[path = "sd_tests.rs"]
mod tests;
