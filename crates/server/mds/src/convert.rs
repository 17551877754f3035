//! Conversions between the types of the wire and the records of the namespace.

use braid_meta::{
    Access, Deny as StoredDeny, DirectoryChange as StoredChange, DirectoryDefault,
    DistributionKind, FileKind as StoredKind, Inode, NewMode, OpenMode,
    Placement as StoredPlacement,
    lease::{LeaseMode as StoredMode, LeaseOf, PendingRecall},
};
use braid_types::{ByteCount, Failure, FileIndex, Status};
use braid_wire::{
    Deny, Rights,
    message::{
        FileKind,
        entry::DirectoryChange,
        lease::{LeaseGrant, LeaseKind, LeaseMode, Recall},
        types::{Attributes, DistributionHint, Identity, LayoutHint, Placement},
    },
};

/// The mode of a requested or returned lease. Claims have no value on the wire.
pub(crate) fn lease_mode(mode: LeaseMode) -> Result<StoredMode, Failure> {
    match mode {
        LeaseMode::None => Ok(StoredMode::None),
        LeaseMode::Read => Ok(StoredMode::Read),
        LeaseMode::Write => Ok(StoredMode::Write),
        LeaseMode::Shared => Ok(StoredMode::Shared),
        _ => Err(Status::Unsupported.into()),
    }
}

/// A lease grant. `set_ids`: the file has set-id bits.
pub(crate) fn granted(mode: StoredMode, number: u64, set_ids: bool) -> LeaseGrant {
    LeaseGrant { mode: wire_lease_mode(mode), number, set_ids }
}

fn wire_lease_mode(mode: StoredMode) -> LeaseMode {
    match mode {
        StoredMode::None | StoredMode::Look => LeaseMode::None,
        StoredMode::Read => LeaseMode::Read,
        StoredMode::Write => LeaseMode::Write,
        StoredMode::Shared => LeaseMode::Shared,
    }
}

pub(crate) fn lease_of(kind: LeaseKind, file: FileIndex) -> Result<LeaseOf, Failure> {
    match kind {
        LeaseKind::Names => Ok(LeaseOf::Names(file)),
        LeaseKind::Data => Ok(LeaseOf::Data(file)),
        LeaseKind::Layout => Ok(LeaseOf::Layout(file)),
        LeaseKind::Delegation => Ok(LeaseOf::Delegation(file)),
        _ => Err(Status::Unsupported.into()),
    }
}

pub(crate) fn recall(number: u64, recall: &PendingRecall) -> Recall {
    let (kind, file) = match recall.of {
        LeaseOf::Names(file) => (LeaseKind::Names, file),
        LeaseOf::Data(file) => (LeaseKind::Data, file),
        LeaseOf::Layout(file) => (LeaseKind::Layout, file),
        LeaseOf::Delegation(file) => (LeaseKind::Delegation, file),
    };
    Recall { number, kind, file, keep: wire_lease_mode(recall.keep) }
}

/// Access and denial of an open.
pub(crate) fn open_mode(rights: Rights, deny: Deny) -> OpenMode {
    let access = Access { read: rights.allow(Rights::READ), write: rights.allow(Rights::WRITE) };
    let (read, write, delete) =
        (deny.has(Deny::READ), deny.has(Deny::WRITE), deny.has(Deny::DELETE));
    OpenMode { access, deny: StoredDeny { read, write, delete } }
}

/// The attributes that a client sees. `uncacheable` has a safe value here; callers that know the
/// client set it exactly.
pub(crate) fn attributes(inode: &Inode) -> Attributes {
    Attributes {
        file: inode.file,
        kind: kind(inode.kind),
        mode: u32::from(inode.mode),
        links: inode.nlink,
        uid: inode.owner.id,
        gid: inode.group.id,
        device: inode.rdev,
        bytes: ByteCount(inode.size),
        bytes_used: ByteCount(if inode.kind == StoredKind::Regular { inode.size } else { 0 }),
        atime: inode.atime,
        mtime: inode.mtime,
        ctime: inode.ctime,
        btime: inode.btime,
        change: inode.change,
        flags: inode.flags as u32,
        size_generation: inode.size_generation,
        uncacheable: inode.kind != StoredKind::Directory && (inode.nlink != 1 || inode.linked)
            || inode.size_in_objects,
        has_xattrs: inode.has_xattrs || inode.acl.is_some(),
    }
}

pub(crate) fn kind(kind: StoredKind) -> FileKind {
    match kind {
        StoredKind::Regular => FileKind::File,
        StoredKind::Directory => FileKind::Directory,
        StoredKind::Symlink => FileKind::Symlink,
        StoredKind::Fifo => FileKind::Fifo,
        StoredKind::Socket => FileKind::Socket,
        StoredKind::CharDevice => FileKind::CharDevice,
        StoredKind::BlockDevice => FileKind::BlockDevice,
    }
}

/// The change of a directory.
pub(crate) fn directory_change(change: StoredChange) -> DirectoryChange {
    DirectoryChange { before: change.before, after: change.after }
}

/// Kinds that `MakeNode` makes. The others have calls of their own.
pub(crate) fn special(kind: FileKind) -> Result<StoredKind, Failure> {
    match kind {
        FileKind::Fifo => Ok(StoredKind::Fifo),
        FileKind::Socket => Ok(StoredKind::Socket),
        FileKind::CharDevice => Ok(StoredKind::CharDevice),
        FileKind::BlockDevice => Ok(StoredKind::BlockDevice),
        _ => {
            Err(Failure::new(Status::Invalid, "only fifos, sockets and devices are made as nodes"))
        }
    }
}

/// Permission bits, setuid, setgid and sticky bit of a new file.
pub(crate) fn mode(mode: u32, umask: u32) -> NewMode {
    NewMode { bits: (mode & 0o7777) as u16, umask: (umask & 0o777) as u16 }
}

pub(crate) fn stored_identity(identity: &Identity) -> braid_meta::Identity {
    let Identity { uid, gid, groups, checked } = identity.clone();
    braid_meta::Identity { uid, gid, groups, permissions_checked: checked }
}

pub(crate) fn wire_identity(identity: &braid_meta::Identity) -> Identity {
    let braid_meta::Identity { uid, gid, groups, permissions_checked: checked } = identity.clone();
    Identity { uid, gid, groups, checked }
}

/// A directory's default as a layout hint.
pub(crate) fn wish(default: &DirectoryDefault) -> LayoutHint {
    LayoutHint {
        distribution: default.distribution.and_then(|kind| match kind {
            DistributionKind::SimpleStripe => Some(DistributionHint::SimpleStripe),
            DistributionKind::Single => Some(DistributionHint::Single),
            DistributionKind::VarStrip => Some(DistributionHint::VarStrip),
            DistributionKind::Grouped => Some(DistributionHint::Grouped),
            _ => None,
        }),
        stripe_bytes: default.stripe_bytes,
        parts: default.parts,
        first_iod: default.first_iod,
        strips: default.strips.clone(),
        group_width: default.group_width,
        group_depth: default.group_depth,
        placement: default.placement.and_then(|placement| match placement {
            StoredPlacement::RoundRobin => Some(Placement::RoundRobin),
            StoredPlacement::FreeSpace => Some(Placement::FreeSpace),
            StoredPlacement::Owner => Some(Placement::Owner),
            _ => None,
        }),
        labels: default.labels.clone(),
    }
}

/// A layout hint as a directory's default.
pub(crate) fn default(wish: &LayoutHint) -> DirectoryDefault {
    DirectoryDefault {
        distribution: wish.distribution.map(|kind| match kind {
            DistributionHint::Single => DistributionKind::Single,
            DistributionHint::VarStrip => DistributionKind::VarStrip,
            DistributionHint::Grouped => DistributionKind::Grouped,
            _ => DistributionKind::SimpleStripe,
        }),
        stripe_bytes: wish.stripe_bytes,
        parts: wish.parts,
        first_iod: wish.first_iod,
        strips: wish.strips.clone(),
        group_width: wish.group_width,
        group_depth: wish.group_depth,
        placement: wish.placement.map(|placement| match placement {
            Placement::FreeSpace => StoredPlacement::FreeSpace,
            Placement::Owner => StoredPlacement::Owner,
            _ => StoredPlacement::RoundRobin,
        }),
        labels: wish.labels.clone(),
    }
}
