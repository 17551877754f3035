use braid_testbed::in_process::InProcessCluster;

use super::*;
use crate::{mount_caches::CacheInvalidator, vfs::Vfs};

struct Forgetful;

impl CacheInvalidator for Forgetful {
    fn drop_names(&self, _: &[(FileIndex, Vec<FileIndex>)]) {}
    fn drop_attributes(&self, _: FileIndex) {}
    fn drop_data(&self, _: FileIndex, _: u64, _: u64) {}
}

/// A lease and attributes from a server, as templates for others.
fn given() -> (Arc<NamesLease>, Attributes) {
    let dir = tempfile::tempdir().unwrap();
    let servers = InProcessCluster::start_mds_only(dir.path()).unwrap();
    let vfs = Vfs::new(servers.admin().unwrap()).unwrap();
    vfs.serve(Arc::new(Forgetful)).unwrap();
    let lease = vfs.caches.names_lease(FileIndex::ROOT).unwrap();
    let own = vfs.attributes(FileIndex::ROOT, None).unwrap().attributes;
    (lease, Attributes { kind: FileKind::File, uncacheable: false, links: 1, ..own })
}

/// A cache with some directories, their leases, and the attributes of a file.
struct Known {
    cache: NameCache,
    leases: Vec<Arc<NamesLease>>,
    file: Attributes,
}

impl Known {
    fn with(directories: u64) -> Self {
        let (lease, file) = given();
        let cache = NameCache::default();
        let begin = |number| {
            cache.begin_directory(FileIndex(number), lease.of(FileIndex(number)), |_| true).unwrap()
        };
        let leases = (0..directories).map(begin).collect();
        Self { cache, leases, file }
    }

    fn make(&self, directory: usize, name: &[u8], file: u64) {
        let found = Attributes { file: FileIndex(file), ..self.file.clone() };
        let cached_under = self.cache.cache_found(
            &self.leases[directory],
            self.cache.mark(),
            name,
            &found,
            |_| true,
        );
        assert!(cached_under.attributes.is_some());
    }

    fn rename(&self, from: (usize, &[u8]), to: (usize, &[u8])) {
        let leases = [from.0, to.0].map(|directory| Some(Arc::clone(&self.leases[directory])));
        let [from, to] =
            [from, to].map(|(directory, name)| (self.leases[directory].directory(), name));
        assert_eq!(self.cache.rename(from, to, false, &leases), []);
    }

    /// How many files of each directory must be invalidated at a recall, and how many have a
    /// parent.
    fn given_out(&self) -> (Vec<usize>, usize) {
        let state = lock(&self.cache.0);
        let given_out =
            |lease: &Arc<NamesLease>| state.directories[&lease.directory()].given_out.len();
        (self.leases.iter().map(given_out).collect(), state.parents.len())
    }
}

#[test]
fn replaced_files_leave_nothing_in_the_cache() {
    let known = Known::with(2);
    for number in 0..10_000 {
        let from = number as usize % 2;
        known.make(from, b"new", 1000 + number);
        known.rename((from, b"new"), (0, b"f"));
    }
    assert_eq!(known.given_out(), (vec![1, 0], 1));
    assert!(known.cache.attributes(FileIndex(10_998), |_| true).is_none(), "it was replaced");
    assert_eq!(known.cache.parent_of_file(FileIndex(10_999)), Some(FileIndex(0)));
}

#[test]
fn a_file_that_moves_leaves_nothing_in_its_old_directory() {
    let known = Known::with(2);
    known.make(0, b"f", 1000);
    for _ in 0..3 {
        known.rename((0, b"f"), (1, b"g"));
        assert_eq!(known.given_out(), (vec![0, 1], 1));
        known.rename((1, b"g"), (0, b"f"));
        assert_eq!(known.given_out(), (vec![1, 0], 1));
    }
}

#[test]
fn no_name_is_reported_absent_while_something_is_made_under_it() {
    let known = Known::with(1);
    let (directory, looks) =
        (FileIndex(0), |name| known.cache.look_up(FileIndex(0), name, |_| true));
    let absent = |name: &[u8]| {
        known.cache.cache_name(&known.leases[0], known.cache.mark(), name, None, |_| true)
    };
    assert!(absent(b"f") && absent(b"g"));
    assert!(looks(b"f").is_some());
    let making = known.cache.begin_change([directory; 2]).with_creation_of(directory, b"f");
    assert!(looks(b"f").is_none(), "another client may have seen it: the server is asked");
    assert!(looks(b"g").is_some());
    let again = known.cache.begin_change([directory; 2]).with_creation_of(directory, b"f");
    drop(making);
    assert!(looks(b"f").is_none(), "another call creates it, too");
    drop(again);
    assert!(looks(b"f").is_some());
}

#[test]
fn no_attributes_of_a_file_are_cached_while_this_mount_changes_them() {
    let known = Known::with(1);
    known.make(0, b"f", 1000);
    let file = FileIndex(1000);
    let is_cached = || known.cache.attributes(file, |_| true).is_some();
    let cache = |mark| {
        let found = Attributes { file, ..known.file.clone() };
        known.cache.cache_attributes(&known.leases[0], mark, &found, |_| true).attributes.is_some()
    };
    assert!(is_cached());
    let before = known.cache.mark();
    let one = known.cache.begin_attribute_change(file);
    assert!(!is_cached() && !cache(before), "a reply to an earlier question");
    let (mark, other) = (known.cache.mark(), known.cache.begin_attribute_change(file));
    assert!(!cache(known.cache.mark()) && one.end(mark).is_none(), "another change began");
    assert!(!cache(known.cache.mark()), "another change is pending");
    let mark = known.cache.mark();
    let now = other.end(mark).expect("no other change");
    assert!(!cache(mark) && !is_cached(), "a question sent during the change");
    assert!(cache(now) && is_cached());
    drop(known.cache.begin_attribute_change(file));
    assert!(!cache(now) && cache(known.cache.mark()), "an abandoned change counts, too");
}
