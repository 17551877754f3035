//! The file system: a root with files in it, and a directory `sub`.

use super::{Fate, ROOT, RequestBarrier};
use braid_fuse::kernel::{
    Attributes, Call, DirectoryBuffer, Entry, Features, Handler, KernelFeatures, Kind, Notifier,
    Opened, Operation, Reply, Request, SpaceStat, Validity, Wanted,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::sync::{Mutex, OnceLock};

/// The directory `sub`.
pub const SUB: u64 = 2;
/// The file `file`.
pub const FILE: u64 = 3;

pub struct Memory {
    pub barrier: RequestBarrier,
    pub names_valid: Validity,
    pub attributes_valid: Validity,
    /// `abi::fopen`.
    pub open_flags: u32,
    pub wanted: Wanted,
    notifier: OnceLock<Notifier>,
    nodes: Mutex<BTreeMap<u64, Node>>,
    /// Requests seen, by opcode.
    counts: Mutex<BTreeMap<u32, usize>>,
    destroyed: Mutex<usize>,
}

#[derive(Clone)]
struct Node {
    parent: u64,
    name: Vec<u8>,
    mode: u32,
    content: Vec<u8>,
}

impl Memory {
    pub fn new() -> Self {
        let node = |parent, name: &[u8], mode, content: &[u8]| Node {
            parent,
            name: name.to_vec(),
            mode,
            content: content.to_vec(),
        };
        let nodes = [
            (ROOT, node(ROOT, b"", 0o40755, b"")),
            (SUB, node(ROOT, b"sub", 0o40755, b"")),
            (FILE, node(ROOT, b"file", 0o100_644, b"first content")),
        ];
        let features =
            Features::POSIX_LOCKS | Features::FLOCK_LOCKS | Features::EXPLICIT_INVAL_DATA;
        let wanted = Wanted::default();
        Self {
            barrier: RequestBarrier::new(),
            names_valid: Validity::Never,
            attributes_valid: Validity::Never,
            open_flags: 0,
            wanted: Wanted { features: wanted.features | features, ..wanted },
            notifier: OnceLock::new(),
            nodes: Mutex::new(nodes.into_iter().collect()),
            counts: Mutex::default(),
            destroyed: Mutex::default(),
        }
    }

    /// Names and attributes stay valid until a notification.
    pub fn cached() -> Self {
        Self { names_valid: Validity::Always, attributes_valid: Validity::Always, ..Self::new() }
    }

    pub fn notifier(&self) -> &Notifier {
        self.notifier.get().unwrap()
    }

    /// The content in the file system, whatever the kernel shows.
    pub fn content(&self, node: u64) -> Vec<u8> {
        self.nodes.lock().unwrap()[&node].content.clone()
    }

    /// Behind the kernel's back.
    pub fn set_content(&self, node: u64, content: impl Into<Vec<u8>>) {
        self.nodes.lock().unwrap().get_mut(&node).unwrap().content = content.into();
    }

    /// Behind the kernel's back.
    pub fn set_name(&self, node: u64, name: &str) {
        self.nodes.lock().unwrap().get_mut(&node).unwrap().name = name.into();
    }

    /// Requests of this kind so far.
    pub fn seen(&self, opcode: u32) -> usize {
        self.counts.lock().unwrap().get(&opcode).copied().unwrap_or(0)
    }

    pub fn destroyed_times(&self) -> usize {
        *self.destroyed.lock().unwrap()
    }

    fn entry(&self, node: u64) -> Option<Entry> {
        let attributes = self.attributes(node)?;
        let (name_valid, attributes_valid) = (self.names_valid, self.attributes_valid);
        Some(Entry { node, generation: 0, name_valid, attributes_valid, attributes })
    }

    fn attributes(&self, node: u64) -> Option<Attributes> {
        let nodes = self.nodes.lock().unwrap();
        let Node { mode, content, .. } = nodes.get(&node)?;
        let size = content.len() as u64;
        // An unprivileged user mounts it for itself.
        let (uid, gid) = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        let base = Attributes { links: 1, block_size: 4096, ..Attributes::default() };
        Some(Attributes { ino: node, size, mode: *mode, uid, gid, ..base })
    }

    fn find(&self, parent: u64, name: &[u8]) -> Option<u64> {
        let nodes = self.nodes.lock().unwrap();
        nodes
            .iter()
            .find(|(at, node)| **at != ROOT && node.parent == parent && node.name == name)
            .map(|(at, _)| *at)
    }

    fn make(&self, parent: u64, name: &[u8], mode: u32) -> Option<Entry> {
        let mut nodes = self.nodes.lock().unwrap();
        let number = nodes.keys().last().unwrap() + 1;
        nodes.insert(number, Node { parent, name: name.to_vec(), mode, content: Vec::new() });
        drop(nodes);
        self.entry(number)
    }

    fn listing(&self, parent: u64, offset: u64, size: u32) -> DirectoryBuffer {
        let mut buffer = DirectoryBuffer::new(size);
        let nodes = self.nodes.lock().unwrap();
        for (at, node) in
            nodes.iter().filter(|(at, node)| **at > offset && **at != ROOT && node.parent == parent)
        {
            if !buffer.push(*at, *at, Kind::of_mode(node.mode), &node.name) {
                break;
            }
        }
        buffer
    }

    fn write(&self, node: u64, offset: u64, data: &[u8]) -> u32 {
        let mut nodes = self.nodes.lock().unwrap();
        let content = &mut nodes.get_mut(&node).unwrap().content;
        let (begin, end) = (offset as usize, offset as usize + data.len());
        content.resize(content.len().max(end), 0);
        content[begin..end].copy_from_slice(data);
        data.len() as u32
    }

    fn serve(&self, request: Request<'_>, reply: Reply) {
        let node = request.header.node;
        let opened = Opened { handle: 7, flags: self.open_flags, backing: None };
        match request.operation {
            Operation::Lookup { name } => {
                match self.find(node, name).and_then(|found| self.entry(found)) {
                    Some(entry) => reply.entry(&entry).unwrap_or_default(),
                    None if self.names_valid == Validity::Never => reply.error(Errno::NOENT),
                    None => reply.absent(self.names_valid),
                }
            }
            Operation::GetAttributes { .. } => match self.attributes(node) {
                Some(attributes) => reply.attributes(&attributes, self.attributes_valid),
                None => reply.error(Errno::STALE),
            },
            Operation::SetAttributes(set) => {
                if let (Some(size), Some(node)) =
                    (set.size, self.nodes.lock().unwrap().get_mut(&node))
                {
                    node.content.resize(size as usize, 0);
                }
                reply.attributes(&self.attributes(node).unwrap(), self.attributes_valid);
            }
            Operation::Create { name, mode, umask, .. } => {
                let entry = self.make(node, name, 0o100_000 | mode & 0o7777 & !umask).unwrap();
                let _ = reply.created(&entry, opened);
            }
            Operation::MakeDirectory { name, mode, umask } => {
                let _ = reply.entry(&self.make(node, name, 0o40_000 | mode & !umask).unwrap());
            }
            Operation::Open { .. } | Operation::OpenDirectory { .. } => {
                reply.opened(opened).unwrap_or_default()
            }
            Operation::Read { offset, size, .. } => {
                let nodes = self.nodes.lock().unwrap();
                let content = &nodes[&node].content;
                let begin = content.len().min(offset as usize);
                reply.data(&content[begin..content.len().min(begin + size as usize)]);
            }
            Operation::Write { offset, data, .. } => reply.written(self.write(node, offset, data)),
            Operation::ReadDirectory { offset, size, plus: false, .. } => {
                let _ = reply.directory(&self.listing(node, offset, size));
            }
            Operation::StatFs => {
                reply.space(&SpaceStat { name_len_max: 255, ..SpaceStat::default() })
            }
            Operation::SetLock { .. }
            | Operation::Release { .. }
            | Operation::ReleaseDirectory { .. }
            | Operation::Flush { .. }
            | Operation::Sync { .. } => reply.ok(),
            _ => reply.error(Errno::NOSYS),
        }
    }
}

impl Handler for Memory {
    fn init(&self, _: &KernelFeatures) -> Wanted {
        self.wanted.clone()
    }

    fn started(&self, notifier: Notifier) {
        self.notifier.set(notifier).unwrap();
    }

    fn handle(&self, request: Request<'_>, reply: Reply, call: &mut Call<'_>) {
        *self.counts.lock().unwrap().entry(request.header.opcode).or_default() += 1;
        let fate = self.barrier.fate(&request);
        match fate {
            Fate::Serve => {}
            Fate::Drop => return drop(reply),
            Fate::Panic => panic!("requested by the test"),
            Fate::Hold | Fate::HoldUntilKilled | Fate::HoldDeaf => {
                if !self.barrier.pass(call.interrupt, fate) {
                    return reply.error(Errno::INTR);
                }
            }
        }
        self.serve(request, reply);
    }

    fn destroyed(&self) {
        *self.destroyed.lock().unwrap() += 1;
    }
}
