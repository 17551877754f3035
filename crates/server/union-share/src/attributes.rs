//! Attributes: shown and changed.

use braid_share::{
    AttributeChanges, Attributes, ByteCount, FILE_BYTES_MAX, FileIndex, FileKind, Identity,
    OpenMode, SessionId, SetTime, StatFsReply, Status, Timestamp, tables::Outcome,
};
use braid_types::SizeGeneration;
use braid_union::{self as union, Access, NewAttributes, NewTime, Time};

use crate::{
    rights::{id, in_group, is_privileged, owner_only},
    service::Service,
    status::OrStatus,
};

const SET_IDS: u32 = 0o6000;
const SET_GROUP_ID: u32 = 0o2000;

/// The kind of a mode.
pub(crate) fn kind_of(mode: u32) -> FileKind {
    match mode >> 12 {
        1 => FileKind::Fifo,
        2 => FileKind::CharDevice,
        4 => FileKind::Directory,
        6 => FileKind::BlockDevice,
        10 => FileKind::Symlink,
        12 => FileKind::Socket,
        _ => FileKind::File,
    }
}

fn timestamp(time: Time) -> Timestamp {
    Timestamp { seconds: time.seconds, nanos: time.nanoseconds }
}

impl Service {
    /// The attributes of a file, as clients see them.
    pub(crate) fn shown(&self, file: FileIndex, found: &union::Attributes) -> Attributes {
        let (major, minor) = found.device;
        Attributes {
            file,
            kind: kind_of(found.mode),
            mode: found.mode & 0o7777,
            links: found.links,
            uid: found.uid.into(),
            gid: found.gid.into(),
            device: u64::from(major) << 32 | u64::from(minor),
            bytes: ByteCount(found.size),
            bytes_used: ByteCount(found.blocks.saturating_mul(512)),
            atime: timestamp(found.accessed),
            mtime: timestamp(found.modified),
            ctime: timestamp(found.changed),
            btime: timestamp(found.created),
            change: self.changes.counter(file, found.changed),
            flags: 0,
            size_generation: SizeGeneration(0),
            uncacheable: false,
            // Whether there are any costs a call of its own.
            has_xattrs: true,
        }
    }

    pub(crate) fn attributes(&self, file: FileIndex) -> Outcome<Attributes> {
        let node = self.files.node(file)?;
        let found = self.union.attributes(node.node).or_status()?;
        Ok(self.shown(file, &found))
    }

    pub(crate) fn access(&self, who: &Identity, file: FileIndex, wanted: u8) -> Outcome<u8> {
        let node = self.files.node(file)?;
        self.granted(who, node.node, wanted)
    }

    /// Changes attributes. All checks precede the first change.
    pub(crate) fn set_attributes(
        &self,
        who: &Identity,
        session: SessionId,
        file: FileIndex,
        changes: &AttributeChanges,
    ) -> Outcome<Attributes> {
        let node = self.files.node(file)?;
        let found = self.union.attributes(node.node).or_status()?;
        if let Some(bytes) = changes.bytes {
            self.check_size(session, file, &found, bytes.0)?;
            self.permit(who, node.node, Access::WRITE_OK)?;
        }
        check_owner(who, &found, changes)?;
        if let Some(mode) = changes.mode {
            owner_only(who, &found)?;
            if mode > 0o7777 {
                return Err(Status::Invalid);
            }
        }
        check_times(changes)?;
        if wants_times(changes) && owner_only(who, &found).is_err() {
            if !both_now(changes) {
                return Err(Status::NotPermitted);
            }
            self.permit(who, node.node, Access::WRITE_OK)?;
        }
        if changes.flags.is_some_and(|flags| flags != 0) {
            return Err(Status::Unsupported);
        }
        let new = new_attributes(who, &found, changes)?;
        let done = self.union.set_attributes(node.node, &new).or_status();
        // Also after a failure: a part may have been changed.
        self.file_changed(file, node.node);
        Ok(self.shown(file, &done?))
    }

    /// Checks a new size, and that no other open denies writing.
    fn check_size(
        &self,
        session: SessionId,
        file: FileIndex,
        found: &union::Attributes,
        bytes: u64,
    ) -> Outcome<()> {
        match kind_of(found.mode) {
            FileKind::File => {}
            FileKind::Directory => return Err(Status::IsDirectory),
            _ => return Err(Status::Invalid),
        }
        if bytes > FILE_BYTES_MAX {
            return Err(Status::TooLarge);
        }
        let sessions = self.sessions();
        let mode = OpenMode { rights: braid_share::Rights::WRITE, deny: braid_share::Deny::NONE };
        match sessions.opens.writes(session, file) {
            true => Ok(()),
            false => sessions.opens.check(file, mode, None),
        }
    }

    pub(crate) fn space(&self, file: FileIndex) -> Outcome<StatFsReply> {
        self.files.node(file)?;
        let space = self.union.space().or_status()?;
        Ok(StatFsReply {
            total: ByteCount(space.bytes),
            free: ByteCount(space.free),
            available: ByteCount(space.available),
            files: space.files.saturating_sub(space.files_free),
            files_max: Some(space.files),
            iods_up: 0,
            iods: 0,
        })
    }
}

/// POSIX chown(): only root changes the owner; the owner changes the group to one of its own.
fn check_owner(
    who: &Identity,
    found: &union::Attributes,
    changes: &AttributeChanges,
) -> Outcome<()> {
    if changes.uid.is_none() && changes.gid.is_none() || is_privileged(who) {
        return Ok(());
    }
    owner_only(who, found)?;
    let group = changes.gid.map(id).transpose()?;
    let own = group.is_none_or(|gid| gid == found.gid || in_group(who, gid));
    let stays = changes.uid.is_none_or(|uid| uid == u64::from(found.uid));
    if own && stays { Ok(()) } else { Err(Status::NotPermitted) }
}

fn check_times(changes: &AttributeChanges) -> Outcome<()> {
    let given = [&changes.atime, &changes.mtime].into_iter().flatten().filter_map(|set| set.time);
    match given.into_iter().all(|time| time.nanos < 1_000_000_000) {
        true => Ok(()),
        false => Err(Status::Invalid),
    }
}

fn wants_times(changes: &AttributeChanges) -> bool {
    changes.atime.is_some() || changes.mtime.is_some()
}

/// POSIX utimensat(): the right to write is enough to set both times to now.
fn both_now(changes: &AttributeChanges) -> bool {
    let now = Some(SetTime { time: None });
    changes.atime == now && changes.mtime == now
}

/// The change as a mount's kernel sends it: with what a user without rights loses.
fn new_attributes(
    who: &Identity,
    found: &union::Attributes,
    changes: &AttributeChanges,
) -> Outcome<NewAttributes> {
    let time = |set: &SetTime| match set.time {
        None => NewTime::Now,
        Some(time) => NewTime::At(Time { seconds: time.seconds, nanoseconds: time.nanos }),
    };
    let gid = changes.gid.map(id).transpose()?;
    // POSIX chmod(): a user outside the file's group may not set setgid.
    let outside = !is_privileged(who) && !in_group(who, gid.unwrap_or(found.gid));
    // Linux has no mode of a symbolic link; clients that set one go on.
    let has_mode = kind_of(found.mode) != FileKind::Symlink;
    let mode = changes
        .mode
        .filter(|_| has_mode)
        .map(|mode| if outside { mode & !SET_GROUP_ID } else { mode });
    let owned = changes.uid.is_some() || changes.gid.is_some();
    let resized = changes.bytes.is_some() && !is_privileged(who);
    let is_file = kind_of(found.mode) == FileKind::File;
    let loses = is_file && found.mode & SET_IDS != 0 && (owned || resized);
    Ok(NewAttributes {
        mode,
        uid: changes.uid.map(id).transpose()?,
        gid,
        size: changes.bytes.map(|bytes| bytes.0),
        accessed: changes.atime.as_ref().map(time),
        modified: changes.mtime.as_ref().map(time),
        kill_suidgid: loses || changes.drop_set_ids,
    })
}
