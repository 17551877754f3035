//! NFSv4 access control lists: RFC 8881 section 6. No I/O; callers supply who the caller is.
//!
//! ```text
//!   entry: ALLOW or DENY   flags   mask                    who
//!          A               fd      READ_DATA | EXECUTE     GROUP@
//! ```
//!
//! Invariants:
//! 1. Entries are evaluated in order. The first entry that names the caller and mentions a bit
//!    decides that bit (RFC 8881 6.2.1). A bit that no entry decides is denied.
//! 2. A list holds at most [`ACES_MAX`] entries, ALLOW and DENY only, with known bits only.
//! 3. Only a directory's list has entries with inheritance flags; `Nfs4Acl::new` removes them
//!    elsewhere. An entry with `INHERIT_ONLY` has an inheritance flag.
//! 4. [`Nfs4Acl::posix_view`] grants nobody a permission that the list denies: the kernel of a
//!    mount checks permissions with it.

mod inherit;
mod mode;
mod posix;
#[cfg(test)]
mod tests;
mod xdr;

pub use posix::PosixView;
pub use xdr::{AclFormatError, XDR_BYTES_MAX};

/// Entries of one list, as of a POSIX list. RFC 8881 sets no limit. The text form of this many
/// entries fits in the 64 KiB that Linux allows an extended attribute, and an inode's record stays
/// below 20 KiB.
pub const ACES_MAX: usize = 1024;

/// Bits of [`Ace::flags`]: `aceflag4`, RFC 8881 6.2.1.4. The numbers are part of the format.
pub mod ace_flag {
    /// New files inherit the entry.
    pub const FILE_INHERIT: u8 = 0x01;
    /// New directories inherit the entry.
    pub const DIRECTORY_INHERIT: u8 = 0x02;
    /// Inherited by one level only.
    pub const NO_PROPAGATE: u8 = 0x04;
    /// Does not apply to the directory itself.
    pub const INHERIT_ONLY: u8 = 0x08;
    /// In a message: `who` is a group. [`super::Who`] says it instead.
    pub const IDENTIFIER_GROUP: u8 = 0x40;
    /// In a message: the entry was inherited. Only `dacl` and `sacl` use it; it is not stored.
    pub const INHERITED: u8 = 0x80;

    /// The flags of inheritance.
    pub const INHERITANCE: u8 = FILE_INHERIT | DIRECTORY_INHERIT | NO_PROPAGATE | INHERIT_ONLY;
    /// The flags that make a new file or directory inherit.
    pub const INHERITS: u8 = FILE_INHERIT | DIRECTORY_INHERIT;
}

/// Bits of [`Ace::mask`]: `acemask4`, RFC 8881 6.2.1.3. The numbers are part of the format.
pub mod ace_mask {
    /// Read a file; list a directory.
    pub const READ_DATA: u32 = 0x0000_0001;
    /// Write a file; add a file to a directory.
    pub const WRITE_DATA: u32 = 0x0000_0002;
    /// Append to a file; add a directory to a directory.
    pub const APPEND_DATA: u32 = 0x0000_0004;
    /// Execute a file; search a directory.
    pub const EXECUTE: u32 = 0x0000_0020;
    /// Remove entries of a directory.
    pub const DELETE_CHILD: u32 = 0x0000_0040;
    /// Read attributes. Everybody always may, as in POSIX.
    pub const READ_ATTRIBUTES: u32 = 0x0000_0080;
    /// Set times. The owner always may.
    pub const WRITE_ATTRIBUTES: u32 = 0x0000_0100;
    /// Remove the file.
    pub const DELETE: u32 = 0x0001_0000;
    /// Read the list. Everybody always may, as in Linux.
    pub const READ_ACL: u32 = 0x0002_0000;
    /// Change the list and the mode. The owner always may.
    pub const WRITE_ACL: u32 = 0x0004_0000;
    /// Take ownership.
    pub const WRITE_OWNER: u32 = 0x0008_0000;
    /// Use of the file by a local process of the server; no meaning here.
    pub const SYNCHRONIZE: u32 = 0x0010_0000;

    /// Every bit that RFC 8881 defines.
    pub const ALL: u32 = 0x001f_07ff;
}

/// Whom an entry names: RFC 8881 6.2.1.5.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Who {
    /// `OWNER@`: the owner of the file.
    Owner,
    /// `GROUP@`: members of the file's group.
    OwningGroup,
    /// `EVERYONE@`: everybody, the owner too.
    Everyone,
    /// The user with this id.
    User(u64),
    /// Members of the group with this id.
    Group(u64),
}

impl Who {
    /// Whether it is a user or group with an id.
    pub fn is_named(self) -> bool {
        matches!(self, Self::User(_) | Self::Group(_))
    }
}

/// What an entry does.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum AceKind {
    /// It allows the bits.
    Allow,
    /// It denies the bits.
    Deny,
}

/// One entry.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Ace {
    /// What it does.
    pub kind: AceKind,
    /// Bits of [`ace_flag`], of inheritance only.
    pub flags: u8,
    /// Bits of [`ace_mask`].
    pub mask: u32,
    /// Whom it names.
    pub who: Who,
}

impl Ace {
    /// An entry that allows, without inheritance.
    pub fn allow(who: Who, mask: u32) -> Self {
        Self { kind: AceKind::Allow, flags: 0, mask, who }
    }

    /// An entry that denies, without inheritance.
    pub fn deny(who: Who, mask: u32) -> Self {
        Self { kind: AceKind::Deny, flags: 0, mask, who }
    }

    /// Whether it applies to the file itself. RFC 8881 6.2.1.4.1.
    pub fn is_effective(&self) -> bool {
        self.flags & ace_flag::INHERIT_ONLY == 0
    }

    fn inherits(&self) -> bool {
        self.flags & ace_flag::INHERITS != 0
    }
}

/// Why a list is refused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[non_exhaustive]
pub enum AclError {
    /// More than [`ACES_MAX`] entries.
    TooLong,
    /// A bit of a flag or mask that RFC 8881 does not define.
    UnknownBits,
}

/// A list.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Nfs4Acl {
    aces: Vec<Ace>,
}

impl Nfs4Acl {
    /// A list of these entries. A file that is not a directory loses the flags of inheritance, and
    /// the entries that only have an effect through them.
    ///
    /// # Errors
    /// [`AclError`].
    pub fn new(aces: Vec<Ace>, is_directory: bool) -> Result<Self, AclError> {
        let known =
            |ace: &Ace| ace.mask & !ace_mask::ALL == 0 && ace.flags & !ace_flag::INHERITANCE == 0;
        if !aces.iter().all(known) {
            return Err(AclError::UnknownBits);
        }
        let keeps = |ace: &Ace| ace.is_effective() || is_directory && ace.inherits();
        let aces = aces.into_iter().filter(keeps).map(|ace| Ace {
            flags: if is_directory && ace.inherits() { ace.flags } else { 0 },
            ..ace
        });
        Self::bounded(aces.collect())
    }

    fn bounded(aces: Vec<Ace>) -> Result<Self, AclError> {
        if aces.len() > ACES_MAX { Err(AclError::TooLong) } else { Ok(Self { aces }) }
    }

    /// The entries, in order.
    pub fn aces(&self) -> &[Ace] {
        &self.aces
    }

    fn effective(&self) -> impl Iterator<Item = &Ace> {
        self.aces.iter().filter(|ace| ace.is_effective())
    }

    /// Whether the list allows every bit of `mask` to a caller. `is` says whether the caller is, or
    /// is a member of, what an entry names.
    pub fn allows(&self, mask: u32, is: impl Fn(Who) -> bool) -> bool {
        let mut undecided = mask;
        for ace in self.effective() {
            if ace.mask & undecided == 0 || !is(ace.who) {
                continue;
            }
            match ace.kind {
                AceKind::Deny => return false,
                AceKind::Allow => undecided &= !ace.mask,
            }
        }
        undecided == 0
    }
}

/// The bits of a mask that stand for the mode bits 4, 2 and 1: RFC 8881 6.3.1. As in Linux's NFS
/// server, writing a directory includes removing its entries.
pub fn mask_of_bits(bits: u8, is_directory: bool) -> u32 {
    use ace_mask::{APPEND_DATA, DELETE_CHILD, EXECUTE, READ_DATA, WRITE_DATA};
    let write = WRITE_DATA | APPEND_DATA | if is_directory { DELETE_CHILD } else { 0 };
    let all = [(4, READ_DATA), (2, write), (1, EXECUTE)];
    all.iter().filter(|(bit, _)| bits & bit != 0).fold(0, |mask, (_, more)| mask | more)
}

/// The mode bits 4, 2 and 1 that a mask allows: RFC 8881 6.3.2.
fn bits_of_mask(mask: u32, is_directory: bool) -> u8 {
    let has = |bit: &u8| {
        let needed = mask_of_bits(*bit, is_directory);
        mask & needed == needed
    };
    [4, 2, 1].into_iter().filter(has).sum()
}
