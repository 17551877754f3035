//! Appending: at the end of the file, wherever it is.
//!
//! Where the end is nobody knows but the objects, and it is wrong as soon as it was asked, unless no other append is
//! under way: in this mount under a lock of this process, between mounts under one at the metadata server. Two appends never
//! land on the same bytes and none is torn; a plain write past the end may come between.

use crate::{error::Result, files::OpenFile, vfs::Vfs};

impl Vfs {
    pub(super) fn append(&self, open: &OpenFile, bytes: &[u8]) -> Result<usize> {
        let _alone_here = open.shared.append_lock();
        let end = open.file.size()?;
        Ok(open.file.write_at(bytes, end)?)
    }
}
