//! Logon: the tokens of SESSION_SETUP and of the NEGOTIATE response.
//!
//! ```text
//!   client                                   server
//!     <── NegTokenInit2 (mechanisms) ────────  NEGOTIATE response
//!     ─── NegTokenInit  (NTLM NEGOTIATE) ───>  SESSION_SETUP 1
//!     <── NegTokenResp  (NTLM CHALLENGE) ────  MORE_PROCESSING_REQUIRED
//!     ─── NegTokenResp  (AUTHENTICATE, MIC) ─> SESSION_SETUP 2
//!     <── NegTokenResp  (completed, MIC) ────  SUCCESS
//! ```
//!
//! A client may send the NTLM messages without SPNEGO around them ([`spnego::Token::RawNtlm`]).

mod der;
pub mod ntlm;
pub mod spnego;
