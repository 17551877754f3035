//! The attributes `acl` and `aclsupport`, on a file system in memory and on a cluster.

use braid_nfs_wire::nfs4::args::*;
use braid_nfs_wire::nfs4::*;
use bytes::Bytes;

use crate::client::user;
use crate::cluster::on_both;
use crate::last;
use crate::mount::*;
use crate::server::TestServer;

on_both! {
    a_list_is_shown_as_it_was_set_with_the_mode_that_it_means,
    a_file_without_a_list_shows_what_its_mode_means,
    lists_that_cannot_be_stored_are_refused_and_change_nothing,
    mode_and_list_of_one_setattr_are_set_together_or_not_at_all,
    new_objects_have_the_list_of_their_creation,
    lists_and_owners_are_compared_whatever_their_form,
    a_list_decides_who_opens_a_file,
}

const READ: AceMask = AceMask::READ_DATA;
const WRITE: AceMask = AceMask(0x6);

fn ace(ace_type: AceType, flags: u32, who: &str, mask: AceMask) -> Ace {
    Ace { ace_type, flags: AceFlags(flags), mask, who: Bytes::copy_from_slice(who.as_bytes()) }
}

fn allow(who: &str, mask: AceMask) -> Ace {
    ace(AceType::ALLOW, 0, who, mask)
}

fn list(aces: Vec<Ace>) -> Attributes {
    Attributes { acl: Some(aces), ..Attributes::default() }
}

fn set(attributes: &Attributes) -> ArgOp {
    let attributes = encoded(attributes);
    ArgOp::SetAttr(SetAttrArgs { state_id: StateId::ANONYMOUS, attributes })
}

/// A list that names somebody: its mode is 0674.
fn example() -> Vec<Ace> {
    vec![
        ace(AceType::DENY, 0, "1000", WRITE),
        allow("OWNER@", READ | WRITE),
        ace(AceType::ALLOW, AceFlags::IDENTIFIER_GROUP.0, "100", READ | AceMask::EXECUTE | WRITE),
        allow("EVERYONE@", READ),
    ]
}

async fn acl_and_mode(mount: &mut Mount, handle: &FileHandle) -> (Vec<Ace>, u32) {
    let known = mount.attributes(handle, &[attribute::ACL, attribute::MODE]).await;
    (known.acl.expect("a list"), known.mode.expect("a mode"))
}

async fn a_list_is_shown_as_it_was_set_with_the_mode_that_it_means(mut a: Mount) {
    let file = a.create("f").await;
    let other_forms = vec![
        ace(AceType::DENY, 0, "1000@example.org", WRITE),
        allow("OWNER@", READ | WRITE),
        ace(AceType::ALLOW, AceFlags::IDENTIFIER_GROUP.0, "100", READ | AceMask::EXECUTE | WRITE),
        allow("EVERYONE@", READ),
    ];
    let done = a.run(file.op(set(&list(other_forms)))).await;
    let ResOp::SetAttr(done) = done.last() else { panic!("no SETATTR") };
    assert_eq!(done.attributes_set, Bitmap::of(&[attribute::ACL]));
    assert_eq!(acl_and_mode(&mut a, &file.handle).await, (example(), 0o674));
    let support = a.attributes(&file.handle, &[attribute::ACLSUPPORT]).await.aclsupport;
    assert_eq!(support, Some(AclSupport::ALLOW | AclSupport::DENY));
    let supported = a.attributes(&file.handle, &[attribute::SUPPORTED_ATTRS]).await;
    assert!(supported.supported_attrs.unwrap().has(attribute::ACL));
    // GROUP@ of nfs4-acl-tools has the flag of a group, too.
    let group = ace(AceType::ALLOW, AceFlags::IDENTIFIER_GROUP.0, "GROUP@", READ);
    let inherits = AceFlags::FILE_INHERIT | AceFlags::DIRECTORY_INHERIT;
    let inherited = ace(AceType::ALLOW, inherits.0 | AceFlags::INHERITED.0, "7", READ);
    let dir = a.make_directory("d").await;
    let aces = vec![group.clone(), inherited.clone()];
    for handle in [&file.handle, &dir] {
        assert_eq!(a.status(at(handle, set(&list(aces.clone())))).await, NfsStatus::Ok);
    }
    let plain =
        |flags: AceFlags| vec![allow("GROUP@", READ), ace(AceType::ALLOW, flags.0, "7", READ)];
    assert_eq!(acl_and_mode(&mut a, &file.handle).await.0, plain(AceFlags::empty()));
    assert_eq!(acl_and_mode(&mut a, &dir).await.0, plain(inherits));
    // READDIR shows the same.
    let which = [attribute::ACL, attribute::MODE, attribute::RDATTR_ERROR];
    let args = ReadDirArgs {
        cookie: 0,
        verifier: Verifier([0; 8]),
        dir_count: 4096,
        max_count: 65_536,
        attributes: Bitmap::of(&which),
    };
    let listed = last!(ReadDir, a.run([ArgOp::PutRootFh, ArgOp::ReadDir(args)]).await);
    let of = |name: &str| {
        let mut found = listed.entries.iter().filter(|entry| entry.name == name);
        Attributes::from_encoded(&found.next().expect(name).attributes).unwrap().acl
    };
    assert_eq!(of("f"), Some(plain(AceFlags::empty())));
    assert_eq!(of("d"), Some(plain(inherits)));
}

async fn a_file_without_a_list_shows_what_its_mode_means(mut a: Mount) {
    let file = a.create("f").await;
    let mode = Attributes { mode: Some(0o640), ..Attributes::default() };
    assert_eq!(a.status(file.op(set(&mode))).await, NfsStatus::Ok);
    let (aces, mode) = acl_and_mode(&mut a, &file.handle).await;
    assert_eq!(mode, 0o640);
    let bits = |who: &str, mask: AceMask| {
        let mut of = aces.iter().filter(|ace| ace.ace_type == AceType::ALLOW && ace.who == who);
        of.next().is_some_and(|ace| ace.mask.0 & mask.0 == mask.0)
    };
    assert!(bits("OWNER@", READ | WRITE) && bits("GROUP@", READ));
    assert!(!bits("OWNER@", AceMask::EXECUTE) && !bits("GROUP@", AceMask::WRITE_DATA));
    assert!(!bits("EVERYONE@", READ));
    // To set it leaves the mode.
    assert_eq!(a.status(file.op(set(&list(aces.clone())))).await, NfsStatus::Ok);
    assert_eq!(acl_and_mode(&mut a, &file.handle).await, (aces, 0o640));
    let link = a.make_symlink("s").await;
    let of_link = a.attributes(&link, &[attribute::ACL, attribute::TYPE]).await;
    assert_eq!((of_link.acl, of_link.file_type), (None, Some(NfsFtype::Link)));
}

async fn lists_that_cannot_be_stored_are_refused_and_change_nothing(mut a: Mount) {
    let file = a.create("f").await;
    assert_eq!(a.status(file.op(set(&list(example())))).await, NfsStatus::Ok);
    let read = || allow("EVERYONE@", READ);
    for (aces, expected) in [
        (vec![read(); 1025], NfsStatus::FBig),
        (vec![read(); 5000], NfsStatus::FBig),
        (vec![ace(AceType::AUDIT, 0, "OWNER@", READ)], NfsStatus::AttrNotSupp),
        (vec![ace(AceType::ALARM, 0, "OWNER@", READ)], NfsStatus::AttrNotSupp),
        (vec![ace(AceType(77), 0, "OWNER@", READ)], NfsStatus::AttrNotSupp),
        (vec![read(), allow("nobody-has-this-name", READ)], NfsStatus::BadOwner),
        (vec![allow("NETWORK@", READ)], NfsStatus::BadOwner),
        (vec![allow("007", READ)], NfsStatus::BadOwner),
        (vec![allow("", READ)], NfsStatus::Inval),
        (vec![allow("\u{fffd}".repeat(4096).as_str(), READ)], NfsStatus::BadOwner),
        (vec![ace(AceType::ALLOW, AceFlags::FAILED_ACCESS.0, "5", READ)], NfsStatus::Inval),
        (vec![ace(AceType::ALLOW, 0x100, "5", READ)], NfsStatus::Inval),
        (vec![allow("5", AceMask(0x800))], NfsStatus::Inval),
    ] {
        // The mode is not set either.
        let both = Attributes { mode: Some(0o4777), ..list(aces) };
        let (first, count) = (format!("{:?}", both.acl.as_ref().unwrap()[0]), both.acl.as_ref());
        let what = format!("{} of {first:.200}", count.unwrap().len());
        assert_eq!(a.status(file.op(set(&both))).await, expected, "{what}");
    }
    // A count that the message cannot contain.
    let cut = EncodedAttributes {
        mask: Bitmap::of(&[attribute::ACL]),
        values: Bytes::from_static(&[0, 0, 4, 0, 0, 0, 0, 0]),
    };
    let cut = SetAttrArgs { state_id: StateId::ANONYMOUS, attributes: cut };
    assert_eq!(a.status(file.op(ArgOp::SetAttr(cut))).await, NfsStatus::BadXdr);
    assert_eq!(acl_and_mode(&mut a, &file.handle).await, (example(), 0o674));
    let link = a.make_symlink("s").await;
    assert_eq!(a.status(at(&link, set(&list(vec![read()])))).await, NfsStatus::AttrNotSupp);
    assert_eq!(a.status(file.op(set(&list(vec![read(); 1024])))).await, NfsStatus::Ok);
    assert_eq!(acl_and_mode(&mut a, &file.handle).await.0.len(), 1024);
}

async fn mode_and_list_of_one_setattr_are_set_together_or_not_at_all(mut a: Mount) {
    let file = a.create("f").await;
    // RFC 8881 6.4.1.3: the list decides the permission bits, the mode the others.
    let both = Attributes { mode: Some(0o1777), size: Some(5), ..list(example()) };
    let done = a.run(file.op(set(&both))).await;
    let ResOp::SetAttr(done) = done.last() else { panic!("no SETATTR") };
    assert_eq!(done.attributes_set, both.mask());
    assert_eq!(acl_and_mode(&mut a, &file.handle).await, (example(), 0o1674));
    assert_eq!(a.attributes(&file.handle, &[attribute::SIZE]).await.size, Some(5));
    // The mode alone changes the list.
    let mode = Attributes { mode: Some(0o600), ..Attributes::default() };
    assert_eq!(a.status(file.op(set(&mode))).await, NfsStatus::Ok);
    let (aces, mode) = acl_and_mode(&mut a, &file.handle).await;
    assert_eq!(mode, 0o600);
    assert_ne!(aces, example());
    let refused = Attributes { owner: Some("7".into()), ..list(example()) };
    let owner = Attributes { owner: Some("6".into()), ..Attributes::default() };
    assert_eq!(a.status(file.op(set(&owner))).await, NfsStatus::Ok);
    let before = acl_and_mode(&mut a, &file.handle).await;
    for uid in [5, 6] {
        a.connection.credential = user(uid);
        assert_eq!(a.status(file.op(set(&refused))).await, NfsStatus::Perm, "user {uid}");
    }
    assert_eq!(acl_and_mode(&mut a, &file.handle).await, before);
    assert_eq!(a.status(file.op(set(&list(example())))).await, NfsStatus::Ok, "the owner");
}

async fn new_objects_have_the_list_of_their_creation(mut a: Mount) {
    let both = encoded(&Attributes { mode: Some(0o666), ..list(example()) });
    for how in [
        CreateHow::Guarded(both.clone()),
        CreateHow::Exclusive41(ExclusiveCreate {
            verifier: Verifier([1; 8]),
            attributes: both.clone(),
        }),
    ] {
        let name = format!("{:.9}", format!("{how:?}"));
        let op = open(&name, ShareAccess::BOTH, ShareDeny::NONE).how(OpenHow::Create(how));
        let mut result = a.run([ArgOp::PutRootFh, op, ArgOp::GetFh]).await;
        let Some(ResOp::GetFh(Ok(handle))) = result.results.pop() else { panic!("{result:?}") };
        let Some(ResOp::Open(Ok(opened))) = result.results.pop() else { panic!("{result:?}") };
        assert!(opened.attributes_set.has(attribute::ACL), "{name}");
        assert_eq!(acl_and_mode(&mut a, &handle.handle).await, (example(), 0o674), "{name}");
    }
    let create = |object, name: &'static str, attributes: EncodedAttributes| {
        ArgOp::Create(CreateArgs { object, name: name.into(), attributes })
    };
    let dir = create(CreateObject::Other(NfsFtype::Directory), "d", both.clone());
    let dir = a.handle([ArgOp::PutRootFh, dir]).await;
    assert_eq!(acl_and_mode(&mut a, &dir).await.0, example());
    let link = CreateObject::Link(Bytes::from_static(b"target"));
    let refused = [ArgOp::PutRootFh, create(link, "s", both)];
    assert_eq!(a.status(refused).await, NfsStatus::AttrNotSupp);
    assert_eq!(a.status([ArgOp::PutRootFh, look_up("s")]).await, NfsStatus::NoEnt);
}

async fn lists_and_owners_are_compared_whatever_their_form(mut a: Mount) {
    let file = a.create("f").await;
    assert_eq!(a.status(file.op(set(&list(example())))).await, NfsStatus::Ok);
    let mut other_form = example();
    other_form[0].who = Bytes::from_static(b"1000@example.org");
    let mut other_list = example();
    other_list[0].mask = READ;
    let mut nobody = example();
    nobody[0].who = Bytes::from_static(b"nobody-has-this-name");
    let owner = |name: &'static str| Attributes { owner: Some(name.into()), ..Default::default() };
    for (given, same) in [
        (list(example()), true),
        (list(other_form), true),
        (list(other_list), false),
        (list(nobody), false),
        (list(Vec::new()), false),
        (owner("0"), true),
        (owner("root"), true),
        (owner("1"), false),
        (owner("nobody-has-this-name"), false),
    ] {
        let args = || VerifyArgs { attributes: encoded(&given) };
        let verify = a.status(file.op(ArgOp::Verify(args()))).await;
        let n_verify = a.status(file.op(ArgOp::NVerify(args()))).await;
        let expected = match same {
            true => (NfsStatus::Ok, NfsStatus::Same),
            false => (NfsStatus::NotSame, NfsStatus::Ok),
        };
        assert_eq!((verify, n_verify), expected, "{given:?}");
    }
}

async fn a_list_decides_who_opens_a_file(mut a: Mount) {
    let file = a.create("f").await;
    assert_eq!(a.status(file.op(set(&list(example())))).await, NfsStatus::Ok);
    for (uid, access, expected) in [
        (1000, ShareAccess::READ, NfsStatus::Ok),
        (1000, ShareAccess::WRITE, NfsStatus::Access),
        (100, ShareAccess::WRITE, NfsStatus::Ok),
        (55, ShareAccess::READ, NfsStatus::Ok),
        (55, ShareAccess::WRITE, NfsStatus::Access),
    ] {
        // The group of a user has the same number.
        a.connection.credential = user(uid);
        let by = format!("{uid} {access:?}");
        let open = open("f", access, ShareDeny::NONE).by(&by);
        assert_eq!(a.status([ArgOp::PutRootFh, open]).await, expected, "{by}");
    }
}

#[tokio::test]
async fn a_directory_above_exports_shows_what_its_mode_means() {
    let mut config = crate::server::config();
    config.exports = vec![crate::server::export("/one/two")];
    let server = TestServer::with_config(config).await;
    let mut a = Mount::new(&server, "a").await;
    let root = a.root().await;
    let (aces, mode) = acl_and_mode(&mut a, &root).await;
    assert_eq!(mode, 0o555);
    assert!(aces.iter().any(|ace| ace.who == "EVERYONE@" && ace.mask.0 & READ.0 != 0));
    assert!(aces.iter().all(|ace| ace.mask.0 & WRITE.0 == 0 || ace.ace_type == AceType::DENY));
    assert_eq!(a.status(at(&root, set(&list(Vec::new())))).await, NfsStatus::RoFs);
}
