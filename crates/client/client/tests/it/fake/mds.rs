//! The metadata server of the in-memory cluster: sessions, replay records, names, capabilities.

use std::time::Duration;

use braid_net::{Answer, NetError};
use braid_types::{
    ByteCount, Failure, FileIndex, KeyId, PartIndex, SessionId, SizeGeneration, Status, Timestamp,
};
use braid_wire::{
    Credential, Decoder, Rights, Wire, encode_failure, encode_success,
    message::{
        FileKind,
        lease::LeaseGrant,
        lock::{LockOutcome, LockReply},
        mds::{
            Create, CreateReply, Envelope, MakeReply, MdsRequest, OpenReply, OpenSession,
            OpenSessionReply, ReadDirectoryReply, RenewReply,
        },
        types::{Attributes, ClusterMap, DirectoryEntry, Identity, IodInfo, IodState, Space},
    },
};

use super::{Cluster, FakeFile, Fault, Shared, lost};

type Outcome = Result<Vec<u8>, Failure>;

impl Cluster {
    pub fn mds_call(
        &mut self,
        link: &Shared,
        op: u16,
        body: &[u8],
        deadline: Duration,
    ) -> Result<Answer, NetError> {
        let mut dead = link.dead.lock().unwrap();
        if self.mds_down || *dead || link.epoch != self.epoch {
            *dead = true;
            return Err(lost(&link.server));
        }
        self.mds_calls.push(op);
        let fault = self.take_fault(op);
        match fault {
            Some(Fault::RequestLost) => {
                *dead = true;
                return Err(lost(&link.server));
            }
            Some(Fault::Refused(status)) => return Ok(answer(encode_failure(&status.into()))),
            Some(Fault::SessionForgotten) => {
                self.sessions.clear();
                self.replay.clear();
            }
            _ => {}
        }
        let body = self.mds_answer(link, op, body);
        match fault {
            Some(Fault::ReplyLost) => *dead = true,
            Some(Fault::RestartAfter) => self.restart_mds(),
            Some(Fault::ReplyLate) => {
                (self.now, *dead) = (deadline, true);
                return Err(NetError::TimedOut {
                    server: link.server.clone(),
                    waited: deadline,
                    permit_wait: Duration::ZERO,
                });
            }
            _ => return Ok(answer(body)),
        }
        Err(lost(&link.server))
    }

    fn mds_answer(&mut self, link: &Shared, op: u16, body: &[u8]) -> Vec<u8> {
        let mut from = Decoder::new(body);
        let envelope = Envelope::decode(&mut from).expect("an envelope");
        let rest = from.take(from.remaining()).unwrap();
        let request = MdsRequest::decode(op, rest)
            .expect("a call of the metadata server")
            .expect("well formed");
        if let MdsRequest::OpenSession(call) = request {
            return self
                .open_session(link, &call)
                .unwrap_or_else(|failure| encode_failure(&failure));
        }
        let Some(session) =
            link.session.lock().unwrap().filter(|session| self.sessions.contains(session))
        else {
            return encode_failure(&Status::NoSession.into());
        };
        if envelope.sequence > 0 {
            match self.replay.get(&(session, envelope.slot)) {
                Some((sequence, answer)) if *sequence == envelope.sequence => {
                    return answer.clone();
                }
                Some((sequence, _)) if *sequence > envelope.sequence => {
                    return encode_failure(&Failure::new(
                        Status::Malformed,
                        "the sequence went back",
                    ));
                }
                _ => {}
            }
        }
        let answer =
            self.mds_do(session, request).unwrap_or_else(|failure| encode_failure(&failure));
        if envelope.sequence > 0 {
            self.replay.insert((session, envelope.slot), (envelope.sequence, answer.clone()));
        }
        answer
    }

    fn open_session(&mut self, link: &Shared, call: &OpenSession) -> Outcome {
        let session = match call.session {
            Some(session) if self.sessions.contains(&session) => session,
            Some(_) => return Err(Status::NoSession.into()),
            None => {
                self.next_session += 1;
                SessionId(self.next_session)
            }
        };
        self.sessions.insert(session);
        *link.session.lock().unwrap() = Some(session);
        let (key, epoch) = (KeyId(0), self.epoch);
        let secret = Credential::Session { session, key, user: None, epoch }
            .secret(&self.server_key)
            .to_bytes();
        Ok(encode_success(&OpenSessionReply {
            session,
            key,
            user: None,
            epoch,
            secret,
            slots: 4,
            identity: Identity::root(),
            vouches: true,
            silent_ms_max: 60_000,
            map: self.map(),
        }))
    }

    fn map(&self) -> ClusterMap {
        let none = ByteCount(0);
        let space = Space { device: 1, total: none, free: none, available: none, files_free: 0 };
        let iods = self.addresses.iter().map(|(id, addresses)| IodInfo {
            id: *id,
            addresses: addresses.clone(),
            labels: Vec::new(),
            state: IodState::Up,
            space: space.clone(),
        });
        ClusterMap { epoch: self.map_epoch, mds: vec!["mds:1".into()], iods: iods.collect() }
    }

    fn mds_do(&mut self, session: SessionId, request: MdsRequest) -> Outcome {
        match request {
            MdsRequest::CloseSession(_) => Ok(encode_success(&())),
            MdsRequest::DefineIdentity(_) => Ok(encode_success(&())),
            MdsRequest::Renew(_) => {
                Ok(encode_success(&RenewReply { epoch: self.epoch, map_epoch: self.map_epoch }))
            }
            MdsRequest::GetClusterMap(_) => Ok(encode_success(&self.map())),
            MdsRequest::Create(call) => self.create(session, call),
            MdsRequest::Open(call) => {
                let opened = self.opened(session, &call.at.path, call.rights)?;
                Ok(encode_success(&opened))
            }
            MdsRequest::Reclaim(call) => {
                let named: Vec<u64> = call.opens.iter().map(|open| open.open_id).collect();
                let (refused, taken): (Vec<u64>, Vec<u64>) =
                    named.iter().partition(|open_id| self.refused.contains(open_id));
                self.known.extend(taken);
                self.reclaims.push((named, call.complete));
                Ok(encode_success(&refused))
            }
            MdsRequest::Close(call) => {
                call.open_ids.iter().for_each(|open_id| {
                    self.known.remove(open_id);
                });
                self.closed.extend(call.open_ids);
                Ok(encode_success(&()))
            }
            MdsRequest::RenewCapability(call) if !self.known.contains(&call.open_id) => {
                Err(Status::StaleHandle.into())
            }
            MdsRequest::RenewCapability(call) => {
                let path = self.path_of(call.file)?;
                Ok(encode_success(&OpenReply {
                    open_id: call.open_id,
                    ..self.opened(session, &path, call.rights)?
                }))
            }
            MdsRequest::ExtendGrowthGrant(call) => match self.quota {
                Some(quota) if call.end > quota => Err(Status::QuotaExceeded.into()),
                quota => Ok(encode_success(&quota.map(|quota| quota.min(call.end + self.ahead)))),
            },
            MdsRequest::Stat(call) => Ok(encode_success(&self.stat(call.at.dir, &call.at.path)?)),
            MdsRequest::FsyncDirectory(_) => Ok(encode_success(&())),
            MdsRequest::FsyncFile(call) => Ok(encode_success(&self.stat(call.file, b"")?)),
            MdsRequest::SetAttributes(call) => {
                let path =
                    if call.at.path.is_empty() { self.path_of(call.at.dir)? } else { call.at.path };
                if let Some(bytes) = call.changes.bytes {
                    self.truncate(&path, bytes.0);
                }
                Ok(encode_success(&self.stat(call.at.dir, &path)?))
            }
            MdsRequest::MakeDirectory(call) => {
                if !self.directories.insert(call.at.path) {
                    return Err(Status::Exists.into());
                }
                self.done.push("mkdir");
                let attributes = attributes(FileIndex(2), FileKind::Directory, 0);
                Ok(encode_success(&MakeReply { attributes, directory: None }))
            }
            MdsRequest::LockSet(call) => {
                self.locks.push(call.lock);
                Ok(encode_success(&LockReply { outcome: LockOutcome::Granted, holder: None }))
            }
            MdsRequest::Unlock(call) => {
                let of = (call.range.file, call.range.space, call.range.owner);
                self.locks.retain(|lock| (lock.file, lock.space, lock.owner) != of);
                Ok(encode_success(&()))
            }
            MdsRequest::LockReclaim(call) => {
                self.locks_reported.extend(call.locks.clone());
                self.locks.extend(call.locks);
                Ok(encode_success(&Vec::<u32>::new()))
            }
            MdsRequest::ReadDirectory(call) => Ok(encode_success(&self.listing(call.cookie))),
            other => panic!("the cluster in memory does not know {}", other.name()),
        }
    }

    fn create(&mut self, session: SessionId, call: Create) -> Outcome {
        let created = !self.files.contains_key(&call.at.path);
        if !created && call.exclusive {
            return Err(Status::Exists.into());
        }
        if created {
            let index = FileIndex(100 + self.files.len() as u64);
            let (layout, existing_parts) = (self.layout.clone(), Vec::new());
            let file =
                FakeFile { index, layout, size_generation: SizeGeneration(1), existing_parts };
            self.files.insert(call.at.path.clone(), file);
            self.done.push("create");
        }
        let opened =
            call.rights.map(|rights| self.opened(session, &call.at.path, rights)).transpose()?;
        let attributes = self.stat(FileIndex::ROOT, &call.at.path)?;
        Ok(encode_success(&CreateReply { attributes, created, opened, directory: None }))
    }

    fn opened(
        &mut self,
        session: SessionId,
        path: &[u8],
        rights: Rights,
    ) -> Result<OpenReply, Failure> {
        self.next_open += 1;
        self.known.insert(self.next_open);
        let attributes = self.stat(FileIndex::ROOT, path)?;
        let file = self.files.get(path).ok_or(Failure::from(Status::NotFound))?;
        Ok(OpenReply {
            open_id: self.next_open,
            attributes,
            layout: file.layout.clone(),
            existing_parts: file.existing_parts.clone(),
            capability: self.capability(file, rights, session),
            lease: LeaseGrant::NONE,
            growth_grant: self.quota.map(|quota| quota.min(self.ahead)),
        })
    }

    fn path_of(&self, file: FileIndex) -> Result<Vec<u8>, Failure> {
        let found = self.files.iter().find(|(_, known)| known.index == file);
        found.map(|(path, _)| path.clone()).ok_or_else(|| Status::StaleHandle.into())
    }

    fn stat(&self, dir: FileIndex, path: &[u8]) -> Result<Attributes, Failure> {
        if dir == FileIndex::ROOT && (path.is_empty() || self.directories.contains(path)) {
            return Ok(attributes(FileIndex::ROOT, FileKind::Directory, 0));
        }
        let path = if path.is_empty() { self.path_of(dir)? } else { path.to_vec() };
        let file = self.files.get(&path).ok_or(Failure::from(Status::NotFound))?;
        Ok(attributes(file.index, FileKind::File, self.size_of(file)))
    }

    pub fn size_of(&self, file: &FakeFile) -> u64 {
        let objects = self.objects.iter().filter(|((_, of, _), _)| *of == file.index);
        let ends: Vec<(PartIndex, u64)> =
            objects.map(|((_, _, part), bytes)| (*part, bytes.len() as u64)).collect();
        file.layout.file_size_from_objects(&ends).expect("ends within the layout")
    }

    pub fn truncate(&mut self, path: &[u8], bytes: u64) {
        let file = self.files.get_mut(path).expect("the file");
        file.size_generation.0 += 1;
        for (part, placement) in file.layout.placements() {
            let length = file.layout.object_bytes(bytes, part).expect("a part") as usize;
            self.objects
                .entry((placement.iods[0], file.index, part))
                .or_default()
                .resize(length, 0);
        }
    }

    fn listing(&self, cookie: u64) -> ReadDirectoryReply {
        const AT_ONCE: usize = 3;
        let all = self.files.iter().enumerate().map(|(at, (path, file))| DirectoryEntry {
            cookie: at as u64 + 1,
            name: path.clone(),
            file: file.index,
            kind: FileKind::File,
            attributes: None,
        });
        let entries: Vec<DirectoryEntry> =
            all.filter(|entry| entry.cookie > cookie).take(AT_ONCE).collect();
        let end = entries.len() < AT_ONCE;
        ReadDirectoryReply { entries, end, last_cookie: self.files.len() as u64 }
    }
}

fn attributes(file: FileIndex, kind: FileKind, bytes: u64) -> Attributes {
    let time = Timestamp::default();
    Attributes {
        file,
        kind,
        mode: 0o644,
        links: 1,
        uid: 0,
        gid: 0,
        device: 0,
        bytes: ByteCount(bytes),
        bytes_used: ByteCount(bytes),
        atime: time,
        mtime: time,
        ctime: time,
        btime: time,
        change: 1,
        flags: 0,
        size_generation: SizeGeneration(1),
        uncacheable: false,
        has_xattrs: false,
    }
}

fn answer(body: Vec<u8>) -> Answer {
    Answer { body, payload_bytes: 0 }
}
