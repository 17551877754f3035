//! One request each.

use std::sync::Arc;

use braid_union::{Attributes, Found, NodeId, OpenFile, RenameMode, SetXattr};
use rustix::fs::{OFlags, RenameFlags, XattrFlags};
use rustix::io::Errno;

use super::{
    UnionFileSystem,
    convert::{attributes, changes, entry, time, user},
    handles::Open,
    validity::{Asked, EntryValidity, SHORT},
};
use crate::kernel::{Call, ExtendedStat, Opened, Operation, Reply, Request, SpaceStat, abi};

/// `STATX_BASIC_STATS | STATX_BTIME`.
const STATX_MASK: u32 = 0xfff;
const SEEK_DATA: u32 = 3;
const SEEK_HOLE: u32 = 4;
/// The unit of the block counts of `statfs`.
const BLOCK_BYTES: u32 = 4096;
const ACL_ACCESS: &[u8] = b"system.posix_acl_access";

type Done = Result<(), Errno>;
/// Gives the one reply to a function that sends it.
type SendReply<'s> = dyn FnMut(&mut dyn FnMut(Reply)) -> Done + 's;

impl UnionFileSystem {
    pub(super) fn dispatch(
        &self,
        request: &Request<'_>,
        reply: &mut Option<Reply>,
        call: &mut Call<'_>,
    ) -> Done {
        use Operation as Op;
        let (header, node) = (&request.header, NodeId(request.header.node));
        let union = &self.union;
        let asked = self.answers.begin();
        let mut send = |give: &mut dyn FnMut(Reply)| -> Done {
            reply.take().into_iter().for_each(give);
            Ok(())
        };
        match request.operation {
            Op::Lookup { name } => {
                let short = union.names_valid(node);
                match union.look_up(node, name) {
                    Ok(found) => {
                        if !found.attributes.is_directory() {
                            self.attribute_demand.looked_up(node, name);
                        }
                        let valid = self.entry_validity(asked, node, &found, short);
                        send(&mut |reply| self.reply_entry(reply, &found, valid))
                    }
                    Err(Errno::NOENT) => {
                        let valid = self.absent_validity(asked, node, name, short);
                        send(&mut |reply| reply.absent(valid))
                    }
                    Err(error) => Err(error),
                }
            }
            Op::MakeDirectory { name, mode, umask } => {
                let found = union.create_directory(node, name, (mode, umask), user(header))?;
                send(&mut |reply| self.reply_made(reply, node, &found, asked))
            }
            Op::MakeNode { name, mode, umask, device } => {
                let device = rustix::fs::makedev(
                    device >> 8 & 0xfff,
                    device & 0xff | device >> 12 & 0xfff00,
                );
                let found = union.create_node(node, name, (mode, umask), device, user(header))?;
                send(&mut |reply| self.reply_made(reply, node, &found, asked))
            }
            Op::Symlink { name, target } => {
                let found = union.create_symlink(node, name, target, user(header))?;
                send(&mut |reply| self.reply_made(reply, node, &found, asked))
            }
            Op::Link { node: file, new_name } => {
                let found = union.link(NodeId(file), node, new_name)?;
                send(&mut |reply| self.reply_made(reply, node, &found, asked))
            }
            Op::Unlink { name } => {
                union.unlink(node, name)?;
                send(&mut Reply::ok)
            }
            Op::RemoveDirectory { name } => {
                union.remove_directory(node, name)?;
                send(&mut Reply::ok)
            }
            Op::Rename { name, new_parent, new_name, flags } => {
                let mode = match RenameFlags::from_bits_retain(flags) {
                    flags if flags.is_empty() => RenameMode::Replace,
                    RenameFlags::NOREPLACE => RenameMode::NoReplace,
                    RenameFlags::EXCHANGE => RenameMode::Exchange,
                    _ => return Err(Errno::INVAL),
                };
                union.rename((node, name), (NodeId(new_parent), new_name), mode)?;
                send(&mut Reply::ok)
            }
            Op::ReadLink => {
                let target = union.read_link(node)?;
                send(&mut |reply| reply.data(&target))
            }

            Op::GetAttributes { .. } => {
                let found = attributes(&union.attributes(node)?);
                let valid = self.attributes_validity(asked, node);
                send(&mut |reply| reply.attributes(&found, valid))
            }
            Op::ExtendedStat { .. } => {
                let found = union.attributes(node)?;
                let stat = ExtendedStat {
                    mask: STATX_MASK,
                    flags: 0,
                    flags_known: 0,
                    created: time(found.created),
                    attributes: attributes(&found),
                };
                let valid = self.attributes_validity(asked, node);
                send(&mut |reply| reply.extended_stat(&stat, valid))
            }
            Op::SetAttributes(wanted) => {
                let found = attributes(&union.set_attributes(node, &changes(&wanted))?);
                let valid = self.attributes_validity(asked, node);
                send(&mut |reply| reply.attributes(&found, valid))
            }
            Op::Access { .. } => send(&mut Reply::ok),
            Op::StatFs => {
                let space = self.space()?;
                send(&mut |reply| reply.space(&space))
            }

            Op::Open { flags, .. } => {
                let file = union.open_file(node, OFlags::from_bits_retain(flags))?;
                let opened = self.opened(file, || union.attributes(node).ok());
                send(&mut |reply| {
                    if reply.opened(opened).is_err() {
                        self.close(opened.handle);
                    }
                })
            }
            Op::Create { name, flags, mode, umask, .. } => {
                let flags = OFlags::from_bits_retain(flags);
                let created = union.create(node, name, flags, (mode, umask), user(header))?;
                self.reply_created(node, created, asked, &mut send)
            }
            Op::TemporaryFile { flags, mode, umask } => {
                let flags = OFlags::from_bits_retain(flags);
                let created = union.create_unnamed(node, flags, (mode, umask), user(header))?;
                self.reply_created(node, created, asked, &mut send)
            }
            Op::Release { handle, .. } => {
                self.close(handle);
                send(&mut Reply::ok)
            }
            Op::Read { handle, offset, size, .. } => {
                let file = self.handles.file(handle)?;
                let size = call.scratch.len().min(size as usize);
                let bytes = union.read(&file, offset, &mut call.scratch[..size])?;
                send(&mut |reply| reply.data(&call.scratch[..bytes]))
            }
            Op::Write { handle, offset, data, kill_suidgid, .. } => {
                let file = self.handles.file(handle)?;
                let bytes = union.write(&file, offset, data, kill_suidgid)?;
                let bytes = u32::try_from(bytes).map_err(|_| Errno::INVAL)?;
                send(&mut |reply| reply.written(bytes))
            }
            Op::Sync { handle, data_only } => {
                union.sync(&*self.handles.file(handle)?, data_only)?;
                send(&mut Reply::ok)
            }
            Op::Allocate { handle, offset, length, mode } => {
                union.allocate(&*self.handles.file(handle)?, mode, offset, length)?;
                send(&mut Reply::ok)
            }
            Op::Seek { handle, offset, whence } => {
                let data = match whence {
                    SEEK_DATA => true,
                    SEEK_HOLE => false,
                    _ => return Err(Errno::INVAL),
                };
                let found = union.seek_in_mount(&*self.handles.file(handle)?, offset, data)?;
                send(&mut |reply| reply.position(found))
            }
            Op::CopyRange { handle, offset, to_handle, to_offset, length, .. } => {
                let (from, to) = (self.handles.file(handle)?, self.handles.file(to_handle)?);
                let bytes = union.copy_range((&from, offset), (&to, to_offset), length)?;
                send(&mut |reply| reply.copied(bytes as u64))
            }

            Op::OpenDirectory { .. } => {
                let (opened, directory) = self.open_directory(header);
                let handle = self.handles.insert(Open::Directory(Arc::new(directory)));
                send(&mut |reply| {
                    if reply.opened(Opened { handle, ..opened }).is_err() {
                        self.close_directory(handle, node);
                    }
                })
            }
            Op::ReadDirectory { handle, offset, size, plus } => {
                let (buffer, entered) =
                    self.read_directory(header, handle, offset, (size, plus))?;
                send(&mut |reply| {
                    if reply.directory(&buffer).is_err() {
                        entered.iter().for_each(|node| self.union.forget(*node, 1));
                    }
                })
            }
            Op::ReleaseDirectory { handle, .. } => {
                self.close_directory(handle, node);
                send(&mut Reply::ok)
            }
            Op::SyncDirectory { .. } => {
                union.sync_directory(node)?;
                send(&mut Reply::ok)
            }
            Op::SyncFs => {
                union.sync_all()?;
                send(&mut Reply::ok)
            }

            Op::GetXattr { name, size } => {
                let value = union.xattr(node, name)?;
                sized(&value, size, &mut send)
            }
            Op::ListXattr { size } => {
                let mut list = union.xattrs(node)?.join(&0);
                if !list.is_empty() {
                    list.push(0);
                }
                sized(&list, size, &mut send)
            }
            Op::SetXattr { name, value, flags, acl_kill_sgid } => {
                let how = match XattrFlags::from_bits_retain(flags) {
                    flags if flags.is_empty() => SetXattr::Any,
                    XattrFlags::CREATE => SetXattr::Create,
                    XattrFlags::REPLACE => SetXattr::Replace,
                    _ => return Err(Errno::INVAL),
                };
                union.set_xattr(node, name, value, how)?;
                if acl_kill_sgid && name == ACL_ACCESS {
                    union.drop_setgid(node)?;
                }
                send(&mut Reply::ok)
            }
            Op::RemoveXattr { name } => {
                union.remove_xattr(node, name)?;
                send(&mut Reply::ok)
            }

            Op::Ioctl { .. } => Err(Errno::NOTTY),
            // FLUSH among them: the kernel then sends no more of them.
            _ => Err(Errno::NOSYS),
        }
    }

    fn reply_made(&self, reply: Reply, directory: NodeId, found: &Found, asked: Asked) {
        let valid = self.entry_validity(asked, directory, found, SHORT);
        self.reply_entry(reply, found, valid);
    }

    fn reply_entry(&self, reply: Reply, found: &Found, valid: EntryValidity) {
        if reply.entry(&entry(found, valid)).is_err() {
            self.union.forget(found.node, 1);
        }
    }

    fn reply_created(
        &self,
        directory: NodeId,
        (found, file): (Found, Arc<OpenFile>),
        asked: Asked,
        send: &mut SendReply<'_>,
    ) -> Done {
        let opened = self.opened(file, || Some(found.attributes));
        let valid = self.entry_validity(asked, directory, &found, SHORT);
        send(&mut |reply| {
            if reply.created(&entry(&found, valid), opened).is_err() {
                self.close(opened.handle);
                self.union.forget(found.node, 1);
            }
        })
    }

    /// `attributes`: of the file, read only where they are needed.
    fn opened(
        &self,
        file: Arc<OpenFile>,
        attributes: impl FnOnce() -> Option<Attributes>,
    ) -> Opened {
        // Not every file may be read and written by the kernel itself.
        let passes = || self.union.may_pass_through(&file).then(attributes).flatten();
        let backing = self.backings.get().and_then(|backings| backings.open(&file, passes));
        if file.writes() {
            self.opened_to_write(file.node);
        }
        let id = backing.as_ref().map(|backing| backing.id());
        let flags = match id {
            Some(_) => abi::fopen::PASSTHROUGH,
            None => abi::fopen::DIRECT_IO | abi::fopen::PARALLEL_DIRECT_WRITES,
        };
        let handle = self.handles.insert(Open::File(file, backing));
        Opened { handle, flags: flags | abi::fopen::NOFLUSH, backing: id }
    }

    /// A program may change the file through a mapping from now on, which nobody notices. What the
    /// kernel has of it was valid for long.
    fn opened_to_write(&self, node: NodeId) {
        if let (true, Some(notifier)) = (self.can_notice(), self.notifier.get()) {
            let _ = notifier.inval_attributes(node.0);
        }
    }

    fn close(&self, handle: u64) {
        if let Some(Open::File(file, backing)) = self.handles.remove(handle) {
            self.union.close(&file);
            if let Some(backings) = self.backings.get() {
                backings.close(file.node);
            }
            drop(backing);
        }
    }

    fn space(&self) -> Result<SpaceStat, Errno> {
        let space = self.union.space()?;
        let blocks = |bytes: u64| bytes / u64::from(BLOCK_BYTES);
        Ok(SpaceStat {
            blocks: blocks(space.bytes),
            blocks_free: blocks(space.free),
            blocks_available: blocks(space.available),
            files: space.files,
            files_free: space.files_free,
            block_size: BLOCK_BYTES,
            fragment_size: BLOCK_BYTES,
            name_len_max: space.name_len_max,
        })
    }
}

/// A value of an xattr: whole, or only how long it is.
fn sized(value: &[u8], size: u32, send: &mut SendReply<'_>) -> Done {
    let bytes = u32::try_from(value.len()).map_err(|_| Errno::TOOBIG)?;
    match size {
        0 => send(&mut |reply| reply.xattr_size(bytes)),
        size if bytes <= size => send(&mut |reply| reply.data(value)),
        _ => Err(Errno::RANGE),
    }
}
