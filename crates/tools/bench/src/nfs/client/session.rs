//! A client of one server: its session and the sequence numbers of its slots.

use std::{net::SocketAddr, thread, time::Duration};

use anyhow::{Result, bail, ensure};
use braid_nfs_wire::nfs4::{
    ArgOp, ClientId, ClientOwner, CreateSessionFlags, ExchangeIdFlags, NfsStatus, ResOp,
    SequenceId, SessionId, SlotId, Verifier,
    args::{
        CallbackSecurity, ChannelAttributes, CreateSessionArgs, ExchangeIdArgs,
        ReclaimCompleteArgs, SequenceArgs, StateProtectArgs,
    },
};

use super::connection::{Connection, ReadHead};

/// Largest READ and WRITE, as of the Linux client.
pub const IO_BYTES_MAX: usize = 1 << 20;
/// Bytes of a request or reply besides its data.
const OVERHEAD_BYTES: u32 = 4096;
/// A transaction is its slot, and a number above these bits.
const SLOT_BITS: u32 = 8;
/// Most slots of a session here.
const SLOTS_MAX: u32 = 64;
/// A server that answers NFS4ERR_DELAY is asked again. RFC 8881 15.1.1.3.
const DELAY: Duration = Duration::from_millis(5);
const DELAYS_MAX: u32 = 2000;

/// A session with one connection.
#[derive(Debug)]
pub struct Session {
    connection: Connection,
    client: ClientId,
    id: SessionId,
    /// Sequence number of the last request on each slot.
    sequences: Vec<u32>,
    calls: u32,
}

impl Session {
    /// Creates a client named `owner`, with a session of at most `slots` slots. `flags` says
    /// whether the server is one for data (RFC 8881 13.1).
    ///
    /// # Errors
    /// What the server refuses.
    pub fn new(
        server: SocketAddr,
        owner: &str,
        slots: u32,
        flags: ExchangeIdFlags,
    ) -> Result<Self> {
        let mut connection = Connection::new(server)?;
        let verifier = Verifier(((u64::from(std::process::id()) << 16) | 1).to_be_bytes());
        let owner_id = owner.as_bytes().to_vec().into();
        let args = ExchangeIdArgs {
            client_owner: ClientOwner { verifier, owner_id },
            flags,
            state_protect: StateProtectArgs::None,
            implementation: None,
        };
        let ResOp::ExchangeId(Ok(known)) = alone(&mut connection, ArgOp::ExchangeId(args))? else {
            bail!("{server} refused EXCHANGE_ID");
        };
        let channel = ChannelAttributes {
            header_pad_size: 0,
            max_request_size: IO_BYTES_MAX as u32 + OVERHEAD_BYTES,
            max_response_size: IO_BYTES_MAX as u32 + OVERHEAD_BYTES,
            max_response_size_cached: OVERHEAD_BYTES,
            max_operations: 16,
            max_requests: slots.min(SLOTS_MAX),
            rdma_ird: None,
        };
        let args = CreateSessionArgs {
            client_id: known.client_id,
            sequence: known.sequence_id,
            // No back channel: nothing is delegated, and layouts are not recalled.
            flags: CreateSessionFlags::empty(),
            fore_channel: channel,
            back_channel: ChannelAttributes { max_requests: 1, ..channel },
            callback_program: 0x4000_0000,
            callback_security: vec![CallbackSecurity::None],
        };
        let created = match alone(&mut connection, ArgOp::CreateSession(args))? {
            ResOp::CreateSession(Ok(created)) => created,
            other => bail!("{server} refused CREATE_SESSION: {:?}", other.status()),
        };
        let slots = created.fore_channel.max_requests.min(slots).clamp(1, SLOTS_MAX);
        let mut session = Self {
            connection,
            client: known.client_id,
            id: created.session_id,
            sequences: vec![0; slots as usize],
            calls: 0,
        };
        session.call(&[ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false })])?;
        Ok(session)
    }

    /// The client's number at the server.
    pub fn client_id(&self) -> ClientId {
        self.client
    }

    /// Number of slots that the server granted.
    pub fn slots(&self) -> usize {
        self.sequences.len()
    }

    /// Sends a compound on a slot that has no request now. SEQUENCE is added.
    ///
    /// # Errors
    /// Of the connection.
    pub fn send(&mut self, slot: usize, ops: &[ArgOp]) -> Result<()> {
        let highest = SlotId(self.sequences.len() as u32 - 1);
        self.sequences[slot] = self.sequences[slot].wrapping_add(1);
        self.calls = self.calls.wrapping_add(1);
        let sequence = ArgOp::Sequence(SequenceArgs {
            session_id: self.id,
            sequence_id: SequenceId(self.sequences[slot]),
            slot_id: SlotId(slot as u32),
            highest_slot_id: highest,
            cache_this: false,
        });
        let xid = (self.calls << SLOT_BITS) | slot as u32;
        let ops: Vec<ArgOp> = std::iter::once(sequence).chain(ops.iter().cloned()).collect();
        self.connection.send(xid, &ops)
    }

    /// The next reply: its slot, and the results after SEQUENCE.
    ///
    /// # Errors
    /// Of the connection; a failed SEQUENCE.
    pub fn receive(&mut self) -> Result<(usize, Vec<ResOp>)> {
        let (xid, mut results) = self.connection.receive()?;
        let ResOp::Sequence(Ok(_)) = results.remove(0) else { bail!("SEQUENCE failed") };
        Ok((self.slot_of(xid)?, results))
    }

    /// The next reply, which is that of PUTFH and READ; see [`Connection::receive_read`].
    ///
    /// # Errors
    /// As there.
    pub fn receive_read(&mut self, buffer: &mut [u8]) -> Result<(usize, ReadHead)> {
        let head = self.connection.receive_read(buffer)?;
        Ok((self.slot_of(head.xid)?, head))
    }

    fn slot_of(&self, xid: u32) -> Result<usize> {
        let slot = (xid & ((1 << SLOT_BITS) - 1)) as usize;
        ensure!(slot < self.sequences.len(), "a reply to a call that was not made");
        Ok(slot)
    }

    /// Runs a compound that must succeed; returns the results after SEQUENCE.
    ///
    /// # Errors
    /// Of the connection, or with the operation that failed.
    pub fn call(&mut self, ops: &[ArgOp]) -> Result<Vec<ResOp>> {
        for _ in 0..DELAYS_MAX {
            self.send(0, ops)?;
            let (_, results) = self.receive()?;
            match results.last().map(|last| (last.number(), last.status())) {
                Some((_, NfsStatus::Delay)) => thread::sleep(DELAY),
                Some((op, status)) if status != NfsStatus::Ok => bail!("{op:?}: {status:?}"),
                _ => return Ok(results),
            }
        }
        bail!("the server answers NFS4ERR_DELAY for more than {} s", DELAYS_MAX / 200)
    }
}

/// Runs an operation that needs no session.
fn alone(connection: &mut Connection, op: ArgOp) -> Result<ResOp> {
    connection.send(1, &[op])?;
    let (_, mut results) = connection.receive()?;
    let result = results.remove(0);
    ensure!(result.status() == NfsStatus::Ok, "{:?}: {:?}", result.number(), result.status());
    Ok(result)
}
