//! An open file: its layout, the capability for the daemons, and the writes that are not synced
//! yet.

use std::{
    fmt,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering},
    },
};

use braid_net::Driver;
use braid_types::{FileIndex, LayoutVersion, PartIndex, Status};
use braid_wire::{
    Deny, Rights,
    message::{
        mds::{OpenReply, ReclaimedOpen},
        types::Attributes,
    },
};

use super::{
    Caller, Engine,
    open_table::{OpenHandle, ServerEpoch},
    pool::Pool,
    semaphore::{Semaphore, lock},
    size_report::SizeReportState,
    unflushed_writes::UnflushedWrites,
};
use crate::{
    error::{Error, Result},
    lease::{LeaseOf, LeaseTicket},
    plan::FileMap,
};

/// An open file. Views, cursors and clones share one; dropping the last closes it.
pub struct OpenFile<D: Driver> {
    pub(crate) caller: Caller<D>,
    path: Box<str>,
    pub(crate) handle: Arc<OpenHandle>,
    state: Mutex<Arc<FileState<D>>>,
    /// Allows one task at a time to request a new capability.
    pub(crate) renewing: Semaphore,
    /// The daemons would refuse the capability, so it is renewed before the next use. Set by our
    /// own truncate.
    stale: AtomicBool,
    /// A sync has recorded parts that the capability does not contain. A read renews the capability
    /// first. Otherwise it would take a lost part for one that was never written (I11).
    parts_unknown: AtomicBool,
    /// Those of its rights that may be used. All, except while they are changed and after a change
    /// with an unknown outcome.
    usable: AtomicU8,
    pub(crate) unflushed: Arc<UnflushedWrites>,
    /// A daemon has reported the fence (I4). Never reset.
    fenced: AtomicBool,
    lease: Option<LeaseTicket>,
    /// Whether the read cache counts this file among those that may be written.
    writes_counted: AtomicBool,
}

/// What the metadata server last returned about the file, prepared for use.
pub(crate) struct FileState<D: Driver> {
    /// Names `capability` on each connection on which it was presented. New with each capability.
    pub(crate) handle: u32,
    pub(crate) capability: Vec<u8>,
    pub(crate) map: FileMap,
    pub(crate) layout_version: LayoutVersion,
    /// Whether the capability lists every part of the file as existing, so that no part can be
    /// added.
    knows_all_parts: bool,
    /// The pools of `map.targets()`, in order.
    pub(crate) pools: Vec<Arc<Pool<D>>>,
    pub(crate) attributes: Attributes,
    /// The existing parts; the lowest is bit 0 of byte 0.
    existing_parts: Vec<u8>,
    /// Targets whose daemon was known to be removed when the metadata server was queried. Only then
    /// does its reply say which parts were lost with the daemon.
    pub(crate) removed_targets: Vec<usize>,
    /// The growth grant; see `quota.rs`.
    pub(crate) growth_grant: AtomicU64,
}

impl<D: Driver> OpenFile<D> {
    /// A file that epoch `run` of the metadata server opened.
    pub(crate) fn new(
        caller: Caller<D>,
        shown: String,
        (rights, deny): (Rights, Deny),
        (opened, size_report): (OpenReply, SizeReportState),
        run: ServerEpoch,
        lease: Option<LeaseTicket>,
    ) -> Result<Self> {
        let named =
            ReclaimedOpen { open_id: opened.open_id, file: opened.attributes.file, rights, deny };
        let handles = &caller.engine.open_table;
        let handle = match handles
            .add(run, OpenHandle::new(run, caller.identity.clone(), named, size_report))
        {
            Ok(handle) => handle,
            Err(error) => return Err(error.during("open", shown)),
        };
        let grant = match FileState::new(&caller.engine, opened) {
            Ok(grant) => Arc::new(grant),
            Err(error) => {
                handles.close(&handle);
                return Err(error.during("open", shown));
            }
        };
        let unsynced = caller.engine.unflushed_files.open();
        let may_write = rights.allow(Rights::WRITE);
        if let Some(cache) = &caller.engine.read_cache {
            cache.opened(handle.file, may_write);
        }
        Ok(Self {
            caller,
            path: shown.into(),
            handle,
            state: Mutex::new(grant),
            renewing: Semaphore::new(1),
            stale: AtomicBool::new(false),
            parts_unknown: AtomicBool::new(false),
            usable: AtomicU8::new(Rights::READ_WRITE.0),
            unflushed: unsynced,
            fenced: AtomicBool::new(false),
            lease,
            writes_counted: AtomicBool::new(may_write),
        })
    }

    /// The file's index.
    pub fn file(&self) -> FileIndex {
        self.handle.file
    }

    /// The data lease that was granted with the open, if one was requested and nothing conflicted.
    pub fn lease(&self) -> Option<LeaseTicket> {
        self.lease
    }

    /// The path that was opened.
    pub fn path(&self) -> &str {
        &self.path
    }

    /// The attributes at the open or at the last renewal of the capability. The size may have
    /// changed since; [`OpenFile::attributes`] returns the current one.
    pub fn known_attributes(&self) -> Attributes {
        self.state().attributes.clone()
    }

    /// The layout at the open.
    pub fn layout(&self) -> braid_layout::Layout {
        self.state().map.layout().clone()
    }

    pub(crate) fn rights(&self) -> Rights {
        self.handle.rights()
    }

    pub(crate) fn engine(&self) -> &Arc<Engine<D>> {
        &self.caller.engine
    }

    pub(crate) fn open_id(&self) -> u64 {
        self.handle.open_id
    }

    pub(crate) fn state(&self) -> Arc<FileState<D>> {
        Arc::clone(&lock(&self.state))
    }

    pub(crate) fn set_state(&self, opened: OpenReply) -> Result<Arc<FileState<D>>> {
        let grant = Arc::new(FileState::new(self.engine(), opened)?);
        *lock(&self.state) = Arc::clone(&grant);
        self.stale.store(false, Ordering::Release);
        Ok(grant)
    }

    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// The metadata server has recorded the parts that were written through this file.
    pub(super) fn parts_were_recorded(&self) {
        if !self.state().knows_all_parts {
            self.parts_unknown.store(true, Ordering::Release);
        }
    }

    /// Called before a read: see [`OpenFile::parts_were_recorded`].
    pub(super) fn mark_stale_if_parts_unknown(&self) {
        if self.parts_unknown.load(Ordering::Relaxed)
            && self.parts_unknown.swap(false, Ordering::AcqRel)
        {
            self.mark_stale();
        }
    }

    /// Fails if the file was not opened for this, before anything is sent. A right to write also
    /// invalidates the size report.
    pub(crate) fn check_rights(&self, wanted: Rights) -> Result<()> {
        if wanted.allow(Rights::WRITE) {
            self.handle.size_report.invalidate();
        }
        self.check_rights_keeping_report(wanted)
    }

    /// As [`OpenFile::check_rights`], for calls that change nothing, and for writes whose replies
    /// update the size report ([`SizeReportState`]).
    pub(crate) fn check_rights_keeping_report(&self, wanted: Rights) -> Result<()> {
        self.engine().check_process()?;
        if self.handle.is_closed() {
            return Err(Error::new(Status::StaleHandle, "the file was closed"));
        }
        self.handle.check()?;
        if self.fenced.load(Ordering::Relaxed) {
            return Err(Error::new(
                Status::Fenced,
                "the cluster considered this client dead and fenced it",
            ));
        }
        if self.rights().allow(wanted) && Rights(self.usable.load(Ordering::Acquire)).allow(wanted)
        {
            return Ok(());
        }
        let (what, hint) = match wanted {
            Rights::READ => ("the file is not open for reading", "OpenOptions::read(true)"),
            _ => ("the file is not open for writing", "OpenOptions::write(true)"),
        };
        // POSIX specifies EBADF. This is the nearest of our statuses: the handle does not allow the
        // call.
        Err(Error::new(Status::NotPermitted, what).with_hint(hint))
    }

    /// From now on only these rights are used.
    pub(super) fn restrict_rights(&self, rights: Rights) {
        self.usable.store(rights.0, Ordering::Release);
    }

    /// Called before the file gets the right to write: from now on nothing of it is cached.
    pub(super) fn end_caching(&self) {
        if let Some(cache) = &self.engine().read_cache
            && !self.writes_counted.swap(true, Ordering::AcqRel)
        {
            cache.opened(self.file(), true);
            cache.closed(self.file(), false);
        }
    }

    pub(crate) fn mark_fenced(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }
}

impl<D: Driver> Drop for OpenFile<D> {
    fn drop(&mut self) {
        // A child after `fork` has a copy of the handle, but the file belongs to its parent.
        if !self.engine().is_ours() {
            return;
        }
        if let Some(cache) = &self.engine().read_cache
            && cache.closed(self.file(), self.writes_counted.load(Ordering::Acquire))
        {
            self.engine().return_lease_later(LeaseOf::Data(self.file()));
        }
        self.engine()
            .unflushed_files
            .close(&self.unflushed, |iod| self.engine().pool(iod).server_name());
        if self.handle.mark_closed() {
            self.caller.engine.open_table.close(&self.handle);
        }
    }
}

impl<D: Driver> fmt::Debug for OpenFile<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile")
            .field("path", &self.path)
            .field("file", &self.file())
            .finish_non_exhaustive()
    }
}

impl<D: Driver> FileState<D> {
    fn new(engine: &Arc<Engine<D>>, opened: OpenReply) -> Result<Self> {
        let layout_version = opened.layout.version;
        let exists = |part: usize| {
            opened.existing_parts.get(part / 8).is_some_and(|bits| bits >> (part % 8) & 1 == 1)
        };
        let knows_all_parts =
            opened.layout.placements().all(|(part, _)| exists(usize::from(part.0)));
        let map = FileMap::new(opened.layout)?;
        let pools: Vec<Arc<Pool<D>>> =
            map.targets().iter().map(|target| engine.pool(target.iod)).collect();
        let known_removed = (0..pools.len()).filter(|target| pools[*target].is_removed()).collect();
        Ok(Self {
            handle: engine.handle_number(),
            capability: opened.capability,
            map,
            layout_version,
            knows_all_parts,
            pools,
            attributes: opened.attributes,
            existing_parts: opened.existing_parts,
            removed_targets: known_removed,
            growth_grant: AtomicU64::new(opened.growth_grant.unwrap_or(u64::MAX)),
        })
    }

    /// Whether a part is recorded as existing.
    pub(crate) fn exists(&self, part: PartIndex) -> bool {
        let byte = self.existing_parts.get(usize::from(part.0 / 8));
        byte.is_some_and(|byte| byte >> (part.0 % 8) & 1 == 1)
    }
}
