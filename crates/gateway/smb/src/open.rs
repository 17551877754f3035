//! Opens: of files, directories and pipes. MS-SMB2 3.3.1.10.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use braid_share::{Attributes, FileIndex, Share, ShareClient, Verifier};
use braid_smb_wire::NtStatus;
use braid_smb_wire::fscc::{FileFacts, NotifyAction};
use braid_smb_wire::smb2::FileId;
use braid_smb_wire::smb2::change_notify::CompletionFilter;

use crate::attributes;
use crate::client::Machine;
use crate::durable::Durable;
use crate::durable::app_instance::{AppInstance, AppRecord};
use crate::durable::channel::Channel;
use crate::durable::replay::{CreateOutcome, CreateRecord};
use crate::file_state::{Claim, StreamKey};
use crate::kept_times::KeptTimes;
use crate::leases::rules::Conflict;
use crate::leases::{LeasedOpen, Leases, Owner};
use crate::ops::lock::OpenLocks;
use crate::ops::query_directory::Search;
use crate::range_locks::{Access, RangeLocks};
use crate::server::SmbServer;
use crate::streams::data::OpenData;
use crate::streams::shared::SharedStream;
use crate::tree::Tree;
use crate::watch::{OpenWatch, Watches};

/// The open file of a share.
pub type FileOf<S> = <<S as Share>::Client as ShareClient>::File;

/// An open of a session.
#[derive(Debug)]
#[expect(clippy::large_enum_variant, reason = "nearly all opens are files")]
pub enum Open<S: Share> {
    /// Of a file or directory.
    File(FileOpen<S>),
    /// Of a named pipe.
    Pipe(PipeOpen),
}

impl<S: Share> Open<S> {
    /// Its number.
    pub fn id(&self) -> FileId {
        match self {
            Self::File(open) => open.id,
            Self::Pipe(open) => open.id,
        }
    }

    /// The tree that it was opened in.
    pub fn tree(&self) -> &Arc<Tree> {
        match self {
            Self::File(open) => &open.tree,
            Self::Pipe(open) => &open.tree,
        }
    }

    /// The number of the tree that it belongs to now. Given back to another session, it belongs to
    /// another tree of the same share.
    pub fn tree_id(&self) -> u32 {
        match self {
            Self::File(open) => open.tree_id.load(Ordering::Acquire),
            Self::Pipe(open) => open.tree.id,
        }
    }

    /// The open of a file or directory.
    ///
    /// # Errors
    /// `INVALID_DEVICE_REQUEST` for a pipe.
    pub fn file(&self) -> Result<&FileOpen<S>, NtStatus> {
        match self {
            Self::File(open) => Ok(open),
            Self::Pipe(_) => Err(NtStatus::INVALID_DEVICE_REQUEST),
        }
    }
}

/// Where a file was opened: it may have other names.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Place {
    /// The directory; for the root of the share, the root itself.
    pub dir: FileIndex,
    /// The name in it; empty for the root of the share.
    pub name: Vec<u8>,
    /// The path below the root of the share, with backslashes, without one in front.
    pub path: String,
}

/// The named stream that an open is of.
#[derive(Clone, Debug)]
pub struct OpenStream {
    /// Its key in the tables of opens and locks.
    pub key: StreamKey,
    /// What its opens share.
    pub shared: Arc<SharedStream>,
}

/// An open of a file or directory, or of a stream of one.
#[derive(Debug)]
pub struct FileOpen<S: Share> {
    /// Its number.
    pub id: FileId,
    /// The tree that it was opened in.
    pub tree: Arc<Tree>,
    tree_id: AtomicU32,
    /// The session of the metadata server that it was opened with, which its locks belong to.
    pub machine: Arc<Machine<S>>,
    /// What makes it durable.
    pub durable: Option<Durable>,
    /// The requests of it that run.
    pub channel: Arc<Channel>,
    /// What it answers a repetition of its CREATE with.
    pub outcome: CreateOutcome,
    /// Its CREATE, if that can be repeated.
    pub record: Option<CreateRecord<S>>,
    /// The application that it belongs to.
    pub app: Option<(AppInstance, AppRecord<S>)>,
    /// The file; of a stream the one that has it.
    pub file: FileIndex,
    /// The named stream that it is an open of, if it is one.
    pub stream: Option<OpenStream>,
    /// Whether it is a directory. A stream of a directory is none.
    pub is_directory: bool,
    /// The access that was granted, a mask of specific rights.
    pub granted: u32,
    /// The access that it lets others have: FILE_SHARE_READ 1, WRITE 2, DELETE 4.
    pub share_access: u32,
    /// The options of its CREATE.
    pub options: u32,
    /// The bytes. `None` for directories, and for opens without access to bytes, which the metadata
    /// server does not know of.
    pub data: Option<OpenData<S>>,
    /// Whether the file is removed when this open is closed.
    pub delete_on_close: AtomicBool,
    place: Mutex<Place>,
    /// What CHANGE_NOTIFY of a directory watches.
    pub watch: OnceLock<OpenWatch>,
    is_written: AtomicBool,
    /// Times that its operations do not change.
    pub kept_times: KeptTimes,
    /// The listing of a directory, from one request to the next. Requests of one open
    /// run one after the other.
    pub search: tokio::sync::Mutex<Option<Search>>,
    /// FilePositionInformation, which only clients use.
    pub position: std::sync::atomic::AtomicU64,
    /// The verifier of the first write that no flush has followed.
    unflushed: Mutex<Option<Verifier>>,
    /// Its place in the table of leases; none for a directory.
    pub lease: Option<Box<LeasedOpen<S>>>,
    /// Its byte-range locks; none after its close, so that a LOCK that runs meanwhile leaves
    /// nothing behind. LOCK requests of one open run one after the other.
    pub locks: tokio::sync::Mutex<Option<OpenLocks>>,
}

/// What an open of a file begins with.
#[derive(Debug)]
pub struct NewFileOpen<S: Share> {
    /// Its number.
    pub id: FileId,
    /// The tree that it is opened in.
    pub tree: Arc<Tree>,
    /// The session of the metadata server.
    pub machine: Arc<Machine<S>>,
    /// What makes it durable.
    pub durable: Option<Durable>,
    /// What it answers a repetition of its CREATE with.
    pub outcome: CreateOutcome,
    /// Its CREATE, if that can be repeated.
    pub record: Option<CreateRecord<S>>,
    /// The application that it belongs to.
    pub app: Option<(AppInstance, AppRecord<S>)>,
    /// The file.
    pub file: FileIndex,
    /// The named stream that it is an open of.
    pub stream: Option<OpenStream>,
    /// Whether it is a directory.
    pub is_directory: bool,
    /// The access that is granted.
    pub granted: u32,
    /// The access that it lets others have.
    pub share_access: u32,
    /// The options of its CREATE.
    pub options: u32,
    /// The bytes.
    pub data: Option<OpenData<S>>,
    /// Where it is opened.
    pub place: Place,
    /// Its place in the table of leases.
    pub lease: Option<LeasedOpen<S>>,
}

impl<S: Share> FileOpen<S> {
    /// An open that has just begun.
    pub fn new(new: NewFileOpen<S>) -> Self {
        Self {
            id: new.id,
            tree_id: AtomicU32::new(new.tree.id),
            tree: new.tree,
            machine: new.machine,
            durable: new.durable,
            channel: Arc::default(),
            outcome: new.outcome,
            record: new.record,
            app: new.app,
            file: new.file,
            stream: new.stream,
            is_directory: new.is_directory,
            granted: new.granted,
            share_access: new.share_access,
            options: new.options,
            data: new.data,
            delete_on_close: AtomicBool::new(false),
            place: Mutex::new(new.place),
            watch: OnceLock::new(),
            is_written: AtomicBool::new(false),
            kept_times: KeptTimes::default(),
            search: tokio::sync::Mutex::default(),
            position: std::sync::atomic::AtomicU64::new(0),
            unflushed: Mutex::default(),
            lease: new.lease.map(Box::new),
            locks: tokio::sync::Mutex::new(Some(OpenLocks::default())),
        }
    }

    /// It belongs to this tree now, of another session.
    pub fn set_tree(&self, tree: &Tree) {
        self.tree_id.store(tree.id, Ordering::Release);
    }

    /// A request has used it: its CREATE cannot be repeated any more (MS-SMB2 3.3.5.9.10).
    pub fn end_replay(&self) {
        self.record.iter().for_each(CreateRecord::end);
    }

    /// Where it was opened, or has been renamed to through this open.
    pub fn place(&self) -> Place {
        self.lock_place().clone()
    }

    /// Notes that the file was renamed through this open.
    pub fn set_place(&self, place: Place) {
        *self.lock_place() = place;
    }

    /// What it is an open of, in the tables of opens and locks.
    pub fn key(&self) -> StreamKey {
        match &self.stream {
            Some(stream) => stream.key,
            None => StreamKey::of_file(self.file),
        }
    }

    /// What a server knows of the file, or of the stream, whose size `known` has.
    pub fn facts(&self, known: &Attributes) -> FileFacts {
        let name = self.place().name;
        match self.stream {
            Some(_) => attributes::stream_facts(known, &name),
            None => attributes::facts(known, &name),
        }
    }

    /// Lets those who watch its directory know that the file has changed so. The size and the bytes
    /// of a stream are the stream's, all else is the file's.
    pub fn report(&self, watches: &Watches, changed: CompletionFilter) {
        let (root, place) = (self.tree.root(), self.place());
        match &self.stream {
            Some(stream) if changed.has(CompletionFilter::SIZE) => {
                let changed = CompletionFilter::STREAM_SIZE.with(CompletionFilter::STREAM_WRITE);
                let what = (NotifyAction::MODIFIED_STREAM, changed);
                watches.report_stream(root, &place, &stream.shared.name(), what);
            }
            _ => watches.report(root, &place, (NotifyAction::MODIFIED, changed), None),
        }
    }

    fn lock_place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that the open was granted all rights of `access`.
    ///
    /// # Errors
    /// `ACCESS_DENIED`.
    pub fn needs(&self, access: u32) -> Result<(), NtStatus> {
        if self.granted & access == access { Ok(()) } else { Err(NtStatus::ACCESS_DENIED) }
    }

    /// Checks that no lock of the gateway's opens excludes reading bytes: an offset and a number.
    ///
    /// # Errors
    /// `FILE_LOCK_CONFLICT`.
    pub fn begin_read(&self, locks: &RangeLocks, bytes: (u64, u64)) -> Result<(), NtStatus> {
        locks.check(self.key(), self.id.volatile, bytes, Access::Read)
    }

    /// The same before bytes are written, in whatever way.
    ///
    /// # Errors
    /// `FILE_LOCK_CONFLICT`.
    pub fn begin_write(&self, server: &SmbServer<S>, bytes: (u64, u64)) -> Result<(), NtStatus> {
        server.range_locks.check(self.key(), self.id.volatile, bytes, Access::Write)?;
        self.begin_change(&server.leases);
        self.is_written.store(true, Ordering::Release);
        Ok(())
    }

    /// What its state at leases is shared with.
    pub fn owner(&self) -> Owner {
        self.lease.as_ref().map_or(Owner::Open(self.id.volatile), |lease| lease.owner)
    }

    /// Breaks what others have cached of the bytes, before they are changed or locked. MS-FSA
    /// 2.1.5.4, 2.1.5.8. Nobody caches the bytes of a stream.
    pub fn begin_change(&self, leases: &Arc<Leases<S>>) {
        if self.stream.is_some() {
            return;
        }
        leases.make_way(self.file, self.owner(), Conflict::Change);
    }

    /// Whether bytes were written through it, or that was tried.
    pub fn is_written(&self) -> bool {
        self.is_written.load(Ordering::Acquire)
    }

    /// Its claim in the table of opens.
    pub fn claim(&self) -> Claim {
        Claim::new(self.granted, self.share_access)
    }

    /// Notes a write that is not durable yet.
    pub fn note_unflushed(&self, verifier: Verifier) {
        self.lock_unflushed().get_or_insert(verifier);
    }

    /// The verifier of the first write that no flush has followed; none afterwards.
    pub fn take_unflushed(&self) -> Option<Verifier> {
        self.lock_unflushed().take()
    }

    /// Notes once more that writes since this verifier are not durable. It is older than that of a
    /// write meanwhile.
    pub fn restore_unflushed(&self, verifier: Verifier) {
        *self.lock_unflushed() = Some(verifier);
    }

    fn lock_unflushed(&self) -> MutexGuard<'_, Option<Verifier>> {
        self.unflushed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Whether the file is removed at the close.
    pub fn is_delete_on_close(&self) -> bool {
        self.delete_on_close.load(Ordering::Acquire)
    }
}

/// An open of a named pipe.
#[derive(Debug)]
pub struct PipeOpen {
    /// Its number.
    pub id: FileId,
    /// The tree that it was opened in.
    pub tree: Arc<Tree>,
    /// The service behind it. Requests run one after the other.
    pub pipe: Mutex<braid_smb_wire::rpc::Pipe>,
}
