//! A list as the bytes of the extended attribute `system.nfs4_acl`, which Linux's NFS client has
//! and nfs4_getfacl(1) reads: the attribute `acl` of RFC 8881 6.2.1 in XDR.
//!
//! ```text
//!   count u32, then for each entry: type u32, flags u32, mask u32, who string, all big-endian
//! ```
//! A user or group is shown as its decimal id (RFC 8881 5.9).

use super::{ACES_MAX, Ace, AceKind, AclError, Nfs4Acl, Who, ace_flag};

/// Bytes of the longest list: four words and an id of 20 digits for each entry.
pub const XDR_BYTES_MAX: usize = 4 + ACES_MAX * (16 + 20);

/// Bytes of a name in an entry; longer ones are not a number with a domain.
const WHO_BYTES_MAX: usize = 1024;

/// Why bytes are not a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AclFormatError {
    /// They are no XDR list.
    Malformed,
    /// An entry is of a type other than ALLOW and DENY.
    UnsupportedKind,
    /// An entry names somebody that is not a number, `root` or one of the special names.
    UnknownWho,
    /// The list is refused.
    Acl(AclError),
}

impl Nfs4Acl {
    /// The bytes of the list.
    pub fn to_xdr(&self) -> Vec<u8> {
        let mut out = Vec::with_capacity(4 + self.aces.len() * 36);
        let word = |out: &mut Vec<u8>, word: u32| out.extend(word.to_be_bytes());
        word(&mut out, self.aces.len() as u32);
        for ace in &self.aces {
            let who = ace.who.to_text();
            word(&mut out, u32::from(ace.kind == AceKind::Deny));
            word(&mut out, u32::from(ace.flags | ace.who.message_flag()));
            word(&mut out, ace.mask);
            word(&mut out, who.len() as u32);
            out.extend(who.as_bytes());
            out.resize(out.len().next_multiple_of(4), 0);
        }
        out
    }

    /// The list in some bytes.
    ///
    /// # Errors
    /// [`AclFormatError`].
    pub fn from_xdr(bytes: &[u8], is_directory: bool) -> Result<Self, AclFormatError> {
        let mut rest = bytes;
        let count = word(&mut rest)? as usize;
        if count > ACES_MAX {
            return Err(AclFormatError::Acl(AclError::TooLong));
        }
        let mut aces = Vec::with_capacity(count);
        for _ in 0..count {
            aces.push(ace(&mut rest)?);
        }
        if !rest.is_empty() {
            return Err(AclFormatError::Malformed);
        }
        Self::new(aces, is_directory).map_err(AclFormatError::Acl)
    }
}

impl Who {
    /// How a message names it.
    pub fn to_text(self) -> String {
        match self {
            Self::Owner => "OWNER@".into(),
            Self::OwningGroup => "GROUP@".into(),
            Self::Everyone => "EVERYONE@".into(),
            Self::User(id) | Self::Group(id) => id.to_string(),
        }
    }

    /// The flag of an entry that says that its name is a group. The special names have none, as
    /// with Linux's server.
    pub fn message_flag(self) -> u8 {
        if matches!(self, Self::Group(_)) { ace_flag::IDENTIFIER_GROUP } else { 0 }
    }

    /// Whom a message names: a special name, or a decimal id without leading zeros, optionally with
    /// a domain, or `root`. `None` for another one.
    pub fn from_text(text: &[u8], is_group: bool) -> Option<Self> {
        match text {
            b"OWNER@" => return Some(Self::Owner),
            b"GROUP@" => return Some(Self::OwningGroup),
            b"EVERYONE@" => return Some(Self::Everyone),
            _ => {}
        }
        let text = std::str::from_utf8(text).ok()?;
        let name = text.split_once('@').map_or(text, |(name, _)| name);
        let id = match name.parse::<u64>() {
            Ok(id) if id.to_string() == name => id,
            _ if name == "root" => 0,
            _ => return None,
        };
        Some(if is_group { Self::Group(id) } else { Self::User(id) })
    }
}

fn ace(rest: &mut &[u8]) -> Result<Ace, AclFormatError> {
    let kind = match word(rest)? {
        0 => AceKind::Allow,
        1 => AceKind::Deny,
        _ => return Err(AclFormatError::UnsupportedKind),
    };
    let (flags, mask, bytes) = (word(rest)?, word(rest)?, word(rest)? as usize);
    let flags = u8::try_from(flags).map_err(|_| AclFormatError::Acl(AclError::UnknownBits))?;
    if bytes > WHO_BYTES_MAX || bytes.next_multiple_of(4) > rest.len() {
        return Err(AclFormatError::Malformed);
    }
    let (name, padding) = rest[..bytes.next_multiple_of(4)].split_at(bytes);
    if padding.iter().any(|byte| *byte != 0) {
        return Err(AclFormatError::Malformed);
    }
    let is_group = flags & ace_flag::IDENTIFIER_GROUP != 0;
    let who = Who::from_text(name, is_group).ok_or(AclFormatError::UnknownWho)?;
    *rest = &rest[bytes.next_multiple_of(4)..];
    // RFC 8881 6.2.1.4: INHERITED has a meaning in `dacl` and `sacl` only.
    let flags = flags & !(ace_flag::IDENTIFIER_GROUP | ace_flag::INHERITED);
    Ok(Ace { kind, flags, mask, who })
}

fn word(rest: &mut &[u8]) -> Result<u32, AclFormatError> {
    let (word, after) = rest.split_first_chunk::<4>().ok_or(AclFormatError::Malformed)?;
    *rest = after;
    Ok(u32::from_be_bytes(*word))
}
