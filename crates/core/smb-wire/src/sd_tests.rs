//! Tests of security descriptors.

use proptest::prelude::*;

use super::*;

/// Administrators own it; everyone may read, user 1000 may not write.
fn descriptor() -> SecurityDescriptor {
    let aces = vec![
        Ace::deny(Sid::unix_user(1000), AccessMask::WRITE_DATA, AceFlags::default()),
        Ace::allow(Sid::everyone(), AccessMask::ALL_OF_READ, AceFlags::OBJECT_INHERIT),
    ];
    SecurityDescriptor {
        control: Control::SELF_RELATIVE.with(Control::DACL_PRESENT),
        owner: Some(Sid::new(5, &[32, 544])),
        group: None,
        sacl: None,
        dacl: Some(Acl { aces }),
    }
}

const GOLDEN: [u8; 88] = [
    1, 0, 4, 0x80, 72, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 20, 0, 0, 0, // header
    2, 0, 52, 0, 2, 0, 0, 0, // access list
    1, 0, 24, 0, 2, 0, 0, 0, // deny
    1, 2, 0, 0, 0, 0, 0, 22, 1, 0, 0, 0, 0xe8, 3, 0, 0, // S-1-22-1-1000
    0, 1, 20, 0, 0x89, 0, 0x12, 0, // allow
    1, 1, 0, 0, 0, 0, 0, 1, 0, 0, 0, 0, // S-1-1-0
    1, 2, 0, 0, 0, 0, 0, 5, 32, 0, 0, 0, 0x20, 2, 0, 0, // S-1-5-32-544
];

#[test]
fn a_descriptor_has_the_bytes_of_the_standard() {
    assert_eq!(descriptor().to_bytes(), GOLDEN);
    let decoded = SecurityDescriptor::from_bytes(Bytes::from_static(&GOLDEN));
    assert_eq!(decoded, Ok(descriptor()));
}

#[test]
fn a_descriptor_is_refused_when_a_byte_is_missing() {
    for length in 0..GOLDEN.len() {
        let cut = Bytes::copy_from_slice(&GOLDEN[..length]);
        assert!(SecurityDescriptor::from_bytes(cut).is_err(), "{length}");
    }
}

#[test]
fn fields_that_are_not_valid_are_refused() {
    for (at, value) in [
        (0, 2),   // Revision
        (3, 0),   // not self-relative
        (4, 200), // the owner is outside
        (20, 1),  // AclRevision
        (22, 7),  // AclSize below its header
        (22, 51), // AclSize in the last entry
        (24, 13), // AceCount over AclSize
        (30, 3),  // AceSize below its header
        (30, 23), // AceSize in the SID
        (36, 2),  // revision of a SID
        (37, 16), // sub-authorities
    ] {
        let mut bad = GOLDEN;
        bad[at] = value;
        assert!(SecurityDescriptor::from_bytes(bad.to_vec().into()).is_err(), "{at} {value}");
    }
}

#[test]
fn an_offset_without_its_flag_does_not_count() {
    let mut bytes = GOLDEN;
    bytes[2] = 0;
    bytes[12] = 255;
    let decoded = SecurityDescriptor::from_bytes(bytes.to_vec().into()).unwrap();
    assert_eq!((decoded.dacl, decoded.sacl), (None, None));
}

#[test]
fn no_list_and_an_empty_list_are_different() {
    let everything = SecurityDescriptor {
        control: Control::SELF_RELATIVE.with(Control::DACL_PRESENT),
        ..SecurityDescriptor::default()
    };
    let nothing = SecurityDescriptor { dacl: Some(Acl::default()), ..everything.clone() };
    for descriptor in [everything, nothing] {
        let decoded = SecurityDescriptor::from_bytes(descriptor.to_bytes().into());
        assert_eq!(decoded, Ok(descriptor));
    }
}

#[test]
fn a_list_that_is_too_long_for_its_size_is_cut() {
    let ace = Ace::allow(Sid::everyone(), AccessMask::ALL, AceFlags::default());
    let dacl = Some(Acl { aces: vec![ace; 4000] });
    let bytes = SecurityDescriptor { dacl, ..SecurityDescriptor::default() }.to_bytes();
    let decoded = SecurityDescriptor::from_bytes(bytes.into()).unwrap();
    assert_eq!(decoded.dacl.unwrap().aces.len(), (65_535 - 8) / 20);
}

#[test]
fn a_sid_is_written_and_read_as_text() {
    for text in ["S-1-0", "S-1-1-0", "S-1-5-21-1-2-4294967295", "S-1-0x100000000000-7"] {
        let sid: Sid = text.parse().unwrap();
        assert_eq!(sid.to_string(), text);
    }
    for text in ["", "S-1-", "S-2-1", "S-1-x", "S-1-5-4294967296", "S-1-0x1000000000000", "S-1-5-"]
    {
        assert!(text.parse::<Sid>().is_err(), "{text}");
    }
    assert!(format!("S-1-5{}", "-1".repeat(16)).parse::<Sid>().is_err());
}

fn any_sid() -> impl Strategy<Value = Sid> {
    let numbers = proptest::collection::vec(any::<u32>(), 0..=SUB_AUTHORITIES_MAX);
    (0..1u64 << 48, numbers).prop_map(|(authority, numbers)| Sid::new(authority, &numbers))
}

fn any_ace() -> impl Strategy<Value = Ace> {
    let other = (2..=255u8, proptest::collection::vec(any::<[u8; 4]>(), 0..8));
    let kind = prop_oneof![
        (any::<u32>(), any_sid())
            .prop_map(|(mask, sid)| AceKind::Allow { mask: AccessMask(mask), sid }),
        (any::<u32>(), any_sid())
            .prop_map(|(mask, sid)| AceKind::Deny { mask: AccessMask(mask), sid }),
        other.prop_map(|(kind, words)| AceKind::Other { kind, body: words.concat().into() }),
    ];
    (any::<u8>(), kind).prop_map(|(flags, kind)| Ace { flags: AceFlags(flags), kind })
}

fn any_acl() -> impl Strategy<Value = Option<Acl>> {
    let aces = proptest::collection::vec(any_ace(), 0..6);
    proptest::option::of(aces.prop_map(|aces| Acl { aces }))
}

proptest! {
    #[test]
    fn a_descriptor_returns_from_its_bytes(
        owner in proptest::option::of(any_sid()),
        group in proptest::option::of(any_sid()),
        sacl in any_acl(),
        dacl in any_acl(),
    ) {
        let mut control = Control::SELF_RELATIVE;
        if sacl.is_some() {
            control = control.with(Control::SACL_PRESENT);
        }
        if dacl.is_some() {
            control = control.with(Control::DACL_PRESENT);
        }
        let descriptor = SecurityDescriptor { control, owner, group, sacl, dacl };
        let decoded = SecurityDescriptor::from_bytes(descriptor.to_bytes().into());
        prop_assert_eq!(decoded, Ok(descriptor));
    }

    #[test]
    fn a_changed_byte_makes_no_decoder_panic(at in 0..GOLDEN.len(), value: u8) {
        let mut bytes = GOLDEN;
        bytes[at] = value;
        let _ = SecurityDescriptor::from_bytes(bytes.to_vec().into());
    }

    #[test]
    fn a_sid_returns_from_its_text(sid in any_sid()) {
        prop_assert_eq!(sid.to_string().parse(), Ok(sid));
    }
}
