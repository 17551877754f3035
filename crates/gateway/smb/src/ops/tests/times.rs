//! Times of files. MS-FSA 2.1.5.15.2.

use braid_share::Timestamp;
use braid_smb_wire::filetime::{FileTime, TimeChange};
use braid_smb_wire::fscc::{FileBasic, InformationClass, SetBasic, SetInformation};

use super::data::{copy, write, zero};
use super::stream_names::{query, set};
use super::*;

const PAST: FileTime = FileTime(131_000_000_000_000_000);

async fn last_write(client: &Client, id: FileId) -> FileTime {
    query::<FileBasic>(client, id, InformationClass::BASIC).await.last_write
}

/// Sets the clock of the file system.
fn at_second(client: &Client, seconds: i64) {
    client.share().set_time(Timestamp { seconds, nanos: 0 });
}

async fn set_last_write(
    client: &Client,
    id: FileId,
    last_write: TimeChange,
) -> Result<(), NtStatus> {
    let basic = SetBasic { last_write, ..SetBasic::default() };
    set(client, id, SetInformation::Basic(basic)).await
}

#[tokio::test]
async fn a_time_that_was_set_stays_whatever_the_open_writes() {
    let client = Client::new(user()).await;
    at_second(&client, 1_900_000_000);
    let (id, other) = (client.open("file", BOTH).await, client.open("file", BOTH).await);
    let (id, other) = (id.unwrap(), other.unwrap());
    client.put("source", b"0123456789", 0o644).await;
    let source = client.open("source", READ).await.unwrap();
    set_last_write(&client, id, TimeChange::Set(PAST)).await.unwrap();
    write(&client, id, 0, b"0123456789").await.unwrap();
    set(&client, id, SetInformation::EndOfFile(9)).await.unwrap();
    set(&client, id, SetInformation::Allocation(1)).await.unwrap();
    zero(&client, id, 0, 1).await.unwrap();
    copy(&client, source, id, 0, 5).await.unwrap();
    assert_eq!(last_write(&client, id).await, PAST);
    write(&client, other, 0, b"a").await.unwrap();
    let changed = last_write(&client, id).await;
    assert!(changed > PAST, "the other open has set none");
    write(&client, id, 0, b"b").await.unwrap();
    assert_eq!(last_write(&client, id).await, changed, "the open keeps what others set");
    set_last_write(&client, id, TimeChange::Thaw).await.unwrap();
    at_second(&client, 2_000_000_000);
    write(&client, id, 0, b"c").await.unwrap();
    assert!(last_write(&client, id).await > changed);
}

#[tokio::test]
async fn a_time_that_is_frozen_stays_without_being_set() {
    let client = Client::new(user()).await;
    at_second(&client, 1_900_000_000);
    let id = client.open("file", BOTH).await.unwrap();
    let before = last_write(&client, id).await;
    set_last_write(&client, id, TimeChange::Freeze).await.unwrap();
    assert_eq!(last_write(&client, id).await, before);
    at_second(&client, 2_000_000_000);
    write(&client, id, 0, b"a").await.unwrap();
    assert_eq!(last_write(&client, id).await, before);
    client.close(id).await.unwrap();
    let id = client.open("file", BOTH).await.unwrap();
    write(&client, id, 0, b"b").await.unwrap();
    assert!(last_write(&client, id).await > before, "another open does not keep it");
}

#[tokio::test]
async fn a_user_who_may_write_a_file_of_another_sets_its_times() {
    let client = Client::new(user()).await;
    client.put("file", b"abc", 0o666).await;
    let id = client.open("file", BOTH).await.unwrap();
    let basic = SetBasic {
        creation: TimeChange::Set(PAST),
        last_access: TimeChange::Set(PAST),
        last_write: TimeChange::Set(PAST),
        ..SetBasic::default()
    };
    set(&client, id, SetInformation::Basic(basic)).await.unwrap();
    let known: FileBasic = query(&client, id, InformationClass::BASIC).await;
    assert_eq!((known.creation, known.last_access, known.last_write), (PAST, PAST, PAST));
    client.put("others", b"abc", 0o644).await;
    let reader = client.open("others", READ).await.unwrap();
    let refused = set_last_write(&client, reader, TimeChange::Set(PAST)).await;
    assert_eq!(refused, Err(NtStatus::ACCESS_DENIED));
}
