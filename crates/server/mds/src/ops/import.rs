//! Import: existing files of disks become files of the cluster (ADR 0050).

use std::{collections::HashMap, sync::Arc};

use braid_layout::{Distribution, Layout};
use braid_meta::{FileKind as StoredKind, ImportArgs, Imported, Principal};
use braid_types::{
    Failure, FileIndex, IodId, Status,
    limits::{IMPORTED_ENTRIES_MAX, RESERVED_FILES_MAX},
};
use braid_wire::message::{
    FileKind,
    import::{ImportEntry, ImportFailure, ImportedEntry},
    mds::{ImportEntries, ReserveFiles},
};

use crate::{
    call::{Call, CallOutcome},
    convert,
    core::MdsCore,
    lease::{claimed, delegation_of, names, names_of},
};

/// The layout of the files of each daemon.
type Layouts = HashMap<IodId, Arc<Layout>>;

impl MdsCore {
    pub(super) fn reserve_files(&self, call: Call, r: &ReserveFiles) -> CallOutcome {
        let reserved = match r.count {
            1..=RESERVED_FILES_MAX => self.namespace.reserve_files(&self.change(&call), r.count),
            _ => Err(Failure::new(Status::Invalid, "a count of indexes out of range")),
        };
        CallOutcome::from(call, reserved)
    }

    pub(super) fn import_entries(&self, call: Call, r: &ImportEntries) -> CallOutcome {
        if r.entries.len() > IMPORTED_ENTRIES_MAX {
            return CallOutcome::Fail(call, Status::LimitExceeded.into());
        }
        let call = claimed!(self.claim(call, &self.needs_of_import(&r.entries)));
        let layouts = match self.layouts_of(&r.entries) {
            Ok(layouts) => layouts,
            Err(failure) => return CallOutcome::Fail(call, failure),
        };
        let imported: Vec<_> =
            r.entries.iter().map(|entry| outcome(self.import(&call, entry, &layouts))).collect();
        let Some(me) = self.arc() else {
            return CallOutcome::Fail(call, Status::NotServing.into());
        };
        // The caller removes the names from its disks when it has the reply.
        me.sync_log_then(move |core, synced| match synced {
            Ok(()) => core.answer(call, braid_wire::encode_success(&imported)),
            Err(failure) => core.fail(call, &failure),
        });
        CallOutcome::Pending
    }

    /// The leases that other sessions must return: of each directory, and of a file that gets one
    /// more name.
    fn needs_of_import(
        &self,
        entries: &[ImportEntry],
    ) -> Vec<(braid_meta::lease::LeaseOf, braid_meta::lease::LeaseMode)> {
        let mut needs: Vec<_> = entries.iter().map(|entry| names(entry.dir)).collect();
        let files = entries.iter().filter(|entry| entry.file != FileIndex(0));
        for inode in files.filter_map(|entry| self.namespace.getattr(entry.file).ok()) {
            needs.extend(names_of(&inode));
            needs.extend(delegation_of(&inode));
        }
        needs.sort_unstable();
        needs.dedup();
        needs
    }

    /// One object, whole, on each daemon that the entries name.
    fn layouts_of(&self, entries: &[ImportEntry]) -> Result<Layouts, Failure> {
        let state = self.state();
        let mut layouts = Layouts::new();
        for iod in entries.iter().map(|entry| entry.iod).filter(|iod| *iod != IodId(0)) {
            if layouts.contains_key(&iod) {
                continue;
            }
            if !state.cluster.is_reachable(iod) {
                let why = format!("I/O daemon {iod} is not up");
                return Err(Failure::new(Status::NoIods, why));
            }
            layouts.insert(iod, Arc::new(Layout::one(Distribution::Single, [iod])));
        }
        Ok(layouts)
    }

    fn import(
        &self,
        call: &Call,
        entry: &ImportEntry,
        layouts: &Layouts,
    ) -> Result<Imported, Failure> {
        let kind = match entry.kind {
            FileKind::File => StoredKind::Regular,
            FileKind::Directory => StoredKind::Directory,
            FileKind::Symlink => StoredKind::Symlink,
            special => convert::special(special)?,
        };
        let object = match (kind, layouts.get(&entry.iod)) {
            (StoredKind::Regular, Some(layout)) => Some((entry.file, layout.clone())),
            (StoredKind::Regular, None) => return Err(Status::Invalid.into()),
            _ => None,
        };
        let args = ImportArgs {
            kind,
            object,
            size: entry.bytes.0,
            mode: u16::try_from(entry.mode).map_err(|_| Status::Invalid)?,
            owner: Principal::posix(entry.uid),
            group: Principal::posix(entry.gid),
            rdev: entry.device,
            target: entry.target.clone(),
            atime: entry.atime,
            mtime: entry.mtime,
            ctime: entry.ctime,
            btime: entry.btime,
            xattrs: entry.xattrs.iter().map(|it| (it.name.clone(), it.value.clone())).collect(),
        };
        self.namespace.import(&self.change(call), entry.dir, &entry.name, &args)
    }
}

fn outcome(imported: Result<Imported, Failure>) -> ImportedEntry {
    match imported {
        Ok(Imported { inode, created }) => {
            ImportedEntry { file: inode.file, created, failure: None }
        }
        Err(failure) => {
            let failure = ImportFailure { status: failure.status, detail: failure.detail };
            ImportedEntry { file: FileIndex(0), created: false, failure: Some(failure) }
        }
    }
}
