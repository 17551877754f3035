//! What a client sees: every name, every byte.

use std::collections::BTreeMap;

use braid_client::{Client, FileIndex, FileKind, OpenOptions, Status};

use super::contents::Bytes;

/// If a read fails, it is repeated in pieces of this size, in bytes.
const PIECE_BYTES: usize = 4096;

/// A name that was found.
#[derive(Clone, Debug)]
pub(super) enum Entry {
    Directory,
    File {
        index: FileIndex,
        links: u32,
        bytes: Bytes,
    },
    /// A file whose daemons cannot report its attributes: an object that was never synced has no
    /// record.
    Lost {
        index: FileIndex,
        why: String,
    },
    Symbolic(String),
    Other(FileKind),
}

/// A tree that was found, by path.
#[derive(Clone, Debug, Default)]
pub struct FoundTree(pub(super) BTreeMap<String, Entry>);

impl FoundTree {
    /// Everything below `below`, and `below` itself.
    ///
    /// # Errors
    /// Something that has a name cannot be read.
    pub fn see(client: &Client, below: &str) -> Result<Self, String> {
        let mut found = Self::default();
        found.0.insert(below.to_owned(), Entry::Directory);
        found.list(client, below)?;
        Ok(found)
    }

    /// Whether a part of a file is lost and a client gets an error for it (I11).
    pub fn has_losses(&self) -> bool {
        self.0.values().any(|entry| match entry {
            Entry::Lost { .. } => true,
            Entry::File { bytes, .. } => !bytes.unreadable.is_empty(),
            _ => false,
        })
    }

    fn list(&mut self, client: &Client, directory: &str) -> Result<(), String> {
        let entries = client
            .read_dir(directory, true)
            .map_err(|why| format!("listing {directory}: {why}"))?;
        for entry in entries {
            let entry = entry.map_err(|why| format!("listing {directory}: {why}"))?;
            let path = format!("{directory}/{}", String::from_utf8_lossy(&entry.name));
            let seen = match entry.kind {
                FileKind::Directory => Entry::Directory,
                FileKind::File => read(client, &path, entry.file)?,
                FileKind::Symlink => {
                    let target = client
                        .read_link(&*path)
                        .map_err(|why| format!("reading the link {path}: {why}"))?;
                    Entry::Symbolic(String::from_utf8_lossy(&target).into_owned())
                }
                other => Entry::Other(other),
            };
            let directory = matches!(seen, Entry::Directory);
            if self.0.insert(path.clone(), seen).is_some() {
                return Err(format!("{path} was listed twice (I7)"));
            }
            if directory {
                self.list(client, &path)?;
            }
        }
        Ok(())
    }
}

fn is_loss(status: Status) -> bool {
    status == Status::Corrupted
}

fn read(client: &Client, path: &str, index: FileIndex) -> Result<Entry, String> {
    let fail = |what: &str, why: braid_client::Error| format!("{what} {path}: {why}");
    let attributes = match client.stat(path) {
        Ok(attributes) => attributes,
        Err(why) if is_loss(why.status()) => {
            return Ok(Entry::Lost { index, why: why.to_string() });
        }
        Err(why) => return Err(fail("reading the attributes of", why)),
    };
    if attributes.file != index {
        return Err(format!(
            "{path} is file {} in its directory and {index} by name (I7)",
            attributes.file
        ));
    }
    let file =
        client.open(path, &OpenOptions::new().read(true)).map_err(|why| fail("opening", why))?;
    let mut bytes = Bytes { bytes: vec![0; attributes.bytes.0 as usize], unreadable: Vec::new() };
    match file.read_at(&mut bytes.bytes, 0) {
        Ok(read) if read == bytes.bytes.len() => {}
        Ok(read) => {
            let end = bytes.bytes.len();
            return Err(format!("{path} has {end} bytes and can be read up to {read} (I5)"));
        }
        // Only flushed parts are recorded as existing, and the image's disk has kept them.
        Err(why) if why.status() == Status::ObjectLost => return Err(fail("reading", why)),
        Err(_) => {
            for at in (0..bytes.bytes.len()).step_by(PIECE_BYTES) {
                let end = (at + PIECE_BYTES).min(bytes.bytes.len());
                if let Err(why) = file.read_at(&mut bytes.bytes[at..end], at as u64) {
                    bytes.unreadable.push((at, end, why.to_string()));
                }
            }
        }
    }
    Ok(Entry::File { index, links: attributes.links, bytes })
}
