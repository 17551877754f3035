//! Any bytes in place of the kernel's give a request or an error, never a panic. Parsed fields lie
//! inside the bytes.
#![no_main]

use arbitrary::Arbitrary;
use braid_fuse::kernel::{Operation, ProtocolOptions, Request};
use libfuzzer_sys::fuzz_target;

/// A header that fits its body, so that the fuzzer gets further; or any bytes.
#[derive(Arbitrary, Debug)]
enum Sent {
    Bytes(Vec<u8>),
    Framed { opcode: u8, node: u64, extension_words: u8, body: Vec<u8> },
}

impl Sent {
    fn bytes(&self) -> Vec<u8> {
        match self {
            Self::Bytes(bytes) => bytes.clone(),
            Self::Framed { opcode, node, extension_words, body } => {
                let len = (40 + body.len()) as u32;
                let mut bytes: Vec<u8> =
                    [len, u32::from(*opcode)].into_iter().flat_map(u32::to_ne_bytes).collect();
                bytes.extend([2, *node].into_iter().flat_map(u64::to_ne_bytes));
                bytes.extend([0u32; 3].into_iter().flat_map(u32::to_ne_bytes));
                bytes.extend(u16::from(*extension_words).to_ne_bytes());
                bytes.extend([0, 0]);
                bytes.extend_from_slice(body);
                bytes
            }
        }
    }
}

fuzz_target!(|input: (Sent, bool)| {
    let (sent, setxattr_ext) = input;
    let bytes = sent.bytes();
    let Ok(request) = Request::parse(&bytes, ProtocolOptions { setxattr_ext }) else { return };
    assert!(request.groups.iter().count() * 4 <= bytes.len());
    match request.operation {
        Operation::Forget(forgotten) => assert!(forgotten.iter().count() <= 1 + bytes.len() / 16),
        Operation::Lookup { name }
        | Operation::Unlink { name }
        | Operation::Create { name, .. } => {
            assert!(!name.is_empty() && !name.contains(&0));
        }
        Operation::Write { data, .. } | Operation::Ioctl { data, .. } => {
            assert!(data.len() <= bytes.len() - 40)
        }
        _ => {}
    }
});
