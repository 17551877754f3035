//! All leases are lost: what a kernel has goes before others may change it, whatever daemon is away.
//!
//! ```text
//!   gates of all files closed                    waits for nobody
//!   names dropped, of all at once, beside        waits a moment for directories that a kernel has locked
//!   of each file: pages dropped, once            waits for those that are on their way and in the way
//!   of each file: pages, until there are none    waits for those that came meanwhile
//!   of each file: writes, gathered bytes; open   waits for daemons
//! ```
//!
//! Between `LEASE_STOP_MS` after the last renewal, when this begins, and `LEASE_BROKEN_MS`, when others are let at the files, are ten
//! seconds. A call of a daemon that is away takes longer.
//!
//! Invariants: (1) no file's pages wait for what is written or gathered; (2) what a kernel had of a file before waits for another
//! file's daemon only where [`THREADS`] files wait already, and those whose pages may wait come last.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use super::{Data, gate::Gate};
use crate::{files::lock, promise::Holder};

/// Files at a time: fewer than the gateway of a kernel lets wait for pages, since writes that are under way drop some, too.
const THREADS: usize = 6;

impl Data {
    /// How likely it is that dropping its pages waits for a daemon: for pages that are on their way here, then for such as a program
    /// has changed in memory.
    fn may_wait(&self) -> u8 {
        let gate = &lock(&self.state).gate;
        match (gate.has_pages_under_way(), gate.has_writers()) {
            (true, _) => 2,
            (false, true) => 1,
            (false, false) => 0,
        }
    }
}

impl Holder {
    /// Nothing that was kept under a lease is used any more when this returns, and what was written under one is at the daemons or
    /// known to be lost.
    pub(crate) fn lose_all(&self) {
        let mut files = self.data.all();
        files.iter().for_each(|data| self.close(data));
        files.sort_by_cached_key(|data| data.may_wait());
        let names = || self.forget_all(self.cache.directories());
        thread::scope(|scope| {
            let beside =
                thread::Builder::new().name("vfs-lost-names".into()).spawn_scoped(scope, names);
            self.drop_and_let_go(&files);
            if beside.is_err() {
                names();
            }
        });
        for data in files {
            // A weak mount may have been given pages of it meanwhile, which need no lease.
            self.data.forget(data, |data| self.is_worth_keeping(data));
        }
    }

    fn drop_and_let_go(&self, files: &[Arc<Data>]) {
        let next = AtomicUsize::new(0);
        let work = || {
            loop {
                let at = next.fetch_add(1, Ordering::Relaxed);
                let Some(data) = files.get(at % files.len().max(1)) else { return };
                match at / files.len() {
                    0 => self.drop_first(data),
                    1 => self.drop_all(data),
                    2 => self.let_go(data),
                    _ => return,
                }
            }
        };
        thread::scope(|scope| {
            for _ in 1..THREADS.min(files.len()) {
                // Where there are no more threads it takes longer.
                let _ = thread::Builder::new().name("vfs-lost".into()).spawn_scoped(scope, work);
            }
            work();
        });
    }

    /// Nothing begins any more under a file's lease.
    pub(super) fn close(&self, data: &Data) {
        let ticket = self.leases().data_ticket(data.file);
        {
            let mut state = lock(&data.state);
            state.gate.recall();
            state.dead = ticket;
        }
        data.changed.notify_all();
    }

    /// What the keeper has now is dropped, unless somebody is just doing that.
    fn drop_first(&self, data: &Data) {
        if let Ok(_one) = data.dropping.try_lock() {
            self.drop_once(data);
        }
    }

    /// What ran under the lease of a file that was closed ends, and it is open.
    fn let_go(&self, data: &Data) {
        // What an append that still ran knows of the end goes with the lease.
        data.wait_while(|gate| !gate.is_still()).end = None;
        // A write that ended had its own pages dropped, while which others were given.
        self.drop_all(data);
        // What cannot be written is lost: whoever wrote it is told.
        let _ = self.settle(data);
        data.change(Gate::returned);
    }
}
