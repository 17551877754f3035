//! Which operation runs a request. MS-SMB2 3.3.5.

use std::pin::Pin;

use braid_share::Share;
use braid_smb_wire::smb2::{Body, Command, Dialect, Empty, Header};
use braid_smb_wire::{NtStatus, Reader};

use crate::context::{Context, OpResult, Reply, malformed};
use crate::ops;
use crate::pending::Outcome;

/// Bytes that one credit pays for. 3.1.5.2.
const CREDIT_BYTES: u32 = 64 << 10;

/// Whether a command needs a tree. 3.3.5.2.11.
pub fn needs_tree(command: Command) -> bool {
    !matches!(
        command,
        Command::Negotiate
            | Command::SessionSetup
            | Command::Logoff
            | Command::TreeConnect
            | Command::Echo
            | Command::Cancel
    )
}

/// Whether a command names an open.
pub fn uses_open(command: Command) -> bool {
    needs_tree(command) && !matches!(command, Command::Create | Command::TreeDisconnect)
}

/// Most bytes of the response to a request, besides a short one: what it has paid for, since
/// [`Context::paid_for`] refuses more.
pub fn long_bytes_max(request: &Header) -> usize {
    match Command::from_number(request.command) {
        Some(Command::Read | Command::Ioctl | Command::QueryDirectory | Command::QueryInfo) => {
            usize::from(request.credit_charge.max(1)) * CREDIT_BYTES as usize
        }
        _ => 0,
    }
}

/// A request that runs.
type Running<'a> = Pin<Box<dyn Future<Output = Result<Outcome, NtStatus>> + Send + 'a>>;

/// Runs a request.
pub async fn run<S: Share>(context: &Context<S>, command: Command, mut body: Reader) -> Outcome {
    // In a box without a type: in one piece with those around it, the future would be nested deeper
    // than the compiler looks.
    let running: Running<'_> = Box::pin(may_wait(context, command, &mut body));
    match running.await {
        Ok(outcome) => outcome,
        Err(status) => Outcome::Done(Err(status)),
    }
}

async fn may_wait<S: Share>(
    context: &Context<S>,
    command: Command,
    body: &mut Reader,
) -> Result<Outcome, NtStatus> {
    match command {
        Command::Create => Ok(ops::create::create(context, decode(body)?).await),
        Command::SetInfo => Ok(ops::set_info::set_info(context, decode(body)?).await),
        Command::Lock => ops::lock::lock(context, decode(body)?).await,
        Command::ChangeNotify => ops::change_notify::change_notify(context, decode(body)?).await,
        _ => finish(context, command, body).await.map(|reply| Outcome::Done(Ok(reply))),
    }
}

/// Runs a request that does not wait.
async fn finish<S: Share>(context: &Context<S>, command: Command, body: &mut Reader) -> OpResult {
    match command {
        Command::Negotiate => ops::negotiate::negotiate(context, decode(body)?),
        Command::SessionSetup => ops::session_setup::session_setup(context, decode(body)?).await,
        Command::Logoff => {
            let Empty = decode(body)?;
            ops::session_setup::logoff(context).await
        }
        Command::TreeConnect => ops::tree_connect::tree_connect(context, decode(body)?).await,
        Command::TreeDisconnect => {
            let Empty = decode(body)?;
            ops::tree_connect::tree_disconnect(context).await
        }
        Command::Close => ops::close::close(context, decode(body)?).await,
        Command::Flush => ops::flush::flush(context, decode(body)?).await,
        Command::Read => ops::read::read(context, decode(body)?).await,
        Command::Write => ops::write::write(context, decode(body)?).await,
        Command::Ioctl => ops::ioctl::ioctl(context, decode(body)?).await,
        Command::Echo => decode::<Empty>(body).map(|empty| Reply::new(&empty)),
        Command::QueryDirectory => {
            ops::query_directory::query_directory(context, decode(body)?).await
        }
        Command::QueryInfo => ops::query_info::query_info(context, decode(body)?).await,
        Command::OplockBreak => ops::oplock_break::acknowledge(context, decode(body)?),
        // They do not come here.
        Command::Cancel
        | Command::ChangeNotify
        | Command::Create
        | Command::Lock
        | Command::SetInfo => Err(NtStatus::INVALID_PARAMETER),
    }
}

fn decode<T: Body>(body: &mut Reader) -> Result<T, NtStatus> {
    T::decode(body).map_err(malformed)
}

impl<S: Share> Context<S> {
    /// Checks that a request has paid for as many bytes as it sends or asks for. 3.3.5.2.5.
    ///
    /// # Errors
    /// `INVALID_PARAMETER`.
    pub fn paid_for(&self, bytes: u32) -> Result<(), NtStatus> {
        let negotiated = self.connection.negotiated().ok_or(NtStatus::INVALID_PARAMETER)?;
        if bytes > negotiated.transfer_bytes_max() {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        let has_credits = negotiated.dialect > Dialect::Smb202;
        let needed = bytes.saturating_sub(1) / CREDIT_BYTES + 1;
        if has_credits && needed > u32::from(self.header.credit_charge.max(1)) {
            return Err(NtStatus::INVALID_PARAMETER);
        }
        Ok(())
    }
}
