//! Attributes.

use braid_vfs::{AttributeChanges, CachedAttributes, FileHandle, FileIndex, SetTime, User};

use super::{Answer, Done, FileSystem, convert};
use crate::kernel::{self, ExtendedStat, SetAttributes, Validity};

/// `STATX_BASIC_STATS | STATX_BTIME`: all fields that BraidFS has.
const STATX_KNOWN: u32 = 0x7ff | 0x800;

impl FileSystem {
    pub(super) fn get_attributes(
        &self,
        file: FileIndex,
        handle: Option<u64>,
        answer: Answer<'_>,
    ) -> Done {
        self.attributes(&self.vfs.attributes(file, handle.map(FileHandle))?, answer)
    }

    pub(super) fn extended_stat(
        &self,
        file: FileIndex,
        handle: Option<u64>,
        answer: Answer<'_>,
    ) -> Done {
        let known = self.vfs.attributes(file, handle.map(FileHandle))?;
        let stat = ExtendedStat {
            mask: STATX_KNOWN,
            flags: 0,
            flags_known: 0,
            created: convert::time(known.attributes.btime),
            attributes: convert::attributes(&known.attributes),
        };
        self.vfs.reply_cacheable(&known.leases, |cacheable| {
            answer.with(|reply| reply.extended_stat(&stat, convert::validity(cacheable.attributes)))
        })
    }

    pub(super) fn set_attributes(
        &self,
        user: User,
        file: FileIndex,
        wanted: &SetAttributes,
        answer: Answer<'_>,
    ) -> Done {
        // The metadata server sets the change time; the kernel's value is only its estimate.
        let changes = AttributeChanges {
            mode: wanted.mode.map(|mode| mode & 0o7777),
            uid: wanted.uid.map(Into::into),
            gid: wanted.gid.map(Into::into),
            bytes: wanted.size.map(braid_types::ByteCount),
            atime: wanted.accessed.map(set_time),
            mtime: wanted.modified.map(set_time),
            ..AttributeChanges::none()
        };
        let handle = wanted.handle.map(FileHandle);
        let changed =
            self.vfs.set_attributes_for(user, file, handle, changes, wanted.kill_suidgid)?;
        // Not cacheable. The thread that sent the request applies the reply when it runs, which may
        // be after another mount's change and the recall for it. The kernel ignores a GETATTR or
        // LOOKUP reply to a question older than the recall; older kernels apply this one.
        answer.with(|reply| {
            reply.attributes(&convert::attributes(&changed.attributes), Validity::Never)
        })
    }

    fn attributes(&self, known: &CachedAttributes, answer: Answer<'_>) -> Done {
        self.vfs.reply_cacheable(&known.leases, |cacheable| {
            let valid = convert::validity(cacheable.attributes);
            answer.with(|reply| reply.attributes(&convert::attributes(&known.attributes), valid))
        })
    }
}

fn set_time(wanted: kernel::SetTime) -> SetTime {
    SetTime {
        time: match wanted {
            kernel::SetTime::Now => None,
            kernel::SetTime::At(time) => Some(convert::timestamp(time)),
        },
    }
}
