//! Decodes a message as each body, and what is decoded a second time.

use braid_smb_wire::Reader;
use braid_smb_wire::cursor::Result;
use braid_smb_wire::smb2::{
    Body, Command, Empty, ErrorBody, Flags, HEADER_BYTES, Header, change_notify, close, create,
    flush, ioctl, lock, negotiate, oplock_break, output, query_directory, query_info, read,
    response::has_error_body, session_setup, set_info, tree_connect, write,
};
use bytes::Bytes;

/// Decodes the body of a message.
pub fn decode<T: Body>(message: Bytes) -> Result<T> {
    let mut reader = Reader::new(message);
    reader.skip(HEADER_BYTES)?;
    T::decode(&mut reader)
}

/// A message with an empty header and this body.
pub fn message<T: Body>(body: &T) -> Bytes {
    [vec![0; HEADER_BYTES], body.to_bytes()].concat().into()
}

/// Decodes the body of a message, and checks that its own bytes are decoded to the same. Gives
/// these bytes.
pub fn decode_twice<T: Body>(bytes: Bytes) -> Result<Vec<u8>> {
    let once = message(&decode::<T>(bytes)?);
    let again = decode::<T>(once.clone()).expect("encoded bytes are decoded");
    assert_eq!(again.to_bytes(), once[HEADER_BYTES..]);
    Ok(again.to_bytes())
}

/// A decoder of one body.
type Decode = fn(Bytes) -> Result<Vec<u8>>;

/// The decoder for a message with this header.
pub fn of(header: &Header) -> Decode {
    let command = Command::from_number(header.command).expect("a known command");
    if !header.flags.has(Flags::RESPONSE) {
        return of_request(command);
    }
    match has_error_body(command, header.status) {
        true => decode_twice::<ErrorBody>,
        false => of_response(command),
    }
}

/// The decoder of a request.
pub fn of_request(command: Command) -> Decode {
    match command {
        Command::Negotiate => decode_twice::<negotiate::NegotiateRequest>,
        Command::SessionSetup => decode_twice::<session_setup::SessionSetupRequest>,
        Command::TreeConnect => decode_twice::<tree_connect::TreeConnectRequest>,
        Command::Create => decode_twice::<create::CreateRequest>,
        Command::Close => decode_twice::<close::CloseRequest>,
        Command::Flush => decode_twice::<flush::FlushRequest>,
        Command::Read => decode_twice::<read::ReadRequest>,
        Command::Write => decode_twice::<write::WriteRequest>,
        Command::Lock => decode_twice::<lock::LockRequest>,
        Command::Ioctl => decode_twice::<ioctl::IoctlRequest>,
        Command::QueryDirectory => decode_twice::<query_directory::QueryDirectoryRequest>,
        Command::ChangeNotify => decode_twice::<change_notify::ChangeNotifyRequest>,
        Command::QueryInfo => decode_twice::<query_info::QueryInfoRequest>,
        Command::SetInfo => decode_twice::<set_info::SetInfoRequest>,
        Command::OplockBreak => decode_twice::<oplock_break::OplockBreakBody>,
        Command::Logoff | Command::TreeDisconnect | Command::Cancel | Command::Echo => {
            decode_twice::<Empty>
        }
    }
}

/// The decoder of a response without an error.
pub fn of_response(command: Command) -> Decode {
    match command {
        Command::Negotiate => decode_twice::<negotiate::NegotiateResponse>,
        Command::SessionSetup => decode_twice::<session_setup::SessionSetupResponse>,
        Command::TreeConnect => decode_twice::<tree_connect::TreeConnectResponse>,
        Command::Create => decode_twice::<create::CreateResponse>,
        Command::Close => decode_twice::<close::CloseResponse>,
        Command::Read => decode_twice::<read::ReadReply>,
        Command::Write => decode_twice::<write::WriteResponse>,
        Command::Ioctl => decode_twice::<ioctl::IoctlResponse>,
        Command::QueryDirectory | Command::ChangeNotify | Command::QueryInfo => {
            decode_twice::<output::OutputResponse>
        }
        Command::SetInfo => decode_twice::<set_info::SetInfoResponse>,
        Command::OplockBreak => decode_twice::<oplock_break::OplockBreakBody>,
        Command::Logoff
        | Command::TreeDisconnect
        | Command::Cancel
        | Command::Echo
        | Command::Flush
        | Command::Lock => decode_twice::<Empty>,
    }
}
