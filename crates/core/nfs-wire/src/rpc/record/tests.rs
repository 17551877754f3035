use super::*;

/// A fragment that is not the record's last.
fn fragment(bytes: &[u8]) -> Vec<u8> {
    [&(bytes.len() as u32).to_be_bytes()[..], bytes].concat()
}

/// A record of one fragment.
fn record(bytes: &[u8]) -> Vec<u8> {
    [&record_header(bytes.len())[..], bytes].concat()
}

/// All records of a stream that arrives in pieces of `piece` bytes.
fn read(stream: &[u8], piece: usize) -> Vec<Bytes> {
    let mut reader = RecordReader::new();
    let mut records = Vec::new();
    for piece in stream.chunks(piece) {
        reader.feed(piece);
        while let Some(record) = reader.next_record().unwrap() {
            records.push(record);
        }
    }
    assert!(reader.is_between_records());
    records
}

#[test]
fn header_has_the_last_bit_and_the_length() {
    assert_eq!(record_header(0x0102), [0x80, 0, 1, 2]);
    assert_eq!(record_header(0), [0x80, 0, 0, 0]);
    assert_eq!(record_header(0x7fff_ffff), [0xff; 4]);
}

#[test]
#[should_panic(expected = "shorter than 2 GiB")]
fn header_of_2_gib_is_a_bug() {
    record_header(1 << 31);
}

#[test]
fn records_do_not_depend_on_how_bytes_arrive() {
    let big = vec![7; 70_000];
    let stream = [
        record(b"first"),
        record(b""),
        fragment(b"in "),
        fragment(b""),
        fragment(b"three "),
        record(b"pieces"),
        record(&big),
        record(b"end"),
    ]
    .concat();
    let expected: [&[u8]; 5] = [b"first", b"", b"in three pieces", &big, b"end"];
    for piece in [1, 2, 3, 4, 5, 7, 4096, stream.len()] {
        assert_eq!(read(&stream, piece), expected, "pieces of {piece} bytes");
    }
}

#[test]
fn limit_holds_for_one_fragment_and_for_their_sum() {
    let mut reader = RecordReader::with_limit(8);
    reader.feed(&record(b"12345678"));
    assert_eq!(reader.next_record().unwrap().unwrap(), "12345678");
    reader.feed(&record_header(9));
    let too_long = RecordError::TooLong { announced: 9, limit: 8 };
    assert_eq!(reader.next_record(), Err(too_long));

    let mut reader = RecordReader::with_limit(8);
    reader.feed(&fragment(b"12345678"));
    assert_eq!(reader.next_record(), Ok(None));
    reader.feed(&record_header(1));
    assert_eq!(reader.next_record(), Err(too_long));
}

#[test]
fn refused_length_reserves_no_memory() {
    let mut reader = RecordReader::new();
    reader.feed(&[0xff; 4]);
    assert!(reader.space().len() <= READ_AHEAD_BYTES);
    assert!(reader.buffer.capacity() <= 4 * READ_AHEAD_BYTES);
    assert!(matches!(
        reader.next_record(),
        Err(RecordError::TooLong { announced: 0x7fff_ffff, limit: RECORD_BYTES_MAX })
    ));
}

#[test]
fn error_stays_after_valid_bytes() {
    let mut reader = RecordReader::with_limit(8);
    reader.feed(&record_header(9));
    let error = reader.next_record().unwrap_err();
    reader.set_limit(100);
    reader.feed(&record(b"ok"));
    assert_eq!(reader.next_record(), Err(error));
}

#[test]
fn space_covers_at_most_one_read_of_a_long_record() {
    let mut reader = RecordReader::new();
    reader.feed(&record_header(1 << 20));
    assert_eq!(reader.next_record(), Ok(None));
    assert_eq!(reader.space().len(), READ_BYTES_MAX);
    let mut left = 1 << 20;
    let mut address = None;
    while left > 0 {
        let n = reader.space().len().min(left);
        reader.advance(n);
        left -= n;
        // The whole record was reserved, so no byte moves while the rest arrives.
        assert_eq!(*address.get_or_insert(reader.buffer.as_ptr()), reader.buffer.as_ptr());
    }
    assert_eq!(reader.next_record().unwrap().unwrap().len(), 1 << 20);
}

#[test]
fn chain_of_empty_fragments_is_refused() {
    let mut reader = RecordReader::new();
    for _ in 0..FRAGMENTS_MAX {
        assert_eq!(reader.next_record(), Ok(None));
        reader.feed(&fragment(b""));
    }
    assert_eq!(reader.next_record(), Ok(None));
    reader.feed(&fragment(b""));
    assert_eq!(reader.next_record(), Err(RecordError::TooManyFragments));
}

#[test]
fn limit_of_fragments_counts_each_record_alone() {
    let mut reader = RecordReader::new();
    for _ in 0..3 {
        for _ in 1..FRAGMENTS_MAX {
            reader.feed(&fragment(b"x"));
            assert_eq!(reader.next_record(), Ok(None));
        }
        reader.feed(&record(b"x"));
        let record = reader.next_record().unwrap().unwrap();
        assert_eq!(record.len(), FRAGMENTS_MAX as usize);
    }
}

#[test]
fn single_fragment_is_not_copied() {
    let mut reader = RecordReader::new();
    reader.feed(&record(b"data"));
    let address = reader.buffer[RECORD_HEADER_BYTES..].as_ptr();
    assert_eq!(reader.next_record().unwrap().unwrap().as_ptr(), address);
}

#[test]
fn unfilled_memory_counts_as_arrived_when_filled() {
    let mut reader = RecordReader::new();
    let half = reader.space().len() / 2;
    assert!(half > 0); // offered, and not used
    let stream = record(&[9; 100]);
    reader.unfilled().put_slice(&stream[..50]);
    assert_eq!(reader.next_record(), Ok(None));
    reader.unfilled().put_slice(&stream[50..]);
    assert_eq!(reader.next_record().unwrap().unwrap(), vec![9; 100]);
    assert!(reader.is_between_records());
}

#[test]
fn stream_that_ends_inside_a_record_is_noticed() {
    let mut reader = RecordReader::new();
    assert!(reader.is_between_records());
    reader.feed(&[0x80]);
    assert!(!reader.is_between_records());
    let mut reader = RecordReader::new();
    reader.feed(&fragment(b"begun"));
    assert_eq!(reader.next_record(), Ok(None));
    assert!(!reader.is_between_records());
}

#[test]
#[should_panic(expected = "bytes of space")]
fn advance_beyond_the_space_is_a_bug() {
    let mut reader = RecordReader::new();
    let n = reader.space().len() + 1;
    reader.advance(n);
}
