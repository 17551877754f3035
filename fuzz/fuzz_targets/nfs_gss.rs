//! Calls of honest clients and changed ones to a server of `RPCSEC_GSS`: no panic, no sequence
//! number twice, no changed arguments, no more contexts than the limits.
#![no_main]

use std::collections::HashSet;
use std::time::Duration;

use arbitrary::Arbitrary;
use braid_nfs_wire::rpc::auth::OpaqueAuth;
use braid_nfs_wire::rpc::gss::{
    AcceptStep, GSS_S_BAD_SIG, GSS_S_DEFECTIVE_TOKEN, GssClientContext, GssContext, GssFailure,
    GssLimits, GssMechanism, GssOutcome, GssServer, HANDLE_BYTES, SEQUENCE_WINDOW, Service,
    init_call,
};
use braid_nfs_wire::rpc::message::{CallHeader, CallMessage};
use braid_nfs_wire::xdr::Encoder;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// A context whose MIC is the checksum of a key and the message. The fuzzer does not forge it by
/// changing bytes, and it needs no cryptography.
#[derive(Debug)]
struct Context {
    key: [u8; 1],
}

impl GssContext for Context {
    fn principal(&self) -> &str {
        "fuzzer"
    }
    fn get_mic(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        let mic = crc32c::crc32c_append(crc32c::crc32c(&self.key), message);
        Ok(Bytes::copy_from_slice(&mic.to_be_bytes()))
    }
    fn verify_mic(&self, message: &[u8], mic: &[u8]) -> Result<(), GssFailure> {
        let failure = GssFailure { major: GSS_S_BAD_SIG, minor: 0 };
        if self.get_mic(message)? == mic { Ok(()) } else { Err(failure) }
    }
    fn wrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        Ok([message, &self.get_mic(message)?].concat().into())
    }
    fn unwrap(&self, message: &[u8]) -> Result<Bytes, GssFailure> {
        let failure = GssFailure { major: GSS_S_BAD_SIG, minor: 0 };
        let (plain, mic) = message.split_last_chunk::<4>().ok_or(failure)?;
        self.verify_mic(plain, mic)?;
        Ok(Bytes::copy_from_slice(plain))
    }
}

struct Mechanism;

impl GssMechanism for Mechanism {
    type Pending = u8;
    type Context = Context;

    fn accept(&self, pending: Option<u8>, token: &[u8]) -> AcceptStep<u8, Context> {
        let token_back = Bytes::from_static(b"token");
        match (pending, token) {
            (Some(key), _) | (None, &[key]) => AcceptStep::Established {
                context: Context { key: [key & 3] },
                token: token_back,
                lifetime: Duration::from_secs(100),
            },
            (None, [key, _]) => AcceptStep::Continue { pending: *key, token: token_back },
            (None, _) => AcceptStep::Failed {
                failure: GssFailure { major: GSS_S_DEFECTIVE_TOKEN, minor: 0 },
                token: token_back,
            },
        }
    }
}

#[derive(Arbitrary, Debug)]
enum Step {
    /// A context of the handle `[handle; HANDLE_BYTES]`.
    Create {
        handle: u8,
        again: bool,
        token: Vec<u8>,
    },
    /// A call of a client that has this key and handle, perhaps changed.
    Call {
        key: u8,
        handle: u8,
        service: u8,
        text: Vec<u8>,
        change: Option<(u16, u8)>,
        twice: bool,
    },
    Destroy {
        key: u8,
        handle: u8,
    },
    Bytes(Vec<u8>),
    Wait(u8),
}

fn header() -> CallHeader {
    let (credential, verifier) = (OpaqueAuth::none(), OpaqueAuth::none());
    CallHeader { xid: 1, program: 100_003, version: 4, procedure: 1, credential, verifier }
}

fn client(key: u8, handle: u8, service: u8) -> GssClientContext<Context> {
    let context = Context { key: [key & 3] };
    let mic = context.get_mic(&SEQUENCE_WINDOW.to_be_bytes()).expect("a MIC");
    let verifier = OpaqueAuth { flavor: 6, body: mic };
    let handle = Bytes::from(vec![handle & 7; HANDLE_BYTES]);
    let service = Service::ALL[usize::from(service) % Service::ALL.len()];
    GssClientContext::new(context, service, handle, SEQUENCE_WINDOW, &verifier).expect("its own")
}

fuzz_target!(|steps: Vec<Step>| {
    let limits = GssLimits { established_max: 3, pending_max: 2, ..GssLimits::default() };
    let server = GssServer::new(Mechanism, limits);
    let mut now = Duration::ZERO;
    let receive = |bytes: Bytes, now, handle: u8| {
        let call = CallMessage::decode(bytes).ok()?;
        Some(server.receive(&call, now, || [handle & 7; HANDLE_BYTES]))
    };
    for step in steps {
        let (established, pending) = server.context_counts();
        assert!(established <= 3 && pending <= 2, "more contexts than the limits");
        match step {
            Step::Create { handle, again, token } => {
                let old = if again { vec![handle & 7; HANDLE_BYTES] } else { Vec::new() };
                let call = init_call(1, 100_003, 4, old.into(), token.into());
                let _ = receive(call.to_vec().into(), now, handle);
            }
            Step::Call { key, handle, service, text, change, twice } => {
                let mut items = Encoder::new();
                items.opaque(&text);
                let expected = items.to_vec();
                let mut client = client(key, handle, service);
                let (message, sequence) =
                    client.call(header(), items).expect("a call").expect("a number");
                let mut bytes = message.to_vec();
                if let Some((at, bits)) = change {
                    let at = usize::from(at) % bytes.len();
                    bytes[at] ^= bits;
                }
                let mut executed = HashSet::new();
                for _ in 0..1 + usize::from(twice) {
                    let outcome = receive(bytes.clone().into(), now, 0);
                    if let Some(GssOutcome::Execute(call)) = outcome {
                        assert!(executed.insert(sequence), "a sequence number twice");
                        if call.service() != Service::None {
                            assert_eq!(call.arguments(), &expected, "changed arguments");
                        }
                        call.reply(Encoder::new()).expect("a reply");
                    }
                }
            }
            Step::Destroy { key, handle } => {
                let call = client(key, handle, 0).destroy(header()).expect("a call");
                let _ = receive(call.expect("a number").to_vec().into(), now, 0);
            }
            Step::Bytes(bytes) => {
                let _ = receive(bytes.into(), now, 0);
            }
            Step::Wait(seconds) => now += Duration::from_secs(u64::from(seconds)),
        }
    }
});
