//! Answers where the kernel looks for them.

use super::*;
use crate::kernel::BackingId;
use proptest::prelude::*;

const HEADER: usize = OUT_HEADER_BYTES;

fn bytes(fill: impl FnOnce(&mut Message) -> &mut Message) -> Vec<u8> {
    let mut message = Message::new(0x1234, 0);
    fill(&mut message);
    message.finish(0).to_vec()
}

#[track_caller]
fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_ne_bytes(bytes[HEADER + at..HEADER + at + 4].try_into().unwrap())
}

#[track_caller]
fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_ne_bytes(bytes[HEADER + at..HEADER + at + 8].try_into().unwrap())
}

fn attributes() -> Attributes {
    let time = |seconds| Time { seconds, nanoseconds: 5 };
    Attributes {
        ino: 11,
        size: 12,
        blocks: 13,
        accessed: time(-1),
        modified: time(15),
        changed: time(16),
        mode: 0o100_644,
        links: 17,
        uid: 18,
        gid: 19,
        device: 0x12_3456,
        block_size: 20,
    }
}

#[test]
fn the_header_says_length_error_and_unique() {
    let mut message = Message::new(0x1234, -5);
    let header = message.finish(100);
    assert_eq!(header[..4], 116u32.to_ne_bytes());
    assert_eq!(header[4..8], (-5i32).to_ne_bytes());
    assert_eq!(header[8..], 0x1234u64.to_ne_bytes());
}

#[test]
fn an_entry_has_its_attributes_behind_its_validity() {
    let (name_valid, attributes_valid) =
        (Validity::Always, Validity::For(std::time::Duration::from_millis(1500)));
    let entry =
        Entry { node: 7, generation: 3, name_valid, attributes_valid, attributes: attributes() };
    let bytes = bytes(|message| message.entry(&entry));
    assert_eq!(bytes.len(), HEADER + 128);
    assert_eq!((u64_at(&bytes, 0), u64_at(&bytes, 8)), (7, 3));
    assert_eq!((u64_at(&bytes, 16), u32_at(&bytes, 32)), (u32::MAX.into(), 0));
    assert_eq!((u64_at(&bytes, 24), u32_at(&bytes, 36)), (1, 500_000_000));
    assert_eq!((u64_at(&bytes, 40), u64_at(&bytes, 48), u64_at(&bytes, 56)), (11, 12, 13));
    assert_eq!((u64_at(&bytes, 64) as i64, u64_at(&bytes, 80), u32_at(&bytes, 88)), (-1, 16, 5));
    assert_eq!(
        (u32_at(&bytes, 100), u32_at(&bytes, 104), u32_at(&bytes, 116)),
        (0o100_644, 17, 0x12_3456)
    );
}

#[test]
fn structures_have_the_sizes_that_the_kernel_wants() {
    let size = |bytes: Vec<u8>| bytes.len() - HEADER;
    assert_eq!(size(bytes(|m| m.attributes_valid(&attributes(), Validity::Never))), 104);
    assert_eq!(size(bytes(|m| m.absent(Validity::Always))), 128);
    assert_eq!(size(bytes(|m| m.opened(&Opened { handle: 1, flags: 2, backing: None }))), 16);
    assert_eq!(size(bytes(|m| m.space(&SpaceStat::default()))), 80);
    assert_eq!(size(bytes(|m| m.lock(None))), 24);
    assert_eq!(size(bytes(|m| m.extended(&ExtendedStat::default(), Validity::Never))), 288);
}

#[test]
fn an_extended_stat_takes_a_device_apart() {
    let stat = ExtendedStat {
        mask: 0xfff,
        flags: 1,
        flags_known: 2,
        created: attributes().changed,
        attributes: attributes(),
    };
    let bytes = bytes(|message| message.extended(&stat, Validity::Never));
    let x = 32;
    assert_eq!((u32_at(&bytes, x), u32_at(&bytes, x + 4), u64_at(&bytes, x + 8)), (0xfff, 20, 1));
    assert_eq!((u64_at(&bytes, x + 32), u64_at(&bytes, x + 56)), (11, 2));
    // Access, birth, change, modification.
    assert_eq!(
        (u64_at(&bytes, x + 64) as i64, u64_at(&bytes, x + 80), u64_at(&bytes, x + 112)),
        (-1, 16, 15)
    );
    // 0x123456 is major 0x234, minor 0x156.
    assert_eq!((u32_at(&bytes, x + 128), u32_at(&bytes, x + 132)), (0x234, 0x156));
}

#[test]
fn a_conflicting_lock_is_reported_and_none_is_an_unlocked_range() {
    let lock =
        Lock { handle: 1, owner: 2, start: 3, end: 4, kind: LockKind::Write, pid: 5, flock: false };
    let encoded = bytes(|message| message.lock(Some(&lock)));
    assert_eq!(
        (u64_at(&encoded, 0), u64_at(&encoded, 8), u32_at(&encoded, 16), u32_at(&encoded, 20)),
        (3, 4, 1, 5)
    );
    assert_eq!(u32_at(&bytes(|message| message.lock(None)), 16), 2);
}

#[test]
fn a_listing_has_its_names_padded_to_eight_bytes() {
    let mut listing = DirectoryBuffer::new(4096);
    assert!(listing.push(5, 9, Kind::Directory, b"name"));
    let expected = [
        &5u64.to_ne_bytes()[..],
        &9u64.to_ne_bytes(),
        &4u32.to_ne_bytes(),
        &4u32.to_ne_bytes(),
        b"name\0\0\0\0",
    ];
    assert_eq!(listing.as_bytes(), expected.concat());
}

proptest! {
    #[test]
    fn a_listing_never_exceeds_its_size(
        bytes_max in 0u32..600,
        names in prop::collection::vec((any::<bool>(), 1usize..256), 0..20),
    ) {
        let mut listing = DirectoryBuffer::new(bytes_max);
        for (plus, len) in names {
            let (name, before) = (vec![b'x'; len], listing.as_bytes().len());
            let taken = match plus {
                true => listing.push_plus(None, 1, 2, Kind::File, &name),
                false => listing.push(1, 2, Kind::File, &name),
            };
            prop_assert_eq!(taken, listing.as_bytes().len() > before);
            prop_assert!(listing.as_bytes().len() <= bytes_max as usize);
            prop_assert_eq!(listing.as_bytes().len() % 8, 0);
        }
    }
}

#[test]
fn an_open_file_is_passed_through_where_it_has_a_backing_file() {
    let opened = Opened { handle: 1, flags: fopen::NOFLUSH, backing: None };
    let own = bytes(|m| m.opened(&opened));
    assert_eq!((u32_at(&own, 8), u32_at(&own, 12)), (fopen::NOFLUSH, 0));
    let id = Some(BackingId::from_number(0x1234_5678).unwrap());
    let passed = bytes(|m| m.opened(&Opened { backing: id, ..opened }));
    assert_eq!(u32_at(&passed, 8), fopen::NOFLUSH | fopen::PASSTHROUGH);
    assert_eq!((u64_at(&passed, 0), u32_at(&passed, 12)), (1, 0x1234_5678));
}
