//! The NFS gateway in front of a union, with a client of the testbed.

use std::{fs, net::SocketAddr, os::unix::fs::MetadataExt, sync::Arc};

use braid_nfs::{
    Listener, NfsConfig, NfsServer,
    config::{AddressRange, ExportConfig, Security, Squash},
};
use braid_nfs_wire::nfs4::StableHow;
use braid_testbed::nfs::{NfsError, NfsMount, user};
use tokio::{runtime::Runtime, sync::watch};

use crate::support::Fixture;

/// A gateway in this process, which other threads use.
struct Gateway {
    address: SocketAddr,
    stop: watch::Sender<bool>,
    runtime: Runtime,
}

impl Gateway {
    fn start(fixture: &Fixture) -> Self {
        let share = fixture.share.clone();
        let mut config = NfsConfig::new("test:2049", share.handle_key());
        config.exports = vec![ExportConfig {
            clients: vec![AddressRange::All],
            security: vec![Security::Sys],
            squash: Squash::None,
            ..ExportConfig::new("/")
        }];
        let runtime = Runtime::new().unwrap();
        let (stop, stopped) = watch::channel(false);
        let address = runtime.block_on(async {
            let server = NfsServer::new(share, config).unwrap();
            let listener = Listener::bind("127.0.0.1:0".parse().unwrap()).await.unwrap();
            let address = listener.address();
            tokio::spawn(listener.serve(Arc::clone(&server), stopped));
            address
        });
        Self { address, stop, runtime }
    }

    fn mount(&self, uid: u32) -> NfsMount {
        let mut mount = NfsMount::new(self.address, &format!("client {uid}")).unwrap();
        mount.session.rpc.credential = user(uid);
        mount
    }

    fn end(self) {
        let _ = self.stop.send(true);
        self.runtime.shutdown_timeout(std::time::Duration::from_secs(10));
    }
}

fn refused<T: std::fmt::Debug>(result: Result<T, NfsError>) -> String {
    format!("{:?}", result.expect_err("a refusal"))
}

#[test]
fn files_are_the_same_for_nfs_clients_and_on_the_disk() {
    let Some(fixture) = Fixture::new(2, "round-robin") else { return };
    let gateway = Gateway::start(&fixture);
    let mut mount = gateway.mount(0);
    let root = mount.root.clone();
    let dir = mount.make_directory(&root, "d").unwrap();
    let file = mount.open(&dir, "f", true).unwrap();
    mount.write(&file, 0, b"by NFS"[..].into(), StableHow::Unstable).unwrap();
    mount.commit(&file).unwrap();
    let on = |path: &str| fixture.branches.iter().find_map(|disk| fs::read(disk.join(path)).ok());
    assert_eq!(on("d/f").unwrap(), b"by NFS");
    fs::create_dir_all(fixture.branches[1].join("d")).unwrap();
    fs::write(fixture.branches[1].join("d/g"), b"on the disk").unwrap();
    let handle = mount.look_up(&dir, "g");
    // A directory's copy that was made directly is found when its path is looked up again.
    let handle = handle.or_else(|_| {
        let dir = mount.look_up(&root, "d").unwrap();
        mount.look_up(&dir, "g")
    });
    assert_eq!(mount.size(&handle.unwrap()).unwrap(), 11);
    let mut names = mount.list(&dir).unwrap();
    names.sort();
    assert_eq!(names, ["f", "g"]);
    mount.rename(&dir, "f", "h").unwrap();
    assert_eq!(on("d/h").unwrap(), b"by NFS");
    mount.remove(&dir, "h").unwrap();
    assert_eq!(on("d/h"), None);
    gateway.end();
}

#[test]
fn an_old_handle_works_after_a_restart_and_a_removed_file_is_stale() {
    let Some(fixture) = Fixture::new(2, "round-robin") else { return };
    let gateway = Gateway::start(&fixture);
    let mut mount = gateway.mount(0);
    let root = mount.root.clone();
    let dir = mount.make_directory(&root, "d").unwrap();
    let file = mount.open(&dir, "f", true).unwrap();
    mount.write(&file, 0, b"bytes"[..].into(), StableHow::FileSync).unwrap();
    let gone = mount.open(&dir, "gone", true).unwrap();
    drop(mount);
    gateway.end();
    let branches = fixture.branches.clone();
    let fixture = fixture.restarted(|_| {
        for disk in &branches {
            let _ = fs::remove_file(disk.join("d/gone"));
            if disk.join("d").exists() {
                fs::rename(disk.join("d"), disk.join("renamed")).unwrap();
            }
        }
    });
    let gateway = Gateway::start(&fixture);
    let mut mount = gateway.mount(0);
    assert_eq!(mount.root, root);
    assert_eq!(mount.size(&file.handle).unwrap(), 5);
    assert_eq!(mount.list(&dir).unwrap(), ["f"]);
    assert!(refused(mount.size(&gone.handle)).contains("Stale"));
    let again = mount.open(&dir, "f", false).unwrap();
    assert_eq!(again.handle, file.handle);
    assert_eq!(mount.read(&again, 0, 9).unwrap(), &b"bytes"[..]);
    gateway.end();
}

#[test]
fn each_user_of_a_client_has_its_own_rights() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let gateway = Gateway::start(&fixture);
    let mut mount = gateway.mount(0);
    let root = mount.root.clone();
    let dir = mount.make_directory(&root, "d").unwrap();
    mount.set_mode(&dir, 0o777).unwrap();
    mount.session.rpc.credential = user(1000);
    let file = mount.open(&dir, "f", true).unwrap();
    mount.set_mode(&file.handle, 0o600).unwrap();
    let on_disk = fs::metadata(fixture.branches[0].join("d/f")).unwrap();
    assert_eq!((on_disk.uid(), on_disk.gid(), on_disk.mode() & 0o777), (1000, 1000, 0o600));
    mount.session.rpc.credential = user(1001);
    assert!(refused(mount.open(&dir, "f", false)).contains("Access"));
    assert!(refused(mount.set_mode(&file.handle, 0o666)).contains("Perm"));
    assert!(refused(mount.make_directory(&root, "x")).contains("Access"));
    mount.session.rpc.credential = user(1000);
    mount.open(&dir, "f", false).unwrap();
    gateway.end();
}

#[test]
fn locks_of_two_nfs_clients_exclude_each_other() {
    let Some(fixture) = Fixture::new(1, "first") else { return };
    let gateway = Gateway::start(&fixture);
    let (mut one, mut other) = (gateway.mount(0), NfsMount::new(gateway.address, "o").unwrap());
    let root = one.root.clone();
    let mut mine = one.open(&root, "f", true).unwrap();
    let mut its = other.open(&root, "f", false).unwrap();
    assert!(one.lock(&mut mine, 0, 10).unwrap());
    assert!(!other.lock(&mut its, 5, 10).unwrap());
    one.unlock(&mut mine, 0, 10).unwrap();
    assert!(other.lock(&mut its, 5, 10).unwrap());
    gateway.end();
}
