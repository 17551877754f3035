//! Keys whose file has lost its name: others have renamed, replaced or removed it. MS-SMB2
//! 3.3.5.9.8.

use braid_share::RenameMode;

use super::recalls::another;
use super::*;

/// Gives the name `file` to another file, as a mount does.
async fn replace(mount: &MemoryClient) {
    let (old, new) = ((FileIndex::ROOT, &b"new"[..]), (FileIndex::ROOT, &b"file"[..]));
    mount.rename(&Identity::root(), old, new, RenameMode::Replace).await.unwrap();
}

/// The same CREATE, of another file.
fn of(name: &str, request: CreateRequest) -> CreateRequest {
    CreateRequest { name: name.to_owned(), ..request }
}

fn assert_without_lease(response: &CreateResponse) {
    assert_eq!(response.oplock_level, OplockLevel::NONE);
    assert!(CreateContext::find(&response.contexts, tags::LEASE).is_none());
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_replaced_file_opens_the_new_one_without_a_lease() {
    let server = server().await;
    let mount = another(&server).await;
    let (one, mut notices) = client_of(&server, 1).await;
    one.put("new", b"new bytes", 0o666).await;
    let (old, _) = one.lease(BOTH, KEY, ALL).await;
    let replacing = tokio::spawn(async move { replace(&mount).await });
    assert_eq!(notices.lease().await, (KEY, ALL, NONE, true));
    one.keep(NONE);
    replacing.await.unwrap();
    for case in ["file", "FILE"] {
        let new = one.create(of(case, leased(BOTH, KEY, ALL))).await.unwrap();
        assert_without_lease(&new);
        assert_eq!(super::super::data::read(&one, new.file_id, 0, 9).await.unwrap(), "new bytes");
        one.close(new.file_id).await.unwrap();
    }
    // The open of the old one goes on.
    assert_eq!(super::super::data::read(&one, old, 0, 10).await.unwrap(), "0123456789");
    one.close(old).await.unwrap();
    // From now on the key is that of the new one.
    let (new, granted) = one.lease(READ, KEY, R).await;
    assert_eq!(granted, R);
    one.close(new).await.unwrap();
    one.assert_nothing_leased().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_cached_of_the_old_file_is_given_up_first() {
    let server = server().await;
    let (one, mut notices) = session_of(&server, (1, 1)).await;
    let (two, _) = session_of(&server, (1, 2)).await;
    one.lease(READ, KEY, RH).await;
    let id = two.open("file", BOTH | DELETE).await.unwrap();
    let flags = RenameFlags::default();
    let target = RenameTarget { flags, root_directory: 0, name: "old".to_owned() };
    let renaming = Waiting::begin(two.set(id, SetInformation::Rename(target)).await);
    assert_eq!(notices.lease().await, (KEY, RH, R, true));
    one.keep(R);
    renaming.end().await.unwrap();
    two.close(id).await.unwrap();
    one.put("file", b"new bytes", 0o666).await;
    let old = one.create(of("old", leased(BOTH, KEY, RW))).await.unwrap();
    assert_eq!(lease_of(&old).state, RW);
    // Linux would read the new file from what it caches of the old one.
    let waiting = one.begin(leased(BOTH, KEY, ALL)).await;
    assert_eq!(notices.lease().await, (KEY, RW, NONE, true));
    assert!(!waiting.task.is_finished());
    one.keep(NONE);
    assert_without_lease(&body(&waiting.end().await.unwrap()));
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_file_that_lost_its_name_is_refused_nowhere() {
    let server = server().await;
    let mount = another(&server).await;
    let (one, _notices) = client_of(&server, 1).await;
    one.put("other", b"", 0o666).await;
    let (first, _) = one.lease(READ, KEY, NONE).await;
    let refused = one.create(of("other", leased(BOTH, KEY, ALL))).await;
    assert_eq!(refused.map(drop), Err(NtStatus::INVALID_PARAMETER), "it has its name");
    let names = ((FileIndex::ROOT, &b"file"[..]), (FileIndex::ROOT, &b"moved"[..]));
    mount.rename(&Identity::root(), names.0, names.1, RenameMode::NoReplace).await.unwrap();
    assert_without_lease(&one.create(of("other", leased(BOTH, KEY, ALL))).await.unwrap());
    assert_without_lease(&one.create(of("new", leased(BOTH, KEY, ALL))).await.unwrap());
    // By its new name it is the same file.
    let again = one.create(of("moved", leased(READ, KEY, NONE))).await.unwrap();
    assert_eq!(lease_of(&again).state, NONE);
    one.close(first).await.unwrap();
    let refused = one.create(of("other", leased(BOTH, KEY, ALL))).await;
    assert_eq!(refused.map(drop), Err(NtStatus::INVALID_PARAMETER), "it has another name");
}

#[tokio::test(start_paused = true)]
async fn the_key_of_a_file_that_is_to_be_removed_is_refused_nowhere() {
    let server = server().await;
    let (one, mut notices) = client_of(&server, 1).await;
    let (first, _) = one.lease(READ | DELETE, KEY, R).await;
    let removal = SetInformation::Disposition(Disposition::DELETE);
    one.set(first, removal).await.done().unwrap();
    let waiting = one.begin(of("new", leased(BOTH, KEY, ALL))).await;
    assert_eq!(notices.lease().await, (KEY, R, NONE, true), "here R is acknowledged, too");
    one.keep(NONE);
    assert_without_lease(&body(&waiting.end().await.unwrap()));
}
