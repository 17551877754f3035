//! Any bytes in any pieces as a stream of RPC records: no panic, no memory beyond the limit, and
//! the same records however the bytes arrive.
#![no_main]

use braid_nfs_wire::rpc::record::{RECORD_HEADER_BYTES, RecordReader, record_header};
use libfuzzer_sys::fuzz_target;

/// Short, so that the fuzzer reaches it.
const RECORD_BYTES_MAX: usize = 700;

/// The records taken, and whether the stream was refused.
type Taken = (Vec<Vec<u8>>, bool);

/// Takes records from `stream`, which arrives in pieces of these lengths, repeated.
fn take(mut stream: &[u8], pieces: &[u8]) -> Taken {
    let mut reader = RecordReader::with_limit(RECORD_BYTES_MAX);
    let mut pieces = pieces.iter().map(|bytes| usize::from(*bytes).max(1)).cycle();
    let mut taken = Vec::new();
    loop {
        loop {
            match reader.next_record() {
                Err(_) => return (taken, true),
                Ok(None) => break,
                Ok(Some(record)) => {
                    assert!(record.len() <= RECORD_BYTES_MAX);
                    taken.push(record.to_vec());
                }
            }
        }
        let space = reader.space();
        let bytes = space.len().min(stream.len()).min(pieces.next().unwrap_or(1));
        assert!(!space.is_empty(), "the reader needs bytes and offers no space");
        if bytes == 0 {
            return (taken, false);
        }
        space[..bytes].copy_from_slice(&stream[..bytes]);
        reader.advance(bytes);
        stream = &stream[bytes..];
    }
}

/// A stream that begins with valid fragments.
fn fragments(mut data: &[u8]) -> Vec<u8> {
    let mut stream = Vec::new();
    while let [kind, length, rest @ ..] = data {
        let length = usize::from(*length).min(rest.len());
        let (body, later) = rest.split_at(length);
        let mut header: [u8; RECORD_HEADER_BYTES] = record_header(length);
        if kind % 4 == 1 {
            header[0] &= 0x7f; // not the last fragment
        }
        if kind % 4 != 0 {
            stream.extend_from_slice(&header);
        }
        stream.extend_from_slice(body);
        data = later;
    }
    stream
}

fuzz_target!(|data: &[u8]| {
    let [first, second, bytes @ ..] = data else { return };
    for stream in [bytes.to_vec(), fragments(bytes)] {
        assert_eq!(
            take(&stream, &[*first, *second]),
            take(&stream, &[255]),
            "records depend on how bytes arrive"
        );
    }
});
