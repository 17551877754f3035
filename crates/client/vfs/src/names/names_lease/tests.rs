use std::sync::{Mutex, OnceLock, Weak};

use braid_testbed::in_process::InProcessCluster;

use super::*;
use crate::{
    mount_caches::CacheInvalidator, mutex::lock, names::cached_attributes::LookupResult,
    names::name_cache::FILES_MAX, vfs::Vfs,
};

/// A gateway that looks a name up as soon as it has dropped the names of a directory.
#[derive(Default)]
struct LooksUpAgain {
    vfs: OnceLock<Weak<Vfs>>,
    /// Names that the gateway caches.
    cached: Mutex<Vec<(FileIndex, Vec<u8>)>>,
    dropped: Mutex<Vec<FileIndex>>,
}

impl LooksUpAgain {
    fn look_up(&self, directory: FileIndex, name: &[u8]) {
        let vfs = self.vfs.get().and_then(Weak::upgrade).unwrap();
        let LookupResult::Absent(keep) = vfs.look_up(directory, name).unwrap() else {
            panic!("nothing has this name")
        };
        vfs.reply_cacheable(&keep, |cacheable| {
            if cacheable.name {
                lock(&self.cached).push((directory, name.to_vec()));
            }
        });
    }

    fn has(&self, directory: FileIndex) -> bool {
        lock(&self.cached).iter().any(|(of, _)| *of == directory)
    }
}

impl CacheInvalidator for LooksUpAgain {
    fn drop_names(&self, directories: &[(FileIndex, Vec<FileIndex>)]) {
        for (directory, _) in directories {
            lock(&self.cached).retain(|(of, _)| of != directory);
            self.look_up(*directory, b"again");
            lock(&self.dropped).push(*directory);
        }
    }

    fn drop_attributes(&self, _: FileIndex) {}
    fn drop_data(&self, _: FileIndex, _: u64, _: u64) {}
}

#[test]
fn nothing_is_cached_of_a_directory_whose_lease_is_given_back() {
    let dir = tempfile::tempdir().unwrap();
    let servers = InProcessCluster::start_mds_only(dir.path()).unwrap();
    let vfs = Arc::new(Vfs::new(servers.admin().unwrap()).unwrap());
    let gateway = Arc::new(LooksUpAgain::default());
    gateway.vfs.set(Arc::downgrade(&vfs)).unwrap();
    vfs.serve(Arc::clone(&gateway) as Arc<dyn CacheInvalidator>).unwrap();
    let admin = servers.admin().unwrap();
    let make = |directory, name: &[u8]| admin.mkdir((directory, name), 0o755).unwrap().file;
    let (full, other) = (make(FileIndex::ROOT, b"full"), make(FileIndex::ROOT, b"other"));
    // A name that is not looked up: without it the directory would be known completely, and absent
    // names would not be cached one by one.
    make(full, b"unseen");
    gateway.look_up(full, b"absent");
    assert!(gateway.has(full));
    let (caches, lease) = (&vfs.caches, vfs.caches.held_names_lease(full).unwrap());
    for number in 0..=FILES_MAX {
        let name = number.to_le_bytes();
        assert!(caches.names.cache_name(&lease, caches.names.mark(), &name, None, |_| true));
    }
    // It is the oldest directory, and makes room for this one.
    caches.names_lease(other);
    assert!(lock(&gateway.dropped).contains(&full), "its names are evicted");
    assert!(!gateway.has(full) || caches.leases().names_ticket(full).is_some(), "no recall comes");
    // Later it is cached as before.
    gateway.look_up(full, b"absent");
    assert!(gateway.has(full) && caches.held_names_lease(full).is_some());
}
