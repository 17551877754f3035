//! Bytes of a client to the logon of SMB: SPNEGO around NTLM. No panic, and no logon without the
//! password.
#![no_main]

use braid_smb_wire::auth::ntlm::{
    Acceptor, Challenge, MessageFlags, Negotiate, NtHash, ServerNames,
};
use braid_smb_wire::auth::spnego::Token;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|token: &[u8]| {
    let token = Bytes::copy_from_slice(token);
    let message = match Token::decode(&token) {
        Ok(Token::Init(init)) => init.token.unwrap_or_default(),
        Ok(Token::Resp(response)) => response.token.unwrap_or_default(),
        Ok(Token::RawNtlm(message)) => message,
        Err(_) => token,
    };
    let _ = Challenge::decode(&message);
    let mut server = Acceptor::new(ServerNames::default(), [1; 8], 0);
    if server.challenge(&message).is_err() {
        let negotiate = Negotiate { flags: MessageFlags(u32::MAX) }.encode();
        server.challenge(&negotiate.into()).expect("the first message");
    }
    if let Ok(logon) = server.authenticate(&message, |_, _| Some(NtHash([7; 16]))) {
        assert!(logon.anonymous, "a logon without the password");
    }
});
