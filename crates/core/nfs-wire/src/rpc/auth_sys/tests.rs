use proptest::prelude::*;

use super::*;
use crate::xdr::{Encoder, XdrError};

/// User 1000 with the groups 1000, 4 and 27 at the host "client1".
fn user() -> AuthSys {
    AuthSys {
        stamp: 0,
        machine_name: Bytes::from_static(b"client1"),
        uid: 1000,
        gid: 1000,
        gids: vec![4, 27],
    }
}

const USER: &[u8] = b"\
    \0\0\0\0\
    \0\0\0\x07client1\0\
    \0\0\x03\xe8\
    \0\0\x03\xe8\
    \0\0\0\x02\0\0\0\x04\0\0\0\x1b";

/// A body with this length of the name and this number of groups.
fn body(name: usize, groups: usize) -> Bytes {
    let mut to = Encoder::new();
    to.u32(1);
    to.opaque(&vec![b'a'; name]);
    to.u32(2);
    to.u32(3);
    to.u32(groups as u32);
    (0..groups).for_each(|group| to.u32(group as u32));
    to.to_vec().into()
}

#[test]
fn credential_has_the_bytes_that_linux_sends() {
    let credential = user().to_credential();
    assert_eq!(credential, OpaqueAuth { flavor: AUTH_SYS, body: USER.into() });
    assert_eq!(AuthSys::from_credential(&credential), Ok(user()));
}

#[test]
fn body_cut_anywhere_and_bytes_after_it_are_refused() {
    for length in 0..USER.len() {
        let cut = OpaqueAuth { flavor: AUTH_SYS, body: Bytes::from_static(&USER[..length]) };
        assert_eq!(AuthSys::from_credential(&cut), Err(AuthStatus::BadCredential), "{length}");
    }
    let longer = OpaqueAuth { flavor: AUTH_SYS, body: [USER, &[0; 4]].concat().into() };
    assert_eq!(AuthSys::from_credential(&longer), Err(AuthStatus::BadCredential));
}

#[test]
fn another_flavour_is_refused() {
    let other = OpaqueAuth { flavor: 2, body: Bytes::from_static(USER) };
    assert_eq!(AuthSys::from_credential(&other), Err(AuthStatus::BadCredential));
}

#[test]
fn longest_name_and_most_groups_are_accepted_and_no_more() {
    let largest = AuthSys::from_bytes(body(255, 16)).unwrap();
    assert_eq!((largest.machine_name.len(), largest.gids.len()), (255, 16));
    assert!(largest.to_credential().body.len() <= crate::rpc::auth::AUTH_BODY_BYTES_MAX);
    let name = XdrError::TooLong { length: 256, limit: 255 };
    assert_eq!(AuthSys::from_bytes(body(256, 0)), Err(name));
    let groups = XdrError::TooLong { length: 17, limit: 16 };
    assert_eq!(AuthSys::from_bytes(body(0, 17)), Err(groups));
}

proptest! {
    #[test]
    fn every_user_survives_both_directions(
        stamp: u32, uid: u32, gid: u32,
        name in proptest::collection::vec(any::<u8>(), 0..=255),
        gids in proptest::collection::vec(any::<u32>(), 0..=16),
    ) {
        let user = AuthSys { stamp, machine_name: name.into(), uid, gid, gids };
        prop_assert_eq!(AuthSys::from_credential(&user.to_credential()), Ok(user));
    }
}
