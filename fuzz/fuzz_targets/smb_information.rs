//! Any bytes as information about files, as a list of directory entries, as a security descriptor
//! and as input and output of IOCTL, referrals included: no panic, and what is decoded has the same
//! bytes after it was encoded and decoded again.
#![no_main]

use braid_smb_wire::dfs::{ReferralRequest, ReferralRequestEx, ReferralResponse};
use braid_smb_wire::fscc::{
    DirectoryClass, DirectoryWriter, FileAll, FsAttribute, FsVolume, Information, InformationClass,
    SetInformation, decode_directory, decode_ea_names, decode_eas, decode_streams, encode_ea_names,
    encode_eas, encode_streams,
};
use braid_smb_wire::fsctl::{
    CopyChunkRequest, SymbolicLink, TrimRequest, ValidateNegotiateRequest, decode_interfaces,
    decode_ranges, encode_interfaces, encode_ranges,
};
use braid_smb_wire::sd::SecurityDescriptor;
use braid_smb_wire::wildcard::Pattern;
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((selector, rest)) = data.split_first() else { return };
    let bytes = Bytes::copy_from_slice(rest);
    match selector % 16 {
        0 => set(bytes),
        1 => directory(bytes),
        2 => descriptor(bytes),
        3 => again::<FileAll>(bytes),
        4 => again::<FsVolume>(bytes),
        5 => again::<FsAttribute>(bytes),
        6 => again::<CopyChunkRequest>(bytes),
        7 => again::<SymbolicLink>(bytes),
        8 => again::<ValidateNegotiateRequest>(bytes),
        9 => lists(bytes),
        10 => pattern(rest),
        11 => again::<ReferralRequest>(bytes),
        12 => again::<ReferralRequestEx>(bytes),
        13 => referral(bytes),
        14 => again::<TrimRequest>(bytes),
        _ => {}
    }
});

fn again<T: Information + PartialEq + std::fmt::Debug>(bytes: Bytes) {
    if let Ok(value) = T::from_bytes(bytes) {
        assert_eq!(T::from_bytes(value.to_bytes().into()), Ok(value));
    }
}

fn set(bytes: Bytes) {
    let Some(class) = bytes.first().copied() else { return };
    let decoded = SetInformation::decode(InformationClass(class), bytes.slice(1..));
    if let Ok(information) = decoded {
        let again = SetInformation::decode(information.class(), information.to_bytes().into());
        // An empty list of attributes has no bytes, which are too few.
        if !matches!(&information, SetInformation::FullEa(list) if list.is_empty()) {
            assert_eq!(again, Ok(information));
        }
    }
}

fn directory(bytes: Bytes) {
    for class in DirectoryClass::ALL {
        let Ok(entries) = decode_directory(class, bytes.clone()) else { continue };
        let mut writer = DirectoryWriter::new(class, usize::MAX);
        assert!(entries.iter().all(|entry| writer.push(entry)));
        assert_eq!(decode_directory(class, writer.finish().into()), Ok(entries));
    }
}

fn descriptor(bytes: Bytes) {
    let Ok(descriptor) = SecurityDescriptor::from_bytes(bytes) else { return };
    let encoded = Bytes::from(descriptor.to_bytes());
    let again = SecurityDescriptor::from_bytes(encoded.clone()).expect("own encoding");
    assert_eq!(again.to_bytes(), encoded);
    if let Some(owner) = again.owner {
        assert_eq!(owner.to_string().parse(), Ok(owner));
    }
}

fn lists(bytes: Bytes) {
    if let Ok(streams) = decode_streams(bytes.clone()) {
        let (encoded, _) = encode_streams(&streams, usize::MAX);
        assert_eq!(decode_streams(encoded.into()), Ok(streams));
    }
    if let Ok(attributes) = decode_eas(bytes.clone()) {
        let (encoded, _) = encode_eas(&attributes, usize::MAX);
        assert_eq!(decode_eas(encoded.into()), Ok(attributes));
    }
    if let Ok(names) = decode_ea_names(bytes.clone()) {
        assert_eq!(decode_ea_names(encode_ea_names(&names).into()), Ok(names));
    }
    if let Ok(interfaces) = decode_interfaces(bytes.clone()) {
        let (encoded, _) = encode_interfaces(&interfaces, usize::MAX);
        assert_eq!(decode_interfaces(encoded.into()), Ok(interfaces));
    }
    if let Ok(ranges) = decode_ranges(bytes) {
        let (encoded, _) = encode_ranges(&ranges, usize::MAX);
        assert_eq!(decode_ranges(encoded.into()), Ok(ranges));
    }
}

fn referral(bytes: Bytes) {
    let Ok(response) = ReferralResponse::from_bytes(bytes) else { return };
    // Texts that overlap may be too long when they are apart.
    let Ok(encoded) = response.to_bytes() else { return };
    assert_eq!(ReferralResponse::from_bytes(encoded.into()), Ok(response));
}

fn pattern(bytes: &[u8]) {
    let text = String::from_utf8_lossy(bytes);
    if let Some((pattern, name)) = text.split_once('/') {
        let _ = Pattern::new(pattern).matches(name);
        let escaped = name.replace(['*', '?', '<', '>', '"'], "");
        assert!(Pattern::new(&escaped).matches(&escaped));
    }
}
