use super::*;
use crate::config::{AddressRange, Squash};

fn export(path: &str) -> ExportConfig {
    ExportConfig {
        clients: vec!["10.0.0.0/8".parse().unwrap()],
        security: vec![Security::Sys],
        ..ExportConfig::new(path)
    }
}

fn exports(list: Vec<ExportConfig>) -> Exports {
    let mut config = NfsConfig::new("host", [0; 32]);
    config.exports = list;
    Exports::new(&config, FileSystemId([1; 16])).unwrap()
}

fn names(directory: &PseudoDirectory) -> Vec<&str> {
    directory.entries_after(0).map(|entry| entry.name).collect()
}

#[test]
fn directories_above_exports_form_a_tree() {
    let exports = exports(vec![export("/data/b"), export("/data/a"), export("/home")]);
    let root = exports.pseudo(PseudoNode::ROOT);
    assert_eq!(names(root), ["data", "home"]);
    let data = root.child(b"data").unwrap();
    assert!(exports.export_at(data).is_none());
    assert_eq!(exports.pseudo(data).parent, Some(PseudoNode::ROOT));
    assert_eq!(names(exports.pseudo(data)), ["a", "b"]);
    let a = exports.pseudo(data).child(b"a").unwrap();
    assert_eq!(exports.export_at(a).unwrap().config().path, "/data/a");
    assert_eq!(exports.above(exports.export_at(a).unwrap()), Some(data));
    assert_eq!(exports.pseudo_by_number(exports.pseudo(data).number), Some(data));
    assert!(root.child(b"\xff").is_none() && root.child(b"a").is_none());
}

#[test]
fn listing_continues_after_each_cookie() {
    let exports = exports(vec![export("/a"), export("/b"), export("/c")]);
    let root = exports.pseudo(PseudoNode::ROOT);
    let all: Vec<_> = root.entries_after(0).collect();
    assert_eq!(all.len(), 3);
    for (index, entry) in all.iter().enumerate() {
        assert!(entry.cookie > 2);
        let rest: Vec<_> = root.entries_after(entry.cookie).collect();
        assert_eq!(rest, all[index + 1..]);
    }
}

#[test]
fn lookup_changes_to_the_export_that_begins_there() {
    let exports = exports(vec![export("/"), export("/a/secret")]);
    let [all, secret] = exports.all() else { panic!("two exports") };
    assert_ne!(all.fsid(), secret.fsid());
    let inside = "10.0.0.1".parse().unwrap();
    let look_up = |export: &Arc<Export>, dir: u64, name: &[u8], file: u64| {
        let dir = ExportedFile { export: Arc::clone(export), file: FileIndex(dir) };
        exports.cross(&dir, name, FileIndex(file), inside).unwrap().export.number()
    };
    let root = FileIndex::ROOT.0;
    assert_eq!(look_up(all, 70, b"secret", 71), all.number(), "another directory");
    assert_eq!(look_up(all, root, b"a", 70), all.number());
    assert_eq!(look_up(all, 70, b"other", 72), all.number());
    assert_eq!(look_up(all, 70, b"secret", 71), secret.number());
    assert_eq!(look_up(secret, 71, b"a", 73), secret.number());
    // Somebody has replaced /a.
    assert_eq!(look_up(all, root, b"a", 80), all.number());
    assert_eq!(look_up(all, 80, b"secret", 81), secret.number());
    assert_eq!(look_up(all, 70, b"secret", 71), all.number());

    let outside = "11.0.0.1".parse().unwrap();
    let dir = ExportedFile { export: Arc::clone(all), file: FileIndex(80) };
    let refused = exports.cross(&dir, b"secret", FileIndex(81), outside).unwrap_err();
    assert_eq!(refused, NfsStatus::Access);
}

#[test]
fn nearest_export_around_a_directory_is_found() {
    let exports = exports(vec![export("/a"), export("/a/b/c")]);
    let [a, c] = exports.all() else { panic!("two exports") };
    let b = exports.above(c).unwrap();
    assert_eq!(exports.around(b).unwrap().number(), a.number());
    assert_eq!(exports.around(c.node()).unwrap().number(), c.number());
    assert!(exports.around(PseudoNode::ROOT).is_none());
}

#[test]
fn only_named_addresses_and_flavours_are_allowed() {
    let exports = exports(vec![export("/a")]);
    let export = &exports.all()[0];
    assert!(export.allows_address("10.1.2.3".parse().unwrap()));
    assert!(!export.allows_address("11.1.2.3".parse().unwrap()));
    assert!(export.allows_security(Some(Security::Sys)));
    assert!(!export.allows_security(Some(Security::Krb5)) && !export.allows_security(None));
}

fn who(uid: u64, gid: u64, groups: &[u64]) -> Identity {
    Identity { uid, gid, groups: groups.to_vec(), checked: false }
}

#[test]
fn squash_replaces_the_ids_that_it_concerns() {
    let squash = |squash, caller: Identity| {
        let config = ExportConfig { squash, clients: vec![AddressRange::All], ..export("/a") };
        exports(vec![config]).all()[0].squash(&caller)
    };
    assert_eq!(squash(Squash::None, who(0, 0, &[0])), None);
    assert_eq!(squash(Squash::All, who(5, 6, &[7])), Some(who(65534, 65534, &[])));
    assert_eq!(squash(Squash::Root, who(5, 6, &[7])), None);
    assert_eq!(squash(Squash::Root, who(0, 6, &[7])), Some(who(65534, 6, &[7])));
    assert_eq!(squash(Squash::Root, who(5, 6, &[0, 7])), Some(who(5, 6, &[65534, 7])));
}

#[test]
fn layouts_are_for_plain_callers_unless_the_export_says_more() {
    use crate::config::Transport;
    let callers = [
        (Some(Security::Sys), Transport::Plain, true),
        (Some(Security::Sys), Transport::Tls, false),
        (Some(Security::Krb5), Transport::Plain, false),
        (Some(Security::Krb5i), Transport::Plain, false),
        (Some(Security::Krb5p), Transport::Plain, false),
        (Some(Security::Krb5p), Transport::MutualTls, false),
        (None, Transport::Plain, false),
    ];
    for (pnfs, pnfs_plain) in [(false, false), (false, true), (true, false), (true, true)] {
        let mut config = NfsConfig::new("host", [0; 32]);
        config.exports = vec![ExportConfig { pnfs, pnfs_plain, ..export("/a") }];
        let exports = Exports::new(&config, FileSystemId([1; 16])).unwrap();
        for (security, transport, plain) in callers {
            let expected = pnfs && (plain || pnfs_plain);
            let given = exports.all()[0].gives_layouts(security, transport);
            assert_eq!(given, expected, "{pnfs} {pnfs_plain} {security:?} {transport:?}");
        }
    }
}
