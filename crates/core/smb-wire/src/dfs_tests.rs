//! Tests of the forms of referrals.

use proptest::prelude::*;

use super::*;

fn entry(target: &str) -> Referral {
    Referral {
        is_root: true,
        begins_set: false,
        time_to_live: 60,
        path: r"\n\s".to_owned(),
        target: target.to_owned(),
    }
}

fn response(version: u16, entries: Vec<Referral>) -> ReferralResponse {
    let flags = ReferralFlags::REFERRAL_SERVERS.with(ReferralFlags::STORAGE_SERVERS);
    ReferralResponse { path_consumed: 8, flags, version, entries }
}

/// The text as it is on the wire, with its end.
fn text(text: &str) -> Vec<u8> {
    [to_utf16(text), vec![0, 0]].concat()
}

#[test]
fn requests_have_the_bytes_of_the_standard() {
    let request = ReferralRequest { max_level: 4, path: r"\n\s".to_owned() };
    let golden = [&[4, 0][..], &text(r"\n\s")].concat();
    assert_eq!(request.to_bytes(), golden);
    assert_eq!(ReferralRequest::from_bytes(golden.clone().into()).as_ref(), Ok(&request));
    let more = [&golden[..], b"abc"].concat();
    assert_eq!(ReferralRequest::from_bytes(more.into()), Ok(request), "what follows is ignored");

    let path = r"\n\s".to_owned();
    let request = ReferralRequestEx { max_level: 3, path, site: Some("x".to_owned()) };
    let golden = [&[3, 0, 1, 0, 18, 0, 0, 0, 10, 0][..], &text(r"\n\s"), &[4, 0], &text("x")];
    let golden = golden.concat();
    assert_eq!(request.to_bytes(), golden);
    assert_eq!(ReferralRequestEx::from_bytes(golden.clone().into()).as_ref(), Ok(&request));
    for length in 0..golden.len() {
        let cut = Bytes::copy_from_slice(&golden[..length]);
        assert!(ReferralRequestEx::from_bytes(cut).is_err(), "{length}");
    }
    let bare = [&[3, 0, 0, 0, 6, 0, 0, 0, 4, 0][..], &to_utf16(r"\n")].concat();
    let request = ReferralRequestEx { path: r"\n".to_owned(), site: None, ..request };
    assert_eq!(ReferralRequestEx::from_bytes(bare.into()), Ok(request), "without its 0");
}

#[test]
fn requests_that_are_too_long_or_have_no_end_are_refused() {
    let request = |bytes: &[u8]| ReferralRequest::from_bytes(Bytes::copy_from_slice(bytes));
    for bytes in [&b""[..], &[4], &[4, 0], &[4, 0, 92], &[4, 0, 92, 0], &[4, 0, 92, 0, 0]] {
        assert!(request(bytes).is_err(), "{bytes:?}");
    }
    assert!(request(&[4, 0, 0, 0xd8, 0, 0]).is_err(), "half a surrogate pair");
    let path = "x".repeat(TEXT_UNITS_MAX);
    let long = ReferralRequest { max_level: 4, path: path.clone() };
    assert_eq!(request(&long.to_bytes()), Ok(long));
    let longer = ReferralRequest { max_level: 4, path: format!("{path}x") };
    assert!(request(&longer.to_bytes()).is_err());
    assert!(request(&[0x5c; 1 << 16]).is_err(), "64 KiB without an end");
    let all = [&[4, 0, 0, 0, 255, 255, 255, 255, 255, 255][..], &[0x5c; 70_000]].concat();
    assert!(ReferralRequestEx::from_bytes(all.into()).is_err());
    let long = [&[4, 0, 0, 0, 2, 0x40, 0, 0, 0, 0x40][..], &[0x5c; 0x4000]].concat();
    assert!(ReferralRequestEx::from_bytes(long.into()).is_err(), "16 KiB");
}

#[test]
fn a_response_of_version_4_has_the_bytes_of_the_standard() {
    let first = Referral { begins_set: true, ..entry(r"\a\s") };
    let mut wanted = response(4, vec![first, entry(r"\b\s")]);
    wanted.flags = wanted.flags.with(ReferralFlags::TARGET_FAILBACK);
    let golden = [
        &[8, 0, 2, 0, 7, 0, 0, 0][..],
        // Version, size, type, flags, time to live, path, path, target; site.
        &[4, 0, 34, 0, 1, 0, 4, 0, 60, 0, 0, 0, 68, 0, 68, 0, 78, 0],
        &[0; 16],
        &[4, 0, 34, 0, 1, 0, 0, 0, 60, 0, 0, 0, 34, 0, 34, 0, 54, 0],
        &[0; 16],
        &text(r"\n\s"),
        &text(r"\a\s"),
        &text(r"\b\s"),
    ];
    let golden = golden.concat();
    assert_eq!(wanted.to_bytes().unwrap(), golden);
    assert_eq!(ReferralResponse::from_bytes(golden.clone().into()), Ok(wanted));
    for length in 0..golden.len() {
        let cut = Bytes::copy_from_slice(&golden[..length]);
        assert!(ReferralResponse::from_bytes(cut).is_err(), "{length}");
    }
}

#[test]
fn older_versions_have_less() {
    let third = response(3, vec![entry(r"\a\s")]);
    let bytes = third.to_bytes().unwrap();
    assert_eq!(bytes[8..26], [3, 0, 34, 0, 1, 0, 0, 0, 60, 0, 0, 0, 34, 0, 34, 0, 44, 0]);
    let boundary = response(3, vec![Referral { begins_set: true, ..entry(r"\a\s") }]);
    assert_eq!(boundary.to_bytes().unwrap(), bytes, "only version 4 has sets");
    let second = response(2, vec![entry(r"\a\s")]);
    let bytes = second.to_bytes().unwrap();
    assert_eq!(
        bytes[8..30],
        [2, 0, 22, 0, 1, 0, 0, 0, 0, 0, 0, 0, 60, 0, 0, 0, 22, 0, 22, 0, 32, 0]
    );
    assert_eq!(ReferralResponse::from_bytes(bytes.into()), Ok(second));
    let target = Referral { is_root: true, target: r"\a\s".to_owned(), ..Referral::default() };
    let first = response(1, vec![target]);
    let bytes = first.to_bytes().unwrap();
    assert_eq!(bytes[8..], [&[1, 0, 18, 0, 1, 0, 0, 0][..], &text(r"\a\s")].concat());
    assert_eq!(ReferralResponse::from_bytes(bytes.into()), Ok(first));
}

#[test]
fn responses_that_do_not_fit_are_refused() {
    assert!(response(0, vec![entry("a")]).to_bytes().is_err());
    assert!(response(5, vec![entry("a")]).to_bytes().is_err());
    let long = |letter: &str| entry(&letter.repeat(20_000));
    assert!(response(4, vec![long("a")]).to_bytes().is_ok());
    assert!(response(4, vec![long("a"), long("b"), long("c")]).to_bytes().is_err());
    assert!(response(1, vec![entry(&"a".repeat(40_000))]).to_bytes().is_err());
    let names: Vec<_> = (0..64).map(|number| entry(&format!(r"\{number:0253}\s"))).collect();
    assert!(response(4, names).to_bytes().is_ok());
    let fine = response(3, vec![entry(r"\a\s"), entry(r"\b\s")]).to_bytes().unwrap();
    let changed = |at: usize, value: u8| {
        let mut bytes = fine.clone();
        bytes[at] = value;
        ReferralResponse::from_bytes(bytes.into())
    };
    assert!(changed(2, 3).is_err(), "more entries than there are");
    assert!(changed(3, 255).is_err());
    assert!(changed(8, 4).is_err(), "two versions");
    assert!(changed(10, 33).is_err(), "a short entry");
    assert!(changed(14, 2).is_err(), "a list of names");
    assert!(changed(25, 255).is_err(), "an offset behind the end");
}

proptest! {
    #[test]
    fn referrals_return_from_their_bytes(
        version in 2_u16..=4,
        path in "[^\0]{0,20}",
        targets in proptest::collection::vec("[^\0]{0,20}", 0..10),
        time_to_live: u32,
    ) {
        let begins_set = version == 4;
        let entry = |target| {
            Referral { is_root: true, begins_set, time_to_live, path: path.clone(), target }
        };
        let version = if targets.is_empty() { VERSION_MAX } else { version };
        let wanted = response(version, targets.into_iter().map(entry).collect());
        let bytes = wanted.to_bytes().unwrap();
        prop_assert_eq!(ReferralResponse::from_bytes(bytes.into()), Ok(wanted));
        let request = ReferralRequest { max_level: version, path: path.clone() };
        prop_assert_eq!(ReferralRequest::from_bytes(request.to_bytes().into()), Ok(request));
        let request = ReferralRequestEx { max_level: version, path, site: None };
        prop_assert_eq!(ReferralRequestEx::from_bytes(request.to_bytes().into()), Ok(request));
    }

    #[test]
    fn no_bytes_make_a_decoder_panic(bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let _ = ReferralRequest::from_bytes(bytes.clone());
        let _ = ReferralRequestEx::from_bytes(bytes.clone());
        if let Ok(response) = ReferralResponse::from_bytes(bytes) {
            let _ = response.to_bytes();
        }
    }
}
