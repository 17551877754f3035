//! A mount that shows the files of a directory and passes them through to it.

use crate::harness::{LONG, ROOT, mount_on_temporary_dir, transport};
use braid_fuse::kernel::mount::Mounted;
use braid_fuse::kernel::{
    Attributes, BackingError, BackingFile, BackingFiles, BackingId, Call, Entry, Features, Handler,
    KernelFeatures, Notifier, Opened, Operation, PoolOptions, Reply, Request, Validity, Wanted,
};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::sync::{Arc, Condvar, Mutex, OnceLock};

/// The reply to every READ: no backing file begins with it.
pub const FROM_HANDLER: &[u8] = b"from the handler";

/// The reply to the next opens.
#[derive(Clone, Copy, Debug)]
pub enum OnOpen {
    /// With the id of the file.
    Pass,
    /// With an id of its own.
    PassAnotherId,
    /// Without an id.
    Serve,
}

/// A mount with passthrough.
pub struct PassingMount {
    pub mounted: Mounted,
    pub handler: Arc<Passing>,
    point: tempfile::TempDir,
}

impl PassingMount {
    /// `None`, and the reason printed, where this machine or its kernel cannot do it. A temporary
    /// directory may be on overlayfs, so that the files need a depth of 2.
    pub fn new() -> Option<Self> {
        Self::with(2, Validity::Never)
    }

    pub fn with(stack_depth: u32, attributes_valid: Validity) -> Option<Self> {
        let features = Features::PASSTHROUGH;
        let mount = Self::negotiated(features, stack_depth, attributes_valid)?;
        if !mount.mounted.features().contains(features) {
            println!("skipped: this kernel has no FUSE passthrough (Linux 6.9)");
            return None;
        }
        match mount.backing().register(tempfile::tempfile().unwrap()) {
            Ok(_) | Err(BackingError::TooDeep) => Some(mount),
            Err(error @ BackingError::NotAllowed) => {
                println!("skipped: {error}");
                None
            }
            Err(error) => panic!("{error}"),
        }
    }

    /// With any features.
    pub fn negotiated(
        features: Features,
        stack_depth: u32,
        attributes_valid: Validity,
    ) -> Option<Self> {
        let wanted = Wanted { features, stack_depth, ..Wanted::default() };
        let handler = Arc::new(Passing::new(wanted, attributes_valid));
        let (mounted, point) =
            mount_on_temporary_dir(transport(), PoolOptions::default(), handler.clone())?;
        Some(Self { mounted, handler, point })
    }

    pub fn backing(&self) -> &BackingFiles {
        self.handler.notifier().backing_files().unwrap()
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.point.path().join(name)
    }

    /// Opens a file through the mount.
    pub fn open(&self, name: &str) -> std::io::Result<File> {
        OpenOptions::new().read(true).write(true).open(self.path(name))
    }

    /// The error of an open through the mount.
    pub fn open_error(&self, name: &str) -> Errno {
        Errno::from_io_error(&self.open(name).unwrap_err()).unwrap()
    }
}

pub struct Passing {
    directory: tempfile::TempDir,
    wanted: Wanted,
    attributes_valid: Validity,
    notifier: OnceLock<Notifier>,
    on_open: Mutex<(OnOpen, u32)>,
    files: Mutex<BTreeMap<u64, PassedFile>>,
    /// Of [`OnOpen::PassAnotherId`].
    other_ids: Mutex<Vec<BackingFile>>,
    written: Mutex<Vec<u8>>,
    /// Requests seen, by opcode.
    counts: Mutex<BTreeMap<u32, usize>>,
    counted: Condvar,
}

struct PassedFile {
    file: File,
    registered: Option<BackingFile>,
}

impl Passing {
    fn new(wanted: Wanted, attributes_valid: Validity) -> Self {
        Self {
            directory: tempfile::tempdir().unwrap(),
            wanted,
            attributes_valid,
            notifier: OnceLock::new(),
            on_open: Mutex::new((OnOpen::Pass, 0)),
            files: Mutex::default(),
            other_ids: Mutex::default(),
            written: Mutex::default(),
            counts: Mutex::default(),
            counted: Condvar::new(),
        }
    }

    pub fn notifier(&self) -> &Notifier {
        self.notifier.get().unwrap()
    }

    /// A path in the directory behind the mount.
    pub fn backing_path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The content of a backing file.
    pub fn content(&self, name: &str) -> Vec<u8> {
        fs::read(self.backing_path(name)).unwrap()
    }

    /// The reply to opens from now on, with further `abi::fopen` flags.
    pub fn on_open(&self, on_open: OnOpen, flags: u32) {
        *self.on_open.lock().unwrap() = (on_open, flags);
    }

    /// Closes the id of a file.
    pub fn close_id(&self, name: &str) {
        let node = self.node(name);
        let closed = self.files.lock().unwrap().get_mut(&node).unwrap().registered.take();
        assert!(closed.is_some(), "{name} has no id");
    }

    /// Passes a name through to any registered file.
    pub fn pass_with(&self, name: &str, registered: BackingFile) {
        let file = File::open(self.backing_path(name)).unwrap();
        let passed = PassedFile { file, registered: Some(registered) };
        self.files.lock().unwrap().insert(self.node(name), passed);
    }

    /// The node of a file.
    pub fn node(&self, name: &str) -> u64 {
        node(&File::open(self.backing_path(name)).unwrap())
    }

    /// The bytes of all WRITE requests.
    pub fn written(&self) -> Vec<u8> {
        self.written.lock().unwrap().clone()
    }

    /// Requests of this kind so far.
    pub fn seen(&self, opcode: u32) -> usize {
        self.counts.lock().unwrap().get(&opcode).copied().unwrap_or(0)
    }

    /// Waits until that many requests of this kind came. A RELEASE comes after the kernel has given
    /// up the open file.
    pub fn wait_seen(&self, opcode: u32, count: usize) {
        let counts = self.counts.lock().unwrap();
        let less =
            |counts: &mut BTreeMap<u32, usize>| counts.get(&opcode).copied().unwrap_or(0) < count;
        let (counts, timed_out) = self.counted.wait_timeout_while(counts, LONG, less).unwrap();
        assert!(!timed_out.timed_out(), "not {count} of {opcode}: {counts:?}");
    }

    fn attributes(&self, node: u64) -> Option<Attributes> {
        if node == ROOT {
            return Some(Attributes { ino: ROOT, mode: 0o40_755, links: 1, ..Default::default() });
        }
        let metadata = self.files.lock().unwrap().get(&node)?.file.metadata().unwrap();
        let (size, mode) = (metadata.len(), metadata.mode());
        Some(Attributes { ino: node, size, mode, links: 1, ..Attributes::default() })
    }

    /// Opens the backing file of a name.
    fn entry(&self, name: &[u8], options: &OpenOptions) -> Result<Entry, Errno> {
        let path = self.backing_path(std::str::from_utf8(name).map_err(|_| Errno::INVAL)?);
        let file = options.open(path).map_err(|error| Errno::from_io_error(&error).unwrap())?;
        let number = node(&file);
        let added = PassedFile { file, registered: None };
        self.files.lock().unwrap().entry(number).or_insert(added);
        Ok(Entry {
            node: number,
            generation: 0,
            name_valid: Validity::Never,
            attributes_valid: self.attributes_valid,
            attributes: self.attributes(number).unwrap(),
        })
    }

    fn opened(&self, node: u64) -> Opened {
        let (on_open, flags) = *self.on_open.lock().unwrap();
        let backing = match on_open {
            OnOpen::Pass => Some(self.id(node)),
            OnOpen::PassAnotherId => Some(self.another_id(node)),
            OnOpen::Serve => None,
        };
        Opened { handle: 7, flags, backing }
    }

    fn id(&self, node: u64) -> BackingId {
        let mut files = self.files.lock().unwrap();
        let PassedFile { file, registered } = files.get_mut(&node).unwrap();
        registered.get_or_insert_with(|| self.register(file)).id()
    }

    fn another_id(&self, node: u64) -> BackingId {
        let registered = self.register(&self.files.lock().unwrap()[&node].file);
        let id = registered.id();
        self.other_ids.lock().unwrap().push(registered);
        id
    }

    fn register(&self, file: &File) -> BackingFile {
        self.notifier().backing_files().unwrap().register(file).unwrap()
    }

    fn serve(&self, request: Request<'_>, reply: Reply) {
        let node = request.header.node;
        let mut options = OpenOptions::new();
        options.read(true).write(true);
        match request.operation {
            Operation::Lookup { name } => match self.entry(name, &options) {
                Ok(entry) => reply.entry(&entry).unwrap_or_default(),
                Err(error) => reply.error(error),
            },
            Operation::Create { name, .. } => match self.entry(name, options.create(true)) {
                Ok(entry) => {
                    reply.created(&entry, self.opened(entry.node)).unwrap_or_default();
                }
                Err(error) => reply.error(error),
            },
            Operation::GetAttributes { .. } => match self.attributes(node) {
                Some(attributes) => reply.attributes(&attributes, self.attributes_valid),
                None => reply.error(Errno::STALE),
            },
            Operation::SetAttributes(set) => {
                if let Some(size) = set.size {
                    self.files.lock().unwrap()[&node].file.set_len(size).unwrap();
                }
                reply.attributes(&self.attributes(node).unwrap(), self.attributes_valid);
            }
            Operation::Open { .. } => reply.opened(self.opened(node)).unwrap_or_default(),
            Operation::Read { size, .. } => {
                reply.data(&FROM_HANDLER[..FROM_HANDLER.len().min(size as usize)]);
            }
            Operation::Write { data, .. } => {
                self.written.lock().unwrap().extend_from_slice(data);
                reply.written(data.len() as u32);
            }
            Operation::Release { .. } | Operation::Flush { .. } | Operation::Sync { .. } => {
                reply.ok()
            }
            _ => reply.error(Errno::NOSYS),
        }
    }
}

/// The number of a file's node, never that of the root.
fn node(file: &File) -> u64 {
    (1 << 32) + file.metadata().unwrap().ino()
}

impl Handler for Passing {
    fn init(&self, _: &KernelFeatures) -> Wanted {
        self.wanted.clone()
    }

    fn started(&self, notifier: Notifier) {
        self.notifier.set(notifier).unwrap();
    }

    fn handle(&self, request: Request<'_>, reply: Reply, _: &mut Call<'_>) {
        *self.counts.lock().unwrap().entry(request.header.opcode).or_default() += 1;
        self.counted.notify_all();
        self.serve(request, reply);
    }
}
