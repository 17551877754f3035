//! Runs operations with the client library.

use std::collections::HashMap;

use braid_client::{Client, File, OpenOptions, Result, message::mds::RenameMode};

use super::model::{Model, Operation, filling};

/// Small stripes, so that small files lie on all daemons; in bytes.
const STRIPE_BYTES: u64 = 16 << 10;
/// At most this many handles stay open.
const OPEN_MAX: usize = 8;

/// One program with its open files.
pub struct Actor {
    client: Client,
    parts: u16,
    open: HashMap<usize, File>,
}

impl Actor {
    /// Files are distributed over `parts` I/O daemons.
    pub fn new(client: Client, parts: u16) -> Self {
        Self { client, parts, open: HashMap::new() }
    }

    /// Its client.
    pub fn client(&self) -> &Client {
        &self.client
    }

    /// Drops every handle, as if its program had died.
    pub fn forget(&mut self) {
        self.open.clear();
    }

    /// Runs one operation; `model` is the state before it.
    ///
    /// # Errors
    /// Those of the library.
    pub fn act(&mut self, model: &Model, operation: &Operation) -> Result<()> {
        match operation {
            Operation::MakeDirectory(path) => self.client.mkdir(&**path, 0o755).map(drop),
            Operation::RemoveDirectory(path) => self.client.rmdir(&**path),
            Operation::Create(path) => {
                let options = OpenOptions::new().read(true).write(true).create_new(true);
                let options = options.stripe_size(STRIPE_BYTES).iod_count(self.parts);
                let file = self.client.open(&**path, &options)?;
                self.keep(model.files.len(), file)
            }
            Operation::Write { path, offset, bytes, fill } => {
                self.write(model, path, *offset, &filling(*fill, *bytes))
            }
            Operation::Resize(path, bytes) => {
                self.client.truncate(&**path, *bytes as u64).map(drop)
            }
            Operation::Punch(path, offset, bytes) => {
                self.file(model, path)?.punch_hole(*offset as u64, *bytes as u64).map(drop)
            }
            Operation::Sync(path) => self.file(model, path)?.sync().map(drop),
            Operation::Close(path) => {
                match model.file(path).and_then(|file| self.open.remove(&file)) {
                    Some(file) => file.close(),
                    None => Ok(()),
                }
            }
            Operation::Rename(from, to) => self.client.rename(&**from, &**to, RenameMode::Replace),
            Operation::Link(from, to) => self.client.hard_link(&**from, &**to).map(drop),
            Operation::Symbolic(target, path) => {
                self.client.symlink(&**path, target.as_bytes()).map(drop)
            }
            Operation::Unlink(path) => self.client.unlink(&**path),
            Operation::SyncDirectory(path) => self.client.sync_directory(&**path),
        }
    }

    fn write(&mut self, model: &Model, path: &str, offset: usize, bytes: &[u8]) -> Result<()> {
        let file = self.file(model, path)?;
        let mut done = 0;
        while done < bytes.len() {
            done += file.write_at(&bytes[done..], (offset + done) as u64)?;
        }
        Ok(())
    }

    /// The open handle of the file at a path; opens it if necessary.
    fn file(&mut self, model: &Model, path: &str) -> Result<&File> {
        let file = model.file(path).unwrap_or(usize::MAX);
        if !self.open.contains_key(&file) {
            let opened = self.client.open(path, &OpenOptions::new().read(true).write(true))?;
            self.keep(file, opened)?;
        }
        Ok(&self.open[&file])
    }

    fn keep(&mut self, number: usize, file: File) -> Result<()> {
        if self.open.len() >= OPEN_MAX
            && let Some(oldest) = self.open.keys().min().copied()
            && let Some(file) = self.open.remove(&oldest)
        {
            file.close()?;
        }
        self.open.insert(number, file);
        Ok(())
    }
}
