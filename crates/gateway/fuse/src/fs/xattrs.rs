//! Extended attributes, POSIX ACLs among them.

use braid_vfs::{CacheInvalidator, FileIndex, NFS4_LIST, XattrMode};
use rustix::{fs::XattrFlags, io::Errno};

use super::{Answer, Done, FileSystem, user};
use crate::kernel::Header;

impl FileSystem {
    pub(super) fn get_xattr(
        &self,
        file: FileIndex,
        name: &[u8],
        size: u32,
        answer: Answer<'_>,
    ) -> Done {
        sized(&self.vfs.xattr(file, name)?, size, answer)
    }

    pub(super) fn list_xattrs(&self, file: FileIndex, size: u32, answer: Answer<'_>) -> Done {
        let mut list = self.vfs.xattrs(file)?.join(&0);
        if !list.is_empty() {
            list.push(0);
        }
        sized(&list, size, answer)
    }

    pub(super) fn set_xattr(
        &self,
        header: &Header,
        file: FileIndex,
        (name, value): (&[u8], &[u8]),
        flags: u32,
        acl_kill_sgid: bool,
        answer: Answer<'_>,
    ) -> Done {
        if acl_kill_sgid {
            self.vfs.set_acl_dropping_setgid(file, name, value)?;
            return answer.ok();
        }
        let mode = match XattrFlags::from_bits_retain(flags) {
            flags if flags.is_empty() => XattrMode::Either,
            XattrFlags::CREATE => XattrMode::Create,
            XattrFlags::REPLACE => XattrMode::Replace,
            _ => return Err(Errno::INVAL.into()),
        };
        if name == NFS4_LIST {
            return self.set_nfs4_list(header, file, Some(value), answer);
        }
        self.vfs.set_xattr(file, name, value, mode)?;
        answer.ok()
    }

    pub(super) fn remove_xattr(
        &self,
        header: &Header,
        file: FileIndex,
        name: &[u8],
        answer: Answer<'_>,
    ) -> Done {
        if name == NFS4_LIST {
            return self.set_nfs4_list(header, file, None, answer);
        }
        self.vfs.remove_xattr(file, name)?;
        answer.ok()
    }

    /// The kernel does not know that this attribute changes the mode and the POSIX list, with which
    /// it checks permissions: it drops them before the reply, also if the outcome is unknown.
    fn set_nfs4_list(
        &self,
        header: &Header,
        file: FileIndex,
        value: Option<&[u8]>,
        answer: Answer<'_>,
    ) -> Done {
        let done = self.vfs.set_nfs4_list(user(header), file, value);
        if let Some(cache) = self.kernel_cache.get() {
            cache.drop_attributes(file);
        }
        done?;
        answer.ok()
    }
}

/// Replies with a value, or with size 0 its length; ERANGE when it does not fit.
fn sized(value: &[u8], size: u32, answer: Answer<'_>) -> Done {
    let bytes = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
    match size {
        0 => answer.with(|reply| reply.xattr_size(bytes)),
        _ if bytes > size => Err(Errno::RANGE.into()),
        _ => answer.with(|reply| reply.data(value)),
    }
}
