//! Owner, group and access control list, set and queried through an open.

use braid_smb_wire::access::AccessMask;
use braid_smb_wire::sd::{Ace, AceFlags, Acl, Control, SecurityDescriptor, Sid};
use braid_smb_wire::smb2::output::OutputResponse;
use braid_smb_wire::smb2::query_info::{
    InfoType, QueryInfoFlags, QueryInfoRequest, SecurityInformation,
};
use braid_smb_wire::smb2::set_info::SetInfoRequest;

use super::*;

const WRITE_DAC: u32 = AccessMask::WRITE_DAC.0;
const WRITE_OWNER: u32 = AccessMask::WRITE_OWNER.0;
const READ_DATA: AccessMask = AccessMask::READ_DATA;
const OWNER: SecurityInformation = SecurityInformation::OWNER;
const DACL: SecurityInformation = SecurityInformation::DACL;

impl Client {
    async fn set_descriptor(
        &self,
        file_id: FileId,
        parts: SecurityInformation,
        data: Vec<u8>,
    ) -> Result<(), NtStatus> {
        let request = SetInfoRequest {
            info_type: InfoType::SECURITY,
            info_class: 0,
            additional_information: parts.0,
            file_id,
            data: data.into(),
        };
        super::super::set_info::set_info(&self.context(), request).await.done().map(drop)
    }

    async fn descriptor(&self, file_id: FileId) -> SecurityDescriptor {
        self.descriptor_parts(file_id, OWNER.with(DACL)).await.unwrap()
    }

    async fn descriptor_parts(
        &self,
        file_id: FileId,
        parts: SecurityInformation,
    ) -> Result<SecurityDescriptor, NtStatus> {
        let request = QueryInfoRequest {
            info_type: InfoType::SECURITY,
            info_class: 0,
            output_buffer_length: 65_536,
            input: Bytes::new(),
            additional_information: parts.0,
            flags: QueryInfoFlags::default(),
            file_id,
        };
        let reply = super::super::query_info::query_info(&self.context(), request).await?;
        Ok(SecurityDescriptor::from_bytes(body::<OutputResponse>(&reply).output).unwrap())
    }
}

fn list(aces: Vec<Ace>) -> Vec<u8> {
    let dacl = Some(Acl { aces });
    SecurityDescriptor { control: Control::DACL_PRESENT, dacl, ..Default::default() }.to_bytes()
}

fn allow(sid: Sid, mask: AccessMask) -> Ace {
    Ace::allow(sid, mask, AceFlags::default())
}

fn owned_by(uid: u32) -> Vec<u8> {
    SecurityDescriptor { owner: Some(Sid::unix_user(uid)), ..Default::default() }.to_bytes()
}

#[tokio::test]
async fn a_list_that_is_set_is_shown_and_decides() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH | WRITE_DAC).await.unwrap();
    let other = Client::of(&client.server, Identity { uid: 7, ..user() }, 2).await;
    assert_eq!(other.open("file", WRITE).await, Err(NtStatus::ACCESS_DENIED));
    let aces = vec![
        allow(Sid::unix_user(1000), AccessMask::ALL),
        allow(Sid::unix_user(7), AccessMask(BOTH)),
    ];
    client.set_descriptor(id, DACL, list(aces.clone())).await.unwrap();
    assert_eq!(client.descriptor(id).await.dacl.unwrap().aces, aces);
    other.open("file", WRITE).await.unwrap();
    // An empty list: only the owner may change it again.
    client.set_descriptor(id, DACL, list(Vec::new())).await.unwrap();
    assert_eq!(other.open("file", READ).await, Err(NtStatus::ACCESS_DENIED));
    assert_eq!(other.open("file", WRITE_DAC).await, Err(NtStatus::ACCESS_DENIED));
    client.open("file", WRITE_DAC).await.unwrap();
}

#[tokio::test]
async fn a_list_allows_single_rights_to_others_than_the_owner() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH | WRITE_DAC).await.unwrap();
    let other = Client::of(&client.server, Identity { uid: 7, ..user() }, 2).await;
    let sticky = AttributeChanges { mode: Some(0o1777), ..AttributeChanges::none() };
    let root = Identity::root();
    client.client().set_attributes(&root, FileIndex::ROOT, sticky).await.unwrap();
    for (right, access) in [
        (AccessMask::WRITE_DAC, WRITE_DAC),
        (AccessMask::WRITE_OWNER, WRITE_OWNER),
        (AccessMask::DELETE, DELETE),
    ] {
        client
            .set_descriptor(id, DACL, list(vec![allow(Sid::everyone(), READ_DATA)]))
            .await
            .unwrap();
        assert_eq!(other.open("file", access).await, Err(NtStatus::ACCESS_DENIED), "{right:?}");
        let aces = vec![allow(Sid::unix_user(7), right)];
        client.set_descriptor(id, DACL, list(aces)).await.unwrap();
        let opened = other.open("file", access).await.unwrap();
        other.close(opened).await.unwrap();
        let more = other.open("file", access | READ_DATA.0).await;
        assert_eq!(more, Err(NtStatus::ACCESS_DENIED), "{right:?}");
    }
}

#[tokio::test]
async fn an_open_needs_the_right_to_what_it_sets() {
    let client = Client::new(user()).await;
    let id = client.open("file", BOTH).await.unwrap();
    let everyone = list(vec![allow(Sid::everyone(), AccessMask::ALL)]);
    let denied = Err(NtStatus::ACCESS_DENIED);
    assert_eq!(client.set_descriptor(id, DACL, everyone.clone()).await, denied);
    assert_eq!(client.set_descriptor(id, OWNER, owned_by(1000)).await, denied);
    let id = client.open("file", READ | WRITE_DAC | WRITE_OWNER).await.unwrap();
    let before = client.descriptor(id).await;
    // Nothing is kept of these, so nothing of the descriptor is set.
    for part in [SecurityInformation::LABEL, SecurityInformation::ATTRIBUTE] {
        let set = client.set_descriptor(id, DACL.with(part), everyone.clone()).await;
        assert_eq!(set, Err(NtStatus::NOT_SUPPORTED));
    }
    assert_eq!(client.set_descriptor(id, SecurityInformation::SACL, everyone).await, denied);
    assert_eq!(client.descriptor(id).await, before);
}

#[tokio::test]
async fn only_root_gives_a_file_to_another_user() {
    let client = Client::new(user()).await;
    let id = client.open("file", READ | WRITE_OWNER).await.unwrap();
    client.set_descriptor(id, OWNER, owned_by(1000)).await.unwrap();
    let given = client.set_descriptor(id, OWNER, owned_by(7)).await;
    assert_eq!(given, Err(NtStatus::ACCESS_DENIED));
    let root = Client::of(&client.server, Identity::root(), 2).await;
    let id = root.open("file", READ | WRITE_OWNER).await.unwrap();
    root.set_descriptor(id, OWNER, owned_by(7)).await.unwrap();
    assert_eq!(root.descriptor(id).await.owner, Some(Sid::unix_user(7)));
}

#[tokio::test]
async fn a_descriptor_cut_anywhere_changes_nothing() {
    let client = Client::new(user()).await;
    let id = client.open("file", READ | WRITE_DAC).await.unwrap();
    let before = client.descriptor(id).await;
    let sent = list(vec![allow(Sid::everyone(), AccessMask::ALL)]);
    for length in 0..sent.len() {
        let cut = client.set_descriptor(id, DACL, sent[..length].to_vec()).await;
        assert_eq!(cut, Err(NtStatus::INVALID_SECURITY_DESCR), "{length}");
    }
    assert_eq!(client.descriptor(id).await, before);
    // smbcacls sends the revision 3.
    let revision = sent.windows(2).position(|bytes| bytes == [2, 0]).unwrap();
    let mut sent = sent;
    sent[revision] = 3;
    client.set_descriptor(id, DACL, sent.clone()).await.unwrap();
    assert_ne!(client.descriptor(id).await, before);
}

#[tokio::test]
async fn a_descriptor_without_parts_needs_no_right() {
    let client = Client::new(user()).await;
    client.put("file", b"abc", 0o644).await;
    let id = client.open("file", ATTRIBUTES).await.unwrap();
    for parts in [OWNER, DACL, SecurityInformation::LABEL] {
        let refused = client.descriptor_parts(id, parts).await;
        assert_eq!(refused.err(), Some(NtStatus::ACCESS_DENIED), "{parts:?}");
    }
    let none = client.descriptor_parts(id, SecurityInformation::default()).await.unwrap();
    assert_eq!((none.owner, none.group, none.dacl), (None, None, None));
}
