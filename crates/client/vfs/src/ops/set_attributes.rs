//! Changes of attributes. A size cuts the file or extends it with zeros.

use std::sync::Arc;

use braid_client::{AttributeChanges, Attributes, FileIndex, FileKind};

use crate::{
    error::Result, files::without_privileges, handles::FileHandle, kept::Mark, known::Known, promise::Promise, vfs::Vfs,
};

impl Vfs {
    /// Changes attributes, all in one call. A size through a handle that is open for writing needs no permission of the
    /// file as it is now. With `kill_privileges` setuid and setgid go, as POSIX wants of a change by somebody else.
    ///
    /// # Errors
    /// The file is gone; the cluster refuses or is not reached.
    pub fn set_attributes(
        &self,
        file: FileIndex,
        handle: Option<FileHandle>,
        mut changes: AttributeChanges,
        kill_privileges: bool,
    ) -> Result<Known> {
        if kill_privileges && changes.mode.is_none() {
            changes.mode = self.mode_to_be(file)?;
        }
        // What was written before has its times and its place before this.
        let (promise, mark) = (self.promise_of(file), self.settled_mark(file));
        let resizes = changes.bytes.is_some();
        let attributes = self.set_now(file, handle, changes);
        if resizes {
            self.holder.resized(file);
        }
        // Whether a change that failed was made is not known.
        let attributes = attributes.inspect_err(|_| self.changed(file))?;
        self.changed_since(file, attributes, promise, mark)
    }

    /// What the change answered is what is known of the file, unless somebody changed it meanwhile.
    fn changed_since(
        &self,
        file: FileIndex,
        attributes: Attributes,
        promise: Option<Arc<Promise>>,
        mark: Mark,
    ) -> Result<Known> {
        Ok(match (promise, self.holder.cache.change_alone(file, mark)) {
            (Some(promise), Some(now)) => self.kept_under(attributes, &promise, now),
            _ => self.seen(attributes),
        })
    }

    fn set_now(&self, file: FileIndex, handle: Option<FileHandle>, changes: AttributeChanges) -> Result<Attributes> {
        if let (Some(handle), Some(bytes)) = (handle, changes.bytes) {
            let open = self.file(handle)?;
            let only_size = AttributeChanges { bytes: Some(bytes), ..AttributeChanges::none() } == changes;
            if open.access.write && only_size {
                return Ok(open.file.get()?.set_len(bytes.0)?);
            }
        }
        Ok(self.client().set_attributes(file, false, changes)?)
    }

    fn mode_to_be(&self, file: FileIndex) -> Result<Option<u32>> {
        let now = self.client().lstat(file)?;
        Ok(if now.kind == FileKind::File { without_privileges(now.mode) } else { None })
    }
}
