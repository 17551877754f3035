//! Conversions between the kernel's values and those of the union.

use braid_union::{Attributes, Found, NewAttributes, NewTime, Time, User};

use super::validity::EntryValidity;
use crate::kernel::{self, Entry, Header, SetAttributes, SetTime};

pub(super) fn entry(found: &Found, valid: EntryValidity) -> Entry {
    Entry {
        node: found.node.0,
        generation: 0,
        name_valid: valid.name,
        attributes_valid: valid.attributes,
        attributes: attributes(&found.attributes),
    }
}

pub(super) fn attributes(found: &Attributes) -> kernel::Attributes {
    let (major, minor) = found.device;
    kernel::Attributes {
        ino: found.index,
        size: found.size,
        blocks: found.blocks,
        accessed: time(found.accessed),
        modified: time(found.modified),
        changed: time(found.changed),
        mode: found.mode,
        links: found.links,
        uid: found.uid,
        gid: found.gid,
        // The kernel's "new" encoding.
        device: minor & 0xff | major << 8 | (minor & !0xff) << 12,
        block_size: found.block_size,
    }
}

pub(super) fn time(time: Time) -> kernel::Time {
    kernel::Time { seconds: time.seconds, nanoseconds: time.nanoseconds }
}

fn new_time(time: SetTime) -> NewTime {
    match time {
        SetTime::Now => NewTime::Now,
        SetTime::At(time) => {
            NewTime::At(Time { seconds: time.seconds, nanoseconds: time.nanoseconds })
        }
    }
}

pub(super) fn changes(wanted: &SetAttributes) -> NewAttributes {
    NewAttributes {
        mode: wanted.mode,
        uid: wanted.uid,
        gid: wanted.gid,
        size: wanted.size,
        accessed: wanted.accessed.map(new_time),
        modified: wanted.modified.map(new_time),
        kill_suidgid: wanted.kill_suidgid,
    }
}

pub(super) fn user(header: &Header) -> User {
    User { uid: header.uid, gid: header.gid }
}
