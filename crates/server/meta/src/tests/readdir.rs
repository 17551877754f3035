//! Listings: complete, in pages, and while the directory changes.

use super::*;
use crate::{RenameMode, namespace::COOKIE_FIRST};

#[test]
fn a_listing_in_pages_of_any_size_is_whole() {
    let (_, ns) = memory();
    let root = Identity::root();
    let mut want = Vec::new();
    for n in 0..100 {
        want.push(format!("n{n}").into_bytes());
        create(&ns, &call(&root), ROOT, want.last().unwrap()).unwrap();
    }
    for bytes_max in [0, 1, 65, 66, 67, 68, 500, 1 << 20] {
        let (mut found, mut cookie) = (Vec::new(), 0);
        loop {
            let page = ns.readdir(&root, ROOT, cookie, bytes_max, true).unwrap();
            assert!(
                page.entries
                    .iter()
                    .all(|listed| listed.inode.as_ref().unwrap().file == listed.entry.file)
            );
            cookie = page.entries.last().map_or(cookie, |listed| listed.entry.cookie);
            found.extend(page.entries.into_iter().map(|listed| listed.name));
            if page.end {
                break;
            }
        }
        assert_eq!(found, want, "pages of {bytes_max} bytes");
    }
}

#[test]
fn a_listing_under_change_shows_every_untouched_name_once() {
    let (_, ns) = memory();
    let root = Identity::root();
    let sub = ns.mkdir(&call(&root), ROOT, b"sub", 0o755).unwrap().file;
    for n in 0..200 {
        create(&ns, &call(&root), ROOT, format!("stay{n}").as_bytes()).unwrap();
        create(&ns, &call(&root), ROOT, format!("go{n}").as_bytes()).unwrap();
    }
    let (mut found, mut cookie, mut round) = (Vec::new(), 0, 0);
    loop {
        let page = ns.readdir(&root, ROOT, cookie, 300, false).unwrap();
        cookie = page.entries.last().map_or(cookie, |listed| listed.entry.cookie);
        found.extend(page.entries.into_iter().map(|listed| listed.name));
        if page.end {
            break;
        }
        // Removes one name before and one after the position, moves one, replaces one, creates one.
        let name = |prefix: &str, n: usize| format!("{prefix}{n}").into_bytes();
        let _ = ns.unlink(&call(&root), ROOT, &name("go", round));
        let _ = ns.unlink(&call(&root), ROOT, &name("go", 199 - round));
        let _ = ns.rename(
            &call(&root),
            (ROOT, &name("go", round + 60)),
            (sub, &name("m", round)),
            RenameMode::Replace,
        );
        let _ = ns.rename(
            &call(&root),
            (ROOT, &name("go", round + 90)),
            (ROOT, &name("stay", 150)),
            RenameMode::Replace,
        );
        ns.rename(
            &call(&root),
            (ROOT, &name("stay", 3)),
            (ROOT, &name("stay", 190)),
            RenameMode::Exchange,
        )
        .unwrap();
        create(&ns, &call(&root), ROOT, &name("new", round)).unwrap();
        round += 1;
        assert!(
            round < 1000,
            "a listing ends although names are created after its position all the time"
        );
        if round > 60 {
            continue;
        }
    }
    for n in 0..200 {
        let name = format!("stay{n}").into_bytes();
        assert_eq!(found.iter().filter(|found| **found == name).count(), 1, "stay{n}");
    }
}

#[test]
fn a_page_names_the_last_cookie_and_moved_names_follow_it() {
    let (_, ns) = memory();
    let root = Identity::root();
    let page = |cookie, bytes| ns.readdir(&root, ROOT, cookie, bytes, false).unwrap();
    assert!(page(0, 1000).last < COOKIE_FIRST);
    for name in [b"a", b"b", b"c"] {
        create(&ns, &call(&root), ROOT, name).unwrap();
    }
    let first = page(0, 1);
    assert!(!first.end && first.last == page(0, 1000).entries[2].entry.cookie);
    ns.rename(&call(&root), (ROOT, b"a"), (ROOT, b"d"), RenameMode::Replace).unwrap();
    let rest = page(first.entries[0].entry.cookie, 1000);
    assert_eq!(
        rest.entries.iter().map(|listed| listed.entry.cookie <= first.last).collect::<Vec<_>>(),
        [true, true, false]
    );
    ns.unlink(&call(&root), ROOT, b"d").unwrap();
    assert_eq!(page(0, 1000).last, rest.entries[2].entry.cookie, "also if that name was removed");
}

#[test]
fn cookies_last_over_restarts_and_are_never_used_again() {
    let (store, ns) = memory();
    let root = Identity::root();
    for name in [b"a", b"b", b"c"] {
        create(&ns, &call(&root), ROOT, name).unwrap();
    }
    let cookies = |ns: &Namespace| {
        let page = ns.readdir(&root, ROOT, 0, 1 << 20, false).unwrap();
        page.entries.iter().map(|listed| listed.entry.cookie).collect::<Vec<_>>()
    };
    let before = cookies(&ns);
    ns.unlink(&call(&root), ROOT, b"c").unwrap();
    let ns = open(Arc::new(store.kill()));
    assert_eq!(cookies(&ns), before[..2]);
    create(&ns, &call(&root), ROOT, b"c").unwrap();
    assert!(cookies(&ns)[2] > before[2]);
    assert!(before[0] > 2 && cookies(&ns)[2] < 1 << 63, "0 to 2 belong to the gateways; 63 bits");
}
