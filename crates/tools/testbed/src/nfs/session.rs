//! A session with a gateway or data server. It uses one slot.

use std::{
    fmt, io,
    net::SocketAddr,
    time::{Duration, Instant},
};

use braid_nfs_wire::nfs4::{
    ArgOp, ClientId, ClientOwner, CreateSessionFlags, ExchangeIdFlags, NfsStatus, ResOp,
    SequenceId, SessionId, SlotId, Verifier,
    args::{
        CallbackSecurity, ChannelAttributes, CreateSessionArgs, ExchangeIdArgs,
        ReclaimCompleteArgs, SequenceArgs, StateProtectArgs,
    },
};

use super::{callbacks::CALLBACK_PROGRAM, rpc::RpcConnection};

/// How long a call is repeated that is answered with DELAY or GRACE.
const DELAY_MAX: Duration = Duration::from_secs(60);
/// Pause before a call is repeated after DELAY. Linux waits 100 ms to 15 s.
const DELAY_PAUSE: Duration = Duration::from_millis(20);
const CHANNEL: ChannelAttributes = ChannelAttributes {
    header_pad_size: 0,
    max_request_size: (1 << 20) + (4 << 10),
    max_response_size: (1 << 20) + (4 << 10),
    max_response_size_cached: 4096,
    max_operations: 16,
    max_requests: 4,
    rdma_ird: None,
};

/// Why an operation did not succeed.
#[derive(Debug)]
pub enum NfsError {
    /// The server's answer.
    Status(NfsStatus),
    /// The connection failed, so the outcome is unknown.
    Connection(io::Error),
}

impl NfsError {
    /// The status, if the server answered.
    pub fn status(&self) -> Option<NfsStatus> {
        match self {
            Self::Status(status) => Some(*status),
            Self::Connection(_) => None,
        }
    }
}

impl fmt::Display for NfsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Status(status) => write!(f, "{status:?}"),
            Self::Connection(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for NfsError {}

impl From<io::Error> for NfsError {
    fn from(error: io::Error) -> Self {
        Self::Connection(error)
    }
}

impl From<NfsStatus> for NfsError {
    fn from(status: NfsStatus) -> Self {
        Self::Status(status)
    }
}

/// A session.
#[derive(Debug)]
pub struct NfsSession {
    /// The connection.
    pub rpc: RpcConnection,
    /// The client's number at this server.
    pub client: ClientId,
    /// The name of the session.
    pub id: SessionId,
    /// Sequence number of the last request on slot 0.
    pub sequence: u32,
    pub(super) address: SocketAddr,
}

impl NfsSession {
    /// A client named `owner` with a session at a gateway.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn with_gateway(address: SocketAddr, owner: &str) -> Result<Self, NfsError> {
        let mut session = Self::that_reclaims(address, owner)?;
        match session.reclaim_complete() {
            // The server knows the client by another session.
            Ok(()) | Err(NfsError::Status(NfsStatus::CompleteAlready)) => Ok(session),
            Err(error) => Err(error),
        }
    }

    /// The same, and the client may reclaim what it had before a restart of the gateway, until
    /// [`Self::reclaim_complete`].
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn that_reclaims(address: SocketAddr, owner: &str) -> Result<Self, NfsError> {
        Self::begin(address, owner, ExchangeIdFlags::USE_PNFS_MDS)
    }

    /// Everything is reclaimed.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn reclaim_complete(&mut self) -> Result<(), NfsError> {
        let complete = ArgOp::ReclaimComplete(ReclaimCompleteArgs { one_fs: false });
        self.run(&[complete]).map(drop)
    }

    /// The same at a data server.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn with_data_server(address: SocketAddr, owner: &str) -> Result<Self, NfsError> {
        Self::begin(address, owner, ExchangeIdFlags::USE_PNFS_DS)
    }

    fn begin(address: SocketAddr, owner: &str, flags: ExchangeIdFlags) -> Result<Self, NfsError> {
        let mut rpc = RpcConnection::connect(address)?;
        let owner_id = owner.to_owned().into();
        // The server that was restarted, or the client's session: the same instance of the client.
        let client_owner = ClientOwner { verifier: Verifier([1; 8]), owner_id };
        let (state_protect, implementation) = (StateProtectArgs::None, None);
        let exchange = ExchangeIdArgs { client_owner, flags, state_protect, implementation };
        let known = match one(&mut rpc, ArgOp::ExchangeId(exchange))? {
            ResOp::ExchangeId(known) => known?,
            other => return Err(unexpected(&other)),
        };
        let create = CreateSessionArgs {
            client_id: known.client_id,
            sequence: known.sequence_id,
            flags: CreateSessionFlags::default(),
            fore_channel: CHANNEL,
            back_channel: CHANNEL,
            callback_program: CALLBACK_PROGRAM,
            callback_security: vec![CallbackSecurity::None],
        };
        let created = match one(&mut rpc, ArgOp::CreateSession(create))? {
            ResOp::CreateSession(created) => created?,
            other => return Err(unexpected(&other)),
        };
        Ok(Self { rpc, client: known.client_id, id: created.session_id, sequence: 0, address })
    }

    /// SEQUENCE of the next request. With `cache_this` the server keeps the reply, which is then
    /// short.
    pub fn next(&mut self, cache_this: bool) -> ArgOp {
        self.sequence = self.sequence.wrapping_add(1);
        self.again(cache_this)
    }

    /// SEQUENCE of the last request.
    pub fn again(&self, cache_this: bool) -> ArgOp {
        ArgOp::Sequence(SequenceArgs {
            session_id: self.id,
            sequence_id: SequenceId(self.sequence),
            slot_id: SlotId(0),
            highest_slot_id: SlotId(0),
            cache_this,
        })
    }

    /// Runs operations after SEQUENCE. The status, and the results without that of SEQUENCE.
    ///
    /// # Errors
    /// The connection has ended.
    pub fn try_run(&mut self, ops: &[ArgOp]) -> Result<(NfsStatus, Vec<ResOp>), NfsError> {
        let has_data = |op: &ArgOp| matches!(op, ArgOp::Read(_) | ArgOp::ReadDir(_));
        let cache_this = !ops.iter().any(has_data);
        let all: Vec<_> = [self.next(cache_this)].into_iter().chain(ops.iter().cloned()).collect();
        let (status, mut results) = self.rpc.compound(&all)?;
        if !results.is_empty() {
            results.remove(0);
        }
        Ok((status, results))
    }

    /// Runs operations that must all succeed: the results. Repeated after DELAY and GRACE.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn run(&mut self, ops: &[ArgOp]) -> Result<Vec<ResOp>, NfsError> {
        let started = Instant::now();
        loop {
            match self.try_run(ops)? {
                (NfsStatus::Ok, results) => return Ok(results),
                (NfsStatus::Delay | NfsStatus::Grace, _) if started.elapsed() < DELAY_MAX => {
                    std::thread::sleep(DELAY_PAUSE);
                }
                (status, _) => return Err(status.into()),
            }
        }
    }

    /// Runs operations: the last result.
    ///
    /// # Errors
    /// [`NfsError`].
    pub fn last(&mut self, ops: &[ArgOp]) -> Result<ResOp, NfsError> {
        self.run(ops)?.pop().ok_or(NfsError::Status(NfsStatus::BadXdr))
    }

    /// A new connection for the same session.
    ///
    /// # Errors
    /// Those of connect(2).
    pub fn reconnect(&mut self) -> io::Result<()> {
        self.rpc = RpcConnection::connect(self.address)?;
        Ok(())
    }
}

fn one(rpc: &mut RpcConnection, op: ArgOp) -> Result<ResOp, NfsError> {
    let started = Instant::now();
    loop {
        let (status, mut results) = rpc.compound(std::slice::from_ref(&op))?;
        match status {
            NfsStatus::Ok => return results.pop().ok_or(NfsError::Status(NfsStatus::BadXdr)),
            NfsStatus::Delay if started.elapsed() < DELAY_MAX => std::thread::sleep(DELAY_PAUSE),
            status => return Err(status.into()),
        }
    }
}

/// A result of another operation than the one that was sent.
pub(super) fn unexpected(result: &ResOp) -> NfsError {
    NfsError::Connection(io::Error::other(format!("an unexpected result: {result:?}")))
}
