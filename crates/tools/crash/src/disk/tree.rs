//! Nodes and names in memory; written to a real directory and compared with one.

use std::{
    collections::{BTreeMap, HashMap},
    fs,
    os::unix::{
        ffi::{OsStrExt, OsStringExt},
        fs::{FileExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use anyhow::{Context, Result};

use super::{Change, Kind, Node};

/// Zeros of this length become a hole in an image.
const BLOCK_BYTES: usize = 4096;
/// The largest value of an attribute that the kernel allows.
const ATTRIBUTE_BYTES_MAX: usize = 64 << 10;

/// A tree of nodes at one moment.
#[derive(Clone, Debug)]
pub struct Tree {
    nodes: Vec<Contents>,
}

#[derive(Clone, Debug)]
struct Contents {
    kind: Kind,
    bytes: Vec<u8>,
    attributes: BTreeMap<Vec<u8>, Vec<u8>>,
    names: BTreeMap<Vec<u8>, Node>,
}

impl Contents {
    fn new(kind: Kind) -> Self {
        Self { kind, bytes: Vec::new(), attributes: BTreeMap::new(), names: BTreeMap::new() }
    }
}

impl Tree {
    /// These nodes, empty and without names.
    pub fn new(nodes: &[Kind]) -> Self {
        Self { nodes: nodes.iter().cloned().map(Contents::new).collect() }
    }

    /// Adds a node.
    pub fn add(&mut self, kind: Kind) -> Node {
        self.nodes.push(Contents::new(kind));
        Node(self.nodes.len() - 1)
    }

    /// The node that a name in a directory names.
    pub fn lookup(&self, directory: Node, name: &[u8]) -> Option<Node> {
        self.nodes[directory.0].names.get(name).copied()
    }

    /// The bytes of a file.
    pub fn bytes(&self, node: Node) -> &[u8] {
        &self.nodes[node.0].bytes
    }

    /// The kind of a node.
    pub fn kind(&self, node: Node) -> &Kind {
        &self.nodes[node.0].kind
    }

    /// A name of a node, without its directory.
    pub fn name_of(&self, node: Node) -> Option<Vec<u8>> {
        self.above(node).map(|(_, name)| name)
    }

    /// The path of a node below the root.
    pub fn path_of(&self, node: Node) -> Option<PathBuf> {
        if node == Node::ROOT {
            return Some(PathBuf::new());
        }
        let (directory, name) = self.above(node)?;
        Some(self.path_of(directory)?.join(std::ffi::OsString::from_vec(name)))
    }

    fn above(&self, node: Node) -> Option<(Node, Vec<u8>)> {
        self.nodes.iter().enumerate().find_map(|(directory, contents)| {
            let name = contents.names.iter().find(|(_, named)| **named == node)?.0;
            Some((Node(directory), name.clone()))
        })
    }

    /// Sets new permission bits.
    pub fn set_mode(&mut self, node: Node, mode: u32) {
        match &mut self.nodes[node.0].kind {
            Kind::File(bits) | Kind::Directory(bits) => *bits = mode,
            Kind::Link(_) => {}
        }
    }

    /// Applies one change.
    pub fn apply(&mut self, change: &Change) {
        match change {
            Change::Write { node, offset, bytes, .. } => self.write(*node, *offset, bytes),
            Change::Resize(node, bytes) => self.nodes[node.0].bytes.resize(*bytes as usize, 0),
            Change::Punch(node, offset, bytes) => {
                let content = &mut self.nodes[node.0].bytes;
                let end = (offset.saturating_add(*bytes) as usize).min(content.len());
                let start = (*offset as usize).min(end);
                content[start..end].fill(0);
            }
            Change::Attribute(node, name, value) => {
                let attributes = &mut self.nodes[node.0].attributes;
                match value {
                    Some(value) => drop(attributes.insert(name.clone(), value.clone())),
                    None => drop(attributes.remove(name)),
                }
            }
            Change::Names(edits) => {
                for (directory, name, named) in edits {
                    let names = &mut self.nodes[directory.0].names;
                    match named {
                        Some(node) => drop(names.insert(name.clone(), *node)),
                        None => drop(names.remove(name)),
                    }
                }
            }
        }
    }

    /// Writes bytes at an offset; the file grows as needed.
    pub fn write(&mut self, node: Node, offset: u64, bytes: &[u8]) {
        let content = &mut self.nodes[node.0].bytes;
        let offset = offset as usize;
        let end = offset + bytes.len();
        if content.len() < end {
            content.resize(end, 0);
        }
        content[offset..end].copy_from_slice(bytes);
    }

    /// Makes the file at least this long.
    pub fn grow(&mut self, node: Node, bytes: u64) {
        let content = &mut self.nodes[node.0].bytes;
        content.resize(content.len().max(bytes as usize), 0);
    }

    /// Creates a directory with everything below the root.
    pub fn write_to(&self, directory: &Path) -> Result<()> {
        self.write_directory(Node::ROOT, directory, &mut HashMap::new())
    }

    fn write_directory(
        &self,
        node: Node,
        path: &Path,
        written: &mut HashMap<Node, PathBuf>,
    ) -> Result<()> {
        fs::create_dir_all(path).with_context(|| format!("making {}", path.display()))?;
        for (name, node) in &self.nodes[node.0].names {
            let path = path.join(std::ffi::OsStr::from_bytes(name));
            match &self.nodes[node.0].kind {
                // A cut out of order may leave a directory under two names; it is written under
                // each.
                Kind::Directory(_) => self.write_directory(*node, &path, written)?,
                Kind::Link(target) => symlink(std::ffi::OsStr::from_bytes(target), &path)?,
                Kind::File(mode) => match written.get(node) {
                    Some(first) => fs::hard_link(first, &path)?,
                    None => {
                        self.write_file(*node, *mode, &path)
                            .with_context(|| format!("writing {}", path.display()))?;
                        written.insert(*node, path);
                    }
                },
            }
        }
        if let Kind::Directory(mode) = self.nodes[node.0].kind {
            fs::set_permissions(path, fs::Permissions::from_mode(mode))?;
        }
        Ok(())
    }

    fn write_file(&self, node: Node, mode: u32, path: &Path) -> Result<()> {
        let contents = &self.nodes[node.0];
        let file = fs::File::create(path)?;
        for (index, block) in contents.bytes.chunks(BLOCK_BYTES).enumerate() {
            if block.iter().any(|&byte| byte != 0) {
                file.write_all_at(block, (index * BLOCK_BYTES) as u64)?;
            }
        }
        file.set_len(contents.bytes.len() as u64)?;
        for (name, value) in &contents.attributes {
            rustix::fs::fsetxattr(&file, &name[..], value, rustix::fs::XattrFlags::empty())?;
        }
        Ok(file.set_permissions(fs::Permissions::from_mode(mode))?)
    }

    /// How a real directory differs from this tree, in words; empty if it does not. `aside` names
    /// files whose bytes are not compared.
    pub fn differences(&self, directory: &Path, aside: &[&str]) -> Result<Vec<String>> {
        let mut found = Vec::new();
        self.compare(Node::ROOT, directory, aside, &mut found)?;
        Ok(found)
    }

    fn compare(
        &self,
        node: Node,
        path: &Path,
        aside: &[&str],
        found: &mut Vec<String>,
    ) -> Result<()> {
        let mut real = BTreeMap::new();
        for entry in fs::read_dir(path).with_context(|| format!("listing {}", path.display()))? {
            let entry = entry?;
            real.insert(entry.file_name().into_vec(), entry.file_type()?);
        }
        let recorded = &self.nodes[node.0].names;
        for name in recorded.keys().filter(|name| !real.contains_key(*name)) {
            found.push(format!("{} was recorded and does not exist", show(path, name)));
        }
        for (name, kind) in real {
            let below = path.join(std::ffi::OsStr::from_bytes(&name));
            match (recorded.get(&name), kind) {
                (None, _) => found.push(format!("{} exists and was not recorded", below.display())),
                (Some(node), kind) if kind.is_dir() => self.compare(*node, &below, aside, found)?,
                (Some(_), kind) if !kind.is_file() => {}
                (Some(_), _) if aside.iter().any(|aside| aside.as_bytes() == name) => {}
                (Some(node), _) => self.compare_file(*node, &below, found)?,
            }
        }
        Ok(())
    }

    fn compare_file(&self, node: Node, path: &Path, found: &mut Vec<String>) -> Result<()> {
        let contents = &self.nodes[node.0];
        let file = fs::File::open(path).with_context(|| format!("opening {}", path.display()))?;
        let real = fs::read(path)?;
        if real != contents.bytes {
            let at = real.iter().zip(&contents.bytes).position(|(a, b)| a != b);
            let (is, was) = (real.len(), contents.bytes.len());
            found.push(format!(
                "{}: {is} bytes, recorded {was}; first difference {at:?}",
                path.display()
            ));
        }
        for (name, value) in &contents.attributes {
            let mut real = vec![0; ATTRIBUTE_BYTES_MAX];
            let length = rustix::fs::fgetxattr(&file, &name[..], &mut real).unwrap_or(0);
            if real[..length] != value[..] {
                found.push(format!(
                    "{}: attribute {} differs",
                    path.display(),
                    String::from_utf8_lossy(name)
                ));
            }
        }
        Ok(())
    }
}

fn show(path: &Path, name: &[u8]) -> String {
    path.join(std::ffi::OsStr::from_bytes(name)).display().to_string()
}
