//! Names leases as this mount holds them: asked for where they are of use, handed out in order with their recall.
//!
//! ```text
//!   question:  promise(dir) ── call ── answer ── kept.rs, if the promise holds ── hand_out: holds? ── gateway writes the reply
//!                                                                                      | shared lock
//!   recall:    lease lost ── children taken out of kept.rs ── exclusive lock, a moment ┘── keeper drops ── given back
//! ```
//!
//! Invariants: (1) what is handed out as to be remembered was put into `kept` before, so that its recall finds it; (2) a
//! reply that says so was written before the keeper is told to drop: it looked whether the promise holds under the
//! lock that the recall takes alone; (3) recalls run on threads that serve no gateway.

use std::{
    sync::{
        Arc, OnceLock, PoisonError, RwLock, Weak,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use braid_client::{
    Client, FileIndex, LeaseHolder, LeaseMode, Leases,
    lease::{LeaseOf, LeaseTicket},
};

use crate::{
    consistency::Consistency,
    data::{Data, Table, gather::Runs, pace::SlowRates, server_clock::ServerClock},
    error::Result,
    kept::Cache,
    known::{Keep, Kept},
    late::LateFiles,
    vfs::Vfs,
};

/// What a gateway remembers outside of this layer: the kernel's dentries, attributes, pages. Called by threads that serve
/// no request; what takes long delays somebody else's change.
pub trait Keeper: Send + Sync {
    /// Of each: names in the directory, its attributes, and those of these files are not to be used any more.
    fn drop_names(&self, directories: &[(FileIndex, Vec<FileIndex>)]);

    /// The attributes of a file are not to be used any more. Called by threads that serve requests, too.
    fn drop_attributes(&self, file: FileIndex);

    /// These bytes of a file, `bytes` = 0: all from `offset` on, are not to be used any more, and what was changed of them
    /// in memory is written when this returns. May wait for pages that are on their way and for such writes, which are
    /// served meanwhile. Called by threads that serve requests, too: what waits is to be done by others.
    fn drop_data(&self, file: FileIndex, offset: u64, bytes: u64);
}

/// A names lease at one time of its being held.
#[derive(Debug)]
pub(crate) struct Promise {
    directory: FileIndex,
    ticket: LeaseTicket,
    /// This mount wants to remember the directory no longer, and is about to give the lease back.
    ended: AtomicBool,
}

/// What the recalls are carried out on.
pub(crate) struct Holder {
    leases: Leases,
    pub(crate) cache: Cache,
    /// Held by whoever hands out something to be remembered; alone by a recall, for a moment.
    order: RwLock<()>,
    keeper: OnceLock<Arc<dyn Keeper>>,
    /// Files whose bytes are used or kept.
    pub(crate) data: Table,
    /// What is gathered of them.
    pub(crate) runs: Arc<Runs>,
    /// What buffered bytes get their time from.
    pub(crate) clock: ServerClock,
    pub(crate) late: Arc<LateFiles>,
    /// Somebody gives up files that are kept for too long.
    tidying: AtomicBool,
}

impl std::fmt::Debug for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Holder").finish_non_exhaustive()
    }
}

impl Holder {
    pub(crate) fn new(
        client: &Client,
        consistency: Consistency,
        slow: SlowRates,
        write_behind: bool,
    ) -> Arc<Self> {
        let (cache, order, keeper) = (Cache::default(), RwLock::default(), OnceLock::new());
        let (data, tidying) = (Table::new(consistency), AtomicBool::new(false));
        let (late, runs) = (Arc::default(), Arc::new(Runs::new(slow, write_behind)));
        let clock = ServerClock::default();
        Arc::new(Self {
            leases: client.leases(),
            cache,
            order,
            keeper,
            data,
            runs,
            clock,
            late,
            tidying,
        })
    }

    pub(crate) fn leases(&self) -> &Leases {
        &self.leases
    }

    /// Whether leases are taken.
    pub(crate) fn is_serving(&self) -> bool {
        self.keeper.get().is_some()
    }

    pub(crate) fn keeper_drops(&self, file: FileIndex, offset: u64, bytes: u64) {
        if let Some(keeper) = self.keeper.get() {
            keeper.drop_data(file, offset, bytes);
        }
    }

    /// Nobody has the file open any more by this handle.
    pub(crate) fn closed(self: &Arc<Self>, data: Arc<Data>) {
        self.data.forget(data, |data| self.is_worth_keeping(data));
        if !self.data.is_full() || self.tidying.swap(true, Ordering::AcqRel) {
            return;
        }
        let holder = Arc::clone(self);
        let gives_up = move || {
            holder.data.oldest().into_iter().for_each(|data| holder.give_up(data));
            holder.tidying.store(false, Ordering::Release);
        };
        if thread::Builder::new().name("vfs-tidy".into()).spawn(gives_up).is_err() {
            self.tidying.store(false, Ordering::Release);
        }
    }

    /// This mount changed the size of a file otherwise than by writing.
    pub(crate) fn resized(&self, file: FileIndex) {
        self.attributes_change(file);
        if let Some(data) = self.data.known(file) {
            data.ends_at(None);
        }
    }

    fn give_up(&self, data: Arc<Data>) {
        // Whoever opens the file meanwhile begins under a lease that is asked for after this one is gone.
        self.drain_and(&data, || {
            // Not told, the server asks for it when it wants it.
            let _ = self.leases.give_back(LeaseOf::Data(data.file()));
        });
        self.data.forget(data, |_| false);
    }

    pub(crate) fn holds(&self, promise: &Promise) -> bool {
        !promise.ended.load(Ordering::Acquire) && self.leases.still(&promise.ticket)
    }

    /// Where a file ends, as its attributes that are remembered have it.
    pub(crate) fn end_known(&self, file: FileIndex) -> Option<u64> {
        let known = self.cache.attributes(file, |promise| self.holds(promise))?;
        Some(known.attributes.bytes.0)
    }

    /// The promise for a directory's names, if there is one or one is to be had.
    pub(crate) fn promise(&self, directory: FileIndex) -> Option<Arc<Promise>> {
        self.keeper.get()?;
        if let Some(promise) = self.held_promise(directory) {
            return Some(promise);
        }
        if !self.cache.is_worth_asking(directory) {
            return None;
        }
        let mark = self.cache.mark();
        // A lease is never needed: what cannot be had now is asked for again later.
        let (ticket, own) = self.leases.ask_names_told(directory).ok()??;
        let promise = self.taken_in(directory, ticket)?;
        self.cache.keep_attributes(&promise, mark, &own, |promise| self.holds(promise));
        Some(promise)
    }

    /// The promise for a directory's names, if there is one now.
    pub(crate) fn held_promise(&self, directory: FileIndex) -> Option<Arc<Promise>> {
        if let Some(promise) = self.cache.promise(directory).filter(|promise| self.holds(promise)) {
            return Some(promise);
        }
        self.taken_in(directory, self.leases.names_ticket(directory)?)
    }

    fn taken_in(&self, directory: FileIndex, ticket: LeaseTicket) -> Option<Arc<Promise>> {
        let promise = Arc::new(Promise { directory, ticket, ended: AtomicBool::new(false) });
        let promise = self.cache.begin(directory, promise, |promise| self.holds(promise));
        self.make_room(directory);
        Some(promise)
    }

    /// Gives up the directories that were remembered first when there are too many.
    fn make_room(&self, wanted: FileIndex) {
        for (directory, promise) in self.cache.too_many(wanted) {
            promise.ended.store(true, Ordering::Release);
            self.forget(directory);
            // Returned before they are open, the lease would be no protection for them.
            if self.late.open(directory).is_err() {
                continue;
            }
            // Not told, the server asks for it when it wants it.
            let _ = self.leases.give_back(LeaseOf::Names(directory));
        }
    }

    /// This mount gave up changing an entry of a directory, and the server may yet do it: that would recall nothing from this mount.
    pub(crate) fn doubt(&self, directory: FileIndex) {
        self.cache.doubt(directory);
        // Nor is handed out as to be remembered what was taken in before.
        if let Some(promise) = self.cache.promise(directory) {
            promise.ended.store(true, Ordering::Release);
        }
        self.forget(directory);
    }

    pub(crate) fn forget(&self, directory: FileIndex) {
        self.forget_all(vec![directory]);
    }

    pub(crate) fn forget_all(&self, directories: Vec<FileIndex>) {
        let taken =
            |directory| (directory, self.cache.take(directory, |promise| self.holds(promise)));
        let taken: Vec<_> = directories.into_iter().map(taken).collect();
        self.wait_for_replies();
        if let Some(keeper) = self.keeper.get() {
            keeper.drop_names(&taken);
        }
    }

    /// Replies that are being written as ones to be remembered are written.
    fn wait_for_replies(&self) {
        drop(self.order.write().unwrap_or_else(PoisonError::into_inner));
    }

    /// Attributes that were handed out under the promise of another directory are not good any more.
    pub(crate) fn drop_attributes(&self, file: FileIndex) {
        if let Some(keeper) = self.keeper.get() {
            self.wait_for_replies();
            keeper.drop_attributes(file);
        }
    }
}

impl LeaseHolder for Holder {
    fn recall_names(&self, directory: FileIndex) {
        self.cache.recalled(directory);
        self.forget(directory);
        self.late.recalled(directory);
    }

    fn recall_data(&self, file: FileIndex, keep: LeaseMode) -> LeaseMode {
        let Some(data) = self.data.known(file) else { return LeaseMode::None };
        self.drain(&data);
        let kept = data.may_keep(keep);
        self.data.forget(data, |_| kept != LeaseMode::None);
        kept
    }

    fn lost_all(&self) {
        // Not by this thread: they are opened when there is a session again, and this thread makes way for it.
        self.late.lost_all();
        self.lose_all();
    }
}

impl Vfs {
    /// From now on this mount takes leases, and has `keeper` drop what it remembers when they are recalled. Before, and
    /// without, nothing is ever to be remembered.
    ///
    /// # Errors
    /// It was called before; there are too many threads.
    pub fn serve(&self, keeper: Arc<dyn Keeper>) -> Result<()> {
        let holder = Arc::downgrade(&self.holder);
        self.holder.leases.serve(holder as Weak<dyn LeaseHolder>)?;
        let _ = self.holder.keeper.set(keeper);
        Ok(())
    }

    /// What a name that is about to be moved to this directory may be remembered under there, by a keeper that moves by itself what it
    /// remembers: once the rename is done, it looks by [`Vfs::hand_out`] whether it may.
    pub fn keep_names(&self, directory: FileIndex) -> Keep {
        let name = self
            .holder
            .held_promise(directory)
            .filter(|_| !self.holder.cache.is_in_doubt(directory));
        Keep { name, attributes: None }
    }

    /// Hands something out: `give` is told what of it may be remembered, and must have handed it out when it returns.
    pub fn hand_out<R>(&self, keep: &Keep, give: impl FnOnce(Kept) -> R) -> R {
        if keep.name.is_none() && keep.attributes.is_none() {
            return give(Kept { name: false, attributes: false });
        }
        let _order = self.holder.order.read().unwrap_or_else(PoisonError::into_inner);
        let holds = |promise: &Option<Arc<Promise>>| {
            promise.as_ref().is_some_and(|one| self.holder.holds(one))
        };
        give(Kept { name: holds(&keep.name), attributes: holds(&keep.attributes) })
    }
}

impl Promise {
    pub(crate) fn directory(&self) -> FileIndex {
        self.directory
    }

    /// The same for another directory.
    #[cfg(test)]
    pub(crate) fn of(&self, directory: FileIndex) -> Arc<Self> {
        Arc::new(Self { directory, ticket: self.ticket, ended: AtomicBool::new(false) })
    }
}
