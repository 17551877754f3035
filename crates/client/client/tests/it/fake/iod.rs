//! The I/O daemons of the in-memory cluster: capabilities and handles, objects, ends, verifiers.

use std::{
    io::{IoSlice, IoSliceMut},
    time::Duration,
};

use braid_layout::{PartSet, Request};
use braid_net::{Answer, Exchange, NetError};
use braid_types::{ByteCount, Failure, PartIndex, Status, Timestamp};
use braid_wire::{
    Call, Capability, Rights, encode_failure, encode_success,
    message::{
        iod::{
            FlushReply, IodRequest, ObjectEnd, ReadReply, Reservation, ReservationAccount,
            SeekWhat, Write, WriteReply, WriteWithReservation, WriteWithReservationReply,
        },
        types::ObjectInfo,
    },
};

use super::{Cluster, Connection, Fault, lost};

impl Cluster {
    pub fn exchange(
        &mut self,
        connection: &mut Connection,
        exchange: &mut Exchange<'_>,
        silence_max: Duration,
    ) -> Result<Answer, NetError> {
        let server = format!("I/O daemon {} at test", connection.iod);
        if connection.dead || self.down.contains(&connection.iod) {
            connection.dead = true;
            return Err(lost(&server));
        }
        if self.answers_max.is_some_and(|most| connection.answers >= most) {
            connection.dead = true;
            return Err(lost(&server));
        }
        let is_silent = self.silent_from.get(&connection.iod).is_some_and(|from| self.now >= *from);
        if is_silent || self.answer_time > silence_max {
            (self.now, connection.dead) = (self.now + silence_max, true);
            return Err(NetError::TimedOut {
                server,
                waited: silence_max,
                permit_wait: Duration::ZERO,
            });
        }
        let fault = self.take_fault_at(connection.iod).or_else(|| self.take_fault(exchange.op));
        if let Some(Fault::SilentAfterTurn(unasked)) = fault {
            (self.now, connection.dead) = (self.now + unasked + silence_max, true);
            return Err(NetError::TimedOut { server, waited: silence_max, permit_wait: unasked });
        }
        if let Some(Fault::NotAsked(turn)) = fault {
            self.now += turn + silence_max;
            return Err(NetError::NotSent { server, waited: silence_max });
        }
        self.now += self.answer_time;
        (self.last_answer, connection.answers) = (self.now, connection.answers + 1);
        if fault == Some(Fault::RequestLost) {
            connection.dead = true;
            return Err(lost(&server));
        }
        if fault == Some(Fault::RequestLate) {
            connection.dead = true;
            if exchange.op == Write::OP || exchange.op == WriteWithReservation::OP {
                let sent = gathered(&exchange.send);
                self.late.push((connection.clone(), exchange.op, exchange.body.clone(), sent));
            }
            return Err(lost(&server));
        }
        if let Some(Fault::Refused(status)) = fault {
            if status == Status::UnknownHandle {
                connection.handles.clear();
            }
            return Ok(Answer { body: encode_failure(&status.into()), payload_bytes: 0 });
        }
        self.request_bytes.push((exchange.op, exchange.body.len()));
        let sent = gathered(&exchange.send);
        let answer = self.iod_do(connection, exchange, sent);
        match fault {
            Some(Fault::ReplyLost) => {
                connection.dead = true;
                Err(lost(&server))
            }
            Some(Fault::ReplyLate) => {
                (self.now, connection.dead) = (self.now + silence_max, true);
                Err(NetError::TimedOut { server, waited: silence_max, permit_wait: Duration::ZERO })
            }
            _ => Ok(answer.unwrap_or_else(|failure| Answer {
                body: encode_failure(&failure),
                payload_bytes: 0,
            })),
        }
    }

    /// Executes the late calls, unless their connection was abandoned. Returns their number.
    pub fn arrive_late(&mut self) -> usize {
        let mut done = 0;
        for (mut connection, op, body, sent) in std::mem::take(&mut self.late) {
            let mut exchange =
                Exchange { connection: 0, op, body, send: vec![], recv: vec![], outcome: None };
            let abandoned = self.abandoned.contains(&connection.id);
            done += usize::from(
                !abandoned && self.iod_do(&mut connection, &mut exchange, sent).is_ok(),
            );
        }
        done
    }

    fn iod_do(
        &mut self,
        connection: &mut Connection,
        exchange: &mut Exchange<'_>,
        sent: Vec<u8>,
    ) -> Result<Answer, Failure> {
        let request = IodRequest::decode(exchange.op, &exchange.body)
            .expect("a call of a daemon")
            .expect("well formed");
        let iod = connection.iod;
        let verifier = self.verifiers[&iod];
        let body = match request {
            IodRequest::Read(call) => {
                let grant = self.grant(connection, call.handle, call.present, Rights::READ)?;
                self.grow();
                let is_there =
                    |part| self.objects.contains_key(&(connection.iod, grant.file, part));
                if self
                    .parts(connection, &grant)
                    .iter()
                    .any(|part| grant.is_recorded(part) && !is_there(part))
                {
                    return Err(Status::ObjectLost.into());
                }
                return Ok(self.read(connection, &grant, &call.request, &mut exchange.recv));
            }
            IodRequest::Write(call) => {
                let grant = self.grant(connection, call.handle, call.present, Rights::WRITE)?;
                self.write(connection, &grant, &call.request, &sent);
                encode_success(&WriteReply { bytes: ByteCount(sent.len() as u64), verifier })
            }
            IodRequest::WriteWithReservation(call) => {
                let grant = self.grant(connection, call.handle, call.present, Rights::WRITE)?;
                self.write(connection, &grant, &call.request, &sent);
                if call.reserved_bytes.0 > 0 {
                    assert!(
                        sent.len() as u64 <= call.reserved_bytes.0,
                        "a write that is larger than its room"
                    );
                    self.reserved_bytes_used.push((iod, call.account.term, call.reserved_bytes.0));
                }
                let reservation = self.reservation(connection, &call.account, call.wanted.0);
                encode_success(&WriteWithReservationReply {
                    bytes: ByteCount(sent.len() as u64),
                    verifier,
                    reservation,
                    objects: Vec::new(),
                })
            }
            IodRequest::ReturnReservation(call) => {
                self.reservation(connection, &call.account, 0);
                encode_success(&())
            }
            IodRequest::Flush(call) => {
                self.grant(connection, call.handle, call.present, Rights::WRITE)?;
                encode_success(&FlushReply { verifier })
            }
            IodRequest::FlushAll(_) => encode_success(&FlushReply { verifier }),
            IodRequest::ObjectSizes(call) => {
                let grant = self.grant(connection, call.handle, call.present, Rights(0))?;
                let info = |end: ObjectEnd| ObjectInfo {
                    part: end.part,
                    exists: end.bytes.0 > 0,
                    bytes: end.bytes,
                    bytes_used: end.bytes,
                    mtime: Timestamp::default(),
                };
                encode_success(
                    &self.ends(connection, &grant).into_iter().map(info).collect::<Vec<_>>(),
                )
            }
            IodRequest::Allocate(call) => {
                self.grant(connection, call.handle, call.present, Rights::WRITE)?;
                encode_success(&FlushReply { verifier })
            }
            IodRequest::Seek(call) => {
                self.grant(connection, call.handle, call.present, Rights::READ)?;
                let found = (call.what == SeekWhat::Data).then_some(call.offset);
                encode_success(&found)
            }
            IodRequest::CopyRange(call) => {
                let target = self.grant(connection, call.handle, call.present, Rights::WRITE)?;
                let source = self.grant(connection, u32::MAX, call.source, Rights::READ)?;
                let bytes =
                    self.gather(connection, &source, &Request::contiguous(call.from, call.bytes.0));
                self.write(
                    connection,
                    &target,
                    &Request::contiguous(call.to, call.bytes.0),
                    &bytes,
                );
                encode_success(&WriteReply { bytes: ByteCount(bytes.len() as u64), verifier })
            }
            IodRequest::Abandon(call) => {
                self.abandoned.extend(call.connections);
                encode_success(&())
            }
            other => panic!("the cluster in memory does not know {}", other.name()),
        };
        self.exchanges.push((iod, exchange.op, sent.len() as u64));
        Ok(Answer { body, payload_bytes: 0 })
    }

    /// Updates the reservation of a session with a message: releases, and grants what is free.
    fn reservation(
        &mut self,
        connection: &Connection,
        account: &ReservationAccount,
        wanted: u64,
    ) -> Option<Reservation> {
        let (key, most) = ((connection.iod, connection.session), self.reservation_bytes_max);
        if wanted > 0 && most > 0 {
            self.reservations.entry(key).or_insert((self.now.as_nanos() as u64 + 1, 0, 0));
        }
        let (term, granted, released) = self.reservations.get_mut(&key)?;
        if account.term == *term {
            assert!(account.released.0 <= *granted, "more was released than was granted");
            *released = account.released.0.max(*released);
        }
        *granted += wanted.min(most - (*granted - *released));
        Some(Reservation { term: *term, granted: ByteCount(*granted), valid_ms: 10_000 })
    }

    fn grant(
        &mut self,
        connection: &mut Connection,
        handle: u32,
        present: Vec<u8>,
        wanted: Rights,
    ) -> Result<Capability, Failure> {
        if self.fenced.contains(&connection.session) {
            return Err(Status::Fenced.into());
        }
        if !present.is_empty() {
            self.presents += 1;
            connection.handles.insert(handle, present);
        }
        let signed = connection.handles.get(&handle).ok_or(Failure::from(Status::UnknownHandle))?;
        let grant = Capability::verify(signed, &self.server_key)
            .ok_or(Failure::from(Status::BadCapability))?;
        if grant.session != connection.session || !grant.rights.allow(wanted) {
            return Err(Status::BadCapability.into());
        }
        if grant.epoch != self.epoch {
            return Err(Status::StaleEpoch.into());
        }
        let file = self.files.values().find(|file| file.index == grant.file);
        match file {
            Some(file) if file.size_generation > grant.size_generation => {
                Err(Status::StaleGeneration.into())
            }
            Some(_) => Ok(grant),
            None => Err(Status::StaleHandle.into()),
        }
    }

    fn parts(&self, connection: &Connection, grant: &Capability) -> PartSet {
        let here =
            grant.layout.placements().filter(|(_, placement)| placement.iods[0] == connection.iod);
        here.map(|(part, _)| part).collect()
    }

    fn ends(&self, connection: &Connection, grant: &Capability) -> Vec<ObjectEnd> {
        let end = |part: PartIndex| {
            let object = self.objects.get(&(connection.iod, grant.file, part));
            ObjectEnd { part, bytes: ByteCount(object.map_or(0, |object| object.len() as u64)) }
        };
        self.parts(connection, grant).iter().map(end).collect()
    }

    fn read(
        &mut self,
        connection: &Connection,
        grant: &Capability,
        request: &Request,
        recv: &mut [IoSliceMut<'_>],
    ) -> Answer {
        let parts = self.parts(connection, grant);
        let (mut payload, mut keep) = (Vec::new(), 0);
        for access in braid_layout::unfold(request, &grant.layout, &parts).expect("a request") {
            let object = self.objects.get(&(connection.iod, grant.file, access.part));
            let there = object.map_or(0, Vec::len).saturating_sub(access.object_offset.0 as usize);
            let there = there.min(access.bytes as usize);
            if let Some(object) = object.filter(|_| there > 0) {
                payload.extend_from_slice(&object[access.object_offset.0 as usize..][..there]);
                keep = payload.len();
            }
            payload.resize(payload.len() + access.bytes as usize - there, 0);
        }
        if !self.pad_reads {
            payload.truncate(keep);
        }
        let reservation: usize = recv.iter().map(|slice| slice.len()).sum();
        assert!(
            payload.len() <= reservation,
            "{} payload bytes, room for {reservation}",
            payload.len()
        );
        let mut rest = &payload[..];
        for slice in recv {
            let taken = rest.len().min(slice.len());
            slice[..taken].copy_from_slice(&rest[..taken]);
            rest = &rest[taken..];
        }
        let bytes = payload.len() as u64;
        self.exchanges.push((connection.iod, 0x0200, bytes));
        let reply = ReadReply { bytes: ByteCount(bytes), ends: self.ends(connection, grant) };
        Answer { body: encode_success(&reply), payload_bytes: bytes }
    }

    /// Another client writes, if it is time.
    fn grow(&mut self) {
        match self.grows_after.take() {
            Some((0, bytes)) => self
                .objects
                .values_mut()
                .for_each(|object| object.resize(object.len().max(bytes), 1)),
            Some((reads, bytes)) => self.grows_after = Some((reads - 1, bytes)),
            None => {}
        }
    }

    /// The daemon's bytes of a request, holes as zeros.
    fn gather(&self, connection: &Connection, grant: &Capability, request: &Request) -> Vec<u8> {
        let parts = self.parts(connection, grant);
        let mut bytes = Vec::new();
        for access in braid_layout::unfold(request, &grant.layout, &parts).expect("a request") {
            let object = self.objects.get(&(connection.iod, grant.file, access.part));
            let range = access.object_offset.0..access.object_offset.0 + access.bytes;
            bytes.extend(
                range.map(|at| {
                    object.and_then(|object| object.get(at as usize)).copied().unwrap_or(0)
                }),
            );
        }
        bytes
    }

    fn write(
        &mut self,
        connection: &Connection,
        grant: &Capability,
        request: &Request,
        sent: &[u8],
    ) {
        let parts = self.parts(connection, grant);
        let mut rest = sent;
        for access in braid_layout::unfold(request, &grant.layout, &parts).expect("a request") {
            let object = self.objects.entry((connection.iod, grant.file, access.part)).or_default();
            let (from, to) =
                (access.object_offset.0 as usize, (access.object_offset.0 + access.bytes) as usize);
            object.resize(object.len().max(to), 0);
            let (bytes, after) = rest.split_at(access.bytes as usize);
            object[from..to].copy_from_slice(bytes);
            rest = after;
        }
        assert!(rest.is_empty(), "{} payload bytes too many", rest.len());
    }
}

fn gathered(pieces: &[IoSlice<'_>]) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(pieces.iter().map(|piece| piece.len()).sum());
    pieces.iter().for_each(|piece| bytes.extend_from_slice(piece));
    bytes
}
