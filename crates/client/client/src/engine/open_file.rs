//! An open file: where its parts lie, what the daemons are shown for it, what was not synced yet.

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
        mds::{Opened, ReclaimedOpen},
        types::Attributes,
    },
};

use super::{
    Caller, Engine,
    gate::{Gate, lock},
    handles::{Handle, Run},
    pool::Pool,
    told::Told,
    unsynced::Unsynced,
};
use crate::{
    error::{Error, Result},
    lease::LeaseTicket,
    plan::FileMap,
};

/// An open file. Views, cursors and clones share one; the last that goes away closes it.
pub struct OpenFile<D: Driver> {
    pub(crate) caller: Caller<D>,
    shown: Box<str>,
    pub(crate) handle: Arc<Handle>,
    grant: Mutex<Arc<Grant<D>>>,
    /// One at a time asks for a fresh capability.
    pub(crate) renewing: Gate,
    /// A capability that daemons will refuse is not shown to them: set by our own truncate.
    stale: AtomicBool,
    /// A sync has recorded parts that the capability does not know of: a read asks for a fresh one first, or it would take a
    /// part that is lost for one that was never written (I11).
    parts_unknown: AtomicBool,
    /// What of its rights may be used: all, unless they are being changed, or it is not known whether they were.
    usable: AtomicU8,
    pub(crate) unsynced: Arc<Unsynced>,
    /// A daemon said so (I4): for good.
    fenced: AtomicBool,
    lease: Option<LeaseTicket>,
}

/// What the metadata server last said about the file, ready for use.
pub(crate) struct Grant<D: Driver> {
    /// Names `capability` on each connection that it was presented on. New with each capability.
    pub(crate) handle: u32,
    pub(crate) capability: Vec<u8>,
    pub(crate) map: FileMap,
    pub(crate) layout_version: LayoutVersion,
    /// Whether the capability has every part of the file as existing: none can become so.
    knows_all_parts: bool,
    /// Pools of `map.targets()`, in order.
    pub(crate) pools: Vec<Arc<Pool<D>>>,
    pub(crate) attributes: Attributes,
    /// The parts that exist, the lowest in bit 0 of byte 0.
    existing_parts: Vec<u8>,
    /// Targets whose daemon was known to be out of the cluster when the metadata server was asked: only then is it said what went
    /// with it.
    pub(crate) known_removed: Vec<usize>,
    /// See `quota.rs`.
    pub(crate) write_end: AtomicU64,
}

impl<D: Driver> OpenFile<D> {
    /// A file that `run` of the metadata server opened.
    pub(crate) fn new(
        caller: Caller<D>,
        shown: String,
        (rights, deny): (Rights, Deny),
        (opened, told): (Opened, Told),
        run: Run,
        lease: Option<LeaseTicket>,
    ) -> Result<Self> {
        let named =
            ReclaimedOpen { open_id: opened.open_id, file: opened.attributes.file, rights, deny };
        let handles = &caller.engine.handles;
        let handle = match handles.add(run, Handle::new(run, caller.identity.clone(), named, told))
        {
            Ok(handle) => handle,
            Err(error) => return Err(error.during("open", shown)),
        };
        let grant = match Grant::new(&caller.engine, opened) {
            Ok(grant) => Arc::new(grant),
            Err(error) => {
                handles.close(&handle);
                return Err(error.during("open", shown));
            }
        };
        let unsynced = caller.engine.unsynced.open();
        Ok(Self {
            caller,
            shown: shown.into(),
            handle,
            grant: Mutex::new(grant),
            renewing: Gate::new(1),
            stale: AtomicBool::new(false),
            parts_unknown: AtomicBool::new(false),
            usable: AtomicU8::new(Rights::READ_WRITE.0),
            unsynced,
            fenced: AtomicBool::new(false),
            lease,
        })
    }

    /// Which file.
    pub fn file(&self) -> FileIndex {
        self.handle.file
    }

    /// The data lease that came with it, if one was wished and nothing conflicted.
    pub fn lease(&self) -> Option<LeaseTicket> {
        self.lease
    }

    /// The path that it was opened by.
    pub fn path(&self) -> &str {
        &self.shown
    }

    /// Its attributes when it was opened or its capability last renewed. The size may have changed since; use
    /// [`OpenFile::attributes`] for the truth.
    pub fn known_attributes(&self) -> Attributes {
        self.grant().attributes.clone()
    }

    /// The layout by which it was opened.
    pub fn layout(&self) -> braid_layout::Layout {
        self.grant().map.layout().clone()
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

    pub(crate) fn grant(&self) -> Arc<Grant<D>> {
        Arc::clone(&lock(&self.grant))
    }

    pub(crate) fn set_grant(&self, opened: Opened) -> Result<Arc<Grant<D>>> {
        let grant = Arc::new(Grant::new(self.engine(), opened)?);
        *lock(&self.grant) = Arc::clone(&grant);
        self.stale.store(false, Ordering::Release);
        Ok(grant)
    }

    pub(crate) fn mark_stale(&self) {
        self.stale.store(true, Ordering::Release);
    }

    pub(crate) fn is_stale(&self) -> bool {
        self.stale.load(Ordering::Acquire)
    }

    /// What was written through this file is recorded now.
    pub(super) fn parts_were_recorded(&self) {
        if !self.grant().knows_all_parts {
            self.parts_unknown.store(true, Ordering::Release);
        }
    }

    /// Before a read: see [`OpenFile::parts_were_recorded`].
    pub(super) fn learn_parts(&self) {
        if self.parts_unknown.load(Ordering::Relaxed)
            && self.parts_unknown.swap(false, Ordering::AcqRel)
        {
            self.mark_stale();
        }
    }

    /// Refuses what the file was not opened for, before anything is sent.
    pub(crate) fn allow(&self, wanted: Rights) -> Result<()> {
        if wanted.allow(Rights::WRITE) {
            self.handle.told.forget();
        }
        self.allow_telling(wanted)
    }

    /// The same of what changes nothing, or of a write whose replies are told ([`Told`]).
    pub(crate) fn allow_telling(&self, wanted: Rights) -> Result<()> {
        self.engine().check_process()?;
        if self.handle.is_closed() {
            return Err(Error::new(Status::StaleHandle, "the file was closed"));
        }
        self.handle.check()?;
        if self.fenced.load(Ordering::Relaxed) {
            return Err(Error::new(
                Status::Fenced,
                "the cluster took this client for dead and fenced it",
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
        // POSIX says EBADF; the nearest of our statuses is the one for a call that the handle does not allow.
        Err(Error::new(Status::NotPermitted, what).with_hint(hint))
    }

    /// From now on only these of its rights are used.
    pub(super) fn narrow(&self, rights: Rights) {
        self.usable.store(rights.0, Ordering::Release);
    }

    pub(crate) fn mark_fenced(&self) {
        self.fenced.store(true, Ordering::Relaxed);
    }
}

impl<D: Driver> Drop for OpenFile<D> {
    fn drop(&mut self) {
        // A child after `fork` has a copy of the handle; the file is its parent's.
        if !self.engine().is_ours() {
            return;
        }
        self.engine().unsynced.close(&self.unsynced, |iod| self.engine().pool(iod).server());
        if self.handle.mark_closed() {
            self.caller.engine.handles.close(&self.handle);
        }
    }
}

impl<D: Driver> fmt::Debug for OpenFile<D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OpenFile")
            .field("path", &self.shown)
            .field("file", &self.file())
            .finish_non_exhaustive()
    }
}

impl<D: Driver> Grant<D> {
    fn new(engine: &Arc<Engine<D>>, opened: Opened) -> Result<Self> {
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
            known_removed,
            write_end: AtomicU64::new(opened.write_end.unwrap_or(u64::MAX)),
        })
    }

    /// Whether a part is recorded as existing.
    pub(crate) fn exists(&self, part: PartIndex) -> bool {
        let byte = self.existing_parts.get(usize::from(part.0 / 8));
        byte.is_some_and(|byte| byte >> (part.0 % 8) & 1 == 1)
    }
}
