//! Names: lookups, creation, removal, renames.

use braid_vfs::{Cacheable, CachedAttributes, FileIndex, FileKind, LookupResult, RenameMode, User};
use rustix::{fs::RenameFlags, io::Errno};

use super::{Answer, Done, FileSystem, convert, errors::ErrnoReply};

impl FileSystem {
    pub(super) fn look_up(&self, directory: FileIndex, name: &[u8], answer: Answer<'_>) -> Done {
        if matches!(name, b"." | b"..") {
            return self.look_up_by_handle(directory, name == b"..", answer);
        }
        match self.vfs.look_up(directory, name)? {
            LookupResult::Found(known) => self.entry((directory, name), &known, answer),
            LookupResult::Absent(keep) => {
                self.reply_with_name((directory, name), &keep, |cacheable| match cacheable.name {
                    true => answer.with(|reply| reply.absent(convert::name_validity(true))),
                    false => Err(Errno::NOENT.into()),
                })
            }
        }
    }

    /// Looks up the file of an exported file handle (`open_by_handle_at`, NFS) that the kernel has
    /// forgotten, or the directory above it. An index is never used twice, so the node is the whole
    /// handle. The reply is not cacheable: a recall cannot reach a file of which the kernel has no
    /// node yet.
    fn look_up_by_handle(&self, file: FileIndex, above: bool, answer: Answer<'_>) -> Done {
        let file = if above { self.vfs.parent(file) } else { Ok(file) };
        let found = file.and_then(|file| self.vfs.attributes(file, None));
        let found = found.map_err(|error| match ErrnoReply::from(error) {
            // The same error as of a name that does not exist.
            gone if gone.errno() == Errno::STALE => Errno::NOENT.into(),
            other => other,
        })?;
        if found.attributes.links == 0 {
            // Its last name is removed. No program here has it open: the kernel would have its
            // node.
            return Err(Errno::NOENT.into());
        }
        let cacheable = Cacheable { name: false, attributes: false };
        answer.with(|reply| _ = reply.entry(&convert::entry(&found.attributes, cacheable)))
    }

    pub(super) fn make_directory(
        &self,
        user: User,
        directory: FileIndex,
        name: &[u8],
        mode: u32,
        umask: u32,
        answer: Answer<'_>,
    ) -> Done {
        let made = self.vfs.make_directory(user, directory, name, mode & 0o7777, umask)?;
        self.entry((directory, name), &made, answer)
    }

    pub(super) fn make_node(
        &self,
        user: User,
        directory: FileIndex,
        name: &[u8],
        (mode, umask, device): (u32, u32, u32),
        answer: Answer<'_>,
    ) -> Done {
        let kind = convert::kind_of_mode(mode).ok_or(Errno::INVAL)?;
        let made =
            self.vfs.make_node(user, directory, name, kind, mode & 0o7777, umask, device.into())?;
        self.entry((directory, name), &made, answer)
    }

    pub(super) fn make_symlink(
        &self,
        user: User,
        directory: FileIndex,
        name: &[u8],
        target: &[u8],
        answer: Answer<'_>,
    ) -> Done {
        self.entry(
            (directory, name),
            &self.vfs.make_symlink(user, directory, name, target)?,
            answer,
        )
    }

    pub(super) fn link(
        &self,
        file: FileIndex,
        directory: FileIndex,
        name: &[u8],
        answer: Answer<'_>,
    ) -> Done {
        self.entry((directory, name), &self.vfs.link(file, directory, name)?, answer)
    }

    pub(super) fn unlink(&self, directory: FileIndex, name: &[u8], answer: Answer<'_>) -> Done {
        self.vfs.unlink(directory, name)?;
        self.forget((directory, name));
        answer.ok()
    }

    pub(super) fn remove_directory(
        &self,
        directory: FileIndex,
        name: &[u8],
        answer: Answer<'_>,
    ) -> Done {
        self.vfs.remove_directory(directory, name)?;
        self.forget((directory, name));
        answer.ok()
    }

    pub(super) fn rename(
        &self,
        from: (FileIndex, &[u8]),
        to: (FileIndex, &[u8]),
        flags: u32,
        answer: Answer<'_>,
    ) -> Done {
        let mode = match RenameFlags::from_bits_retain(flags) {
            flags if flags.is_empty() => RenameMode::Replace,
            RenameFlags::NOREPLACE => RenameMode::NoReplace,
            RenameFlags::EXCHANGE => RenameMode::Exchange,
            // RENAME_WHITEOUT is for the upper layer of a union, which this is not.
            _ => return Err(Errno::INVAL.into()),
        };
        // The kernel moves a cached name by itself and continues to use it. So a lease must cover
        // it in the new directory, from before the rename on.
        let keep = self.vfs.lease_for_renamed(to.0);
        self.vfs.rename(from, to, mode)?;
        let (done, is_cacheable) = self.reply_with_name(to, &keep, |cacheable| {
            // Before the reply: after it the kernel may look up the old name again.
            self.forget(from);
            (answer.ok(), cacheable.name)
        });
        if !is_cacheable {
            self.expire_later(to);
        }
        if mode == RenameMode::Exchange {
            self.expire_later(from);
        }
        done
    }

    pub(super) fn read_link(&self, link: FileIndex, answer: Answer<'_>) -> Done {
        let target = self.vfs.read_link(link)?;
        answer.with(|reply| reply.data(&target))
    }

    fn entry(
        &self,
        name: (FileIndex, &[u8]),
        known: &CachedAttributes,
        answer: Answer<'_>,
    ) -> Done {
        // There is no table of nodes: an entry that the kernel does not accept leaves nothing
        // behind.
        self.reply_with_name(name, &known.leases, |cacheable| {
            // The attributes of a directory are recalled with its own lease. The kernel may have no
            // node of it yet then, and the recall does not wait for this reply. So they are not
            // cacheable here; the kernel asks for them by the node.
            let cacheable = Cacheable {
                attributes: cacheable.attributes && known.attributes.kind != FileKind::Directory,
                ..cacheable
            };
            answer.with(|reply| _ = reply.entry(&convert::entry(&known.attributes, cacheable)))
        })
    }
}
