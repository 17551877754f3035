//! Names in another case than theirs.

use braid_share::FileKind;
use braid_smb_wire::fscc::{FileName, InformationClass, RenameFlags, RenameTarget, SetInformation};
use braid_smb_wire::smb2::query_info::InfoType;
use braid_smb_wire::smb2::set_info::SetInfoRequest;

use super::stream_names::query;
use super::*;

impl Client {
    async fn rename(&self, id: FileId, name: &str, flags: RenameFlags) -> Result<(), NtStatus> {
        let target = RenameTarget { flags, root_directory: 0, name: name.to_owned() };
        let information = SetInformation::Rename(target);
        let request = SetInfoRequest {
            info_type: InfoType::FILE,
            info_class: information.class().0,
            additional_information: 0,
            file_id: id,
            data: information.to_bytes().into(),
        };
        super::super::set_info::set_info(&self.context(), request).await.done().map(drop)
    }

    /// Names in the root directory.
    async fn all_names(&self) -> Vec<String> {
        let listing = self.client().list(&Identity::root(), FileIndex::ROOT, 0, 9999, false).await;
        let entries = listing.unwrap().entries;
        let mut names: Vec<_> =
            entries.into_iter().map(|entry| String::from_utf8(entry.name).unwrap()).collect();
        names.sort();
        names
    }

    async fn length(&self, name: &str) -> Result<u64, NtStatus> {
        let opened = self.create(request(name, READ, CreateDisposition::OPEN)).await?;
        self.close(opened.file_id).await.unwrap();
        Ok(opened.end_of_file)
    }
}

#[tokio::test]
async fn a_name_in_another_case_opens_the_file_and_makes_no_second_one() {
    let client = Client::new(user()).await;
    client.put("Äpfel.TXT", b"123", 0o666).await;
    assert_eq!(client.length("äPFEL.txt").await, Ok(3));
    let taken = client.create(request("äpfel.txt", BOTH, CreateDisposition::CREATE)).await;
    assert_eq!(taken.map(drop), Err(NtStatus::OBJECT_NAME_COLLISION));
    let id = client.open("äpfel.txt", BOTH).await.unwrap();
    client.close(id).await.unwrap();
    assert_eq!(client.all_names().await, ["Äpfel.TXT"]);
    client.assert_nothing_open();
}

#[tokio::test]
async fn the_path_of_an_open_has_the_names_as_they_are_stored() {
    let client = Client::new(user()).await;
    let (root, fs) = (Identity::root(), client.client());
    fs.make_directory(&root, FileIndex::ROOT, b"Dir", 0o777).await.unwrap();
    client.open(r"dIR\File", BOTH).await.unwrap();
    let id = client.open(r"DIR\FILE", BOTH).await.unwrap();
    for class in [InformationClass::NORMALIZED_NAME, InformationClass::NAME] {
        let name: FileName = query(&client, id, class).await;
        assert!(name.name.ends_with(r"Dir\File"), "{name:?}");
    }
}

#[tokio::test]
async fn a_directory_of_a_path_is_found_in_another_case() {
    let client = Client::new(user()).await;
    let (root, fs) = (Identity::root(), client.client());
    let (dir, _) = fs.make_directory(&root, FileIndex::ROOT, b"Dir", 0o777).await.unwrap();
    assert_eq!(dir.kind, FileKind::Directory);
    client.open(r"dIR\File", BOTH).await.unwrap();
    assert!(fs.look_up(&root, dir.file, b"File").await.is_ok());
    assert_eq!(client.length(r"DIR\FILE").await, Ok(0));
    let missing = client.length(r"Dirs\File").await;
    assert_eq!(missing, Err(NtStatus::OBJECT_PATH_NOT_FOUND));
}

#[tokio::test]
async fn of_two_names_the_exact_one_wins_and_else_the_first() {
    let client = Client::new(user()).await;
    client.put("name", b"1", 0o666).await;
    client.put("NAME", b"22", 0o666).await;
    assert_eq!(client.length("name").await, Ok(1));
    assert_eq!(client.length("NAME").await, Ok(2));
    assert_eq!(client.length("Name").await, Ok(1));
}

#[tokio::test]
async fn a_removal_at_the_close_removes_the_stored_name() {
    let client = Client::new(user()).await;
    client.put("Name", b"", 0o666).await;
    let deletes = CreateOptions::FILE_DELETE_ON_CLOSE;
    let opening = request("nAME", READ | DELETE, CreateDisposition::OPEN);
    let opened = client.create(with(deletes, opening)).await.unwrap();
    client.close(opened.file_id).await.unwrap();
    assert!(client.all_names().await.is_empty());
}

#[tokio::test]
async fn a_rename_may_change_only_the_case() {
    let client = Client::new(user()).await;
    client.put("name", b"", 0o666).await;
    let id = client.open("NAME", READ | DELETE).await.unwrap();
    for name in ["Name", "nAME", "nAME"] {
        client.rename(id, name, RenameFlags::default()).await.unwrap();
        assert_eq!(client.all_names().await, [name]);
    }
    client.rename(id, "other", RenameFlags::default()).await.unwrap();
    assert_eq!(client.all_names().await, ["other"]);
}

#[tokio::test]
async fn a_rename_collides_with_or_replaces_a_name_in_another_case() {
    let client = Client::new(user()).await;
    client.put("from", b"123", 0o666).await;
    client.put("To", b"", 0o666).await;
    let id = client.open("from", READ | DELETE).await.unwrap();
    let collision = client.rename(id, "tO", RenameFlags::default()).await;
    assert_eq!(collision, Err(NtStatus::OBJECT_NAME_COLLISION));
    client.rename(id, "tO", RenameFlags::REPLACE_IF_EXISTS).await.unwrap();
    assert_eq!(client.all_names().await, ["tO"]);
    assert_eq!(client.length("TO").await, Ok(3));
    client.rename(id, "back", RenameFlags::default()).await.unwrap();
    assert_eq!(client.all_names().await, ["back"]);
}

#[tokio::test]
async fn a_name_in_a_link_counts_with_its_case() {
    let client = Client::new(user()).await;
    client.put("Name", b"123", 0o666).await;
    let (root, fs) = (Identity::root(), client.client());
    for (link, target) in [(&b"Good"[..], &b"Name"[..]), (b"Bad", b"name")] {
        fs.make_symlink(&root, FileIndex::ROOT, link, target).await.unwrap();
    }
    assert_eq!(client.length("GOOD").await, Ok(3));
    assert_eq!(client.length("BAD").await, Err(NtStatus::OBJECT_NAME_NOT_FOUND));
}
