//! Golden bytes of each class, written by hand from the layouts of the standard.

use bytes::Bytes;
use proptest::prelude::*;

use super::*;
use crate::access::AccessMask;
use crate::cursor::Result;
use crate::filetime::{FileTime, TimeChange};
use crate::status::NtStatus;

/// Bytes from hexadecimal digits; blanks and `|` separate fields.
fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let value = |digit: u8| (digit as char).to_digit(16).expect("a digit") as u8;
    digits.chunks(2).map(|pair| value(pair[0]) << 4 | value(pair[1])).collect()
}

fn facts() -> FileFacts {
    FileFacts {
        creation: FileTime(0x11),
        last_access: FileTime(0x22),
        last_write: FileTime(0x33),
        change: FileTime(0x44),
        attributes: FileAttributes::ARCHIVE,
        end_of_file: 0x0102,
        allocation_bytes: 0x1000,
        links: 3,
        delete_pending: true,
        file_id: 0x0807_0605_0403_0201,
        volume_serial: 0x55,
        ea_bytes: 9,
        access: AccessMask::ALL_OF_READ,
        position: 7,
        mode: FileMode::DELETE_ON_CLOSE,
        name: "\\d\\f".to_owned(),
        ..FileFacts::default()
    }
}

const TIMES: &str = "1100000000000000 2200000000000000 3300000000000000 4400000000000000";
const STANDARD: &str = "0010000000000000 0201000000000000 03000000 01 00 0000";

#[test]
fn each_class_of_a_file_has_the_bytes_of_the_standard() {
    let basic = format!("{TIMES} 20000000 00000000");
    let tail = "0102030405060708 | 09000000 | 89001200 | 0700000000000000 | 00100000 | 00000000";
    let name = "08000000 5c00 6400 5c00 6600";
    let id = "5500000000000000 01020304050607080000000000000000";
    let stream = "00000000 0e000000 0201000000000000 0010000000000000
        3a003a002400440041005400 4100";
    for (class, wanted) in [
        (InformationClass::BASIC, basic.as_str()),
        (InformationClass::STANDARD, STANDARD),
        (InformationClass::INTERNAL, "0102030405060708"),
        (InformationClass::EA, "09000000"),
        (InformationClass::ACCESS, "89001200"),
        (InformationClass::POSITION, "0700000000000000"),
        (InformationClass::MODE, "00100000"),
        (InformationClass::ALIGNMENT, "00000000"),
        (InformationClass::ALL, &format!("{basic} {STANDARD} {tail} {name}")),
        (InformationClass::NAME, name),
        (InformationClass::NORMALIZED_NAME, "06000000 6400 5c00 6600"),
        (InformationClass::ATTRIBUTE_TAG, "20000000 00000000"),
        (InformationClass::COMPRESSION, "0010000000000000 0000 00 00 00 000000"),
        (
            InformationClass::NETWORK_OPEN,
            &format!("{TIMES} 0010000000000000 0201000000000000 20000000 00000000"),
        ),
        (InformationClass::ID, id),
        (InformationClass::STREAM, stream),
    ] {
        let encoded = facts().encode(class, 4096).unwrap();
        assert_eq!((encoded.bytes, encoded.truncated), (hex(wanted), false), "{class:?}");
    }
}

#[test]
fn a_buffer_that_is_too_small_gets_a_part_or_an_error() {
    let all = facts().encode(InformationClass::ALL, 4096).unwrap().bytes;
    let cut = facts().encode(InformationClass::ALL, 106).unwrap();
    assert_eq!((&cut.bytes[..], cut.status()), (&all[..106], NtStatus::BUFFER_OVERFLOW));
    let mismatch = Err(NtStatus::INFO_LENGTH_MISMATCH);
    for (class, bytes) in [
        (InformationClass::ALL, 103),
        (InformationClass::BASIC, 39),
        (InformationClass::NAME, 7),
        (InformationClass::STREAM, 23),
        (InformationClass::ID, 23),
    ] {
        assert_eq!(facts().encode(class, bytes), mismatch, "{class:?}");
        assert!(facts().encode(class, bytes + 1).is_ok(), "{class:?}");
    }
    let streams = facts().encode(InformationClass::STREAM, 37).unwrap();
    assert_eq!(streams, Encoded { bytes: Vec::new(), truncated: true });
}

#[test]
fn classes_that_are_not_served_have_their_errors() {
    let of = |class| facts().encode(class, 4096).map(|_| ());
    assert_eq!(of(InformationClass::ALTERNATE_NAME), Err(NtStatus::NOT_SUPPORTED));
    assert_eq!(of(InformationClass::RENAME), Err(NtStatus::INVALID_INFO_CLASS));
    assert_eq!(of(InformationClass(200)), Err(NtStatus::INVALID_INFO_CLASS));
}

#[test]
fn a_directory_has_no_stream_of_its_own_and_a_link_has_a_tag() {
    let directory = FileFacts { directory: true, ..facts() };
    let streams = directory.encode(InformationClass::STREAM, 4096).unwrap();
    assert_eq!(streams, Encoded { bytes: Vec::new(), truncated: false });
    let link = FileFacts {
        attributes: FileAttributes::REPARSE_POINT,
        reparse_tag: 0xa000_000c,
        ..facts()
    };
    let tag = link.encode(InformationClass::ATTRIBUTE_TAG, 8).unwrap();
    assert_eq!(tag.bytes, hex("00040000 0c0000a0"));
}

fn volume() -> VolumeFacts {
    VolumeFacts {
        creation: FileTime(0x11),
        serial: 0x22,
        label: "ab".to_owned(),
        total_units: 9,
        available_units: 8,
        caller_available_units: 7,
        sectors_per_unit: 4,
        bytes_per_sector: 512,
        attributes: FsAttributes::CASE_PRESERVED_NAMES.with(FsAttributes::UNICODE_ON_DISK),
        name_characters_max: 255,
        file_system: "NTFS".to_owned(),
        object_id: [0xee; 16],
    }
}

#[test]
fn each_class_of_a_volume_has_the_bytes_of_the_standard() {
    let sector = "00020000 00020000 00020000 00020000 0b000000 00000000 00000000";
    let units = "0900000000000000 0700000000000000";
    for (class, wanted) in [
        (VolumeClass::VOLUME, "1100000000000000 22000000 04000000 00 00 61006200"),
        (VolumeClass::SIZE, &format!("{units} 04000000 00020000")),
        (VolumeClass::DEVICE, "07000000 20000000"),
        (VolumeClass::ATTRIBUTE, "06000000 ff000000 08000000 4e00540046005300"),
        (
            VolumeClass::CONTROL,
            &format!("{} {} 00000000 00000000", "00".repeat(24), "ff".repeat(16)),
        ),
        (VolumeClass::FULL_SIZE, &format!("{units} 0800000000000000 04000000 00020000")),
        (VolumeClass::OBJECT_ID, &format!("{}{}", "ee".repeat(16), "00".repeat(48))),
        (VolumeClass::SECTOR_SIZE, sector),
    ] {
        assert_eq!(volume().encode(class, 4096).unwrap().bytes, hex(wanted), "{class:?}");
    }
    assert_eq!(volume().encode(VolumeClass::LABEL, 4096), Err(NtStatus::INVALID_INFO_CLASS));
    let cut = volume().encode(VolumeClass::ATTRIBUTE, 18).unwrap();
    assert_eq!((cut.bytes.len(), cut.truncated), (18, true));
    assert_eq!(volume().encode(VolumeClass::SIZE, 23), Err(NtStatus::INFO_LENGTH_MISMATCH));
}

fn entry(name: &str) -> Entry {
    Entry {
        creation: FileTime(0x11),
        last_access: FileTime(0x22),
        last_write: FileTime(0x33),
        change: FileTime(0x44),
        end_of_file: 0x55,
        allocation_bytes: 0x66,
        attributes: FileAttributes::NORMAL,
        ea_bytes: 0x77,
        short_name: "A~1".to_owned(),
        file_id: 0x88,
        name: name.to_owned(),
        ..Entry::default()
    }
}

/// The entry of a class without what the class has not.
fn as_class(entry: &Entry, class: DirectoryClass) -> Entry {
    let mut entry = entry.clone();
    let has_short =
        matches!(class, DirectoryClass::BothDirectory | DirectoryClass::IdBothDirectory);
    if !has_short {
        entry.short_name.clear();
    }
    match class {
        DirectoryClass::Names => {
            return Entry { name: entry.name, file_index: entry.file_index, ..Entry::default() };
        }
        DirectoryClass::Directory => entry.ea_bytes = 0,
        _ => {}
    }
    if !matches!(
        class,
        DirectoryClass::IdBothDirectory
            | DirectoryClass::IdFullDirectory
            | DirectoryClass::IdExtdDirectory
    ) {
        entry.file_id = 0;
    }
    entry
}

#[test]
fn each_class_of_a_directory_has_the_bytes_of_the_standard() {
    let common = format!("00000000 {TIMES} 5500000000000000 6600000000000000 80000000 02000000");
    let short = format!("06 00 41007e003100 {}", "00".repeat(18));
    for (class, wanted) in [
        (DirectoryClass::Directory, common.clone()),
        (DirectoryClass::FullDirectory, format!("{common} 77000000")),
        (DirectoryClass::BothDirectory, format!("{common} 77000000 {short}")),
        (
            DirectoryClass::IdBothDirectory,
            format!("{common} 77000000 {short} 0000 8800000000000000"),
        ),
        (DirectoryClass::IdFullDirectory, format!("{common} 77000000 00000000 8800000000000000")),
        (DirectoryClass::Names, "00000000 02000000".to_owned()),
        (
            DirectoryClass::IdExtdDirectory,
            format!("{common} 77000000 00000000 88000000000000000000000000000000"),
        ),
    ] {
        let wanted = hex(&format!("00000000 {wanted} 7800"));
        assert_eq!(wanted.len(), class.fixed_bytes() + 2, "{class:?}");
        let mut writer = DirectoryWriter::new(class, wanted.len());
        assert!(writer.push(&entry("x")));
        assert!(!writer.push(&entry("x")), "the second does not fit");
        assert_eq!(writer.finish(), wanted, "{class:?}");
        assert_eq!(DirectoryClass::from_number(class.number()), Some(class));
        let decoded = decode_directory(class, wanted.into()).unwrap();
        assert_eq!(decoded, [as_class(&entry("x"), class)]);
    }
}

#[test]
fn entries_begin_at_multiples_of_8_bytes() {
    let mut writer = DirectoryWriter::new(DirectoryClass::Names, 40);
    assert!(writer.is_empty());
    assert!(writer.push(&entry("abc")) && writer.push(&entry("d")));
    let wanted = "18000000 00000000 06000000 6100 6200 6300 000000000000
        00000000 00000000 02000000 6400";
    assert_eq!(writer.finish(), hex(wanted));
}

#[test]
fn a_reparse_point_has_its_tag_in_place_of_the_bytes_of_attributes() {
    let link =
        Entry { attributes: FileAttributes::REPARSE_POINT, reparse_tag: 0xa000_000c, ..entry("l") };
    let mut writer = DirectoryWriter::new(DirectoryClass::FullDirectory, 100);
    writer.push(&link);
    let bytes = writer.finish();
    assert_eq!(bytes[64..68], hex("0c0000a0"));
    let decoded = decode_directory(DirectoryClass::FullDirectory, bytes.into()).unwrap();
    assert_eq!((decoded[0].reparse_tag, decoded[0].ea_bytes), (0xa000_000c, 0));
}

fn rename(flags: RenameFlags, name: &str) -> RenameTarget {
    RenameTarget { flags, root_directory: 0, name: name.to_owned() }
}

fn set_cases() -> Vec<(SetInformation, String)> {
    let basic = SetBasic {
        creation: TimeChange::Set(FileTime(1)),
        last_access: TimeChange::Freeze,
        last_write: TimeChange::Thaw,
        change: TimeChange::Keep,
        attributes: FileAttributes::READONLY,
    };
    let times =
        format!("0100000000000000 {} fe{} {}", "ff".repeat(8), "ff".repeat(7), "00".repeat(8));
    let target = "0000000000000000 06000000 61005c006200".to_owned();
    let ea = |name: &'static str, value: &'static str| ExtendedAttribute {
        flags: 0,
        name: Bytes::from_static(name.as_bytes()),
        value: Bytes::from_static(value.as_bytes()),
    };
    let replace = RenameFlags::REPLACE_IF_EXISTS;
    let posix = replace.with(RenameFlags::POSIX_SEMANTICS);
    vec![
        (SetInformation::Basic(basic), format!("{times} 01000000 00000000")),
        (SetInformation::Disposition(Disposition::DELETE), "01".to_owned()),
        (
            SetInformation::DispositionEx(Disposition::DELETE.with(Disposition::ON_CLOSE)),
            "09000000".to_owned(),
        ),
        (SetInformation::EndOfFile(0x0102), "0201000000000000".to_owned()),
        (SetInformation::Allocation(0x0304), "0403000000000000".to_owned()),
        (SetInformation::Rename(rename(replace, "a\\b")), format!("01 00000000000000 {target}")),
        (SetInformation::RenameEx(rename(posix, "a\\b")), format!("03000000 00000000 {target}")),
        (
            SetInformation::Link(rename(RenameFlags::default(), "x")),
            "00 00000000000000 0000000000000000 02000000 7800 0000".to_owned(),
        ),
        (SetInformation::Position(5), "0500000000000000".to_owned()),
        (SetInformation::Mode(FileMode::WRITE_THROUGH), "02000000".to_owned()),
        (
            SetInformation::FullEa(vec![ea("A", "12"), ea("BC", "")]),
            "0c000000 00 01 0200 4100 3132 00000000 00 02 0000 424300".to_owned(),
        ),
    ]
}

#[test]
fn each_class_that_is_set_has_the_bytes_of_the_standard() {
    for (information, wanted) in set_cases() {
        let bytes = information.to_bytes();
        assert_eq!(bytes, hex(&wanted), "{information:?}");
        let decoded = SetInformation::decode(information.class(), bytes.into());
        assert_eq!(decoded, Ok(information));
    }
}

#[test]
fn what_is_set_is_refused_when_a_byte_is_missing() {
    for (information, _) in set_cases() {
        let bytes = information.to_bytes();
        // The padding behind a short name may be missing.
        let needed = match &information {
            SetInformation::Link(_) => bytes.len() - 2,
            _ => bytes.len(),
        };
        for length in 0..needed {
            let cut = Bytes::copy_from_slice(&bytes[..length]);
            let decoded = SetInformation::decode(information.class(), cut);
            let error = decoded.expect_err("a short one");
            let wanted = [NtStatus::INFO_LENGTH_MISMATCH, NtStatus::INVALID_PARAMETER];
            assert!(wanted.contains(&error), "{information:?} {length}");
        }
    }
}

#[test]
fn numbers_out_of_range_are_refused() {
    let of = |class, bytes: [u8; 8]| SetInformation::decode(class, bytes.to_vec().into());
    for class in [InformationClass::END_OF_FILE, InformationClass::ALLOCATION] {
        assert_eq!(of(class, [255; 8]), Err(NtStatus::INVALID_PARAMETER));
    }
    assert_eq!(of(InformationClass::STANDARD, [0; 8]), Err(NtStatus::INVALID_INFO_CLASS));
    let mut time = vec![0; 40];
    time[..8].copy_from_slice(&(-3i64).to_le_bytes());
    let decoded = SetInformation::decode(InformationClass::BASIC, time.into());
    assert_eq!(decoded, Err(NtStatus::INVALID_PARAMETER));
}

#[test]
fn names_of_extended_attributes_are_read_from_a_query() {
    let names = [Bytes::from_static(b"A"), Bytes::from_static(b"BCDE")];
    let bytes = encode_ea_names(&names);
    assert_eq!(bytes, hex("08000000 01 4100 00 00000000 04 4243444500"));
    assert_eq!(decode_ea_names(bytes.clone().into()).unwrap(), names);
    for length in 1..bytes.len() {
        assert!(decode_ea_names(Bytes::copy_from_slice(&bytes[..length])).is_err(), "{length}");
    }
    assert!(decode_ea_names(hex("00000000 01 4141").into()).is_err(), "no NUL");
}

#[test]
fn the_bytes_of_extended_attributes_count_as_in_os2() {
    assert_eq!(ea_list_bytes([].into_iter()), 0);
    assert_eq!(ea_list_bytes([(3, 10), (1, 0)].into_iter()), 4 + 18 + 6);
}

fn decodes_only_whole<T: Information + PartialEq + std::fmt::Debug>(value: &T) {
    let bytes = value.to_bytes();
    assert_eq!(T::from_bytes(bytes.clone().into()).as_ref(), Ok(value));
    for length in 0..bytes.len() {
        let cut: Result<T> = T::from_bytes(Bytes::copy_from_slice(&bytes[..length]));
        assert!(cut.is_err(), "{value:?} {length}");
    }
}

#[test]
fn information_is_refused_when_a_byte_is_missing() {
    let facts = facts();
    decodes_only_whole(&facts.basic());
    decodes_only_whole(&facts.standard());
    decodes_only_whole(&facts.network_open());
    decodes_only_whole(&facts.all());
    decodes_only_whole(&FileIdInformation { volume_serial: 1, file_id: [2; 16] });
    decodes_only_whole(&FileCompression { format: 2, unit_shift: 3, ..Default::default() });
    decodes_only_whole(&FileAttributeTag { reparse_tag: 1, ..Default::default() });
    decodes_only_whole(&FsVolume { label: "abc".to_owned(), ..FsVolume::default() });
    decodes_only_whole(&FsAttribute { file_system: "x".to_owned(), ..FsAttribute::default() });
    decodes_only_whole(&FsSize { total_units: 1, ..FsSize::default() });
    decodes_only_whole(&FsFullSize { total_units: 1, ..FsFullSize::default() });
    decodes_only_whole(&FsDevice { device_type: 7, characteristics: 32 });
    decodes_only_whole(&FsControl { flags: 1, ..FsControl::default() });
    decodes_only_whole(&FsObjectId { object_id: [1; 16] });
    decodes_only_whole(&FsSectorSize { logical_bytes: 512, ..FsSectorSize::default() });
    decodes_only_whole(&FsLabel { label: "disk".to_owned() });
}

fn any_entry() -> impl Strategy<Value = Entry> {
    let numbers = (any::<[u64; 7]>(), any::<[u32; 4]>());
    (numbers, "[a-z~.]{0,12}", "\\PC{0,40}").prop_map(|((long, short), short_name, name)| Entry {
        file_index: short[0],
        creation: FileTime(long[0]),
        last_access: FileTime(long[1]),
        last_write: FileTime(long[2]),
        change: FileTime(long[3]),
        end_of_file: long[4],
        allocation_bytes: long[5],
        attributes: FileAttributes(short[1]).without(FileAttributes::REPARSE_POINT),
        ea_bytes: short[2],
        reparse_tag: 0,
        short_name,
        file_id: long[6],
        name,
    })
}

proptest! {
    #[test]
    fn a_directory_returns_from_its_bytes(
        entries in proptest::collection::vec(any_entry(), 0..8),
        max_bytes in 0usize..2000,
        class in 0usize..7,
    ) {
        let class = DirectoryClass::ALL[class];
        let mut writer = DirectoryWriter::new(class, max_bytes);
        let fitted = entries.iter().take_while(|entry| writer.push(entry)).count();
        let bytes = writer.finish();
        prop_assert!(bytes.len() <= max_bytes);
        let decoded = decode_directory(class, bytes.clone().into()).unwrap();
        let wanted: Vec<_> = entries[..fitted].iter().map(|e| as_class(e, class)).collect();
        prop_assert_eq!(decoded, wanted);
        for length in 0..bytes.len() {
            // A cut at the end of an entry shows at the offset that the entry has.
            let cut = decode_directory(class, Bytes::copy_from_slice(&bytes[..length]));
            prop_assert!(cut.is_err() || length == 0, "{length}");
        }
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>, class: u8) {
        let bytes = Bytes::from(bytes);
        for class in DirectoryClass::ALL {
            let _ = decode_directory(class, bytes.clone());
        }
        let _ = SetInformation::decode(InformationClass(class % 70), bytes.clone());
        let _ = (decode_streams(bytes.clone()), decode_ea_names(bytes.clone()));
        let _ = (FileAll::from_bytes(bytes.clone()), FsVolume::from_bytes(bytes));
    }

    #[test]
    fn streams_return_from_their_bytes(
        streams in proptest::collection::vec(("\\PC{0,20}", any::<u64>(), any::<u64>()), 0..5),
    ) {
        let streams: Vec<_> = streams
            .into_iter()
            .map(|(name, bytes, allocation_bytes)| Stream { name, bytes, allocation_bytes })
            .collect();
        let (bytes, fitted) = encode_streams(&streams, usize::MAX);
        prop_assert_eq!(fitted, streams.len());
        prop_assert_eq!(decode_streams(bytes.into()).unwrap(), streams);
    }

    #[test]
    fn extended_attributes_return_from_their_bytes(
        attributes in proptest::collection::vec(
            (any::<u8>(), "[A-Z]{0,20}", any::<Vec<u8>>()), 0..5),
    ) {
        let attributes: Vec<_> = attributes
            .into_iter()
            .map(|(flags, name, value)| ExtendedAttribute {
                flags,
                name: name.into_bytes().into(),
                value: value.into(),
            })
            .collect();
        let (bytes, fitted) = encode_eas(&attributes, usize::MAX);
        prop_assert_eq!(fitted, attributes.len());
        prop_assert_eq!(decode_eas(bytes.into()).unwrap(), attributes);
    }
}
