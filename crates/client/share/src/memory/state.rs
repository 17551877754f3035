//! Everything that the in-memory file system consists of, under one mutex.

use std::collections::{BTreeMap, HashMap};

use braid_types::{FileIndex, SessionId, Status, Timestamp};
use tokio::sync::oneshot;

use super::{
    CallKind,
    delegations::DelegationTable,
    inode::{Content, Directory, Inode},
};
use crate::{
    ClientRecord, DataServer, DirectAccess, DirectoryChange, FileKind, Identity, Verifier,
    tables::{LockTable, OpenTable},
};

pub(super) use crate::tables::Outcome;

/// The file system.
#[derive(Debug)]
pub(super) struct State {
    pub(super) inodes: HashMap<FileIndex, Inode>,
    next_file: u64,
    newest_change: u64,
    /// The time that a test has set; otherwise the clock of this host counts.
    pub(super) time: Option<Timestamp>,
    /// The live sessions.
    pub(super) sessions: BTreeMap<SessionId, ClientRecord>,
    next_session: u64,
    /// The gateway that began the session of a client, or that continues it.
    begun_by: BTreeMap<SessionId, u64>,
    pub(super) opens: OpenTable,
    pub(super) locks: LockTable,
    pub(super) delegations: DelegationTable,
    /// Calls that will fail, in the order in which the test has named them.
    pub(super) faults: Vec<(CallKind, Status)>,
    /// Delays the reply of the next request for a lock.
    pub(super) slow_lock: Option<oneshot::Receiver<()>>,
    /// Rises when unflushed bytes are lost.
    pub(super) losses: u64,
    pub(super) direct: HashMap<FileIndex, DirectAccess>,
    pub(super) data_servers: Vec<DataServer>,
}

impl State {
    pub(super) fn new() -> Self {
        let mut state = Self {
            inodes: HashMap::new(),
            next_file: FileIndex::ROOT.0,
            newest_change: 0,
            time: None,
            sessions: BTreeMap::new(),
            next_session: 1,
            begun_by: BTreeMap::new(),
            opens: OpenTable::default(),
            locks: LockTable::default(),
            delegations: DelegationTable::default(),
            faults: Vec::new(),
            slow_lock: None,
            data_servers: Vec::new(),
            losses: 0,
            direct: HashMap::new(),
        };
        let root = Inode { mode: 0o755, ..state.new_inode(FileKind::Directory) };
        assert_eq!(root.file, FileIndex::ROOT, "the root is made first");
        state.inodes.insert(root.file, root);
        state
    }

    /// Begins a session: for a client of a gateway, or for a gateway itself.
    pub(super) fn begin_session(
        &mut self,
        record: ClientRecord,
        gateway: Option<u64>,
    ) -> SessionId {
        let session = SessionId(self.next_session);
        self.next_session += 1;
        if let Some(gateway) = gateway {
            self.begun_by.insert(session, gateway);
        }
        self.sessions.insert(session, record);
        session
    }

    /// The next start of a gateway continues the sessions of the earlier start.
    pub(super) fn adopt(&mut self, earlier: u64, next: u64) -> Vec<SessionId> {
        let of_earlier = self.begun_by.iter_mut().filter(|(_, gateway)| **gateway == earlier);
        let adopted = of_earlier.map(|(session, gateway)| {
            *gateway = next;
            *session
        });
        adopted.collect()
    }

    pub(super) fn end_session(&mut self, session: SessionId) {
        self.begun_by.remove(&session);
        if self.sessions.remove(&session).is_some() {
            self.locks.end_session(session);
            self.delegations.end_session(session);
            for file in self.opens.end_session(session) {
                self.drop_if_unused(file);
            }
        }
    }

    /// Begins a call: fails if a test wants it to, or if the session has ended.
    pub(super) fn enter(&mut self, session: SessionId, call: CallKind) -> Outcome<()> {
        if let Some(at) = self.faults.iter().position(|(of, _)| *of == call) {
            return Err(self.faults.remove(at).1);
        }
        if self.sessions.contains_key(&session) { Ok(()) } else { Err(Status::NoSession) }
    }

    pub(super) fn now(&self) -> Timestamp {
        self.time.unwrap_or_else(Timestamp::now)
    }

    pub(super) fn verifier(&self) -> Verifier {
        Verifier(self.losses.to_be_bytes())
    }

    fn next_change(&mut self) -> u64 {
        self.newest_change += 1;
        self.newest_change
    }

    pub(super) fn inode(&self, file: FileIndex) -> Outcome<&Inode> {
        self.inodes.get(&file).ok_or(Status::StaleHandle)
    }

    /// The inode and the names of a directory.
    pub(super) fn directory(&self, file: FileIndex) -> Outcome<(&Inode, &Directory)> {
        let inode = self.inode(file)?;
        match &inode.content {
            Content::Directory(directory) => Ok((inode, directory)),
            _ => Err(Status::NotDirectory),
        }
    }

    /// Changes an inode: its change counter rises, and its ctime is now.
    pub(super) fn change<T>(
        &mut self,
        file: FileIndex,
        change: impl FnOnce(&mut Inode) -> T,
    ) -> Outcome<T> {
        let (number, now) = (self.next_change(), self.now());
        let inode = self.inodes.get_mut(&file).ok_or(Status::StaleHandle)?;
        (inode.change, inode.ctime) = (number, now);
        Ok(change(inode))
    }

    /// Changes the entries of a directory or the bytes of a file: its mtime is now, too.
    pub(super) fn modify<T>(
        &mut self,
        file: FileIndex,
        change: impl FnOnce(&mut Inode) -> T,
    ) -> Outcome<T> {
        let now = self.now();
        self.change(file, |inode| {
            inode.mtime = now;
            change(inode)
        })
    }

    /// Changes the names of a directory.
    pub(super) fn change_names(
        &mut self,
        file: FileIndex,
        links: impl FnOnce(u32) -> u32,
        change: impl FnOnce(&mut Directory),
    ) -> Outcome<()> {
        self.modify(file, |inode| match &mut inode.content {
            Content::Directory(directory) => {
                inode.links = links(inode.links);
                change(directory);
                Ok(())
            }
            _ => Err(Status::NotDirectory),
        })?
    }

    /// Runs a step that changes a directory. Nothing else runs at the same time, so that the change
    /// is atomic.
    pub(super) fn changing<T>(
        &mut self,
        dir: FileIndex,
        step: impl FnOnce(&mut Self) -> Outcome<T>,
    ) -> Outcome<(T, DirectoryChange)> {
        let before = self.directory(dir)?.0.change;
        let done = step(self)?;
        let after = self.inode(dir)?.change;
        Ok((done, DirectoryChange { atomic: true, before, after }))
    }

    /// A new inode without a name, which belongs to root.
    pub(super) fn new_inode(&mut self, kind: FileKind) -> Inode {
        let (file, now) = (FileIndex(self.next_file), self.now());
        self.next_file += 1;
        Inode {
            file,
            kind,
            mode: 0,
            links: if kind == FileKind::Directory { 2 } else { 1 },
            uid: 0,
            gid: 0,
            device: 0,
            atime: now,
            mtime: now,
            ctime: now,
            btime: now,
            change: self.next_change(),
            flags: 0,
            size_generation: 0,
            parent: FileIndex::ROOT,
            content: match kind {
                FileKind::File => Content::File(Default::default()),
                FileKind::Directory => Content::Directory(Directory::default()),
                FileKind::Symlink => Content::Symlink(Vec::new()),
                _ => Content::Special,
            },
            xattrs: BTreeMap::new(),
            nfs4_acl: None,
        }
    }

    /// A new inode of a user in a directory, whose setgid bit is inherited.
    pub(super) fn new_inode_in(
        &mut self,
        who: &Identity,
        dir: FileIndex,
        kind: FileKind,
        mode: u32,
    ) -> Outcome<Inode> {
        let (parent, _) = self.directory(dir)?;
        let inherits = parent.mode & 0o2000 != 0;
        let gid = if inherits { parent.gid } else { who.gid };
        let mut mode = mode & 0o7777;
        if kind == FileKind::Directory && inherits {
            mode |= 0o2000;
        } else if mode & 0o2010 == 0o2010
            && !super::permission::is_privileged(who)
            && !super::permission::in_group(who, gid)
        {
            // As Linux: a user outside the group makes no program with setgid.
            mode &= !0o2000;
        }
        Ok(Inode { mode, uid: who.uid, gid, parent: dir, ..self.new_inode(kind) })
    }

    /// Removes a file that has neither names nor opens.
    pub(super) fn drop_if_unused(&mut self, file: FileIndex) {
        let unnamed = self.inodes.get(&file).is_some_and(|inode| inode.links == 0);
        if unnamed && !self.opens.is_open(file) {
            self.inodes.remove(&file);
        }
    }
}
