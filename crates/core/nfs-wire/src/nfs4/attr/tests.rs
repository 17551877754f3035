//! Attributes in both directions, requested subsets, and what is refused.

use bytes::Bytes;

use super::{
    AttributeError, Attributes, OpenArguments, ThresholdItem, Thresholds, attribute, open_argument,
};
use crate::nfs4::types::*;
use crate::nfs4::{Ace, AceFlags, AceMask, AceType, AclSupport, Bitmap, MdsThreshold, NfsStatus};
use crate::xdr::{Decoder, Encoder, Xdr, XdrError};

/// Every attribute with a value.
fn all() -> Attributes {
    let time = NfsTime { seconds: -2, nanoseconds: 5 };
    let ace = Ace {
        ace_type: AceType::DENY,
        flags: AceFlags::IDENTIFIER_GROUP,
        mask: AceMask::GENERIC_WRITE,
        who: Bytes::from_static(b"EVERYONE@"),
    };
    let thresholds =
        Thresholds { read_size: Some(4096), write_io_size: Some(1), ..Thresholds::default() };
    let item = ThresholdItem::new(LayoutType::FILES, &thresholds);
    Attributes {
        supported_attrs: Some(attribute::ALL),
        file_type: Some(NfsFtype::Directory),
        fh_expire_type: Some(0),
        change: Some(7),
        size: Some(u64::MAX),
        link_support: Some(true),
        symlink_support: Some(true),
        named_attr: Some(false),
        fsid: Some(FsId { major: 1, minor: 2 }),
        unique_handles: Some(true),
        lease_time: Some(90),
        rdattr_error: Some(NfsStatus::Access),
        acl: Some(vec![ace.clone(), ace]),
        aclsupport: Some(AclSupport::ALLOW | AclSupport::DENY),
        cansettime: Some(true),
        case_insensitive: Some(false),
        case_preserving: Some(true),
        chown_restricted: Some(true),
        filehandle: Some(FileHandle(Bytes::from_static(&[9; 33]))),
        fileid: Some(3),
        files_avail: Some(4),
        files_free: Some(5),
        files_total: Some(6),
        homogeneous: Some(true),
        maxfilesize: Some(8),
        maxlink: Some(9),
        maxname: Some(255),
        maxread: Some(1 << 20),
        maxwrite: Some(1 << 20),
        mode: Some(0o644),
        no_trunc: Some(true),
        numlinks: Some(2),
        owner: Some(Bytes::from_static(b"1000")),
        owner_group: Some(Bytes::from_static(b"users@example.org")),
        quota_avail_hard: Some(10),
        quota_avail_soft: Some(11),
        quota_used: Some(12),
        rawdev: Some(SpecData { major: 8, minor: 1 }),
        space_avail: Some(13),
        space_free: Some(14),
        space_total: Some(15),
        space_used: Some(16),
        time_access: Some(time),
        time_access_set: Some(SetTime::Client(time)),
        time_create: Some(time),
        time_delta: Some(NfsTime { seconds: 0, nanoseconds: 1 }),
        time_metadata: Some(time),
        time_modify: Some(time),
        time_modify_set: Some(SetTime::Server),
        mounted_on_fileid: Some(17),
        fs_layout_types: Some(vec![LayoutType::FILES]),
        layout_types: Some(vec![LayoutType::FILES, LayoutType::FLEX_FILES]),
        layout_blksize: Some(1 << 20),
        layout_alignment: Some(4096),
        mdsthreshold: Some(MdsThreshold { hints: vec![item] }),
        mode_set_masked: Some(MaskedMode { value: 1, mask: 3 }),
        suppattr_exclcreat: Some(attribute::SETTABLE),
        fs_charset_cap: Some(2),
        clone_blksize: Some(512),
        space_freed: Some(18),
        change_attr_type: Some(ChangeAttrType::VersionCounter),
        mode_umask: Some(ModeUmask { mode: 0o777, umask: 0o22 }),
        xattr_support: Some(true),
        open_arguments: Some(OpenArguments {
            share_access: Bitmap::of(&[1, 3]),
            share_deny: Bitmap::of(&[0]),
            share_access_want: Bitmap::of(&[open_argument::WANT_CANCEL, 21]),
            open_claim: Bitmap::new(),
            create_mode: Bitmap::of(&[2]),
        }),
    }
}

#[test]
fn every_attribute_is_the_same_after_encoding_and_decoding() {
    let attributes = all();
    assert_eq!(attributes.mask(), attribute::ALL);
    let encoded = attributes.to_encoded(&attribute::ALL);
    assert_eq!(Attributes::from_encoded(&encoded), Ok(attributes));
}

#[test]
fn each_attribute_alone_is_the_same_after_encoding_and_decoding() {
    let attributes = all();
    for number in attribute::ALL.iter() {
        let alone = Bitmap::of(&[number]);
        let encoded = attributes.to_encoded(&alone);
        assert_eq!(encoded.mask, alone);
        let decoded = Attributes::from_encoded(&encoded).unwrap();
        assert_eq!(decoded.mask(), alone);
        assert_eq!(decoded.to_encoded(&attribute::ALL), encoded);
    }
}

#[test]
fn only_requested_attributes_that_are_set_are_encoded() {
    let attributes = Attributes { size: Some(5), mode: Some(0o600), ..Attributes::default() };
    let requested = Bitmap::of(&[attribute::CHANGE, attribute::SIZE, 126]);
    let mut to = Encoder::new();
    attributes.encode_requested(&requested, &mut to);
    let expected = b"\0\0\0\x01\0\0\0\x10\0\0\0\x08\0\0\0\0\0\0\0\x05";
    assert_eq!(to.to_vec(), expected);
    assert_eq!(attributes.to_encoded(&requested).to_bytes(), expected);
}

#[test]
fn unsupported_attributes_differ_from_malformed_ones() {
    // sec_label (80) is absent; the size before it is well-formed.
    let mask = Bitmap::of(&[attribute::SIZE, 80]);
    let mut encoded = EncodedAttributes { mask, values: Bytes::from_static(&[0; 16]) };
    let error = Attributes::from_encoded(&encoded).unwrap_err();
    assert_eq!((error, error.status()), (AttributeError::Unsupported(80), NfsStatus::AttrNotSupp));

    encoded.values = Bytes::from_static(&[0; 7]);
    let error = Attributes::from_encoded(&encoded).unwrap_err();
    assert_eq!(error, AttributeError::Malformed(XdrError::Truncated));
    assert_eq!(error.status(), NfsStatus::BadXdr);

    let mask = Bitmap::of(&[attribute::SIZE]);
    let encoded = EncodedAttributes { mask, values: Bytes::from_static(&[0; 12]) };
    let error = Attributes::from_encoded(&encoded).unwrap_err();
    assert_eq!(error, AttributeError::Malformed(XdrError::TrailingBytes { count: 4 }));
}

#[test]
fn attributes_of_later_words_are_unsupported() {
    // Five words; only a bit of the fifth is set.
    let mut bytes = vec![0; 24];
    (bytes[3], bytes[23]) = (5, 1);
    bytes.extend([0; 4]);
    let encoded = EncodedAttributes::from_bytes(bytes.into()).unwrap();
    assert!(encoded.mask.has_unknown() && !encoded.mask.is_empty());
    let error = Attributes::from_encoded(&encoded).unwrap_err();
    assert_eq!(error.status(), NfsStatus::AttrNotSupp);
}

#[test]
fn attributes_cut_anywhere_are_malformed() {
    let whole = all().to_encoded(&attribute::ALL);
    for length in 0..whole.values.len() {
        let cut = EncodedAttributes { mask: whole.mask, values: whole.values.slice(..length) };
        let error = Attributes::from_encoded(&cut).unwrap_err();
        assert_eq!(error.status(), NfsStatus::BadXdr, "{length} bytes");
    }
}

#[test]
fn bitmaps_end_with_a_word_that_is_not_zero() {
    for (numbers, bytes) in [
        (&[][..], &b"\0\0\0\0"[..]),
        (&[0], b"\0\0\0\x01\0\0\0\x01"),
        (&[33, 1], b"\0\0\0\x02\0\0\0\x02\0\0\0\x02"),
        (&[64], b"\0\0\0\x03\0\0\0\0\0\0\0\0\0\0\0\x01"),
    ] {
        let bitmap = Bitmap::of(numbers);
        assert_eq!(bitmap.to_bytes(), bytes);
        assert_eq!(Bitmap::from_bytes(Bytes::from_static(bytes)), Ok(bitmap));
    }
    let zeros = Bytes::from_static(b"\0\0\0\x02\0\0\0\0\0\0\0\0");
    assert_eq!(Bitmap::from_bytes(zeros), Ok(Bitmap::new()));
}

#[test]
fn bitmaps_are_iterated_in_ascending_order() {
    let numbers = [0, 1, 31, 32, 63, 64, 127];
    let bitmap: Bitmap = numbers.into_iter().rev().collect();
    assert_eq!(bitmap.iter().collect::<Vec<_>>(), numbers);
    assert!(numbers.iter().all(|number| bitmap.has(*number)));
    assert!(!bitmap.has(2) && !bitmap.has(128) && !bitmap.has(u32::MAX));
    let less = bitmap.without(Bitmap::of(&[31, 64]));
    assert_eq!(less.iter().collect::<Vec<_>>(), [0, 1, 32, 63, 127]);
}

#[test]
fn a_bitmap_with_a_false_count_takes_no_memory() {
    let mut from = Decoder::new(Bytes::from_static(b"\xff\xff\xff\xff\0\0\0\0"));
    assert_eq!(Bitmap::decode(&mut from), Err(XdrError::Truncated));
}

#[test]
fn thresholds_are_the_same_after_encoding_and_decoding() {
    let thresholds =
        Thresholds { write_size: Some(1), read_io_size: Some(2), ..Default::default() };
    let item = ThresholdItem::new(LayoutType::FILES, &thresholds);
    assert_eq!(item.hint_list.len(), 16);
    assert_eq!(item.thresholds(), Ok(thresholds));
    let unknown = ThresholdItem { hint_set: Bitmap::of(&[4]), ..item };
    assert_eq!(unknown.thresholds(), Err(XdrError::Invalid { what: "threshold", value: 4 }));
}
