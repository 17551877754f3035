//! Reading, writing, forcing to disk.

use braid_vfs::{FileHandle, Page, WriteAs};
use rustix::fs::OFlags;

use super::{Answer, Done, FileSystem};

impl FileSystem {
    /// Reads from the sockets into `scratch` and writes from there to `/dev/fuse`, without a copy
    /// between. Many pages at a time go through a pipe, and come to `scratch` only if the pipe
    /// cannot be used.
    pub(super) fn read(
        &self,
        handle: u64,
        offset: u64,
        (size, is_page): (u32, bool),
        scratch: &mut [u8],
        answer: Answer<'_>,
    ) -> Done {
        let bytes_max = scratch.len().min(size as usize);
        if is_page {
            // Over io_uring the kernel copies from the scratch buffer.
            let header = answer
                .0
                .as_ref()
                .filter(|reply| reply.takes_pipe())
                .map(|reply| reply.data_header(bytes_max));
            let mut pipe = header.and_then(|header| self.pipes.take(bytes_max, &header));
            let give = |page: Page<'_>| {
                answer.with(|reply| match page {
                    Page::Bytes(bytes) => reply.data(bytes),
                    Page::Piped(pipe) => {
                        if reply.piped(|device| pipe.send(device)).is_ok() {
                            self.pipes.answered();
                        }
                    }
                })
            };
            let read = self.vfs.read_page(
                FileHandle(handle),
                offset,
                &mut scratch[..bytes_max],
                pipe.as_mut(),
                give,
            );
            if let Some(pipe) = pipe {
                self.pipes.put_back(pipe);
            }
            return read?;
        }
        let got = self.vfs.read(FileHandle(handle), offset, &mut scratch[..bytes_max])?;
        answer.with(|reply| reply.data(&scratch[..got]))
    }

    /// Writes from the request's own buffer to the sockets, or into the write buffer of `vfs`.
    pub(super) fn write(
        &self,
        handle: u64,
        offset: u64,
        data: &[u8],
        (flags, owner, from_cache, kill_suidgid): (u32, Option<u64>, bool, bool),
        answer: Answer<'_>,
    ) -> Done {
        let flags = OFlags::from_bits_retain(flags);
        let how = WriteAs {
            // A page of a mapping has its offset, whatever flags the descriptor was opened with.
            append: flags.contains(OFlags::APPEND) && !from_cache,
            durable: flags.intersects(OFlags::DSYNC) && !from_cache,
            kill_privileges: kill_suidgid,
            page: from_cache,
            direct: flags.contains(OFlags::DIRECT) && !from_cache,
            owner,
        };
        let written = self.vfs.write(FileHandle(handle), offset, data, how)?;
        // A request has at most 1 MiB.
        answer.with(|reply| reply.written(u32::try_from(written).unwrap_or(u32::MAX)))
    }

    pub(super) fn sync(&self, handle: u64, answer: Answer<'_>) -> Done {
        self.vfs.sync(FileHandle(handle))?;
        answer.ok()
    }
}
