//! Removal at the last close.

use super::*;

const ON_CLOSE: CreateOptions = CreateOptions::FILE_DELETE_ON_CLOSE;

fn deleting(name: &str) -> CreateRequest {
    with(ON_CLOSE, request(name, READ | DELETE, CreateDisposition::OPEN_IF))
}

#[tokio::test]
async fn a_file_goes_with_its_last_open() {
    let one = Client::new(user()).await;
    let two = Client::of(&one.server, user(), 2).await;
    let first = one.create(deleting("file")).await.unwrap();
    let second = two.open("file", READ).await.unwrap();
    one.close(first.file_id).await.unwrap();
    assert!(one.exists("file").await);
    let pending = Err(NtStatus::DELETE_PENDING);
    assert_eq!(one.open("file", ATTRIBUTES).await.map(drop), pending);
    two.close(second).await.unwrap();
    assert!(!one.exists("file").await);
    one.assert_nothing_open();
}

#[tokio::test]
async fn what_may_not_be_removed_is_refused_at_the_open() {
    let client = Client::new(user()).await;
    client.put("read-only", b"", 0o444).await;
    let (root, fs) = (Identity::root(), client.client());
    let (dir, _) = fs.make_directory(&root, FileIndex::ROOT, b"full", 0o777).await.unwrap();
    fs.make_directory(&root, dir.file, b"a", 0o777).await.unwrap();
    let (closed, _) = fs.make_directory(&root, FileIndex::ROOT, b"closed", 0o755).await.unwrap();
    fs.make_directory(&root, closed.file, b"a", 0o777).await.unwrap();
    let cases = [
        ("read-only", NtStatus::CANNOT_DELETE),
        ("full", NtStatus::DIRECTORY_NOT_EMPTY),
        (r"closed\a", NtStatus::ACCESS_DENIED),
        ("", NtStatus::CANNOT_DELETE),
    ];
    for (name, wanted) in cases {
        assert_eq!(client.create(deleting(name)).await.map(drop), Err(wanted), "{name}");
    }
    let without = with(ON_CLOSE, request("x", READ, CreateDisposition::OPEN_IF));
    assert_eq!(client.create(without).await.map(drop), Err(NtStatus::INVALID_PARAMETER));
    client.assert_nothing_open();
}

#[tokio::test]
async fn an_empty_directory_goes_and_a_directory_that_was_filled_stays() {
    let client = Client::new(user()).await;
    for (name, is_filled) in [("empty", false), ("filled", true)] {
        let options = ON_CLOSE.with(CreateOptions::FILE_DIRECTORY_FILE);
        let made = client.create(with(options, deleting(name))).await.unwrap();
        if is_filled {
            client.open(r"filled\a", READ).await.unwrap();
        }
        client.close(made.file_id).await.unwrap();
        assert_eq!(client.exists(name).await, is_filled, "{name}");
    }
}

#[tokio::test]
async fn a_name_that_has_another_file_by_now_stays() {
    let client = Client::new(user()).await;
    let made = client.create(deleting("file")).await.unwrap();
    let (root, fs) = (Identity::root(), client.client());
    fs.remove(&root, FileIndex::ROOT, b"file").await.unwrap();
    client.put("file", b"another", 0o644).await;
    client.close(made.file_id).await.unwrap();
    assert!(client.exists("file").await);
}

#[tokio::test]
async fn the_end_of_a_session_closes_and_removes() {
    let client = Client::new(user()).await;
    client.server.add_session(Arc::clone(&client.session));
    client.create(deleting("file")).await.unwrap();
    client.server.end_session(client.session.id).await;
    assert!(!client.exists("file").await);
    client.assert_nothing_open();
}
