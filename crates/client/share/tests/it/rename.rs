//! Rename: the table of what may replace what.

use braid_share::{FileIndex, RenameMode, Share, ShareClient, ShareFile, Status};

use crate::support::{client, create, look_up, mkdir, on_both, refused, root};

on_both! {
    a_rename_replaces_only_what_it_may,
    an_exchange_needs_both_names_and_swaps_them,
    a_directory_is_not_moved_below_itself,
    two_names_of_one_file_stay_as_they_are,
    a_replaced_file_is_removed_and_the_moved_one_remains,
}

/// Makes a source or target of a kind. `None`: the name stays free.
async fn make<C: ShareClient>(client: &C, dir: FileIndex, name: &str, kind: Option<&str>) {
    match kind {
        Some("file") => create(client, dir, name).await.close().await.expect("a close"),
        Some("empty") => drop(mkdir(client, dir, name, 0o755).await),
        Some("full") => {
            let made = mkdir(client, dir, name, 0o755).await;
            mkdir(client, made, "below", 0o755).await;
        }
        Some("link") => {
            let made = client.make_symlink(&root(), dir, name.as_bytes(), b"nowhere").await;
            made.map(drop).expect("a link");
        }
        _ => {}
    }
}

async fn a_rename_replaces_only_what_it_may<S: Share>(share: S, top: FileIndex) {
    use RenameMode::{Exchange, NoReplace, Replace};
    let client = client(&share).await;
    let cases = [
        ("file", None, Replace, None),
        ("empty", None, Replace, None),
        ("link", None, Replace, None),
        ("file", Some("file"), Replace, None),
        ("file", Some("link"), Replace, None),
        ("link", Some("file"), Replace, None),
        ("file", Some("empty"), Replace, Some(Status::IsDirectory)),
        ("empty", Some("file"), Replace, Some(Status::NotDirectory)),
        ("empty", Some("empty"), Replace, None),
        ("full", Some("empty"), Replace, None),
        ("empty", Some("full"), Replace, Some(Status::NotEmpty)),
        ("file", None, NoReplace, None),
        ("file", Some("file"), NoReplace, Some(Status::Exists)),
        ("empty", Some("empty"), NoReplace, Some(Status::Exists)),
        ("file", None, Exchange, Some(Status::NotFound)),
        ("file", Some("full"), Exchange, None),
        ("full", Some("file"), Exchange, None),
    ];
    for (number, (source, target, mode, expected)) in cases.into_iter().enumerate() {
        let (from, to) = (format!("from{number}"), format!("to{number}"));
        make(&client, top, &from, Some(source)).await;
        make(&client, top, &to, target).await;
        let moved = look_up(&client, top, &from).await.file;
        let done = client.rename(&root(), (top, from.as_bytes()), (top, to.as_bytes()), mode).await;
        let case = format!("{source} to {target:?}, {mode:?}");
        assert_eq!(done.as_ref().err().map(braid_share::Error::status), expected, "{case}");
        let at = if expected.is_none() { &to } else { &from };
        assert_eq!(look_up(&client, top, at).await.file, moved, "{case}");
    }
    let missing = client.rename(&root(), (top, b"missing"), (top, b"to0"), Replace).await;
    assert_eq!(refused(missing), Status::NotFound);
}

async fn an_exchange_needs_both_names_and_swaps_them<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let (one, two) =
        (mkdir(&client, top, "one", 0o755).await, mkdir(&client, top, "two", 0o755).await);
    let file = create(&client, one, "file").await.index();
    let dir = mkdir(&client, two, "dir", 0o755).await;
    let exchange = RenameMode::Exchange;
    client.rename(&root(), (one, b"file"), (two, b"dir"), exchange).await.expect("a swap");
    assert_eq!(look_up(&client, one, "file").await.file, dir);
    assert_eq!(look_up(&client, two, "dir").await.file, file);
    let links =
        (look_up(&client, top, "one").await.links, look_up(&client, top, "two").await.links);
    assert_eq!(links, (3, 2), "the directory is below the other one now");
    assert_eq!(client.parent(&root(), dir).await.expect("a parent").file, one);
}

async fn a_directory_is_not_moved_below_itself<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let moving = mkdir(&client, top, "moving", 0o755).await;
    let below = mkdir(&client, moving, "below", 0o755).await;
    for (into, name) in [(moving, &b"x"[..]), (below, b"x")] {
        let done =
            client.rename(&root(), (top, b"moving"), (into, name), RenameMode::Replace).await;
        assert_eq!(refused(done), Status::WouldLoop);
    }
    let over_parent =
        client.rename(&root(), (moving, b"below"), (top, b"moving"), RenameMode::Replace).await;
    assert_eq!(refused(over_parent), Status::NotEmpty);
}

async fn two_names_of_one_file_stay_as_they_are<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let file = create(&client, top, "one").await.index();
    client.link(&root(), file, top, b"two").await.expect("a link");
    let same = client.rename(&root(), (top, b"one"), (top, b"two"), RenameMode::Replace).await;
    same.expect("it does nothing");
    assert_eq!(look_up(&client, top, "one").await.file, file);
    assert_eq!(look_up(&client, top, "two").await.links, 2);
}

async fn a_replaced_file_is_removed_and_the_moved_one_remains<S: Share>(share: S, top: FileIndex) {
    let client = client(&share).await;
    let old = create(&client, top, "old").await;
    let gone = old.index();
    old.close().await.expect("a close");
    let new = create(&client, top, "new").await.index();
    let done = client.rename(&root(), (top, b"new"), (top, b"old"), RenameMode::Replace).await;
    done.expect("a rename");
    assert_eq!(look_up(&client, top, "old").await.file, new);
    assert_eq!(refused(client.attributes(&root(), gone).await), Status::StaleHandle);
    assert_eq!(refused(client.look_up(&root(), top, b"new").await), Status::NotFound);
}
