//! The cursor of the async API, compared with the standard library's over a vector of bytes. (That
//! of the blocking API is tested on a real cluster: `crates/tools/cli/tests/library.rs`.)

use std::io::{Cursor as ModelCursor, Read, Seek, SeekFrom, Write};

use crate::fake::Fake;
use braid_client::{OpenOptions, Status, View, asynchronous::Cursor};
use braid_net::block_on;
use proptest::prelude::*;

fn cursor(fake: &Fake) -> Cursor<Fake> {
    let options = OpenOptions::new().read(true).write(true).create(true);
    block_on(fake.client().open("/f", &options)).unwrap().cursor()
}

fn read(cursor: &mut Cursor<Fake>, bytes_max: usize) -> Vec<u8> {
    // Filled, so that a byte that was not written is noticed.
    let mut buffer = vec![0xee; bytes_max];
    let bytes = block_on(cursor.read(&mut buffer)).unwrap();
    buffer.truncate(bytes);
    buffer
}

#[test]
fn a_write_after_a_seek_past_the_end_leaves_a_hole_of_zeros() {
    let fake = Fake::striped();
    let mut cursor = cursor(&fake);
    block_on(cursor.write(b"begin")).unwrap();
    assert_eq!(block_on(cursor.seek(SeekFrom::End(20_000))).unwrap(), 20_005);
    assert_eq!(block_on(cursor.file().size()).unwrap(), 5, "a seek alone makes no file longer");
    block_on(cursor.write(b"end")).unwrap();
    block_on(cursor.seek(SeekFrom::Start(0))).unwrap();
    let expected = [&b"begin"[..], &[0; 20_000], b"end"].concat();
    assert_eq!(read(&mut cursor, 30_000), expected);
    assert_eq!(cursor.position(), 20_008);
}

#[test]
fn a_seek_before_the_beginning_is_an_error_and_moves_nothing() {
    let fake = Fake::striped();
    let mut cursor = cursor(&fake);
    block_on(cursor.write(b"0123456789")).unwrap();
    for to in [
        SeekFrom::Current(-11),
        SeekFrom::End(-11),
        SeekFrom::Current(i64::MIN),
        SeekFrom::End(i64::MIN),
    ] {
        let error = block_on(cursor.seek(to)).unwrap_err();
        assert_eq!(
            (error.status(), error.errno(), error.path()),
            (Status::Invalid, 22, Some("/f")),
            "{to:?}"
        );
        assert!(error.to_string().contains("before the beginning"), "{error}");
        assert_eq!(cursor.position(), 10, "{to:?}");
    }
    assert_eq!(block_on(cursor.seek(SeekFrom::Current(-10))).unwrap(), 0);
    block_on(cursor.seek(SeekFrom::Start(u64::MAX))).unwrap();
    let error = block_on(cursor.seek(SeekFrom::Current(1))).unwrap_err();
    assert!(error.to_string().contains("64-bit"), "{error}");
    assert!(block_on(cursor.write(b"x")).is_err(), "no file is that long");
    assert_eq!(read(&mut cursor, 10), []);
}

#[test]
fn a_cursor_counts_bytes_of_its_view() {
    let fake = Fake::striped();
    let mut whole = cursor(&fake);
    let bytes: Vec<u8> = (0..100).collect();
    block_on(whole.write(&bytes)).unwrap();
    // 10 bytes of every 20, from byte 5.
    let mut mine = whole.file().with_view(View::strided(5, 10, 20)).unwrap().cursor();
    assert_eq!(block_on(mine.seek(SeekFrom::End(-15))).unwrap(), 35);
    let expected: Vec<u8> = [70..75, 85..95].into_iter().flatten().collect();
    assert_eq!(read(&mut mine, 100), expected);
    assert_eq!(mine.position(), 50);
    assert_eq!(whole.position(), 100, "each has its own");
}

#[derive(Clone, Debug)]
enum Step {
    Seek(SeekFrom),
    Read(usize),
    Write(Vec<u8>),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        (0u64..30_000).prop_map(|to| Step::Seek(SeekFrom::Start(to))),
        (-20_000i64..20_000).prop_map(|by| Step::Seek(SeekFrom::Current(by))),
        (-20_000i64..10_000).prop_map(|by| Step::Seek(SeekFrom::End(by))),
        (0usize..10_000).prop_map(Step::Read),
        (1usize..10_000, 1u8..).prop_map(|(bytes, fill)| Step::Write(vec![fill; bytes])),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn every_walk_of_the_cursor_is_that_of_the_standard_library(
        steps in prop::collection::vec(step(), 1..20)
    ) {
        let fake = Fake::striped();
        let (mut ours, mut model) = (cursor(&fake), ModelCursor::new(Vec::new()));
        for step in steps {
            match step {
                Step::Seek(to) => match model.seek(to) {
                    Ok(position) => prop_assert_eq!(block_on(ours.seek(to)).unwrap(), position),
                    Err(_) => {
                        let refused = block_on(ours.seek(to)).unwrap_err();
                        prop_assert_eq!(refused.status(), Status::Invalid);
                    }
                },
                Step::Read(bytes_max) => {
                    let mut expected = vec![0; bytes_max];
                    let bytes = model.read(&mut expected).unwrap();
                    prop_assert_eq!(read(&mut ours, bytes_max), &expected[..bytes]);
                }
                Step::Write(bytes) => {
                    model.write_all(&bytes).unwrap();
                    prop_assert_eq!(block_on(ours.write(&bytes)).unwrap(), bytes.len());
                }
            }
            prop_assert_eq!(ours.position(), model.position());
        }
    }
}
